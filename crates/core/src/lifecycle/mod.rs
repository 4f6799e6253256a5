//! The life of one service as a pure machine.
//!
//! Two things are kept apart: the **wish** (what somebody asked for; persisted) and the **phase** (what is
//! observed). Every spawn gets a [`RunId`] before it happens, and an event that carries another run's id is
//! dropped: late exits, double restarts and reused pids are harmless because of that one rule.
//!
//! ```text
//!            SetWish(Up|Once)            Started
//!   Down ───────────────────► Starting ──────────► Up ──┐
//!    ▲                          ▲   │ SpawnFailed        │ Exited / stop / restart / unhealthy
//!    │ wish Down,               │   ▼                    ▼
//!    │ policy says leave   Backoff ◄── policy ◄── Stopping (until the tree is empty)
//!    │                          │
//!    └── Failed ◄── budget ─────┘        Cooling ── after the cool-off ──► Starting
//! ```
//!
//! An exit with an empty tree passes through `Stopping` in no time. What is left of a tree after its
//! main process went gets the same treatment as a tree that is stopped: signal, grace, kill.
//! `Held` (waiting for a dependency) has its place here and is entered once dependencies exist.

mod budget;
mod machine;
#[cfg(test)]
mod model;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tables;

pub(crate) use budget::Budget;
pub use machine::{Machine, Rules};

use crate::name::RunId;
use crate::time::Mono;

/// What somebody asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Keep it running, as its policy says.
    Up,
    /// Run it one time, whatever its policy says; then the wish is `Down`.
    Once,
    Down,
}

/// What is observed. Each variant carries only what is true in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    Down,
    Held,
    Backoff { until: Mono },
    Starting { run: RunId },
    Up { run: RunId, since: Mono },
    Stopping(Stopping),
    Failed { why: FailReason },
    Cooling { until: Mono },
}

/// A run on its way out: it ends when its tree is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopping {
    pub run: RunId,
    pub cause: StopCause,
    /// When the tree is killed, or killed again.
    pub kill_at: Mono,
    pub killed: bool,
    /// The main process's exit, once it has been seen.
    pub exit: Option<Exit>,
    /// It had been up long enough when it began to stop: the ladder of waits begins anew.
    pub stable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// Somebody asked for it to stop, to run anew, or to start while it was on its way out.
    Asked,
    /// A probe gave up on it.
    Unhealthy,
    /// The main process exited by itself.
    Exited,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailReason {
    /// The restart budget is spent.
    BudgetSpent { restarts: u32 },
    /// It ended without success, or a probe gave up on it, and its policy is not to restart.
    Exited,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// `oom`: the kernel killed it for lack of memory. `core`: it left a core dump.
    Signal {
        signal: i32,
        oom: bool,
        core: bool,
    },
    /// The service's code never ran.
    SpawnFailed(Box<SpawnFailure>),
    /// It ended while nobody who could know was looking. Never invented.
    Unknown,
    /// Its main process ended with 0 soon after its start and left others of its tree running: a program that puts itself
    /// into the background.
    Backgrounded,
}

/// The step of making a process that failed, and on what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnFailure {
    /// As a sentence without a subject: `run`, `enter the working directory`.
    pub step: String,
    pub subject: String,
    pub errno: i32,
}

impl SpawnFailure {
    /// Did the machine lack something that it may have again in a moment: memory, processes, descriptors, room on a disk?
    pub fn is_shortage(&self) -> bool {
        /// EAGAIN, ENOMEM, ENFILE, EMFILE, ENOSPC, EDQUOT, as Linux numbers them everywhere we run.
        const SHORTAGES: [i32; 6] = [11, 12, 23, 24, 28, 122];
        SHORTAGES.contains(&self.errno)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    SetWish(Wish),
    /// Somebody asked for a new run. Never uses the budget.
    Restart,
    /// The run's program was executed.
    Started {
        run: RunId,
    },
    SpawnFailed {
        run: RunId,
        failure: SpawnFailure,
    },
    /// The main process is gone; `tree_empty` if nothing else of it is left.
    Exited {
        run: RunId,
        exit: Exit,
        tree_empty: bool,
    },
    TreeEmpty {
        run: RunId,
    },
    Unhealthy {
        run: RunId,
    },
    /// The moment of [`Machine::deadline`] may have come.
    Tick,
}

/// What the keeper is to do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Spawn {
        run: RunId,
    },
    /// Send the stop signal to the group, or, once the main process is gone, to what is left of the tree.
    Stop {
        run: RunId,
    },
    /// Kill everything that is left of the tree.
    Kill {
        run: RunId,
    },
    /// The run is over and its tree is empty.
    Ended {
        run: RunId,
        exit: Exit,
    },
}

impl Exit {
    /// There was no run, for lack of something that is not the service's fault.
    fn is_shortage(&self) -> bool {
        match self {
            Exit::SpawnFailed(failure) => failure.is_shortage(),
            Exit::Code(_) | Exit::Signal { .. } | Exit::Unknown | Exit::Backgrounded => false,
        }
    }

    pub fn is_success(&self, success_codes: &[i32]) -> bool {
        match self {
            Exit::Code(code) => success_codes.contains(code),
            Exit::Backgrounded => success_codes.contains(&0),
            Exit::Signal { .. } | Exit::SpawnFailed(_) | Exit::Unknown => false,
        }
    }
}
