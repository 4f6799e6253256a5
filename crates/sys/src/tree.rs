//! All processes of a run: the main one, its descendants, and those that tried to get away.
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

/// How the processes of one run are recognised.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The main process; also the number of the run's session. 0 if it is not known any more.
    pub pid: u32,
    pub cgroup: Option<PathBuf>,
    /// `NAME=value` in the environment of every process of the run.
    pub mark: String,
    /// The tick at which the main process began, where it is known: one of its number that began at another is a stranger.
    pub began: Option<u64>,
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

/// Where the processes of a tree are looked for, apart from its cgroup.
#[derive(Clone, Copy)]
pub enum Look<'a> {
    /// Among all processes of the machine.
    Everywhere,
    /// The same, but at most once for all who share the cell.
    Shared(&'a OnceCell<Snapshot>),
    /// Among children of this process other than those it knows, and their descendants: enough for a tree that was started
    /// by this process, which adopts orphans, once its main process is gone.
    Orphans(&'a dyn Fn(u32) -> bool),
}

impl Look<'_> {
    fn with<T>(self, use_it: impl FnOnce(&Snapshot) -> T) -> T {
        match self {
            Look::Everywhere => use_it(&Snapshot::of_all()),
            Look::Shared(cell) => use_it(cell.get_or_init(Snapshot::of_all)),
            Look::Orphans(is_known) => {
                use_it(&Snapshot::of_orphans(is_known).unwrap_or_else(Snapshot::of_all))
            }
        }
    }
}

impl Tree {
    /// The living processes of the tree, now.
    pub fn members(&self, look: Look<'_>) -> Vec<Member> {
        look.with(|snapshot| self.members_in(snapshot))
    }

    /// Is nothing of it left? Cheaper than [`Tree::members`].
    pub fn is_empty(&self, look: Look<'_>) -> bool {
        // A group that is gone has no members.
        let populated = |folder: &PathBuf| crate::cgroup::populated(folder).unwrap_or(false);
        !self.cgroup.as_ref().is_some_and(populated)
            && look.with(|snapshot| self.scan(snapshot, &[]).is_empty())
    }

    /// Send a signal to every member that is not in the process group `except`; each is recognised again before it is
    /// signalled. Returns how many members there are.
    pub fn signal(&self, signal: i32, except: Option<u32>, look: Look<'_>) -> usize {
        let members = self.members(look);
        signal_all(&members, signal, except);
        members.len()
    }

    /// Kill everything, again and again until a look finds nothing new, a bounded number of times.
    pub fn kill(&self, look: Look<'_>) {
        /// A fork storm needs several looks; the caller comes back if that was not enough.
        const LOOKS: u32 = 8;
        // At once, where the kernel can (Linux 5.14 and later): then only those outside are left to be found.
        let inside_is_killed = self.cgroup.as_deref().is_some_and(crate::cgroup::kill);
        let find = || match inside_is_killed {
            true => look.with(|snapshot| self.scan(snapshot, &[])),
            false => self.members(look),
        };
        for _ in 0..LOOKS {
            // Stopped first, so that none forks while the others are killed.
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

    /// Those in the snapshot that belong to the tree, `inside` and its descendants among them.
    fn scan(&self, snapshot: &Snapshot, inside: &[u32]) -> Vec<Member> {
        let stats = &snapshot.stats;
        // While anybody is in the session, the kernel gives its number to no process: one that has it now is a stranger, and
        // so is its session. A main process that nobody has reaped is none.
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
        // Nobody who was there before the run was started by it.
        self.began.is_none_or(|tick| stat.start_ticks >= tick)
            && (snapshot.has_tag(pid, ProcessTag::of_mark(&self.mark))
                || snapshot.has_mark(pid, &self.mark))
    }
}

/// Signal those that are not in the process group `except`.
fn signal_all(members: &[Member], signal: i32, except: Option<u32>) {
    for member in members {
        let Some(process) = Process::open(member.pid) else { continue };
        // Opened, then compared: from here on it cannot become another.
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
    /// Marks that were read, as whole entries of an environment.
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

    /// `None` where the kernel does not tell the children of a process.
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

fn living(pids: impl Iterator<Item = u32>) -> impl Iterator<Item = Member> {
    pids.filter_map(|pid| Some((pid, proc::stat(pid)?)))
        .filter(|(_, stat)| !stat.is_dead())
        .map(|(pid, stat)| Member { pid, start_ticks: stat.start_ticks })
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
