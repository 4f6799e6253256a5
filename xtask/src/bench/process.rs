//! Reads process trees and memory from `/proc`, and ends our own processes.

use anyhow::{Context as _, Result, bail};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, pidfd_open,
    pidfd_send_signal, set_child_subreaper, setrlimit, waitpid,
};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::{Duration, Instant};

/// More time than a thousand processes with helpers need to die.
const END_LIMIT: Duration = Duration::from_secs(30);
const END_LOOK: Duration = Duration::from_millis(5);
/// Enough for all, and few enough for programs that close every possible number.
const DESCRIPTORS: u64 = 65536;

/// Adopts daemons that leave their parent, so that none is lost.
pub(crate) fn adopt_orphans() -> Result<()> {
    set_child_subreaper(Some(rustix::process::getpid())).context("cannot become a subreaper")
}

/// A thousand services need some thousands of descriptors, here and in every supervisor.
pub(crate) fn raise_limits() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    setrlimit(Resource::Nofile, Rlimit { current: limit.current.max(Some(most)), ..limit })
        .context("cannot raise the number of open files")
}

pub(crate) fn pid(number: u32) -> Result<Pid> {
    let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
    pid.with_context(|| format!("{number} is no pid"))
}

pub(crate) fn signal(number: u32, signal: Signal) -> Result<()> {
    kill_process(pid(number)?, signal).with_context(|| format!("cannot signal {number}"))
}

/// A process and all its descendants.
pub(crate) fn tree(root: u32) -> Result<Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in all()? {
        if let Some(parent) = parent(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut seen = HashSet::from([root]);
    let mut at = 0;
    while at < found.len() {
        let below = children.get(&found[at]).cloned().unwrap_or_default();
        found.extend(below.into_iter().filter(|pid| seen.insert(*pid)));
        at += 1;
    }
    Ok(found)
}

/// Ends everything that we started and all descendants, until nothing is left.
///
/// Supervisors restart dead processes, and orphaned helpers become our children; hence the rounds.
pub(crate) fn end_all() -> Result<()> {
    let own = std::process::id();
    let begin = Instant::now();
    loop {
        let left: Vec<u32> = tree(own)?.into_iter().filter(|&pid| pid != own).collect();
        if left.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > END_LIMIT {
            bail!("these processes do not end: {left:?}");
        }
        left.iter().for_each(|&pid| kill_below(pid, own));
        std::thread::sleep(END_LOOK);
    }
}

/// Kills and reaps. Opens the pid first and then checks it, so that a reused pid hits no other
/// process.
fn kill_below(number: u32, own: u32) {
    let Ok(pid) = pid(number) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if descends(number, own) {
        // It may already be gone.
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
    if parent(number) == Some(own) {
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

fn descends(pid: u32, ancestor: u32) -> bool {
    let mut chain = std::iter::successors(Some(pid), |&at| parent(at).filter(|&up| up != 0));
    chain.any(|at| at == ancestor)
}

fn all() -> Result<Vec<u32>> {
    let entries = fs::read_dir("/proc").context("cannot read /proc")?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.get(1)?.parse().ok()
}

/// The fields after the name, which may contain anything: the state is the first.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Whether it exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields.first().is_some_and(|state| state != "Z" && state != "X"))
}

/// Proportional set size in KiB; 0 for a process that is gone.
pub(crate) fn pss(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix("Pss:")?.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}
