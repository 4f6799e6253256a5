//! Ends everything that a test's Proctor left behind, and nothing else.
//!
//! A process belongs to a home if its environment has `PROCTOR_HOME` of that home (every service),
//! if it runs our `proctor` or `victim` binary with that home in its command line or environment
//! (keeper, daemon, victims without an environment), or if it descends from the keeper in the
//! home's lock file. The home is a fresh temporary folder, so no other process has its path. Each
//! process is opened first, then checked, then killed, so that a reused pid hits no other process.

use crate::binary;
use crate::process::{alive, has_entry, mentions, parent, pids, program};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::path::{Path, PathBuf};

/// Longer than any chain of parents that a test makes.
const DEEPEST_CHAIN: usize = 64;

/// Identifies the processes of one home.
pub(crate) struct Sweep {
    home: PathBuf,
    programs: [PathBuf; 2],
}

impl Sweep {
    pub(crate) fn new(home: &Path) -> Sweep {
        Sweep {
            home: home.to_path_buf(),
            programs: [binary::place("proctor"), binary::place("victim")],
        }
    }

    /// Kills every process that belongs to the home; returns true if there was none.
    ///
    /// One round is not enough: a keeper or daemon that sees the other die starts it again.
    pub(crate) fn round(&self) -> bool {
        let keeper = self.keeper();
        let mut killed = 0;
        for pid in pids() {
            let Some(handle) = open(pid) else { continue };
            if self.is_member(pid, keeper) && pidfd_send_signal(handle, Signal::KILL).is_ok() {
                killed += 1;
            }
        }
        killed == 0
    }

    fn is_member(&self, pid: u32, keeper: Option<u32>) -> bool {
        pid != std::process::id()
            && alive(pid)
            && (self.has_home(pid)
                || self.is_ours(pid)
                || keeper.is_some_and(|keeper| descends(pid, keeper)))
    }

    /// The lock file may be old, and its pid may belong to another process.
    fn keeper(&self) -> Option<u32> {
        let lock = std::fs::read_to_string(self.home.join("run/keeper.lock")).ok()?;
        let pid = lock.split_whitespace().next()?.parse().ok()?;
        self.is_ours(pid).then_some(pid)
    }

    /// Whether the environment contains exactly `PROCTOR_HOME=<home>`.
    fn has_home(&self, pid: u32) -> bool {
        let mark = [b"PROCTOR_HOME=", self.home.as_os_str().as_encoded_bytes()].concat();
        has_entry(pid, "environ", &mark)
    }

    fn is_ours(&self, pid: u32) -> bool {
        self.runs_our_program(pid)
            && (mentions(pid, "cmdline", &self.home) || mentions(pid, "environ", &self.home))
    }

    /// A test of upgrades runs copies from its home, and replaces them while they run.
    fn runs_our_program(&self, pid: u32) -> bool {
        let Some(program) = program(pid) else { return false };
        program.starts_with(&self.home) || self.programs.contains(&program)
    }
}

fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Follows the chain of parents up to a bounded length.
fn descends(pid: u32, ancestor: u32) -> bool {
    let chain = std::iter::successors(Some(pid), |&at| parent(at)).take(DEEPEST_CHAIN);
    chain.into_iter().any(|at| at == ancestor)
}
