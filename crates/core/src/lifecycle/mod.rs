//! The lifecycle of one service as a pure state machine.
//!
//! The machine separates the **wish** (the requested state; persisted) from the **phase** (the
//! observed state). Every spawn gets a [`RunId`] before it happens, and an event with another run's
//! id is dropped. That one rule makes late exits, double restarts and reused pids harmless.
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
//! An exit with an empty tree passes through `Stopping` immediately. Processes left after the main
//! process exited are stopped like any tree: signal, grace, kill. `Held` (waiting for a dependency)
//! is reserved until dependencies exist.

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

/// The requested state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Keep it running, as its policy says.
    Up,
    /// Run it once, whatever its policy says; then the wish becomes `Down`.
    Once,
    Down,
}

/// The observed state. Each variant carries only the data that is valid in it.
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

/// A run that is being stopped; it ends when its tree is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopping {
    pub run: RunId,
    pub cause: StopCause,
    /// Time of the next kill of the tree.
    pub kill_at: Mono,
    pub killed: bool,
    /// Exit of the main process, once observed.
    pub exit: Option<Exit>,
    /// The run was stable before the stop began, so the ladder of waits starts over.
    pub stable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// A person requested a stop, a restart, or a start during a stop.
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
    /// The run failed, or a probe gave up on it, and the policy allows no restart.
    Exited,
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    /// `oom`: the kernel killed it because memory ran out. `core`: it left a core dump.
    Signal {
        signal: i32,
        oom: bool,
        core: bool,
    },
    /// The service's program was never executed.
    SpawnFailed(Box<SpawnFailure>),
    /// The run ended while no Proctor process could observe it. Never used as a guess.
    Unknown,
    /// The main process exited with 0 soon after its start and left other processes running: the
    /// program put itself into the background.
    Backgrounded,
}

/// The step of process creation that failed, and its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnFailure {
    /// A verb phrase: `run`, `enter the working directory`.
    pub step: String,
    pub subject: String,
    pub errno: i32,
}

impl SpawnFailure {
    /// Whether a resource was short that may soon be free again: memory, processes, descriptors,
    /// disk space.
    pub fn is_shortage(&self) -> bool {
        /// EAGAIN, ENOMEM, ENFILE, EMFILE, ENOSPC, EDQUOT; the numbers are the same on every
        /// supported Linux.
        const SHORTAGES: [i32; 6] = [11, 12, 23, 24, 28, 122];
        SHORTAGES.contains(&self.errno)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    SetWish(Wish),
    /// A person requested a new run. Never uses the budget.
    Restart,
    /// The run's program was executed.
    Started {
        run: RunId,
    },
    SpawnFailed {
        run: RunId,
        failure: SpawnFailure,
    },
    /// The main process exited; `tree_empty` if no other process of the tree is left.
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
    /// The time of [`Machine::deadline`] may have passed.
    Tick,
}

/// An instruction for the keeper; actions are performed in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Spawn {
        run: RunId,
    },
    /// Sends the stop signal to the process group, or to the rest of the tree if the main process
    /// is gone.
    Stop {
        run: RunId,
    },
    /// Kills every remaining process of the tree.
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
    /// No process was created, because of a shortage that is not the service's fault.
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
