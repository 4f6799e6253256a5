//! Waits until services have reached the requested state, and reports the result.
//!
//! The decision (`reached`) is pure: it compares a service before and now. A start counts once a **new** run has been up for
//! `STEADY`, so a program that dies at once is reported as crashed, not as started. Old state (the `failed` of an earlier
//! run) is never taken for the result of this request.

use crate::error::Code;
use crate::operation::Context;
use crate::status::{ServiceStatus, State, WishWord, style_of, wish_word};
use crate::text_output::{Page, Show, Style};
use crate::timestamps::seconds_between;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Now;
use proctor_core::wire::{PhaseView, RunView, ServiceState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A run that lives this long has passed the usual causes of an immediate exit: a wrong option, a missing module, a port in
/// use. A longer time would make every start feel slow.
pub(crate) const STEADY: Duration = Duration::from_millis(300);

/// Requested change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    Start,
    /// One run; the wish is gone when it has ended.
    Once,
    Restart,
    Stop,
}

/// State of a service before the request.
#[derive(Debug, Clone)]
pub(crate) struct StateBefore {
    pub(crate) name: ServiceName,
    /// Runs up to this one are old.
    old: RunId,
    pub(crate) state: State,
}

impl StateBefore {
    /// State of a service that did not exist.
    pub(crate) fn nothing(name: &ServiceName) -> StateBefore {
        StateBefore { name: name.clone(), old: RunId::NONE, state: State::Stopped }
    }
}

/// Records the current state of the services.
pub(crate) fn before(context: &Context, names: &[ServiceName], goal: Goal) -> Vec<StateBefore> {
    let now = proctor_sys::clock::now();
    context.engine.read(|view| {
        let one = |name: &ServiceName| {
            let service = view.services.get(name);
            StateBefore {
                name: name.clone(),
                old: old_news(service.and_then(|s| s.state.as_ref()), goal),
                state: service.map_or(State::Stopped, |s| ServiceStatus::of(s, now, None).state),
            }
        };
        names.iter().map(one).collect()
    })
}

fn old_news(state: Option<&ServiceState>, goal: Goal) -> RunId {
    let Some(state) = state else { return RunId::NONE };
    let last = state.last_exit.as_ref().map_or(RunId::NONE, |exit| exit.run);
    match (&state.phase, goal) {
        // A start accepts the current or pending run; a restart wants a new one.
        (
            PhaseView::Up { run } | PhaseView::Starting { run },
            Goal::Start | Goal::Once | Goal::Stop,
        ) => last.max(RunId(run.id.0.saturating_sub(1))),
        (PhaseView::Up { run } | PhaseView::Starting { run }, Goal::Restart) => last.max(run.id),
        (PhaseView::Stopping { run, .. }, _) => last.max(run.id),
        (
            PhaseView::Down
            | PhaseView::Held
            | PhaseView::Backoff { .. }
            | PhaseView::Failed { .. }
            | PhaseView::Cooling { .. },
            _,
        ) => last,
    }
}

/// Progress of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Not reached yet.
    Under,
    /// A new run is up; it counts once it has stayed up.
    Up(RunId),
    /// Stable for now, good or bad.
    There,
}

fn reached(goal: Goal, before: &StateBefore, now: Option<&ServiceState>) -> Progress {
    // The service was removed: nothing is left to wait for.
    let Some(state) = now else { return Progress::There };
    // The wish of this request was replaced, so its state may never be reached.
    if overruled(goal, wish_word(state.wish), ended_anew(before, state)) {
        return Progress::There;
    }
    match goal {
        Goal::Stop => match state.phase {
            PhaseView::Down => Progress::There,
            PhaseView::Held
            | PhaseView::Backoff { .. }
            | PhaseView::Starting { .. }
            | PhaseView::Up { .. }
            | PhaseView::Stopping { .. }
            | PhaseView::Failed { .. }
            | PhaseView::Cooling { .. } => Progress::Under,
        },
        Goal::Start | Goal::Once | Goal::Restart => match &state.phase {
            PhaseView::Up { run } if run.id > before.old => Progress::Up(run.id),
            PhaseView::Backoff { .. }
            | PhaseView::Failed { .. }
            | PhaseView::Cooling { .. }
            | PhaseView::Down
                if ended_anew(before, state) =>
            {
                Progress::There
            }
            PhaseView::Up { .. }
            | PhaseView::Backoff { .. }
            | PhaseView::Failed { .. }
            | PhaseView::Cooling { .. }
            | PhaseView::Down
            | PhaseView::Held
            | PhaseView::Starting { .. }
            | PhaseView::Stopping { .. } => Progress::Under,
        },
    }
}

/// Returns true if another request has asked for the opposite since.
fn overruled(goal: Goal, wish: WishWord, ended_anew: bool) -> bool {
    match (goal, wish) {
        (Goal::Start | Goal::Restart, WishWord::Down)
        | (Goal::Stop, WishWord::Up | WishWord::Once) => true,
        (Goal::Once, WishWord::Down) => !ended_anew,
        (Goal::Start | Goal::Once | Goal::Restart, WishWord::Up | WishWord::Once)
        | (Goal::Stop, WishWord::Down) => false,
    }
}

fn ended_anew(before: &StateBefore, state: &ServiceState) -> bool {
    state.last_exit.as_ref().is_some_and(|exit| exit.run > before.old)
}

/// Waits until all services have settled or `patience` is over. Returns true if they have settled.
pub(crate) async fn settle(
    context: &Context,
    goal: Goal,
    befores: &[StateBefore],
    patience: Duration,
) -> bool {
    let deadline = Instant::now() + patience;
    let mut waiting: Vec<&StateBefore> = befores.iter().collect();
    let mut up_since: HashMap<ServiceName, (RunId, Instant)> = HashMap::new();
    loop {
        let now = Instant::now();
        let last_look = now >= deadline;
        let mut wake = deadline;
        let generation = context.engine.read(|view| {
            waiting.retain(|before| {
                let state = view.services.get(&before.name).map(|s| s.state.as_ref());
                // Defined, but not confirmed by the keeper yet: still pending. It needs no stop.
                let Some(state) = state else { return false };
                if state.is_none() {
                    return goal != Goal::Stop;
                }
                match reached(goal, before, state) {
                    Progress::There => false,
                    Progress::Under => true,
                    Progress::Up(_)
                        if matches!(goal, Goal::Start | Goal::Once)
                            && before.state == State::Running =>
                    {
                        false
                    }
                    Progress::Up(run) => {
                        let seen = up_since.entry(before.name.clone()).or_insert((run, now));
                        if seen.0 != run {
                            *seen = (run, now);
                        }
                        let steady = seen.1 + STEADY;
                        wake = wake.min(steady);
                        // At the timeout a young run counts, unless it follows a crash.
                        now < steady && (!last_look || state.is_some_and(|s| ended_anew(before, s)))
                    }
                }
            });
            view.generation
        });
        if waiting.is_empty() || last_look {
            return waiting.is_empty();
        }
        // Either something changed or the time is over; the next read shows which.
        let _ = timeout_at(wake, context.engine.changed(generation)).await;
    }
}

/// Ended runs that are certain to be a crash loop: one alone may have come too early for something it needs.
const CRASH_LOOP_RUNS: u32 = 2;

/// Wait until a service that was restarted cannot be well before `deadline`: it has failed, it has crashed again and again, or its next
/// run comes too late. Returns that as a sentence; never returns where all go on.
pub(crate) async fn crash_loop(
    context: &Context,
    befores: &[StateBefore],
    deadline: Instant,
) -> String {
    let mut crashes: HashMap<&ServiceName, (RunId, u32)> = HashMap::new();
    loop {
        let left = deadline.duration_since(Instant::now());
        let now = proctor_sys::clock::now();
        let (generation, found) = context.engine.read(|view| {
            let found = befores.iter().find_map(|before| {
                let service = view.services.get(&before.name)?;
                let state = service.state.as_ref().filter(|state| ended_anew(before, state))?;
                let last = state.last_exit.as_ref().map_or(RunId::NONE, |exit| exit.run);
                let (seen, times) = crashes.entry(&before.name).or_insert((RunId::NONE, 0));
                if *seen != last {
                    (*seen, *times) = (last, *times + 1);
                }
                let is_certain = match &state.phase {
                    PhaseView::Failed { .. } | PhaseView::Cooling { .. } | PhaseView::Down => true,
                    PhaseView::Backoff { until } => {
                        let wait = Duration::from_millis(until.0.saturating_sub(now.mono.0));
                        *times >= CRASH_LOOP_RUNS || wait >= left
                    }
                    PhaseView::Starting { .. }
                    | PhaseView::Up { .. }
                    | PhaseView::Stopping { .. }
                    | PhaseView::Held => false,
                };
                is_certain.then(|| crash_sentence(&ServiceStatus::of(service, now, None), *times))
            });
            (view.generation, found)
        });
        match found {
            Some(sentence) => return sentence,
            None => drop(context.engine.changed(generation).await),
        }
    }
}

/// `web has ended 2 times since it was restarted: exit code 1; it is backoff`.
fn crash_sentence(service: &ServiceStatus, times: u32) -> String {
    let times = if times == 1 { "once".to_owned() } else { format!("{times} times") };
    let why = service.last_exit.as_ref().map_or("unknown", |exit| &exit.text);
    let (name, state) = (&service.name, service.state.as_str());
    format!("{name} has ended {times} since it was restarted: {why}; it is {state}")
}

/// Results for the services that were asked to change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedServices {
    /// Every service reached a stable state
    pub settled: bool,
    pub services: Vec<Report>,
    /// Changes that were made but not recorded yet, with the reason and the consequence
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unrecorded: Vec<String>,
}

/// Result for one service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub result: Outcome,
    /// Result as a sentence
    pub message: String,
    /// Remedy, if there is one
    pub help: Option<String>,
    #[serde(flatten)]
    pub service: ServiceStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Started,
    AlreadyRunning,
    Restarted,
    Stopped,
    AlreadyStopped,
    /// The service ran and ended with success
    Finished,
    /// The service ended without success at once
    Crashed,
    /// Not reached before the timeout
    Pending,
    /// Accepted; the request did not wait
    Asked,
    /// Another request asked for the opposite meanwhile
    Overruled,
}

/// Reports the result for every service.
pub(crate) fn report(
    context: &Context,
    goal: Goal,
    befores: &[StateBefore],
    settled: bool,
    waited: bool,
) -> ChangedServices {
    let now = proctor_sys::clock::now();
    let services = context.engine.read(|view| {
        befores
            .iter()
            .filter_map(|before| {
                let service = view.services.get(&before.name)?;
                let status = ServiceStatus::of(service, now, None);
                let anew = service.state.as_ref().is_some_and(|state| ended_anew(before, state));
                let run = service.state.as_ref().and_then(|state| state.phase.run());
                let fresh = run.is_some_and(|run| run.id > before.old);
                let looping =
                    waited && !settled && anew && run.is_some_and(|run| is_young(run, now));
                let result = outcome(goal, before, &status, anew, fresh, waited, looping);
                Some(describe(result, status, anew))
            })
            .collect()
    });
    ChangedServices { settled, services, unrecorded: Vec::new() }
}

/// Returns true if the run is too young to count.
fn is_young(run: &RunView, now: Now) -> bool {
    seconds_between(run.started, now.wall) < STEADY.as_secs_f64()
}

fn outcome(
    goal: Goal,
    before: &StateBefore,
    status: &ServiceStatus,
    anew: bool,
    fresh: bool,
    waited: bool,
    looping: bool,
) -> Outcome {
    let pending = if waited { Outcome::Pending } else { Outcome::Asked };
    if overruled(goal, status.wish, anew) {
        return Outcome::Overruled;
    }
    match (goal, status.state) {
        (Goal::Start | Goal::Once | Goal::Restart, _) if looping => Outcome::Crashed,
        (Goal::Start | Goal::Once, State::Running) if fresh && before.state == State::Running => {
            Outcome::AlreadyRunning
        }
        (Goal::Start | Goal::Once, State::Running) if fresh => Outcome::Started,
        (Goal::Restart, State::Running) if fresh => Outcome::Restarted,
        (Goal::Start | Goal::Once | Goal::Restart, State::Stopped) if anew => Outcome::Finished,
        (
            Goal::Start | Goal::Once | Goal::Restart,
            State::Backoff | State::Failed | State::Cooling,
        ) if anew => Outcome::Crashed,
        (Goal::Start | Goal::Once | Goal::Restart, _) => pending,
        (Goal::Stop, State::Stopped) if before.state == State::Stopped => Outcome::AlreadyStopped,
        (Goal::Stop, State::Stopped) => Outcome::Stopped,
        (Goal::Stop, _) => pending,
    }
}

fn describe(result: Outcome, service: ServiceStatus, ended_anew: bool) -> Report {
    let pid = service.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let last = service.last_exit.as_ref().map_or("exit status unknown", |exit| exit.text.as_str());
    let logs = format!("see its output with `proctor logs {}`", service.name);
    let (message, help) = match result {
        Outcome::Started if ended_anew => {
            (format!("started{pid}, after it had ended: {last}"), Some(logs))
        }
        Outcome::Started => (format!("started{pid}"), None),
        Outcome::Restarted => (format!("restarted{pid}"), None),
        Outcome::AlreadyRunning => {
            let stale =
                format!("its settings changed: apply them with `proctor restart {}`", service.name);
            (format!("already running{pid}"), service.stale.then_some(stale))
        }
        Outcome::Stopped => ("stopped".into(), None),
        Outcome::AlreadyStopped => ("was not running".into(), None),
        Outcome::Finished => (format!("ran and finished: {last}"), None),
        Outcome::Crashed => {
            let next = service.next.as_ref().or(service.why.as_ref());
            (
                format!("crashed: {last}{}", next.map(|n| format!("; {n}")).unwrap_or_default()),
                Some(logs),
            )
        }
        Outcome::Pending => {
            let next = service.next.as_ref().map(|n| format!(": {n}")).unwrap_or_default();
            (format!("still {}{next}", service.state.as_str()), None)
        }
        Outcome::Asked => ("asked".into(), None),
        Outcome::Overruled => {
            let asked = if service.wish == WishWord::Down { "stop" } else { "start" };
            (format!("is {}: another request asked it to {asked}", service.state.as_str()), None)
        }
    };
    Report { result, message, help, service }
}

impl Show for ChangedServices {
    fn show(&self, page: &mut Page) {
        for report in &self.services {
            let style = match report.result {
                Outcome::Started | Outcome::Restarted | Outcome::Finished => Style::Good,
                Outcome::Stopped | Outcome::Asked => Style::Plain,
                Outcome::AlreadyRunning | Outcome::AlreadyStopped => Style::Dim,
                Outcome::Crashed => Style::Bad,
                Outcome::Overruled => Style::Warn,
                Outcome::Pending => style_of(report.service.state),
            };
            page.line().name(&report.service.name).plain(" ").add(style, &report.message);
            if let Some(help) = &report.help {
                page.line().dim(format!("  {help}"));
            }
        }
        show_unrecorded(page, &self.unrecorded);
    }

    fn verdict(&self) -> Option<Code> {
        let any = |wanted| self.services.iter().any(|report| report.result == wanted);
        if any(Outcome::Crashed) {
            return Some(Code::ServiceFailed);
        }
        if any(Outcome::Overruled) {
            return Some(Code::Failed);
        }
        any(Outcome::Pending).then_some(Code::Timeout)
    }
}

/// Shows changes that are not recorded.
pub(crate) fn show_unrecorded(page: &mut Page, unrecorded: &[String]) {
    for why in unrecorded {
        page.line().add(Style::Warn, format!("not recorded: {why}"));
    }
}

#[cfg(test)]
mod tests;
