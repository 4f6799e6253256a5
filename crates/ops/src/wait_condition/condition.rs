//! Decides whether a service has reached the awaited state. Pure: it compares the start of the wait with now.

use super::{UnmetCondition, Until, Verdict};
use crate::timestamps::seconds_between;
use crate::wait_for_services::STEADY;
use proctor_core::name::RunId;
use proctor_core::time::Wall;
use proctor_core::wire::{PhaseView, RunView, ServiceState};
use proctor_engine::api::{Health, ServiceView};
use std::time::Duration;

/// State of a service at the start of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitStart {
    /// Run at that time.
    pub(super) run: Option<RunId>,
}

impl WaitStart {
    pub(super) fn of(service: Option<&ServiceView>) -> WaitStart {
        let state = service.and_then(|service| service.state.as_ref());
        WaitStart { run: state.and_then(|state| state.phase.run()).map(|run| run.id) }
    }
}

/// Verdict for a service that was removed during the wait.
pub(super) fn gone(until: Until) -> Verdict {
    match until {
        Until::Stopped | Until::Settled | Until::Exit => Verdict::Reached,
        Until::Running | Until::Healthy | Until::Ready | Until::Port | Until::Log => {
            Verdict::Hopeless(UnmetCondition::Gone)
        }
    }
}

pub(super) fn judge(
    until: Until,
    port: Option<u16>,
    before: WaitStart,
    service: &ServiceView,
    now: Wall,
) -> Verdict {
    let Some(state) = &service.state else { return Verdict::NotYet(UnmetCondition::State) };
    match until {
        Until::Running => running(state),
        Until::Healthy => healthy(service, state),
        Until::Ready => ready(service, state, now),
        Until::Stopped => stopped(&state.phase),
        Until::Settled if service.start_pending => Verdict::NotYet(UnmetCondition::State),
        Until::Settled => settled(&state.phase),
        Until::Exit => exited(before, state),
        Until::Port => open(port.or(service.port), &state.phase),
        Until::Log => line(&state.phase),
    }
}

fn running(state: &ServiceState) -> Verdict {
    match &state.phase {
        PhaseView::Up { .. } => Verdict::Reached,
        PhaseView::Failed { .. } => Verdict::Hopeless(UnmetCondition::State),
        // The service has ended and does not come back by itself. One that never ran may still be started.
        PhaseView::Down if state.last_exit.is_some() => Verdict::Hopeless(UnmetCondition::State),
        PhaseView::Down
        | PhaseView::Held
        | PhaseView::Backoff { .. }
        | PhaseView::Starting { .. }
        | PhaseView::Stopping { .. }
        | PhaseView::Cooling { .. } => Verdict::NotYet(UnmetCondition::State),
    }
}

fn healthy(service: &ServiceView, state: &ServiceState) -> Verdict {
    match (running(state), &service.health) {
        (
            Verdict::Reached,
            Some(Health::Unknown | Health::Starting { .. } | Health::Failing { .. }),
        ) => Verdict::NotYet(UnmetCondition::Health),
        (verdict, _) => verdict,
    }
}

/// Checks that the service runs and, where possible, is healthy and listens; otherwise that it has lived for a moment. After a
/// crash it must live for a moment in any case: in a crash loop it listens again and again.
fn ready(service: &ServiceView, state: &ServiceState, now: Wall) -> Verdict {
    let PhaseView::Up { run } = &state.phase else { return to_come(&state.phase) };
    let steady = steady(run, now);
    if state.restarts > 0 && steady != Verdict::Reached {
        return steady;
    }
    match (&service.health, service.port) {
        (Some(Health::Unknown | Health::Starting { .. } | Health::Failing { .. }), _) => {
            Verdict::NotYet(UnmetCondition::Health)
        }
        (Some(Health::Healthy { .. }) | None, Some(port)) => Verdict::IfOpen(port),
        (Some(Health::Healthy { .. }), None) => Verdict::Reached,
        (None, None) => steady,
    }
}

fn steady(run: &RunView, now: Wall) -> Verdict {
    let age = Duration::try_from_secs_f64(seconds_between(run.started, now)).unwrap_or_default();
    match STEADY.checked_sub(age) {
        Some(left) if !left.is_zero() => Verdict::NotYet(UnmetCondition::Steady(left)),
        Some(_) | None => Verdict::Reached,
    }
}

fn stopped(phase: &PhaseView) -> Verdict {
    match phase {
        PhaseView::Down | PhaseView::Failed { .. } => Verdict::Reached,
        PhaseView::Held
        | PhaseView::Backoff { .. }
        | PhaseView::Starting { .. }
        | PhaseView::Up { .. }
        | PhaseView::Stopping { .. }
        | PhaseView::Cooling { .. } => Verdict::NotYet(UnmetCondition::State),
    }
}

fn settled(phase: &PhaseView) -> Verdict {
    match phase {
        PhaseView::Starting { .. } | PhaseView::Stopping { .. } | PhaseView::Held => {
            Verdict::NotYet(UnmetCondition::State)
        }
        PhaseView::Down
        | PhaseView::Backoff { .. }
        | PhaseView::Up { .. }
        | PhaseView::Failed { .. }
        | PhaseView::Cooling { .. } => Verdict::Reached,
    }
}

/// Checks that the run at the start of the wait has ended; without one, that the last run has.
fn exited(before: WaitStart, state: &ServiceState) -> Verdict {
    let last = state.last_exit.as_ref().map(|last| last.run);
    let there = state.phase.run().map(|run| run.id);
    match (before.run, last) {
        (Some(run), Some(last)) if last >= run => Verdict::Reached,
        (Some(run), _) if there != Some(run) => Verdict::Reached,
        (Some(_), _) => Verdict::NotYet(UnmetCondition::Exit),
        (None, Some(_)) => Verdict::Reached,
        (None, None) => match to_come(&state.phase) {
            Verdict::Hopeless(_) => Verdict::Hopeless(UnmetCondition::Never),
            Verdict::NotYet(_) | Verdict::Reached | Verdict::IfOpen(_) => {
                Verdict::NotYet(UnmetCondition::Exit)
            }
        },
    }
}

fn open(port: Option<u16>, phase: &PhaseView) -> Verdict {
    match (port, phase.run()) {
        (Some(port), Some(_)) => Verdict::IfOpen(port),
        (_, None) | (None, Some(_)) => to_come(phase),
    }
}

/// A line may come while the service runs or will run.
fn line(phase: &PhaseView) -> Verdict {
    match to_come(phase) {
        Verdict::Hopeless(_) => Verdict::Hopeless(UnmetCondition::Line),
        Verdict::NotYet(_) | Verdict::Reached | Verdict::IfOpen(_) => {
            Verdict::NotYet(UnmetCondition::Line)
        }
    }
}

/// Verdict for a service that does not run: whether it will run by itself.
fn to_come(phase: &PhaseView) -> Verdict {
    match phase {
        PhaseView::Down | PhaseView::Failed { .. } => Verdict::Hopeless(UnmetCondition::State),
        PhaseView::Held
        | PhaseView::Backoff { .. }
        | PhaseView::Starting { .. }
        | PhaseView::Up { .. }
        | PhaseView::Stopping { .. }
        | PhaseView::Cooling { .. } => Verdict::NotYet(UnmetCondition::State),
    }
}
