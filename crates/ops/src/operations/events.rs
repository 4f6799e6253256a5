//! `event.read`: returns events after a cursor, with a long poll. Every `--follow` is a loop over it.

use crate::error::OpError;
use crate::input::seconds_of;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Target};
use crate::text_output::{Page, Show, Style, counted};
use crate::timestamps::rfc3339;
use proctor_core::config::signal;
use proctor_engine::api::{Event, EventKind, EventsFrom, OperationEvent, RunEnd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};

/// Maximum events in one response.
const PAGE: usize = 512;

pub struct Events;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Only events of these services; a name selects all its instances
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Cursor from an earlier response; continues after it
    #[arg(long, value_name = "CURSOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Without a cursor: start this many events before the end; with all kept events if omitted
    #[arg(long, short = 'n', value_name = "COUNT", conflicts_with = "cursor")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// Seconds to wait for an event if there is none
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// Maximum events in one response; `more` reports that there are others
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Events, oldest first
    pub events: Vec<EventStatus>,
    /// Cursor for the next request
    pub cursor: String,
    /// Events after the given cursor were lost: it was too old, or from another daemon
    pub missed: bool,
    /// Number of lost events, if known
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_events: Option<u64>,
    /// More events are available now
    pub more: bool,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventStatus {
    /// Time in RFC 3339
    pub at: String,
    pub kind: Kind,
    /// Service the event is about; null for Proctor itself
    pub service: Option<String>,
    /// The event as a sentence
    pub text: String,
    /// With kind `state`: the new state. With kind `operation`: the state of the operation
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// With kind `state`: pid of the main process
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// With kind `state`: restarts made by the restart policy
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<u64>,
    /// With kind `exited`: exit code
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// With kind `exited`: number of the signal that ended the process
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// With kind `health`: result of the check
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// With kind `operation`: id of the operation
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// With kind `operation`: name of the operation, for example `service.restart`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A service was defined
    Defined,
    /// A service was removed
    Removed,
    /// The lease of a service expired; it is stopped and removed
    LeaseOver,
    /// A service changed its state
    State,
    /// A run ended
    Exited,
    /// The health of a service changed, or a health check ended a run
    Health,
    /// A configuration was applied
    Configured,
    /// An operation started or ended
    Operation,
}

impl Operation for Events {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["events"],
        summary: "Show events of services and of Proctor",
        details: "\
The last 4096 events since the daemon started are kept. If a service restarts faster than events can be recorded, some events are \
left out; the restart count is always correct.

Examples:
  proctor events
  proctor events web --follow
  proctor events -n 20 --json",
        launches: false,
        ..Meta::of("event.read", Effect::Read, Target::Nothing).long().at(Method::Get, "/events", "")
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.services)
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait = input.wait.map_or(Ok(std::time::Duration::ZERO), |s| seconds_of("wait", s))?;
        let boot = context.started.0.unsigned_abs();
        let cursor = input.cursor.as_deref().map(Cursor::parse).transpose()?;
        let foreign = cursor.as_ref().is_some_and(|cursor| cursor.boot != boot);
        let mut from = match (&cursor, input.tail) {
            (Some(cursor), _) if !foreign => EventsFrom::After(cursor.number),
            (Some(_), _) => EventsFrom::After(0),
            (None, Some(tail)) => EventsFrom::Last(tail),
            (None, None) => EventsFrom::Last(usize::MAX),
        };
        let deadline = Instant::now() + wait;
        let wanted = |event: &Event| is_wanted(&input.services, event);
        let most = input.limit.map_or(PAGE, |limit| limit.clamp(1, PAGE));
        let mut missed = 0;
        loop {
            let generation = context.engine.read(|view| view.generation);
            let page = context.engine.events(from, most, wanted);
            missed += page.missed;
            if !page.events.is_empty() || Instant::now() >= deadline || missed > 0 || foreign {
                return Ok(Output {
                    events: page.events.iter().map(EventStatus::of).collect(),
                    cursor: Cursor { boot, number: page.next }.text(),
                    missed: foreign || missed > 0,
                    missed_events: (missed > 0 && !foreign).then_some(missed),
                    more: page.more,
                });
            }
            from = EventsFrom::After(page.next);
            // Either something changed or the time is over; the next read shows which.
            let _ = timeout_at(deadline, context.engine.changed(generation)).await;
        }
    }
}

fn is_wanted(services: &[String], event: &Event) -> bool {
    services.is_empty()
        || event.service.as_ref().is_some_and(|name| {
            services.iter().any(|wanted| wanted == name.as_str() || wanted == name.base())
        })
}

/// The last event that was read, and its daemon.
struct Cursor {
    boot: u64,
    number: u64,
}

impl Cursor {
    fn text(&self) -> String {
        format!("{:x}-{:x}", self.boot, self.number)
    }

    fn parse(text: &str) -> Result<Cursor, OpError> {
        let hex = |part: &str| u64::from_str_radix(part, 16).ok();
        let parts =
            text.split_once('-').and_then(|(boot, number)| Some((hex(boot)?, hex(number)?)));
        let (boot, number) = parts.ok_or_else(|| {
            OpError::bad_input(format!("invalid event cursor '{text}'"))
                .help("pass a cursor exactly as an earlier response returned it")
        })?;
        Ok(Cursor { boot, number })
    }
}

impl EventStatus {
    fn of(event: &Event) -> EventStatus {
        let mut status = EventStatus {
            at: rfc3339(event.at),
            kind: Kind::Configured,
            service: event.service.as_ref().map(ToString::to_string),
            text: String::new(),
            state: None,
            pid: None,
            restarts: None,
            exit_code: None,
            signal: None,
            healthy: None,
            operation: None,
            name: None,
        };
        (status.kind, status.text) = match &event.what {
            EventKind::Defined => (Kind::Defined, "defined".into()),
            EventKind::Removed => (Kind::Removed, "removed".into()),
            EventKind::LeaseOver => {
                (Kind::LeaseOver, "its lease expired: stopped and removed".into())
            }
            EventKind::Configured => (Kind::Configured, "a configuration was applied".into()),
            EventKind::Phase { state, pid, restarts } => {
                let state = state.as_str();
                status.state = Some(state.into());
                status.pid = Some(*pid).filter(|pid| *pid != 0);
                status.restarts = Some(u64::from(*restarts));
                let pid = status.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
                (Kind::State, format!("{state}{pid}"))
            }
            EventKind::Exited(ended) => (Kind::Exited, status.exited(*ended)),
            EventKind::Health { healthy, failures } => {
                status.healthy = Some(*healthy);
                let text = match healthy {
                    true => "healthy".into(),
                    false => format!("unhealthy: {}", counted(*failures, "failed check")),
                };
                (Kind::Health, text)
            }
            EventKind::Unhealthy(checks) => {
                status.healthy = Some(false);
                (Kind::Health, format!("{checks}; its run is ended"))
            }
            EventKind::Operation(news) => {
                let OperationEvent { id, operation, what } = &**news;
                status.operation = Some(id.clone());
                status.name = Some((*operation).into());
                status.state = Some((*what).into());
                (Kind::Operation, format!("{operation} {what} ({id})"))
            }
        };
        status
    }

    fn exited(&mut self, ended: RunEnd) -> String {
        match ended {
            RunEnd::Code(code) => {
                self.exit_code = Some(code);
                format!("exited with code {code}")
            }
            RunEnd::Signal { signal: number, oom } => {
                self.signal = Some(number);
                let why = if oom { ": out of memory" } else { "" };
                format!("killed by {}{why}", signal::long_name(number))
            }
            RunEnd::NotStarted => "could not be started".into(),
            RunEnd::Unknown => "ended; the exit status is unknown".into(),
            RunEnd::Backgrounded => {
                self.exit_code = Some(0);
                "exited with code 0 and left processes in the background, which were stopped".into()
            }
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.missed {
            let missed = match self.missed_events {
                Some(1) => "1 event was missed".to_owned(),
                Some(count) => format!("{count} events were missed"),
                None => "some events were missed".to_owned(),
            };
            page.line().add(Style::Warn, missed);
        }
        for event in &self.events {
            let at = page.moment(&event.at);
            let style = match event.kind {
                Kind::Exited | Kind::LeaseOver => Style::Warn,
                Kind::Health if event.healthy == Some(false) => Style::Bad,
                Kind::Defined | Kind::Removed | Kind::State | Kind::Health => Style::Plain,
                Kind::Configured | Kind::Operation => Style::Dim,
            };
            let line = page.line().dim(format!("{at}  "));
            if let Some(service) = &event.service {
                line.name(service).plain(" ");
            }
            line.add(style, &event.text);
        }
    }
}
