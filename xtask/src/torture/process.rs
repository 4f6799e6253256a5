//! Finds processes through `/proc`: Proctor's own of a home, and the services with its mark.

use anyhow::{Context as _, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The role of one of Proctor's processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Keeper,
    Daemon,
    Guard,
}

/// A process of a service's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) pid: u32,
    pub(crate) service: String,
    pub(crate) run: String,
}

/// The resources of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) descriptors: usize,
    pub(crate) threads: usize,
    pub(crate) memory_kib: u64,
}

/// Live processes of this role in this home. A forked child that has not executed yet looks like
/// its parent.
pub(crate) fn own(home: &Path, role: Role) -> Vec<u32> {
    below().into_iter().filter(|pid| role_of(*pid, home) == Some(role)).collect()
}

fn role_of(pid: u32, home: &Path) -> Option<Role> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = line.split(|byte| *byte == 0).skip(1);
    let role = match words.next()? {
        b"__keeper" => Role::Keeper,
        b"__daemon" => Role::Daemon,
        b"__guard" => Role::Guard,
        _ => return None,
    };
    (words.next()? == b"--state" && words.next()? == home.as_os_str().as_bytes()).then_some(role)
}

/// Every live process of a service of this home that kept its environment.
pub(crate) fn marked(home: &Path) -> Vec<Marked> {
    below().into_iter().filter_map(|pid| mark_of(pid, home)).collect()
}

fn mark_of(pid: u32, home: &Path) -> Option<Marked> {
    let entries = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |name: &str| {
        let mut entries = entries.split(|byte| *byte == 0);
        entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    if value("PROCTOR_HOME")? != home.as_os_str().as_bytes() {
        return None;
    }
    let text = |name| value(name).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let mark = text("PROCTOR_RUN")?;
    let run = mark.rsplit('-').next().unwrap_or_default().to_owned();
    Some(Marked { pid, service: text("PROCTOR_SERVICE")?, run })
}

/// Sends SIGKILL to one of Proctor's processes; returns whether it existed.
pub(crate) fn kill_own(pid: u32, home: &Path) -> bool {
    kill_if(pid, |pid| role_of(pid, home).is_some())
}

/// Sends SIGKILL to every process of this home until none is left.
pub(crate) fn kill_all(home: &Path) -> Result<()> {
    let belongs = |pid| role_of(pid, home).is_some() || mark_of(pid, home).is_some();
    // A keeper or daemon that sees the other die restarts it; a hundred rounds are more than both
    // can survive.
    for _ in 0..100 {
        let killed = all()?.into_iter().filter(|pid| kill_if(*pid, belongs)).count();
        if killed == 0 {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    anyhow::bail!("cannot end the processes of {}", home.display())
}

/// Opens, then checks, then kills, so that a reused pid hits no other process.
fn kill_if(pid: u32, is_meant: impl Fn(u32) -> bool) -> bool {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(handle)) = number.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else {
        return false;
    };
    is_meant(pid) && pidfd_send_signal(handle, Signal::KILL).is_ok()
}

/// Returns `None` if it is gone.
pub(crate) fn holding(pid: u32, role: Role) -> Option<Holding> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let number = |name: &str| {
        let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    // The keeper's log pump has its own table; the daemon's threads share one, and the guard has no
    // threads.
    let tables = match role {
        Role::Keeper => tasks(pid),
        Role::Daemon | Role::Guard => vec![PathBuf::from(format!("/proc/{pid}"))],
    };
    let open = |table: &PathBuf| std::fs::read_dir(table.join("fd")).map_or(0, Iterator::count);
    Some(Holding {
        descriptors: tables.iter().map(open).sum(),
        threads: number("Threads:")? as usize,
        memory_kib: number("VmRSS:")?,
    })
}

fn tasks(pid: u32) -> Vec<PathBuf> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.map(|task| task.path()).collect()
}

/// All our descendants: as a subreaper, that is everything we ever started. The machine may have
/// thousands of others.
fn below() -> Vec<u32> {
    let mut found = children(std::process::id());
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        found.extend(children(pid));
        at += 1;
    }
    // A process that changes its parent meanwhile is found twice.
    found.sort_unstable();
    found.dedup();
    found
}

/// Children of all threads of a process.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let list = |task: PathBuf| std::fs::read_to_string(task.join("children"));
    let texts: Vec<String> =
        tasks(pid).into_iter().map(list).map(Result::unwrap_or_default).collect();
    texts.iter().flat_map(|text| text.split_whitespace()).filter_map(|p| p.parse().ok()).collect()
}

fn all() -> Result<Vec<u32>> {
    let entries = std::fs::read_dir("/proc").context("cannot read /proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}
