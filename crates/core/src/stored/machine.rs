//! The lifecycle of a service on disk, and the parts of it that messages share.

use super::{Numbered, StoredError, owned, required, run_id};
use crate::lifecycle::{
    Budget, Exit, FailReason, Machine, Phase, SpawnFailure, StopCause, Stopping, Wish,
};
use crate::name::RunId;
use crate::time::{Mono, Wall};
use crate::wire::LastExit;
use minicbor::{Decode, Encode};

#[derive(Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredMachine<'a> {
    #[n(0)]
    wish: u32,
    #[b(1)]
    phase: StoredPhase<'a>,
    #[n(2)]
    since: i64,
    #[n(3)]
    recent_restarts: Vec<u64>,
    #[n(4)]
    streak: u32,
    #[n(5)]
    restarts: u64,
    #[n(6)]
    last_run: u64,
    #[b(7)]
    last_exit: Option<StoredLastExit<'a>>,
}

/// The kind says which of the fields there are.
#[derive(Encode, Decode)]
#[cbor(map)]
struct StoredPhase<'a> {
    #[n(0)]
    kind: u32,
    #[n(1)]
    run: Option<u64>,
    #[n(2)]
    since: Option<u64>,
    #[n(3)]
    until: Option<u64>,
    #[b(4)]
    stopping: Option<StoredStopping<'a>>,
    #[n(5)]
    spent_restarts: Option<u32>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct StoredStopping<'a> {
    #[n(0)]
    cause: u32,
    #[n(1)]
    kill_at: u64,
    #[n(2)]
    killed: bool,
    #[b(3)]
    exit: Option<StoredExit<'a>>,
    #[n(4)]
    stable: bool,
}

#[derive(Encode, Decode)]
#[cbor(map)]
pub(crate) struct StoredLastExit<'a> {
    #[n(0)]
    run: u64,
    #[n(1)]
    at: i64,
    #[b(2)]
    exit: StoredExit<'a>,
}

/// One of the fields. None of them, or none that this version knows, is [`Exit::Unknown`].
#[derive(Default, Encode, Decode)]
#[cbor(map)]
struct StoredExit<'a> {
    #[n(0)]
    code: Option<i32>,
    #[n(1)]
    signal: Option<StoredSignal>,
    #[b(2)]
    spawn_failure: Option<StoredSpawnFailure<'a>>,
    #[n(3)]
    is_backgrounded: Option<bool>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct StoredSignal {
    #[n(0)]
    signal: i32,
    #[n(1)]
    oom: bool,
    #[n(2)]
    core: bool,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct StoredSpawnFailure<'a> {
    #[b(0)]
    step: &'a str,
    #[b(1)]
    subject: &'a str,
    #[n(2)]
    errno: i32,
}

impl<'a> From<&'a Machine> for StoredMachine<'a> {
    fn from(machine: &'a Machine) -> StoredMachine<'a> {
        StoredMachine {
            wish: machine.wish.number(),
            phase: StoredPhase::from(&machine.phase),
            since: machine.since.0,
            recent_restarts: machine.budget.recent.iter().map(|at| at.0).collect(),
            streak: machine.budget.streak,
            restarts: machine.restarts,
            last_run: machine.last_run.0,
            last_exit: machine.last_exit.as_ref().map(StoredLastExit::from),
        }
    }
}

impl TryFrom<StoredMachine<'_>> for Machine {
    type Error = StoredError;

    fn try_from(stored: StoredMachine<'_>) -> Result<Machine, StoredError> {
        Ok(Machine {
            wish: Wish::from_number(stored.wish)?,
            phase: stored.phase.try_into()?,
            since: Wall(stored.since),
            budget: Budget {
                recent: stored.recent_restarts.into_iter().map(Mono).collect(),
                streak: stored.streak,
            },
            restarts: stored.restarts,
            last_run: RunId(stored.last_run),
            last_exit: stored.last_exit.map(LastExit::from),
        })
    }
}

impl<'a> From<&'a Phase> for StoredPhase<'a> {
    fn from(phase: &'a Phase) -> StoredPhase<'a> {
        let kind = PhaseKind::from(phase).number();
        let empty = StoredPhase {
            kind,
            run: None,
            since: None,
            until: None,
            stopping: None,
            spent_restarts: None,
        };
        match phase {
            Phase::Down | Phase::Held => empty,
            Phase::Backoff { until } | Phase::Cooling { until } => {
                StoredPhase { until: Some(until.0), ..empty }
            }
            Phase::Starting { run } => StoredPhase { run: Some(run.0), ..empty },
            Phase::Up { run, since } => {
                StoredPhase { run: Some(run.0), since: Some(since.0), ..empty }
            }
            Phase::Stopping(stopping) => {
                let (run, stopping) = (Some(stopping.run.0), Some(stopping.into()));
                StoredPhase { run, stopping, ..empty }
            }
            Phase::Failed { why } => StoredPhase { spent_restarts: spent_restarts(why), ..empty },
        }
    }
}

impl TryFrom<StoredPhase<'_>> for Phase {
    type Error = StoredError;

    fn try_from(stored: StoredPhase<'_>) -> Result<Phase, StoredError> {
        let until = || required(stored.until, "end of a wait").map(Mono);
        Ok(match PhaseKind::from_number(stored.kind)? {
            PhaseKind::Down => Phase::Down,
            PhaseKind::Held => Phase::Held,
            PhaseKind::Backoff => Phase::Backoff { until: until()? },
            PhaseKind::Starting => Phase::Starting { run: run_id(stored.run)? },
            PhaseKind::Up => {
                let since = required(stored.since, "time of a start").map(Mono)?;
                Phase::Up { run: run_id(stored.run)?, since }
            }
            PhaseKind::Stopping => {
                let run = run_id(stored.run)?;
                Phase::Stopping(required(stored.stopping, "stop")?.of_run(run)?)
            }
            PhaseKind::Failed => Phase::Failed { why: fail_reason(stored.spent_restarts) },
            PhaseKind::Cooling => Phase::Cooling { until: until()? },
        })
    }
}

impl<'a> From<&'a Stopping> for StoredStopping<'a> {
    fn from(stopping: &'a Stopping) -> StoredStopping<'a> {
        StoredStopping {
            cause: stopping.cause.number(),
            kill_at: stopping.kill_at.0,
            killed: stopping.killed,
            exit: stopping.exit.as_ref().map(StoredExit::from),
            stable: stopping.stable,
        }
    }
}

impl StoredStopping<'_> {
    fn of_run(self, run: RunId) -> Result<Stopping, StoredError> {
        Ok(Stopping {
            run,
            cause: StopCause::from_number(self.cause)?,
            kill_at: Mono(self.kill_at),
            killed: self.killed,
            exit: self.exit.map(Exit::from),
            stable: self.stable,
        })
    }
}

/// `None` is [`FailReason::Exited`].
pub(crate) fn spent_restarts(why: &FailReason) -> Option<u32> {
    match why {
        FailReason::BudgetSpent { restarts } => Some(*restarts),
        FailReason::Exited => None,
    }
}

pub(crate) fn fail_reason(spent_restarts: Option<u32>) -> FailReason {
    spent_restarts.map_or(FailReason::Exited, |restarts| FailReason::BudgetSpent { restarts })
}

impl<'a> From<&'a LastExit> for StoredLastExit<'a> {
    fn from(last: &'a LastExit) -> StoredLastExit<'a> {
        StoredLastExit { run: last.run.0, at: last.at.0, exit: StoredExit::from(&last.exit) }
    }
}

impl From<StoredLastExit<'_>> for LastExit {
    fn from(stored: StoredLastExit<'_>) -> LastExit {
        LastExit { run: RunId(stored.run), at: Wall(stored.at), exit: stored.exit.into() }
    }
}

impl<'a> From<&'a Exit> for StoredExit<'a> {
    fn from(exit: &'a Exit) -> StoredExit<'a> {
        let empty = StoredExit::default();
        match exit {
            Exit::Code(code) => StoredExit { code: Some(*code), ..empty },
            Exit::Signal { signal, oom, core } => {
                let signal = StoredSignal { signal: *signal, oom: *oom, core: *core };
                StoredExit { signal: Some(signal), ..empty }
            }
            Exit::SpawnFailed(failure) => {
                let SpawnFailure { step, subject, errno } = failure.as_ref();
                let spawn_failure = Some(StoredSpawnFailure { step, subject, errno: *errno });
                StoredExit { spawn_failure, ..empty }
            }
            Exit::Unknown => empty,
            Exit::Backgrounded => StoredExit { is_backgrounded: Some(true), ..empty },
        }
    }
}

impl From<StoredExit<'_>> for Exit {
    fn from(stored: StoredExit<'_>) -> Exit {
        match stored {
            StoredExit { code: Some(code), .. } => Exit::Code(code),
            StoredExit { signal: Some(StoredSignal { signal, oom, core }), .. } => {
                Exit::Signal { signal, oom, core }
            }
            StoredExit { spawn_failure: Some(failure), .. } => {
                Exit::SpawnFailed(Box::new(SpawnFailure {
                    step: owned(failure.step),
                    subject: owned(failure.subject),
                    errno: failure.errno,
                }))
            }
            StoredExit { is_backgrounded: Some(true), .. } => Exit::Backgrounded,
            StoredExit { .. } => Exit::Unknown,
        }
    }
}

/// The phases by number, for files and messages.
#[derive(Debug, Clone, Copy)]
pub(crate) enum PhaseKind {
    Down,
    Held,
    Backoff,
    Starting,
    Up,
    Stopping,
    Failed,
    Cooling,
}

impl From<&Phase> for PhaseKind {
    fn from(phase: &Phase) -> PhaseKind {
        match phase {
            Phase::Down => PhaseKind::Down,
            Phase::Held => PhaseKind::Held,
            Phase::Backoff { .. } => PhaseKind::Backoff,
            Phase::Starting { .. } => PhaseKind::Starting,
            Phase::Up { .. } => PhaseKind::Up,
            Phase::Stopping(_) => PhaseKind::Stopping,
            Phase::Failed { .. } => PhaseKind::Failed,
            Phase::Cooling { .. } => PhaseKind::Cooling,
        }
    }
}

impl Numbered for PhaseKind {
    const WHAT: &'static str = "phase";
    const ALL: &'static [PhaseKind] = &[
        PhaseKind::Down,
        PhaseKind::Held,
        PhaseKind::Backoff,
        PhaseKind::Starting,
        PhaseKind::Up,
        PhaseKind::Stopping,
        PhaseKind::Failed,
        PhaseKind::Cooling,
    ];

    fn number(self) -> u32 {
        match self {
            PhaseKind::Down => 0,
            PhaseKind::Held => 1,
            PhaseKind::Backoff => 2,
            PhaseKind::Starting => 3,
            PhaseKind::Up => 4,
            PhaseKind::Stopping => 5,
            PhaseKind::Failed => 6,
            PhaseKind::Cooling => 7,
        }
    }
}

impl Numbered for Wish {
    const WHAT: &'static str = "wish";
    const ALL: &'static [Wish] = &[Wish::Up, Wish::Once, Wish::Down];

    fn number(self) -> u32 {
        match self {
            Wish::Up => 0,
            Wish::Once => 1,
            Wish::Down => 2,
        }
    }
}

impl Numbered for StopCause {
    const WHAT: &'static str = "cause of a stop";
    const ALL: &'static [StopCause] = &[StopCause::Asked, StopCause::Unhealthy, StopCause::Exited];

    fn number(self) -> u32 {
        match self {
            StopCause::Asked => 0,
            StopCause::Unhealthy => 1,
            StopCause::Exited => 2,
        }
    }
}
