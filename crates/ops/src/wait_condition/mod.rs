//! Waits for services: until they reach a state, are ready, listen, have ended, or have written a line.
//!
//! The registry reports states and the kernel reports output. Only ports must be polled, at an interval that grows with the
//! wait, and only while the service runs. Dropping the wait ends it.

mod condition;
mod lines;
#[cfg(test)]
mod tests;

use crate::error::OpError;
use crate::operation::Context;
use crate::status::ServiceStatus;
use condition::{WaitStart, gone, judge};
pub use lines::MatchedLine;
use proctor_core::name::ServiceName;
use proctor_engine::api::PortSeen;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Bounds of the polling interval for ports, which is a tenth of the time waited: short enough for a quick server, rare enough
/// for one that takes minutes.
const SOONEST: Duration = Duration::from_millis(20);
const LATEST: Duration = Duration::from_millis(500);

/// A foreign process that holds a port this long is not about to release it.
const TAKEN_FOR: Duration = Duration::from_millis(500);

/// Condition to wait for.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    Running,
    /// No process of the service runs, and none will start by itself
    Stopped,
    /// Neither starting nor stopping
    #[default]
    Settled,
    /// Running, and its health check (if any) passes
    Healthy,
    /// Healthy and, if it has a `port`, listening on it; without check and port, running for a moment
    Ready,
    /// The current run has ended; without one, the last run has
    Exit,
    /// The service has written a line that matches `log`
    Log,
    /// The service listens on `port`, or on its own port
    Port,
}

/// Verdict for one service.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Reached,
    /// Reached if the service listens on this port.
    IfOpen(u16),
    NotYet(UnmetCondition),
    /// The service will not get there by itself.
    Hopeless(UnmetCondition),
}

/// UnmetCondition condition of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UnmetCondition {
    State,
    Health,
    /// It must live this much longer.
    Steady(Duration),
    Exit,
    Port(u16),
    Taken(u16, Option<String>),
    Line,
    /// It has never run.
    Never,
    Gone,
}

/// Awaited condition and services.
pub(crate) struct Wait<'a> {
    pub(crate) context: &'a Context,
    pub(crate) names: &'a [ServiceName],
    pub(crate) until: Until,
    pub(crate) port: Option<u16>,
    pub(crate) deadline: Instant,
}

/// Result of a wait.
pub(crate) struct WaitResult {
    pub(crate) reached: bool,
    pub(crate) hopeless: bool,
    pub(crate) generation: u64,
    /// UnmetCondition condition of each service, in the order of the names.
    missing: Vec<Option<UnmetCondition>>,
    /// Matching lines.
    pub(crate) found: Vec<MatchedLine>,
}

impl WaitResult {
    fn of(verdicts: Vec<Verdict>, generation: u64, found: Vec<MatchedLine>) -> WaitResult {
        WaitResult {
            reached: verdicts.iter().all(|verdict| *verdict == Verdict::Reached),
            hopeless: verdicts.iter().any(|verdict| matches!(verdict, Verdict::Hopeless(_))),
            generation,
            missing: verdicts.into_iter().map(Verdict::missing).collect(),
            found,
        }
    }

    /// Returns true if this service has not reached the condition.
    pub(crate) fn lacks(&self, at: usize) -> bool {
        self.missing.get(at).is_some_and(Option::is_some)
    }

    /// Returns the missing conditions, a sentence for each service.
    pub(crate) fn sentences(
        &self,
        names: &[ServiceName],
        services: &[ServiceStatus],
    ) -> Vec<String> {
        let one = |(name, missing): (&ServiceName, &Option<UnmetCondition>)| {
            let service = services.iter().find(|service| service.name == name.as_str());
            missing.as_ref().map(|missing| sentence(name, missing, service))
        };
        names.iter().zip(&self.missing).filter_map(one).collect()
    }
}

impl Verdict {
    fn missing(self) -> Option<UnmetCondition> {
        match self {
            Verdict::Reached => None,
            Verdict::IfOpen(port) => Some(UnmetCondition::Port(port)),
            Verdict::NotYet(missing) | Verdict::Hopeless(missing) => Some(missing),
        }
    }
}

fn sentence(
    name: &ServiceName,
    missing: &UnmetCondition,
    service: Option<&ServiceStatus>,
) -> String {
    let state = service.map_or("gone", |service| service.state.as_str());
    let more = service.and_then(|service| service.next.clone().or(service.why.clone()));
    let more = more.map(|more| format!(": {more}")).unwrap_or_default();
    match missing {
        UnmetCondition::State => format!("{name} is {state}{more}"),
        UnmetCondition::Health => {
            let why = service.and_then(|service| service.health.as_ref()?.why.clone());
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            format!("{name} has not passed its health check{why}")
        }
        UnmetCondition::Steady(_) => format!("{name} has just started"),
        UnmetCondition::Exit => format!("{name} is {state}: its run has not ended"),
        UnmetCondition::Port(port) => {
            format!("{name} is {state} and does not listen on port {port}")
        }
        UnmetCondition::Taken(port, by) => {
            let by = by.as_deref().unwrap_or("another process");
            format!("port {port} is in use by {by}, which does not belong to {name}")
        }
        UnmetCondition::Line => format!("{name} is {state} and has written no matching line"),
        UnmetCondition::Never => format!("{name} has never run, and nothing will start it"),
        UnmetCondition::Gone => format!("{name} was removed"),
    }
}

impl Wait<'_> {
    /// Waits until all services have reached the condition, one cannot, or the time is over. With `seen`, waits for
    /// any change after
    /// this generation.
    pub(crate) async fn states(&self, seen: Option<u64>) -> WaitResult {
        let began = Instant::now();
        let befores = self.befores();
        let mut taken: HashMap<usize, Instant> = HashMap::new();
        loop {
            let (generation, mut verdicts) = self.look(&befores);
            self.look_at_ports(&mut verdicts, &mut taken).await;
            let next = next_look(&verdicts, began.elapsed());
            let waited = WaitResult::of(verdicts, generation, Vec::new());
            let done = match seen {
                Some(seen) => generation > seen,
                None => waited.reached || waited.hopeless,
            };
            if done || Instant::now() >= self.deadline {
                return waited;
            }
            let wake = next.map_or(self.deadline, |next| self.deadline.min(Instant::now() + next));
            // Either something changed or the time is over; the next read shows which.
            let _ = timeout_at(wake, self.context.engine.changed(generation)).await;
        }
    }

    fn befores(&self) -> Vec<WaitStart> {
        self.context.engine.read(|view| {
            self.names.iter().map(|name| WaitStart::of(view.services.get(name))).collect()
        })
    }

    fn look(&self, befores: &[WaitStart]) -> (u64, Vec<Verdict>) {
        let now = proctor_sys::clock::now().wall;
        self.context.engine.read(|view| {
            let one = |(name, before): (&ServiceName, &WaitStart)| {
                let service = view.services.get(name);
                service.map_or_else(
                    || gone(self.until),
                    |service| judge(self.until, self.port, *before, service, now),
                )
            };
            (view.generation, self.names.iter().zip(befores).map(one).collect())
        })
    }

    /// Checks the ports that the verdicts depend on.
    async fn look_at_ports(&self, verdicts: &mut [Verdict], taken: &mut HashMap<usize, Instant>) {
        let asked = verdicts.iter().enumerate().filter_map(|(at, verdict)| match verdict {
            Verdict::IfOpen(port) => Some((at, *port)),
            Verdict::Reached | Verdict::NotYet(_) | Verdict::Hopeless(_) => None,
        });
        let asked: Vec<(usize, u16)> = asked.collect();
        if asked.is_empty() {
            return;
        }
        let ports: Vec<_> =
            asked.iter().map(|(at, port)| (self.names[*at].clone(), *port)).collect();
        let seen = self.context.engine.look_at_ports(&ports).await;
        for ((at, port), seen) in asked.into_iter().zip(seen) {
            verdicts[at] = match seen {
                PortSeen::Open => Verdict::Reached,
                PortSeen::Closed => {
                    taken.remove(&at);
                    Verdict::NotYet(UnmetCondition::Port(port))
                }
                PortSeen::Taken { by } => {
                    let since = *taken.entry(at).or_insert_with(Instant::now);
                    match since.elapsed() >= TAKEN_FOR {
                        true => Verdict::Hopeless(UnmetCondition::Taken(port, by)),
                        false => Verdict::NotYet(UnmetCondition::Taken(port, by)),
                    }
                }
            };
        }
    }
}

/// Returns the polling interval after this wait, or `None` if every change is reported.
fn next_look(verdicts: &[Verdict], waited: Duration) -> Option<Duration> {
    let pace = (waited / 10).clamp(SOONEST, LATEST);
    let after = |verdict: &Verdict| match verdict {
        Verdict::NotYet(UnmetCondition::Port(_) | UnmetCondition::Taken(..))
        | Verdict::IfOpen(_) => Some(pace),
        Verdict::NotYet(UnmetCondition::Steady(left)) => Some(*left),
        Verdict::Reached | Verdict::NotYet(_) | Verdict::Hopeless(_) => None,
    };
    verdicts.iter().filter_map(after).min()
}

impl Wait<'_> {
    /// Checks that the port of each service is known.
    pub(crate) fn check_ports(&self) -> Result<(), OpError> {
        let without = self.context.engine.read(|view| {
            let own = |name: &ServiceName| view.services.get(name).and_then(|service| service.port);
            self.names.iter().find(|name| self.port.or(own(name)).is_none()).cloned()
        });
        match without {
            Some(name) => {
                Err(OpError::bad_input(format!("{name} has no port in its configuration"))
                    .help("give 'port'"))
            }
            None => Ok(()),
        }
    }
}
