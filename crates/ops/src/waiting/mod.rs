//! Waiting for services: until they are in a state, ready, listening, over, or have written a line.
//!
//! The registry tells of states and the kernel of output; only whether a port is open has to be looked for, at a pace that
//! follows how long was waited already, and only while the service runs. Dropping the wait ends it, wherever it is.

mod judge;
mod lines;
#[cfg(test)]
mod tests;

use crate::error::OpError;
use crate::operation::Context;
use crate::status::ServiceStatus;
use judge::{Before, gone, judge};
pub use lines::Found;
use proctor_core::name::ServiceName;
use proctor_engine::api::PortSeen;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The next look at a port comes after a tenth of the time that was waited, within these: soon enough for a server that is quick,
/// rare enough for one that takes minutes.
const SOONEST: Duration = Duration::from_millis(20);
const LATEST: Duration = Duration::from_millis(500);

/// Somebody else who has a port this long is not one who is just leaving.
const TAKEN_FOR: Duration = Duration::from_millis(500);

/// What to wait for.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    Running,
    /// Nothing of it runs and nothing is going to by itself
    Stopped,
    /// Neither starting nor stopping
    #[default]
    Settled,
    /// Running, and its health check (if it has one) is content
    Healthy,
    /// Healthy and, if it has a `port`, listening on it; with neither check nor port, running for a moment
    Ready,
    /// The run that is there has ended; at once if none is there and the last one has
    Exit,
    /// It has written a line that matches `log`
    Log,
    /// It listens on `port`, or on its own
    Port,
}

/// How it is about one service.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Reached,
    /// If the service listens on this port.
    IfOpen(u16),
    NotYet(Missing),
    /// It will not get there by itself.
    Hopeless(Missing),
}

/// What keeps a service from being where it is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Missing {
    State,
    Health,
    /// It has to live for so much longer.
    Steady(Duration),
    Exit,
    Port(u16),
    Taken(u16, Option<String>),
    Line,
    /// It has never run.
    Never,
    Gone,
}

/// What is waited for, of which services.
pub(crate) struct Wait<'a> {
    pub(crate) context: &'a Context,
    pub(crate) names: &'a [ServiceName],
    pub(crate) until: Until,
    pub(crate) port: Option<u16>,
    pub(crate) deadline: Instant,
}

/// What became of a wait.
pub(crate) struct Waited {
    pub(crate) reached: bool,
    pub(crate) hopeless: bool,
    pub(crate) generation: u64,
    /// What each service lacks, in the order of the names.
    missing: Vec<Option<Missing>>,
    /// The lines that were waited for.
    pub(crate) found: Vec<Found>,
}

impl Waited {
    fn of(verdicts: Vec<Verdict>, generation: u64, found: Vec<Found>) -> Waited {
        Waited {
            reached: verdicts.iter().all(|verdict| *verdict == Verdict::Reached),
            hopeless: verdicts.iter().any(|verdict| matches!(verdict, Verdict::Hopeless(_))),
            generation,
            missing: verdicts.into_iter().map(Verdict::missing).collect(),
            found,
        }
    }

    /// Is this service not where it was waited for?
    pub(crate) fn lacks(&self, at: usize) -> bool {
        self.missing.get(at).is_some_and(Option::is_some)
    }

    /// What is missing, a sentence for each service.
    pub(crate) fn sentences(
        &self,
        names: &[ServiceName],
        services: &[ServiceStatus],
    ) -> Vec<String> {
        let one = |(name, missing): (&ServiceName, &Option<Missing>)| {
            let service = services.iter().find(|service| service.name == name.as_str());
            missing.as_ref().map(|missing| sentence(name, missing, service))
        };
        names.iter().zip(&self.missing).filter_map(one).collect()
    }
}

impl Verdict {
    fn missing(self) -> Option<Missing> {
        match self {
            Verdict::Reached => None,
            Verdict::IfOpen(port) => Some(Missing::Port(port)),
            Verdict::NotYet(missing) | Verdict::Hopeless(missing) => Some(missing),
        }
    }
}

fn sentence(name: &ServiceName, missing: &Missing, service: Option<&ServiceStatus>) -> String {
    let state = service.map_or("gone", |service| service.state.as_str());
    let more = service.and_then(|service| service.next.clone().or(service.why.clone()));
    let more = more.map(|more| format!(": {more}")).unwrap_or_default();
    match missing {
        Missing::State => format!("{name} is {state}{more}"),
        Missing::Health => {
            let why = service.and_then(|service| service.health.as_ref()?.why.clone());
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            format!("{name} has not passed its health check{why}")
        }
        Missing::Steady(_) => format!("{name} has only just started"),
        Missing::Exit => format!("{name} is {state}: its run has not ended"),
        Missing::Port(port) => format!("{name} is {state} and does not listen on port {port}"),
        Missing::Taken(port, by) => {
            let by = by.as_deref().unwrap_or("another process");
            format!("port {port} is held by {by}, which is not of {name}")
        }
        Missing::Line => format!("{name} is {state} and has written no line that matches"),
        Missing::Never => format!("{name} has never run, and nothing is going to start it"),
        Missing::Gone => format!("{name} was removed"),
    }
}

impl Wait<'_> {
    /// Until all are there, one cannot get there, or the time is over. `seen`: until anything changed after this
    /// generation, whatever it is.
    pub(crate) async fn states(&self, seen: Option<u64>) -> Waited {
        let began = Instant::now();
        let befores = self.befores();
        let mut taken: HashMap<usize, Instant> = HashMap::new();
        loop {
            let (generation, mut verdicts) = self.look(&befores);
            self.look_at_ports(&mut verdicts, &mut taken).await;
            let next = next_look(&verdicts, began.elapsed());
            let waited = Waited::of(verdicts, generation, Vec::new());
            let done = match seen {
                Some(seen) => generation > seen,
                None => waited.reached || waited.hopeless,
            };
            if done || Instant::now() >= self.deadline {
                return waited;
            }
            let wake = next.map_or(self.deadline, |next| self.deadline.min(Instant::now() + next));
            // Either something changed or the time is over; the next look tells which.
            let _ = timeout_at(wake, self.context.engine.changed(generation)).await;
        }
    }

    fn befores(&self) -> Vec<Before> {
        self.context.engine.read(|view| {
            self.names.iter().map(|name| Before::of(view.services.get(name))).collect()
        })
    }

    fn look(&self, befores: &[Before]) -> (u64, Vec<Verdict>) {
        let now = proctor_sys::clock::now().wall;
        self.context.engine.read(|view| {
            let one = |(name, before): (&ServiceName, &Before)| {
                let service = view.services.get(name);
                service.map_or_else(
                    || gone(self.until),
                    |service| judge(self.until, self.port, *before, service, now),
                )
            };
            (view.generation, self.names.iter().zip(befores).map(one).collect())
        })
    }

    /// Find out about the ports that it depends on.
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
                    Verdict::NotYet(Missing::Port(port))
                }
                PortSeen::Taken { by } => {
                    let since = *taken.entry(at).or_insert_with(Instant::now);
                    match since.elapsed() >= TAKEN_FOR {
                        true => Verdict::Hopeless(Missing::Taken(port, by)),
                        false => Verdict::NotYet(Missing::Taken(port, by)),
                    }
                }
            };
        }
    }
}

/// How soon to look again though nobody tells of anything, after having waited for so long.
fn next_look(verdicts: &[Verdict], waited: Duration) -> Option<Duration> {
    let pace = (waited / 10).clamp(SOONEST, LATEST);
    let after = |verdict: &Verdict| match verdict {
        Verdict::NotYet(Missing::Port(_) | Missing::Taken(..)) | Verdict::IfOpen(_) => Some(pace),
        Verdict::NotYet(Missing::Steady(left)) => Some(*left),
        Verdict::Reached | Verdict::NotYet(_) | Verdict::Hopeless(_) => None,
    };
    verdicts.iter().filter_map(after).min()
}

impl Wait<'_> {
    /// The port that each service is waited for on; one must be known.
    pub(crate) fn check_ports(&self) -> Result<(), OpError> {
        let without = self.context.engine.read(|view| {
            let own = |name: &ServiceName| view.services.get(name).and_then(|service| service.port);
            self.names.iter().find(|name| self.port.or(own(name)).is_none()).cloned()
        });
        match without {
            Some(name) => {
                Err(OpError::bad_input(format!("{name} has no port in its configuration"))
                    .help("say which one: give 'port'"))
            }
            None => Ok(()),
        }
    }
}
