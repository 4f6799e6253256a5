//! Stand-ins for modules that other branches write; at the merge each `use crate::standin::…` becomes the real path
//! and this file goes.
//!
//! `clock`, `proc`, `tree` → `proctor_sys::{clock, proc, tree}` · `envfile` → `proctor_core::config::envfile`

pub(crate) mod clock {
    use proctor_core::time::{Mono, Now, Wall};
    use std::time::{SystemTime, UNIX_EPOCH};

    pub(crate) fn now() -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let seconds = uptime.split(' ').next().and_then(|text| text.parse::<f64>().ok());
        Now {
            mono: Mono((seconds.unwrap_or(0.0) * 1e6) as u64),
            wall: Wall(wall.as_micros() as i64),
        }
    }
}

pub(crate) mod proc {
    pub(crate) struct Stat {
        pub(crate) ppid: u32,
        pub(crate) user_ticks: u64,
        pub(crate) system_ticks: u64,
    }

    pub(crate) fn stat(pid: u32) -> Option<Stat> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Stat { ppid: number(1)? as u32, user_ticks: number(11)?, system_ticks: number(12)? })
    }

    pub(crate) fn pids() -> Vec<u32> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    pub(crate) fn pss_bytes(pid: u32) -> Option<u64> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
        line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
    }

    pub(crate) fn ticks_per_second() -> u64 {
        100
    }
}

pub(crate) mod tree {
    use std::path::Path;

    pub(crate) fn members(pid: u32, cgroup: Option<&Path>) -> Vec<u32> {
        let listed = cgroup.and_then(|dir| std::fs::read_to_string(dir.join("cgroup.procs")).ok());
        if let Some(text) = listed {
            return text.lines().filter_map(|line| line.parse().ok()).collect();
        }
        let mut found = vec![pid];
        let all = super::proc::pids();
        let mut at = 0;
        while at < found.len() {
            let parent = found[at];
            let child = |pid: &u32| super::proc::stat(*pid).is_some_and(|s| s.ppid == parent);
            found.extend(all.iter().copied().filter(child));
            at += 1;
        }
        found
    }
}

pub(crate) mod envfile {
    use proctor_core::config::Problem;

    pub(crate) struct Variable {
        pub(crate) name: String,
        pub(crate) value: String,
    }

    pub(crate) fn parse(file: &str, text: &str) -> Result<Vec<Variable>, Vec<Problem>> {
        let mut variables = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((name, value)) = line.trim_start_matches("export ").split_once('=') else {
                return Err(vec![Problem {
                    file: file.into(),
                    line: number as u32 + 1,
                    column: 1,
                    message: "expected KEY=VALUE".into(),
                    help: None,
                }]);
            };
            let value = value.trim_matches(['"', '\'']);
            variables.push(Variable { name: name.into(), value: value.into() });
        }
        Ok(variables)
    }
}
