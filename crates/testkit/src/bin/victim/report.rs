//! The victim's report about itself: one fact a line, named by its first word.
//!
//! `ignored` omits SIGPIPE, which the Rust runtime ignores before `main` whatever it inherited
//! (check that one with a shell). It also omits the signals 32 and 33, which belong to the C
//! library: its `posix_spawn` ignores them in children.

use crate::output::write_stdout;
use rustix::process::{Resource, Rlimit};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

const NOT_TOLD: u64 = 1 << (signal_hook::consts::SIGPIPE - 1) | 1 << (32 - 1) | 1 << (33 - 1);

/// Named as in `limits` of `proctor.yaml`.
const LIMITS: &[(&str, Resource)] = &[
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("memlock", Resource::Memlock),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("stack", Resource::Stack),
];

/// `fd NUMBER TARGET` for each open descriptor, in order.
pub(crate) fn descriptors() -> Vec<String> {
    let folder = Path::new("/proc/self/fd");
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    // The descriptor of the listing itself is already closed and no longer resolves.
    let line = |number: u32| {
        let target = std::fs::read_link(folder.join(number.to_string())).ok()?;
        Some(format!("fd {number} {}", target.display()))
    };
    numbers.into_iter().filter_map(line).collect()
}

pub(crate) fn print(lines: &[String]) -> Result<(), String> {
    lines.iter().try_for_each(|line| write_stdout(format!("{line}\n").as_bytes()))
}

/// `env NAME=VALUE`, as raw bytes.
pub(crate) fn environment() -> Result<(), String> {
    for (name, value) in std::env::vars_os() {
        let line = [b"env ", name.as_bytes(), b"=", value.as_bytes(), b"\n"].concat();
        write_stdout(&line)?;
    }
    Ok(())
}

/// `cwd PATH`
pub(crate) fn working_dir() -> Result<(), String> {
    let path = std::env::current_dir()
        .map_err(|why| format!("cannot tell the working directory: {why}"))?;
    write_stdout(&[b"cwd ", path.as_os_str().as_bytes(), b"\n"].concat())
}

pub(crate) fn identity() -> Result<(), String> {
    let status = read("/proc/self/status")?;
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let mut lines = vec![
        format!("pid {}", std::process::id()),
        format!("parent {parent}"),
        // From status, not by getsid: a session started outside this pid namespace is 0.
        format!("session {}", field(&status, "NSsid")?),
        format!("process_group {}", field(&status, "NSpgid")?),
        format!("uid {}", rustix::process::getuid().as_raw()),
        format!("effective_uid {}", rustix::process::geteuid().as_raw()),
        format!("gid {}", rustix::process::getgid().as_raw()),
        format!("effective_gid {}", rustix::process::getegid().as_raw()),
        format!("groups {}", field(&status, "Groups")?),
        format!("umask {}", field(&status, "Umask")?),
        format!(
            "nice {}",
            rustix::process::getpriority_process(None).map_err(|why| format!("nice: {why}"))?
        ),
        format!("oom_score_adj {}", read("/proc/self/oom_score_adj")?.trim()),
        format!("blocked {}", signals(&field(&status, "SigBlk")?, 0)?),
        format!("ignored {}", signals(&field(&status, "SigIgn")?, NOT_TOLD)?),
    ];
    for (name, resource) in LIMITS {
        let Rlimit { current, maximum } = rustix::process::getrlimit(*resource);
        lines.push(format!("limit {name} {} {}", amount(current), amount(maximum)));
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    print(&lines)
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|why| format!("cannot read {path}: {why}"))
}

fn field(status: &str, name: &str) -> Result<String, String> {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value
        .map(|value| value.trim().to_owned())
        .ok_or_else(|| format!("no {name} in /proc/self/status"))
}

/// Signal numbers of a mask, without those in `except`.
fn signals(mask: &str, except: u64) -> Result<String, String> {
    let mask = u64::from_str_radix(mask, 16).map_err(|why| format!("signal mask {mask}: {why}"))?
        & !except;
    let numbers: Vec<String> =
        (0..64).filter(|bit| mask >> bit & 1 == 1).map(|bit| (bit + 1).to_string()).collect();
    Ok(numbers.join(" "))
}

fn amount(limit: Option<u64>) -> String {
    limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string())
}
