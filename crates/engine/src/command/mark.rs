//! How the processes of a command are recognised when the daemon that started it is gone.
//!
//! Each carries `PROCTOR_COMMAND=<mark>` in its environment, and a file named like the mark lies in the runtime folder from
//! before the first process exists until none is left. A daemon that begins ends what such files speak of: the kernel has
//! killed the command itself with its daemon, or asked it to end (`sys::leash`), but not what the command had started, nor one that
//! ends by itself.

use proctor_core::home::{Home, OwnFolder};
use proctor_sys::tree::{Look, Tree};
use proctor_sys::{clock, file, own_file, own_folder, signal};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The variable. Services started from inside a command do not inherit it.
pub(crate) const VARIABLE: &str = "PROCTOR_COMMAND";

/// From one look to the next while killed processes disappear.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A process that was killed and is still there after these looks hangs in the kernel.
const LOOKS: u32 = 300;

/// One that was asked to end and is still there after these will not.
const LAST_LOOKS: u32 = 100;

/// The mark of one command.
#[derive(Debug)]
pub(crate) struct Mark {
    value: String,
    file: Option<PathBuf>,
}

impl Mark {
    /// One that no process carries: pid and time of this daemon and a number of its own.
    pub(super) fn new(home: &Home) -> Mark {
        let mark = Mark::unnoted();
        let file = home.commands().join(&mark.value);
        let made = crate::own_folder::make(home, OwnFolder::Commands)
            .and_then(|()| own_file::modify_or_create(&file));
        if let Err(error) = made {
            // A full disk is a reason to run a command, not to refuse it.
            tracing::warn!(%error, file = %file.display(), "a command cannot be noted");
        }
        Mark { file: Some(file), ..mark }
    }

    /// For a program that the kernel kills with its daemon, and that starts nothing which stays.
    pub(super) fn unnoted() -> Mark {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{}-{number}", std::process::id(), clock::now().wall.0);
        Mark { value, file: None }
    }

    pub(super) fn variable(&self) -> (&'static str, &str) {
        (VARIABLE, &self.value)
    }

    /// The processes of the command whose first one is `pid`; 0 if that is not known.
    pub(super) fn tree(&self, pid: u32) -> Tree {
        let mark = format!("{VARIABLE}={}", self.value);
        Tree { pid, cgroup: None, mark, began: None, reaped_at: None }
    }

    /// Nothing is left of the command.
    pub(super) fn forget(&self) {
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
    let folder = home.commands();
    let names = own_folder::names(&folder, OwnFolder::Commands.rule()).unwrap_or_default();
    let mark = |name: OsString| {
        let file = Some(folder.join(&name));
        Some(Mark { value: name.into_string().ok()?, file })
    };
    names.into_iter().filter_map(mark).collect()
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
