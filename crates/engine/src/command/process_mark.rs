//! Identifies the processes of a command after the daemon that started it is gone.
//!
//! Each has `PROCTOR_COMMAND=<mark>` in its environment and the tag of that entry in its limits (`sys::process_tag`), and runs in
//! a cgroup of its own where cgroups can be used. A file with the name of the mark holds the path of the cgroup. It is in the
//! runtime folder from before the first process exists until none is left. A new daemon ends the processes of such files. The
//! kernel has killed the command itself with its daemon, or asked it to end (`sys::die_with_parent`), but not the processes that the
//! command had started, nor a command that ends by itself.

use proctor_core::home::{Home, OwnFolder};
use proctor_sys::cgroup::{self, Hierarchy};
use proctor_sys::process_tag::ProcessTag;
use proctor_sys::process_tree::{SearchScope, Tree};
use proctor_sys::{clock, die_with_parent, own_file, own_folder, proc, signal, small_file};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The variable. Services started from inside a command do not inherit it.
pub(crate) const VARIABLE: &str = "PROCTOR_COMMAND";

/// Interval at which killed processes are checked.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Checks after which a killed process counts as hanging in the kernel.
const LOOKS: u32 = 300;

/// Maximum length of the path of a cgroup.
const MAX_PATH: u64 = 4096;

/// Checks after which a process that was asked to end is killed.
const LAST_LOOKS: u32 = 100;

/// The mark of one command.
#[derive(Debug)]
pub(crate) struct ProcessMark {
    value: String,
    file: Option<PathBuf>,
    cgroup: Option<PathBuf>,
}

impl ProcessMark {
    /// A new unique mark: pid and time of this daemon and a counter. Its file names its cgroup before the cgroup exists.
    pub(super) fn new(home: &Home, groups: Option<&Hierarchy>) -> ProcessMark {
        let mark = ProcessMark::unnoted();
        let file = home.commands().join(&mark.value);
        let cgroup = groups.map(|groups| groups.command_group(&mark.value));
        let text = cgroup.as_deref().map_or(&[][..], |path| path.as_os_str().as_bytes());
        let made = crate::own_folder::make(home, OwnFolder::Commands)
            .and_then(|()| own_file::modify_or_create(&file)?.write_all(text));
        if let Err(error) = made {
            // A full disk may be the reason for the command, so it runs anyway.
            tracing::warn!(%error, file = %file.display(), "cannot record a command");
        }
        ProcessMark { file: Some(file), cgroup, ..mark }
    }

    /// Prepares a command so that its processes can be identified: variable, tag and cgroup.
    pub(super) fn put_on(&mut self, command: &mut Command) {
        let (name, value) = self.variable();
        command.env(name, value);
        ProcessTag::of_mark(&self.entry()).put_on(command);
        match self.cgroup.as_deref().map(cgroup::make_to_enter) {
            None => {}
            Some(Ok(procs)) => die_with_parent::enter_cgroup(command, procs),
            Some(Err(error)) => {
                tracing::warn!(%error, "no cgroup for a command; it is tracked without one");
                self.cgroup = None;
            }
        }
    }

    fn entry(&self) -> String {
        format!("{VARIABLE}={}", self.value)
    }

    /// For a program that the kernel kills with its daemon, and that starts no lasting processes.
    pub(super) fn unnoted() -> ProcessMark {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{}-{number}", std::process::id(), clock::now().wall.0);
        ProcessMark { value, file: None, cgroup: None }
    }

    fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, &self.value)
    }

    /// The processes of the command whose first one is `pid`, not reaped yet; 0 if that is not known.
    pub(super) fn tree(&self, pid: u32) -> Tree {
        let began = proc::stat(pid).filter(|_| pid != 0).map(|stat| stat.start_ticks);
        Tree { pid, cgroup: self.cgroup.clone(), mark: self.entry(), began, reaped_at: None }
    }

    /// Removes the file: no process of the command is left.
    pub(super) fn forget(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup::remove(cgroup);
        }
        let Some(file) = &self.file else { return };
        if let Err(error) = small_file::remove(file) {
            tracing::warn!(%error, file = %file.display(), "cannot remove the record of a command");
        }
    }
}

/// Waits until all these processes are gone, for at most `looks` checks.
fn wait(trees: &[&Tree], looks: u32) {
    for _ in 0..looks {
        if trees.iter().all(|tree| tree.is_empty(SearchScope::Everywhere)) {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Kills everything and waits until it is gone; returns the number of processes that cannot be killed. Blocks.
pub(super) fn end(tree: &Tree) -> usize {
    for _ in 0..LOOKS {
        tree.kill(SearchScope::Everywhere);
        if tree.is_empty(SearchScope::Everywhere) {
            return 0;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    tree.members(SearchScope::Everywhere).len()
}

/// The marks of an earlier daemon.
pub(crate) fn left_behind(home: &Home) -> Vec<ProcessMark> {
    let folder = home.commands();
    let names = own_folder::names(&folder, OwnFolder::Commands.rule()).unwrap_or_default();
    let mark = |name: OsString| {
        let file = folder.join(&name);
        let value = name.into_string().ok()?;
        let cgroup = read_cgroup(&file, &value);
        Some(ProcessMark { value, file: Some(file), cgroup })
    };
    names.into_iter().filter_map(mark).collect()
}

/// Reads the cgroup from the file of a mark. Returns `None` if it cannot belong to that mark.
fn read_cgroup(file: &Path, value: &str) -> Option<PathBuf> {
    let bytes = small_file::read_opened(own_file::read(file).ok()?, MAX_PATH).ok()?;
    let path = PathBuf::from(OsString::from_vec(bytes));
    let is_its = path.file_name().is_some_and(|name| name.as_bytes().ends_with(value.as_bytes()));
    (is_its && path.is_absolute() && path.join("cgroup.procs").exists()).then_some(path)
}

/// Ends the processes of these marks: those that are ending get a moment, and another one to clean up. Blocks.
pub(crate) fn sweep(marks: Vec<ProcessMark>) {
    let trees: Vec<Tree> = marks.iter().map(|mark| mark.tree(0)).collect();
    wait(&trees.iter().collect::<Vec<_>>(), LAST_LOOKS);
    for (mark, tree) in marks.iter().zip(trees) {
        let found = tree.signal(signal::SIGTERM, None, SearchScope::Everywhere);
        if found > 0 {
            tracing::warn!(found, "ending processes that a command of the last daemon left");
            wait(&[&tree], LAST_LOOKS);
        }
        if end(&tree) == 0 {
            mark.forget();
        }
    }
}
