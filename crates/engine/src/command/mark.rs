//! How the processes of a command are recognised when the daemon that started it is gone.
//!
//! Each carries `PROCTOR_COMMAND=<mark>` in its environment and the tag of that in its limits (`sys::process_tag`), and is in a
//! cgroup of its own where there are cgroups. A file named like the mark, with the path of the cgroup in it, lies in the runtime
//! folder from before the first process exists until none is left. A daemon that begins ends what such files speak of: the
//! kernel has killed the command itself with its daemon, or asked it to end (`sys::leash`), but not what the command had started,
//! nor one that ends by itself.

use proctor_core::home::Home;
use proctor_sys::cgroup::{self, Hierarchy};
use proctor_sys::process_tag::ProcessTag;
use proctor_sys::tree::{Look, Tree};
use proctor_sys::{clock, file, leash, own_file, proc, signal};
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The variable. Services started from inside a command do not inherit it.
pub(crate) const VARIABLE: &str = "PROCTOR_COMMAND";

/// From one look to the next while killed processes disappear.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A process that was killed and is still there after these looks hangs in the kernel.
const LOOKS: u32 = 300;

/// As long as a path can be.
const MAX_PATH: u64 = 4096;

/// One that was asked to end and is still there after these will not.
const LAST_LOOKS: u32 = 100;

/// The mark of one command.
#[derive(Debug)]
pub(crate) struct Mark {
    value: String,
    file: Option<PathBuf>,
    cgroup: Option<PathBuf>,
}

impl Mark {
    /// One that no process carries: pid and time of this daemon and a number of its own. Its cgroup is named in its file before
    /// it is made.
    pub(super) fn new(home: &Home, groups: Option<&Hierarchy>) -> Mark {
        let mark = Mark::unnoted();
        let file = home.commands().join(&mark.value);
        let cgroup = groups.map(|groups| groups.command_group(&mark.value));
        let text = cgroup.as_deref().map_or(&[][..], |path| path.as_os_str().as_bytes());
        let made = file::private_dir(&home.commands())
            .and_then(|()| own_file::modify_or_create(&file)?.write_all(text));
        if let Err(error) = made {
            // A full disk is a reason to run a command, not to refuse it.
            tracing::warn!(%error, file = %file.display(), "a command cannot be noted");
        }
        Mark { file: Some(file), cgroup, ..mark }
    }

    /// Puts all that its processes are recognised by on a command that is about to be started.
    pub(super) fn put_on(&mut self, command: &mut Command) {
        let (name, value) = self.variable();
        command.env(name, value);
        ProcessTag::of_mark(&self.entry()).put_on(command);
        match self.cgroup.as_deref().map(cgroup::make_to_enter) {
            None => {}
            Some(Ok(procs)) => leash::enter_cgroup(command, procs),
            Some(Err(error)) => {
                tracing::warn!(%error, "no cgroup for a command; it is tracked without one");
                self.cgroup = None;
            }
        }
    }

    fn entry(&self) -> String {
        format!("{VARIABLE}={}", self.value)
    }

    /// For a program that the kernel kills with its daemon, and that starts nothing which stays.
    pub(super) fn unnoted() -> Mark {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{}-{number}", std::process::id(), clock::now().wall.0);
        Mark { value, file: None, cgroup: None }
    }

    fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, &self.value)
    }

    /// The processes of the command whose first one is `pid`, not reaped yet; 0 if that is not known.
    pub(super) fn tree(&self, pid: u32) -> Tree {
        let began = proc::stat(pid).filter(|_| pid != 0).map(|stat| stat.start_ticks);
        Tree { pid, cgroup: self.cgroup.clone(), mark: self.entry(), began, reaped_at: None }
    }

    /// Nothing is left of the command.
    pub(super) fn forget(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup::remove(cgroup);
        }
        let Some(file) = &self.file else { return };
        if let Err(error) = file::remove(file) {
            tracing::warn!(%error, file = %file.display(), "cannot remove it");
        }
    }
}

/// Wait until nothing is left of all of them, so many looks at most.
fn wait(trees: &[&Tree], looks: u32) {
    for _ in 0..looks {
        if trees.iter().all(|tree| tree.is_empty(Look::Everywhere)) {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Kill everything and wait until it is gone: how many are left that cannot be killed. Blocks.
pub(super) fn end(tree: &Tree) -> usize {
    for _ in 0..LOOKS {
        tree.kill(Look::Everywhere);
        if tree.is_empty(Look::Everywhere) {
            return 0;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    tree.members(Look::Everywhere).len()
}

/// The marks that an earlier daemon left.
pub(crate) fn left_behind(home: &Home) -> Vec<Mark> {
    let Ok(entries) = std::fs::read_dir(home.commands()) else { return Vec::new() };
    let mark = |entry: std::fs::DirEntry| {
        let (value, file) = (entry.file_name().into_string().ok()?, entry.path());
        let cgroup = read_cgroup(&file, &value);
        Some(Mark { value, file: Some(file), cgroup })
    };
    entries.flatten().filter_map(mark).collect()
}

/// The cgroup that the file of a mark names, if it can be that mark's.
fn read_cgroup(file: &Path, value: &str) -> Option<PathBuf> {
    let bytes = file::read_opened(own_file::read(file).ok()?, MAX_PATH).ok()?;
    let path = PathBuf::from(OsString::from_vec(bytes));
    let is_its = path.file_name().is_some_and(|name| name.as_bytes().ends_with(value.as_bytes()));
    (is_its && path.is_absolute() && path.join("cgroup.procs").exists()).then_some(path)
}

/// End what they speak of: what is about to end is given a moment, and another one to tidy up. Blocks.
pub(crate) fn sweep(marks: Vec<Mark>) {
    let trees: Vec<Tree> = marks.iter().map(|mark| mark.tree(0)).collect();
    wait(&trees.iter().collect::<Vec<_>>(), LAST_LOOKS);
    for (mark, tree) in marks.iter().zip(trees) {
        let found = tree.signal(signal::SIGTERM, None, Look::Everywhere);
        if found > 0 {
            tracing::warn!(found, "ending what a command of the last daemon left");
            wait(&[&tree], LAST_LOOKS);
        }
        if end(&tree) == 0 {
            mark.forget();
        }
    }
}
