//! Reads `/proc`.

use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// The fields of `/proc/PID/stat` that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub state: u8,
    pub ppid: u32,
    pub group: u32,
    pub session: u32,
    pub user_ticks: u64,
    pub system_ticks: u64,
    pub start_ticks: u64,
    pub rss_pages: u64,
    threads: u64,
}

impl Stat {
    /// Exited but not reaped: it holds nothing and does nothing. A process whose first thread ended
    /// looks the same while its other threads run.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x') && self.threads <= 1
    }
}

pub fn stat(pid: u32) -> Option<Stat> {
    let mut buffer = [0; 1024];
    parse_stat(read_stat(pid, &mut buffer)?)
}

fn read_stat(pid: u32, buffer: &mut [u8; 1024]) -> Option<&[u8]> {
    let mut file = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?;
    let length = file.read(buffer).ok()?;
    Some(&buffer[..length])
}

/// The wait status of an exited process that was not reaped; `None` for any other, or if we may not
/// read it.
pub(crate) fn zombie_status(pid: u32) -> Option<i32> {
    let mut buffer = [0; 1024];
    let text = read_stat(pid, &mut buffer)?;
    parse_stat(text).filter(Stat::is_dead)?;
    // Without permission the kernel writes 0 there; reading this link needs the same permission.
    std::fs::read_link(format!("/proc/{pid}/ns/user")).ok()?;
    let last = text.split(|b| b.is_ascii_whitespace()).rfind(|field| !field.is_empty())?;
    std::str::from_utf8(last).ok()?.parse().ok()
}

/// The command's name is in parentheses and may itself contain parentheses and spaces: fields count
/// from the last one.
pub fn parse_stat(text: &[u8]) -> Option<Stat> {
    let after = text.iter().rposition(|b| *b == b')')? + 1;
    let mut fields = text[after..].split(|b| b.is_ascii_whitespace()).filter(|f| !f.is_empty());
    let state = *fields.next()?.first()?;
    let mut numbers = [0u64; 21];
    for slot in &mut numbers {
        *slot = number(fields.next()?);
    }
    Some(Stat {
        state,
        ppid: numbers[0] as u32,
        group: numbers[1] as u32,
        session: numbers[2] as u32,
        user_ticks: numbers[10],
        system_ticks: numbers[11],
        start_ticks: numbers[18],
        rss_pages: numbers[20],
        threads: numbers[16],
    })
}

/// Parses digits; anything else counts as 0 (only `nice` and `tpgid` are signed).
fn number(digits: &[u8]) -> u64 {
    digits
        .iter()
        .filter(|b| b.is_ascii_digit())
        .fold(0u64, |n, b| n.wrapping_mul(10).wrapping_add(u64::from(b - b'0')))
}

/// All existing processes.
pub fn pids() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The children of all threads of a process; `None` if the kernel does not report them
/// (`CONFIG_PROC_CHILDREN`).
pub fn children(pid: u32) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).ok()?;
        found.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }
    Some(found)
}

/// Whether the initial environment of `pid` contains exactly this `NAME=value`.
pub fn environment_has(pid: u32, entry: &str) -> bool {
    let Ok(bytes) = std::fs::read(format!("/proc/{pid}/environ")) else { return false };
    bytes.split(|b| *b == 0).any(|found| found == entry.as_bytes())
}

/// The value of `name` in the initial environment of `pid`.
pub fn environment_value(pid: u32, name: &str) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |entry: &[u8]| {
        let text = std::str::from_utf8(entry).ok()?;
        Some(text.strip_prefix(name)?.strip_prefix('=')?.to_owned())
    };
    bytes.split(|b| *b == 0).find_map(value)
}

/// Proportional set size: shared memory counts by its share.
pub fn pss_bytes(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().trim_end_matches("kB").trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Number of open files; `None` if we may not read it.
pub fn open_files(pid: u32) -> Option<u64> {
    Some(std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64)
}

/// Bytes of a page, the unit of the kernel's memory counts.
pub fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

/// Name of the program a process runs, as the kernel shortens it.
pub fn name(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

/// Number of processes that the OOM killer killed since boot.
pub fn oom_kills() -> Option<u64> {
    let mut room = [0; 16 << 10];
    let text = crate::small_file::read_into(Path::new("/proc/vmstat"), &mut room).ok()?;
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

pub fn ticks_per_second() -> u64 {
    static TICKS: OnceLock<u64> = OnceLock::new();
    *TICKS.get_or_init(|| rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_command_name_does_not_shift_the_fields() {
        let line = b"42 (a) R 1) (b) S 7 42 42 0 -1 4194304 1 2 3 4 50 60 7 8 20 0 1 0 999 1000 55 18446744073709551615";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.state, stat.ppid, stat.session), (b'S', 7, 42));
        assert_eq!(
            (stat.user_ticks, stat.system_ticks, stat.start_ticks, stat.rss_pages),
            (50, 60, 999, 55)
        );
    }

    #[test]
    fn a_process_that_lost_its_first_thread_is_not_dead() {
        let of = |threads: u32| {
            let line = format!("42 (a) Z 7 42 42 0 -1 4 1 2 3 4 50 60 7 8 20 0 {threads} 0 9 0 0");
            parse_stat(line.as_bytes()).unwrap().is_dead()
        };
        assert_eq!((of(0), of(1), of(2)), (true, true, false));
    }

    #[test]
    fn how_a_process_ended_is_known_before_it_is_reaped() {
        let mut child = std::process::Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        while !stat(child.id()).unwrap().is_dead() {
            std::thread::yield_now();
        }
        assert_eq!(zombie_status(child.id()), Some(7 << 8));
        assert_eq!(zombie_status(std::process::id()), None);
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }

    #[test]
    fn we_are_among_the_processes() {
        let me = std::process::id();
        assert!(pids().contains(&me));
        assert!(stat(me).is_some_and(|stat| !stat.is_dead() && stat.start_ticks > 0));
        assert!(stat(u32::MAX).is_none());
    }
}
