//! Finds all processes of a run: the main one, its descendants, and those that tried to escape.
//!
//! A process belongs to the run if it is in the run's cgroup, is in the run's session, carries the run's mark in the
//! environment it was started with or the tag of that mark in its limits (`process_tag`), or descends from one that does. No
//! one of these is enough: a process can leave its cgroup, its session and its parents, and wipe its environment, and one with
//! privileges can change its limits. One that does all of it is not found, which is documented.

use crate::proc::{self, Stat};
use crate::process::Process;
use crate::process_tag::ProcessTag;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// The features by which processes of one run are recognised.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The main process; also the id of the run's session. 0 if no longer known.
    pub pid: u32,
    pub cgroup: Option<PathBuf>,
    /// `NAME=value` in the environment of every process of the run.
    pub mark: String,
    /// Start tick of the main process, if known; a process with its pid and another start tick is
    /// unrelated.
    pub began: Option<u64>,
    /// Tick at which the main process was reaped; its pid may be reused after that. A process that
    /// started later does not belong to the run because of its session id.
    pub reaped_at: Option<u64>,
}

/// A live process of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub pid: u32,
    pub start_ticks: u64,
}

/// The processes to search, besides those in the cgroup.
#[derive(Clone, Copy)]
pub enum SearchScope<'a> {
    /// All processes of the machine.
    Everywhere,
    /// All processes, read at most once for all users of the cell.
    Shared(&'a OnceCell<Snapshot>),
    /// Unknown children of this process and their descendants. This is enough for a tree that this
    /// process started: it adopts orphans once the main process is gone.
    Orphans(&'a dyn Fn(u32) -> bool),
}

impl SearchScope<'_> {
    fn with<T>(self, use_it: impl FnOnce(&Snapshot) -> T) -> T {
        match self {
            SearchScope::Everywhere => use_it(&Snapshot::of_all()),
            SearchScope::Shared(cell) => use_it(cell.get_or_init(Snapshot::of_all)),
            SearchScope::Orphans(is_known) => {
                use_it(&Snapshot::of_orphans(is_known).unwrap_or_else(Snapshot::of_all))
            }
        }
    }
}

impl Tree {
    /// The live processes of the tree.
    pub fn members(&self, look: SearchScope<'_>) -> Vec<Member> {
        look.with(|snapshot| self.members_in(snapshot))
    }

    /// Whether no process is left. Cheaper than [`Tree::members`].
    pub fn is_empty(&self, look: SearchScope<'_>) -> bool {
        // A deleted group has no members.
        let populated = |folder: &PathBuf| crate::cgroup::populated(folder).unwrap_or(false);
        !self.cgroup.as_ref().is_some_and(populated)
            && look.with(|snapshot| self.scan(snapshot, &[]).is_empty())
    }

    /// Sends a signal to every member that is not in the process group `except`, after checking its
    /// identity again. Returns the number of members.
    pub fn signal(&self, signal: i32, except: Option<u32>, look: SearchScope<'_>) -> usize {
        let members = self.members(look);
        signal_all(&members, signal, except);
        members.len()
    }

    /// Kills everything, repeatedly until a search finds nothing new, a bounded number of times.
    pub fn kill(&self, look: SearchScope<'_>) {
        /// A fork storm needs several searches; the caller retries if that was not enough.
        const LOOKS: u32 = 8;
        // At once if the kernel supports it (Linux 5.14 and later); then only processes outside
        // remain to be found.
        let inside_is_killed = self.cgroup.as_deref().is_some_and(crate::cgroup::kill);
        let find = || match inside_is_killed {
            true => look.with(|snapshot| self.scan(snapshot, &[])),
            false => self.members(look),
        };
        for _ in 0..LOOKS {
            // Stopped first, so that none forks while others are killed.
            let members = find();
            if members.is_empty() {
                return;
            }
            signal_all(&members, libc::SIGSTOP, None);
            signal_all(&find(), libc::SIGKILL, None);
        }
    }

    fn members_in(&self, snapshot: &Snapshot) -> Vec<Member> {
        let inside = self.cgroup.as_ref().map(|folder| crate::cgroup::members(folder));
        let inside = inside.unwrap_or_default();
        let mut members = self.scan(snapshot, &inside);
        let known: HashSet<u32> = members.iter().map(|member| member.pid).collect();
        members.extend(living(inside.into_iter().filter(|pid| !known.contains(pid))));
        members
    }

    /// The processes in the snapshot that belong to the tree, including `inside` and its
    /// descendants.
    fn scan(&self, snapshot: &Snapshot, inside: &[u32]) -> Vec<Member> {
        let stats = &snapshot.stats;
        // While any process is in the session, the kernel does not reuse its id. So a process that
        // has the id now is unrelated, and so is its session. An unreaped main process is not.
        let is_stranger = |stat: &Stat| Some(stat.start_ticks) != self.began;
        let reused = self.reaped_at.is_some() && stats.get(&self.pid).is_some_and(is_stranger);
        let mut ours: HashSet<u32> = stats
            .iter()
            .filter(|(pid, stat)| self.belongs(**pid, stat, reused, snapshot))
            .map(|(pid, _)| *pid)
            .collect();
        ours.extend(inside);
        add_descendants(stats, &mut ours);
        ours.into_iter()
            .filter_map(|pid| stats.get(&pid).map(|stat| (pid, stat)))
            .filter(|(_, stat)| !stat.is_dead())
            .map(|(pid, stat)| Member { pid, start_ticks: stat.start_ticks })
            .collect()
    }

    fn belongs(&self, pid: u32, stat: &Stat, reused: bool, snapshot: &Snapshot) -> bool {
        let in_time = self.reaped_at.is_none_or(|tick| stat.start_ticks <= tick);
        let could_be = self.pid != 0 && in_time && !reused;
        if could_be && (pid == self.pid || stat.session == self.pid) {
            return true;
        }
        // A process that started before the run does not belong to it.
        self.began.is_none_or(|tick| stat.start_ticks >= tick)
            && (snapshot.has_tag(pid, ProcessTag::of_mark(&self.mark))
                || snapshot.has_mark(pid, &self.mark))
    }
}

/// Signals members that are not in the process group `except`.
fn signal_all(members: &[Member], signal: i32, except: Option<u32>) {
    for member in members {
        let Some(process) = Process::open(member.pid) else { continue };
        // Opened, then compared: from here on the pid cannot change its owner.
        let Some(stat) = proc::stat(member.pid) else { continue };
        if stat.start_ticks == member.start_ticks && Some(stat.group) != except {
            let _ = process.signal(signal);
        }
    }
}

/// Processes at one moment.
#[derive(Default)]
pub struct Snapshot {
    stats: HashMap<u32, Stat>,
    /// Marks already read, as whole environment entries.
    marks: RefCell<HashMap<u32, Option<String>>>,
    /// Tags that were read.
    tags: RefCell<HashMap<u32, Option<ProcessTag>>>,
}

impl Snapshot {
    fn of_all() -> Snapshot {
        Snapshot::of(proc::pids())
    }

    fn of(pids: impl IntoIterator<Item = u32>) -> Snapshot {
        let stats = pids.into_iter().filter_map(|pid| Some((pid, proc::stat(pid)?))).collect();
        Snapshot { stats, ..Snapshot::default() }
    }

    /// Returns `None` if the kernel does not report the children of a process.
    fn of_orphans(is_known: &dyn Fn(u32) -> bool) -> Option<Snapshot> {
        let mut found = proc::children(std::process::id())?;
        found.retain(|pid| !is_known(*pid));
        let mut at = 0;
        while let Some(pid) = found.get(at).copied() {
            found.extend(proc::children(pid).unwrap_or_default());
            at += 1;
        }
        Some(Snapshot::of(found))
    }

    fn has_tag(&self, pid: u32, tag: ProcessTag) -> bool {
        let mut tags = self.tags.borrow_mut();
        *tags.entry(pid).or_insert_with(|| ProcessTag::of_process(pid)) == Some(tag)
    }

    fn has_mark(&self, pid: u32, mark: &str) -> bool {
        let Some((name, _)) = mark.split_once('=') else { return false };
        let mut marks = self.marks.borrow_mut();
        let read = || Some(format!("{name}={}", proc::environment_value(pid, name)?));
        marks.entry(pid).or_insert_with(read).as_deref() == Some(mark)
    }
}

/// Adds descendants to a set of processes, as far as parents are still known.
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

fn living(pids: impl Iterator<Item = u32>) -> impl Iterator<Item = Member> {
    pids.filter_map(|pid| Some((pid, proc::stat(pid)?)))
        .filter(|(_, stat)| !stat.is_dead())
        .map(|(pid, stat)| Member { pid, start_ticks: stat.start_ticks })
}

/// Every process of the machine at one moment, to sum the usage of many trees without cgroups.
pub struct ProcessCensus {
    /// Process → its children.
    children: HashMap<u32, Vec<u32>>,
    /// Session → its processes.
    sessions: HashMap<u32, Vec<u32>>,
}

impl ProcessCensus {
    /// Reads all processes once.
    pub fn take() -> ProcessCensus {
        let mut census = ProcessCensus { children: HashMap::new(), sessions: HashMap::new() };
        for pid in proc::pids() {
            let Some(stat) = proc::stat(pid) else { continue };
            census.children.entry(stat.ppid).or_default().push(pid);
            census.sessions.entry(stat.session).or_default().push(pid);
        }
        census
    }

    /// The session of `pid`, and all its descendants.
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
