//! The state machine: one `match` on the event, and a small function for each event.

use super::{
    Action, Budget, Event, Exit, FailReason, Phase, SpawnFailure, StopCause, Stopping, Wish,
};
use crate::name::RunId;
use crate::spec::{Policy, RestartSpec};
use crate::time::{Millis, Mono, Now, Wall};
use crate::wire::LastExit;

/// Interval between kills of a tree that is still alive; a fork may have escaped the last one.
const KILL_AGAIN: Millis = Millis(1000);

/// The settings that the machine applies. They are passed with every event, so that each service
/// stores them once.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    pub restart: &'a RestartSpec,
    pub grace: Millis,
}

/// The lifecycle of one service. Its fields are open to [`crate::stored`] alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    pub(crate) wish: Wish,
    pub(crate) phase: Phase,
    pub(crate) since: Wall,
    pub(crate) budget: Budget,
    pub(crate) restarts: u64,
    pub(crate) last_run: RunId,
    pub(crate) last_exit: Option<LastExit>,
}

impl Machine {
    /// Creates the machine of a service that has never run.
    pub fn new(now: Now) -> Machine {
        Machine {
            wish: Wish::Down,
            phase: Phase::Down,
            since: now.wall,
            budget: Budget::default(),
            restarts: 0,
            last_run: RunId::NONE,
            last_exit: None,
        }
    }

    /// Creates the machine of a service whose state was lost but whose run is alive; the run is
    /// kept.
    pub fn found_running(now: Now, run: RunId) -> Machine {
        let phase = Phase::Up { run, since: now.mono };
        Machine { wish: Wish::Up, phase, last_run: run, ..Machine::new(now) }
    }

    /// Handles one event and appends the resulting actions.
    pub fn handle(&mut self, now: Now, rules: Rules<'_>, event: Event, out: &mut Vec<Action>) {
        let before = std::mem::discriminant(&self.phase);
        match event {
            Event::SetWish(Wish::Down) => self.wish_down(now, rules, out),
            Event::SetWish(wish @ (Wish::Up | Wish::Once)) => self.wish_up(now, wish, out),
            Event::Restart => self.restart(now, rules, out),
            Event::Started { run } => self.started(now, run),
            Event::SpawnFailed { run, failure } => self.spawn_failed(now, rules, run, failure, out),
            Event::Exited { run, exit, tree_empty } => {
                self.exited(now, rules, run, exit, out);
                if tree_empty {
                    self.tree_empty(now, rules, run, out);
                }
            }
            Event::TreeEmpty { run } => self.tree_empty(now, rules, run, out),
            Event::Unhealthy { run } => {
                if matches!(self.phase, Phase::Up { run: current, .. } if current == run) {
                    self.stop(now, rules, StopCause::Unhealthy, out);
                }
            }
            Event::Tick => self.tick(now, out),
        }
        if before != std::mem::discriminant(&self.phase) {
            self.since = now.wall;
        }
    }

    /// The time at which [`Event::Tick`] is due.
    pub fn deadline(&self) -> Option<Mono> {
        match &self.phase {
            Phase::Backoff { until } | Phase::Cooling { until } => Some(*until),
            Phase::Stopping(stopping) => Some(stopping.kill_at),
            Phase::Down
            | Phase::Held
            | Phase::Starting { .. }
            | Phase::Up { .. }
            | Phase::Failed { .. } => None,
        }
    }

    /// The current run, if there is one.
    pub fn run(&self) -> Option<RunId> {
        match &self.phase {
            Phase::Starting { run } | Phase::Up { run, .. } => Some(*run),
            Phase::Stopping(stopping) => Some(stopping.run),
            Phase::Down
            | Phase::Held
            | Phase::Backoff { .. }
            | Phase::Failed { .. }
            | Phase::Cooling { .. } => None,
        }
    }

    /// The most recent run.
    pub fn last_run(&self) -> RunId {
        self.last_run
    }

    /// Handles a run that was never created because the keeper died: starts another if the service
    /// should run. Does nothing if there is no run, or if the run was seen to be up.
    pub fn run_was_never_made(&mut self, now: Now, out: &mut Vec<Action>) {
        let in_the_making = match &self.phase {
            // A stop of a missing run would never end.
            Phase::Starting { .. } | Phase::Stopping(_) => true,
            Phase::Down
            | Phase::Held
            | Phase::Backoff { .. }
            | Phase::Up { .. }
            | Phase::Failed { .. }
            | Phase::Cooling { .. } => false,
        };
        match (in_the_making, self.wish) {
            (false, _) => {}
            (true, Wish::Up | Wish::Once) => self.spawn(now, out),
            (true, Wish::Down) => {
                self.phase = Phase::Down;
                self.since = now.wall;
            }
        }
    }

    pub fn wish(&self) -> Wish {
        self.wish
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Start of the current phase.
    pub fn since(&self) -> Wall {
        self.since
    }

    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    pub fn last_exit(&self) -> Option<&LastExit> {
        self.last_exit.as_ref()
    }

    fn wish_up(&mut self, now: Now, wish: Wish, out: &mut Vec<Action>) {
        self.wish = wish;
        match &mut self.phase {
            // Already running or starting.
            Phase::Starting { .. } | Phase::Up { .. } => {}
            // A new run follows, whatever caused the stop, because the start came later.
            Phase::Stopping(stopping) => {
                stopping.cause = StopCause::Asked;
                self.budget.forgive();
            }
            Phase::Down
            | Phase::Held
            | Phase::Backoff { .. }
            | Phase::Failed { .. }
            | Phase::Cooling { .. } => {
                self.budget.forgive();
                self.spawn(now, out);
            }
        }
    }

    fn wish_down(&mut self, now: Now, rules: Rules<'_>, out: &mut Vec<Action>) {
        self.wish = Wish::Down;
        match &self.phase {
            Phase::Starting { .. } | Phase::Up { .. } => {
                self.stop(now, rules, StopCause::Asked, out)
            }
            Phase::Stopping(_) | Phase::Down => {}
            Phase::Held | Phase::Backoff { .. } | Phase::Failed { .. } | Phase::Cooling { .. } => {
                self.phase = Phase::Down;
            }
        }
    }

    fn restart(&mut self, now: Now, rules: Rules<'_>, out: &mut Vec<Action>) {
        if self.wish == Wish::Down {
            self.wish = Wish::Up;
        }
        self.budget.forgive();
        match &mut self.phase {
            Phase::Starting { .. } | Phase::Up { .. } => {
                self.stop(now, rules, StopCause::Asked, out)
            }
            Phase::Stopping(stopping) => stopping.cause = StopCause::Asked,
            Phase::Down
            | Phase::Held
            | Phase::Backoff { .. }
            | Phase::Failed { .. }
            | Phase::Cooling { .. } => {
                self.spawn(now, out);
            }
        }
    }

    fn started(&mut self, now: Now, run: RunId) {
        if matches!(self.phase, Phase::Starting { run: current } if current == run) {
            self.phase = Phase::Up { run, since: now.mono };
        }
    }

    fn spawn_failed(
        &mut self,
        now: Now,
        rules: Rules<'_>,
        run: RunId,
        failure: SpawnFailure,
        out: &mut Vec<Action>,
    ) {
        self.exited(now, rules, run, Exit::SpawnFailed(Box::new(failure)), out);
        self.tree_empty(now, rules, run, out);
    }

    /// The main process exited. The rest of its tree is stopped like a tree on request.
    fn exited(
        &mut self,
        now: Now,
        rules: Rules<'_>,
        run: RunId,
        exit: Exit,
        out: &mut Vec<Action>,
    ) {
        if self.run() != Some(run) {
            return;
        }
        if !matches!(self.phase, Phase::Stopping(_)) {
            self.enter_stopping(now, rules, run, StopCause::Exited);
        }
        let Phase::Stopping(stopping) = &mut self.phase else { return };
        if stopping.exit.is_none() {
            stopping.exit = Some(exit);
            // Processes that survived a kill are killed again, without a stop signal.
            if !stopping.killed {
                out.push(Action::Stop { run });
            }
        }
    }

    fn stop(&mut self, now: Now, rules: Rules<'_>, cause: StopCause, out: &mut Vec<Action>) {
        let Some(run) = self.run() else { return };
        self.enter_stopping(now, rules, run, cause);
        out.push(Action::Stop { run });
    }

    fn enter_stopping(&mut self, now: Now, rules: Rules<'_>, run: RunId, cause: StopCause) {
        let stable = match &self.phase {
            Phase::Up { since, .. } => now.mono.since(*since) >= rules.restart.stable_after,
            Phase::Down
            | Phase::Held
            | Phase::Backoff { .. }
            | Phase::Starting { .. }
            | Phase::Stopping(_)
            | Phase::Failed { .. }
            | Phase::Cooling { .. } => false,
        };
        let kill_at = now.mono.plus(rules.grace);
        self.phase =
            Phase::Stopping(Stopping { run, cause, kill_at, killed: false, exit: None, stable });
    }

    /// The tree is empty: records the end of the run and decides the next step.
    fn tree_empty(&mut self, now: Now, rules: Rules<'_>, run: RunId, out: &mut Vec<Action>) {
        let Phase::Stopping(stopping) = &self.phase else { return };
        if stopping.run != run {
            return;
        }
        let Some(exit) = stopping.exit.clone() else { return };
        let (cause, stable) = (stopping.cause, stopping.stable);
        // A `Stop` has no target when the tree is empty.
        out.retain(|action| *action != Action::Stop { run });
        out.push(Action::Ended { run, exit: exit.clone() });
        self.last_exit = Some(LastExit { run, at: now.wall, exit: exit.clone() });
        if stable {
            self.budget.stable();
        }
        self.after_end(now, rules, cause, &exit, out);
    }

    fn after_end(
        &mut self,
        now: Now,
        rules: Rules<'_>,
        cause: StopCause,
        exit: &Exit,
        out: &mut Vec<Action>,
    ) {
        // A run that a probe gave up on is a failure, even with a successful exit.
        let success =
            cause != StopCause::Unhealthy && exit.is_success(&rules.restart.success_codes);
        match (self.wish, cause) {
            (Wish::Down, _) => self.phase = Phase::Down,
            // The run was stopped on request and is wanted again: by a restart, or by a start
            // during the stop.
            (Wish::Up | Wish::Once, StopCause::Asked) => self.spawn(now, out),
            (Wish::Once, StopCause::Unhealthy | StopCause::Exited) => {
                self.wish = Wish::Down;
                self.leave(success);
            }
            (Wish::Up, StopCause::Unhealthy | StopCause::Exited) => {
                self.policy(now, rules, success, exit, out);
            }
        }
    }

    fn policy(
        &mut self,
        now: Now,
        rules: Rules<'_>,
        success: bool,
        exit: &Exit,
        out: &mut Vec<Action>,
    ) {
        match (rules.restart.policy, success) {
            (Policy::Always | Policy::OnFailure, false) if exit.is_shortage() => {
                self.short_of_something(now, rules, out);
            }
            (Policy::Always, _) | (Policy::OnFailure, false) => {
                self.crashed(now, rules, Millis::ZERO, out);
            }
            (Policy::OnFailure, true) | (Policy::Never | Policy::OneShot, _) => self.leave(success),
        }
    }

    /// Does not restart: `Down` after a success, `Failed` after anything else.
    fn leave(&mut self, success: bool) {
        self.phase = if success { Phase::Down } else { Phase::Failed { why: FailReason::Exited } };
    }

    /// Retries after a resource shortage. The retry uses no budget and always waits, because a
    /// shortage lasts for a while.
    fn short_of_something(&mut self, now: Now, rules: Rules<'_>, out: &mut Vec<Action>) {
        self.budget.unmade();
        self.crashed(now, rules, RestartSpec::FIRST_STEP, out);
    }

    fn crashed(
        &mut self,
        now: Now,
        rules: Rules<'_>,
        shortest_wait: Millis,
        out: &mut Vec<Action>,
    ) {
        let wait = self.budget.ask(now.mono, rules.restart, self.last_run.0);
        match wait.map(|wait| wait.max(shortest_wait)) {
            Some(Millis::ZERO) => self.spawn_again(now, out),
            Some(wait) => self.phase = Phase::Backoff { until: now.mono.plus(wait) },
            None => {
                let restarts = self.budget.spent();
                self.phase = match rules.restart.cool_off {
                    Some(cool_off) => Phase::Cooling { until: now.mono.plus(cool_off) },
                    None => Phase::Failed { why: FailReason::BudgetSpent { restarts } },
                };
            }
        }
    }

    fn tick(&mut self, now: Now, out: &mut Vec<Action>) {
        if self.deadline().is_none_or(|at| now.mono < at) {
            return;
        }
        match &mut self.phase {
            Phase::Backoff { .. } => self.spawn_again(now, out),
            Phase::Cooling { .. } => {
                self.budget.forgive();
                self.restarts += 1;
                self.spawn(now, out);
            }
            Phase::Stopping(stopping) => {
                stopping.killed = true;
                stopping.kill_at = now.mono.plus(KILL_AGAIN);
                out.push(Action::Kill { run: stopping.run });
            }
            Phase::Down
            | Phase::Held
            | Phase::Starting { .. }
            | Phase::Up { .. }
            | Phase::Failed { .. } => {}
        }
    }

    /// Makes the restart that the budget allowed.
    fn spawn_again(&mut self, now: Now, out: &mut Vec<Action>) {
        self.budget.made(now.mono);
        self.restarts += 1;
        self.spawn(now, out);
    }

    fn spawn(&mut self, now: Now, out: &mut Vec<Action>) {
        let run = self.last_run.after(now.wall);
        self.last_run = run;
        self.phase = Phase::Starting { run };
        // A failed spawn may be followed at once by the next: one `Starting` after another.
        self.since = now.wall;
        out.push(Action::Spawn { run });
    }
}
