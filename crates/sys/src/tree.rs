//! All processes of a run: the main one, its descendants, and those that tried to get away.
//!
//! With a cgroup, the kernel knows. Without one, a process belongs to the run if it carries the run's mark in the
//! environment it was started with, is in the run's session, or descends from one that does. What escapes that net
//! (a new session, an orphan, **and** a wiped environment, without a cgroup) is documented as not found.

use crate::proc::{self, Stat};
use crate::process::Process;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// How the processes of one run are recognised.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The main process; also the number of the run's session. 0 if it is not known any more.
    pub pid: u32,
    pub cgroup: Option<PathBuf>,
    /// `NAME=value` in the environment of every process of the run.
    pub mark: String,
    /// Once the main process was reaped its number may be given to a stranger: from this tick on a process
    /// that began later is not ours for being in a session of that number.
    pub reaped_at: Option<u64>,
}

/// A living process of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub pid: u32,
    pub start_ticks: u64,
}

impl Tree {
    /// The living processes of the tree, now.
    pub fn members(&self) -> Vec<Member> {
        match &self.cgroup {
            Some(folder) => living(crate::cgroup::members(folder)),
            None => self.scan(),
        }
    }

    /// Is nothing of it left? Cheaper than [`Tree::members`] with a cgroup.
    pub fn is_empty(&self) -> bool {
        match &self.cgroup {
            // A group that is gone has no members.
            Some(folder) => !crate::cgroup::populated(folder).unwrap_or(false),
            None => self.scan().is_empty(),
        }
    }

    /// Send a signal to every member that is not in the process group `except`; each is recognised again before it is
    /// signalled. Returns how many members there are.
    pub fn signal(&self, signal: i32, except: Option<u32>) -> usize {
        let members = self.members();
        for member in &members {
            let Some(process) = Process::open(member.pid) else { continue };
            // Opened, then compared: from here on it cannot become another.
            let Some(stat) = proc::stat(member.pid) else { continue };
            if stat.start_ticks == member.start_ticks && Some(stat.group) != except {
                let _ = process.signal(signal);
            }
        }
        members.len()
    }

    /// Kill everything, again and again until a look finds nothing new, a bounded number of times.
    pub fn kill(&self) {
        /// A fork storm needs several looks; the caller comes back if that was not enough.
        const LOOKS: u32 = 8;
        if self.cgroup.as_deref().is_some_and(crate::cgroup::kill) {
            return;
        }
        for _ in 0..LOOKS {
            // Stopped first, so that none forks while the others are killed.
            if self.signal(libc::SIGSTOP, None) == 0 {
                return;
            }
            self.signal(libc::SIGKILL, None);
        }
    }

    fn scan(&self) -> Vec<Member> {
        let stats: HashMap<u32, Stat> =
            proc::pids().into_iter().filter_map(|pid| Some((pid, proc::stat(pid)?))).collect();
        // While anybody is in the session, the kernel gives its number to no process: one that has it now is a stranger, and
        // so is its session.
        let reused = self.reaped_at.is_some() && stats.contains_key(&self.pid);
        let mut ours: HashSet<u32> = stats
            .iter()
            .filter(|(pid, stat)| self.belongs(**pid, stat, reused))
            .map(|(pid, _)| *pid)
            .collect();
        add_descendants(&stats, &mut ours);
        ours.into_iter()
            .filter_map(|pid| stats.get(&pid).map(|stat| (pid, stat)))
            .filter(|(_, stat)| !stat.is_dead())
            .map(|(pid, stat)| Member { pid, start_ticks: stat.start_ticks })
            .collect()
    }

    fn belongs(&self, pid: u32, stat: &Stat, reused: bool) -> bool {
        let in_time = self.reaped_at.is_none_or(|tick| stat.start_ticks <= tick);
        let could_be = self.pid != 0 && in_time && !reused;
        (could_be && (pid == self.pid || stat.session == self.pid))
            || proc::environment_has(pid, &self.mark)
    }
}

/// Grow a set of processes by their descendants, as far as parents are still known.
fn add_descendants(stats: &HashMap<u32, Stat>, ours: &mut HashSet<u32>) {
    loop {
        let before = ours.len();
        let more: Vec<u32> = stats
            .iter()
            .filter(|(pid, stat)| !ours.contains(*pid) && ours.contains(&stat.ppid))
            .map(|(pid, _)| *pid)
            .collect();
        ours.extend(more);
        if ours.len() == before {
            return;
        }
    }
}

fn living(pids: Vec<u32>) -> Vec<Member> {
    pids.into_iter()
        .filter_map(|pid| Some((pid, proc::stat(pid)?)))
        .filter(|(_, stat)| !stat.is_dead())
        .map(|(pid, stat)| Member { pid, start_ticks: stat.start_ticks })
        .collect()
}

/// Every process of the machine at one moment, for counting what many trees without cgroups use.
pub struct Census {
    /// Process → its children.
    children: HashMap<u32, Vec<u32>>,
    /// Session → its processes.
    sessions: HashMap<u32, Vec<u32>>,
}

impl Census {
    /// Look at all of them, once.
    pub fn take() -> Census {
        let mut census = Census { children: HashMap::new(), sessions: HashMap::new() };
        for pid in proc::pids() {
            let Some(stat) = proc::stat(pid) else { continue };
            census.children.entry(stat.ppid).or_default().push(pid);
            census.sessions.entry(stat.session).or_default().push(pid);
        }
        census
    }

    /// The session of `pid`, and all descendants of it.
    pub fn members(&self, pid: u32) -> Vec<u32> {
        let mut next = vec![pid];
        next.extend(self.sessions.get(&pid).into_iter().flatten());
        let mut found = HashSet::new();
        while let Some(member) = next.pop() {
            if found.insert(member) {
                next.extend(self.children.get(&member).into_iter().flatten());
            }
        }
        found.into_iter().collect()
    }
}
