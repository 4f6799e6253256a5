//! Resource use of a process, as the kernel counts it.

/// Descriptors, threads and memory of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
    pub(crate) memory: u64,
    pub(crate) memory_peak: u64,
    pub(crate) virtual_bytes: u64,
}

impl Used {
    #[track_caller]
    pub(crate) fn by(pid: u32) -> Used {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
            number.unwrap_or_else(|| panic!("no {name} in {status}"))
        };
        Used {
            descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64,
            threads: field("Threads"),
            memory: field("VmRSS") << 10,
            memory_peak: field("VmHWM") << 10,
            virtual_bytes: field("VmSize") << 10,
        }
    }
}

/// Returns the CPU time of a process since its start.
pub(crate) fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap()..].split(' ').collect();
    let ticks: u64 = fields[12].parse::<u64>().unwrap() + fields[13].parse::<u64>().unwrap();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Returns a test size: the default, or the value of this environment variable.
pub(crate) fn size(variable: &str, usual: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable}={text} is not a number")),
        Err(_) => usual,
    }
}
