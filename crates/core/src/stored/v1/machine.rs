//! The state of a service in version 1.

use super::super::{Numbered, StoredError, service_name};
use crate::lifecycle::{
    Budget, Exit, FailReason, Machine, Phase, SpawnFailure, StopCause, Stopping, Wish,
};
use crate::name::RunId;
use crate::state_file::{RunHeader, StoredState};
use crate::time::{Mono, Wall};
use crate::wire::LastExit;
use serde::Deserialize;

#[derive(Deserialize)]
struct V1State {
    name: String,
    machine: V1Machine,
    /// Run, start and cgroup.
    run: Option<(u64, i64, Option<String>)>,
}

#[derive(Deserialize)]
struct V1Machine {
    wish: u32,
    phase: V1Phase,
    since: i64,
    recent_restarts: Vec<u64>,
    streak: u32,
    restarts: u64,
    last_run: u64,
    /// Run, moment and exit.
    last_exit: Option<(u64, i64, V1Exit)>,
}

#[derive(Deserialize)]
enum V1Phase {
    Down,
    Held,
    Backoff { until: u64 },
    Starting { run: u64 },
    Up { run: u64, since: u64 },
    Stopping(V1Stopping),
    Failed { why: V1FailReason },
    Cooling { until: u64 },
}

#[derive(Deserialize)]
struct V1Stopping {
    run: u64,
    cause: u32,
    kill_at: u64,
    killed: bool,
    exit: Option<V1Exit>,
    stable: bool,
}

#[derive(Deserialize)]
enum V1FailReason {
    BudgetSpent { restarts: u32 },
    Exited,
}

#[derive(Deserialize)]
enum V1Exit {
    Code(i32),
    Signal { signal: i32, oom: bool, core: bool },
    SpawnFailed { step: String, subject: String, errno: i32 },
    Unknown,
    Backgrounded,
}

pub(crate) fn decode_state(bytes: &[u8]) -> Result<StoredState, StoredError> {
    let V1State { name, machine, run } = super::read(bytes)?;
    Ok(StoredState {
        name: service_name(&name)?,
        machine: machine.try_into()?,
        run: run.map(|(run, started, cgroup)| RunHeader {
            run: RunId(run),
            started: Wall(started),
            cgroup,
        }),
    })
}

impl TryFrom<V1Machine> for Machine {
    type Error = StoredError;

    fn try_from(stored: V1Machine) -> Result<Machine, StoredError> {
        let last_exit = |(run, at, exit): (u64, i64, V1Exit)| LastExit {
            run: RunId(run),
            at: Wall(at),
            exit: exit.into(),
        };
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
            last_exit: stored.last_exit.map(last_exit),
        })
    }
}

impl TryFrom<V1Phase> for Phase {
    type Error = StoredError;

    fn try_from(stored: V1Phase) -> Result<Phase, StoredError> {
        Ok(match stored {
            V1Phase::Down => Phase::Down,
            V1Phase::Held => Phase::Held,
            V1Phase::Backoff { until } => Phase::Backoff { until: Mono(until) },
            V1Phase::Starting { run } => Phase::Starting { run: RunId(run) },
            V1Phase::Up { run, since } => Phase::Up { run: RunId(run), since: Mono(since) },
            V1Phase::Stopping(stopping) => Phase::Stopping(Stopping {
                run: RunId(stopping.run),
                cause: StopCause::from_number(stopping.cause)?,
                kill_at: Mono(stopping.kill_at),
                killed: stopping.killed,
                exit: stopping.exit.map(Exit::from),
                stable: stopping.stable,
            }),
            V1Phase::Failed { why: V1FailReason::BudgetSpent { restarts } } => {
                Phase::Failed { why: FailReason::BudgetSpent { restarts } }
            }
            V1Phase::Failed { why: V1FailReason::Exited } => {
                Phase::Failed { why: FailReason::Exited }
            }
            V1Phase::Cooling { until } => Phase::Cooling { until: Mono(until) },
        })
    }
}

impl From<V1Exit> for Exit {
    fn from(stored: V1Exit) -> Exit {
        match stored {
            V1Exit::Code(code) => Exit::Code(code),
            V1Exit::Signal { signal, oom, core } => Exit::Signal { signal, oom, core },
            V1Exit::SpawnFailed { step, subject, errno } => {
                Exit::SpawnFailed(Box::new(SpawnFailure { step, subject, errno }))
            }
            V1Exit::Unknown => Exit::Unknown,
            V1Exit::Backgrounded => Exit::Backgrounded,
        }
    }
}
