//! Recent events in the order they were seen: a bounded ring that readers follow by number.
//!
//! The keeper sends whole states, the newest of each service. If a service changes faster than the keeper can
//! report, each event is true and some are missing, as the count of restarts shows. Nothing here is on disk.

use crate::api::{FailedChecks, Health, ServiceView};
use proctor_core::lifecycle::Exit;
use proctor_core::name::ServiceName;
use proctor_core::time::Wall;
use proctor_core::wire::{PhaseView, ServiceState};
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of events kept: a few minutes of a busy machine. Each takes 48 bytes.
const MAX_EVENTS: usize = 4096;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The number of the previous event plus one.
    pub number: u64,
    pub at: Wall,
    /// `None`: the event is about Proctor itself.
    pub service: Option<ServiceName>,
    pub what: EventKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The service is newly defined.
    Defined,
    /// The service was removed.
    Removed,
    /// Its lease expired: it will be stopped and removed.
    LeaseOver,
    /// The service entered this phase. The pid is 0 if there is no process.
    Phase {
        state: PhaseName,
        pid: u32,
        restarts: u32,
    },
    Exited(RunEnd),
    Health {
        healthy: bool,
        failures: u32,
    },
    /// Its run is ended because its health check failed.
    Unhealthy(Arc<FailedChecks>),
    /// A configuration was applied.
    Configured,
    /// Boxed: it is rarer than the others, and larger.
    Operation(Box<OperationEvent>),
}

/// An operation started or ended; `what` says which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationEvent {
    pub id: String,
    pub operation: &'static str,
    pub what: &'static str,
}

/// The name of a phase in the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseName {
    Stopped,
    Waiting,
    Starting,
    Running,
    Backoff,
    Stopping,
    Failed,
    Cooling,
}

impl PhaseName {
    pub fn as_str(self) -> &'static str {
        match self {
            PhaseName::Stopped => "stopped",
            PhaseName::Waiting => "waiting",
            PhaseName::Starting => "starting",
            PhaseName::Running => "running",
            PhaseName::Backoff => "backoff",
            PhaseName::Stopping => "stopping",
            PhaseName::Failed => "failed",
            PhaseName::Cooling => "cooling",
        }
    }

    fn of(phase: &PhaseView) -> PhaseName {
        match phase {
            PhaseView::Down => PhaseName::Stopped,
            PhaseView::Held => PhaseName::Waiting,
            PhaseView::Backoff { .. } => PhaseName::Backoff,
            PhaseView::Starting { .. } => PhaseName::Starting,
            PhaseView::Up { .. } => PhaseName::Running,
            PhaseView::Stopping { .. } => PhaseName::Stopping,
            PhaseView::Failed { .. } => PhaseName::Failed,
            PhaseView::Cooling { .. } => PhaseName::Cooling,
        }
    }
}

/// The end of a run, in a few bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    Code(i32),
    Signal {
        signal: i32,
        oom: bool,
    },
    NotStarted,
    Unknown,
    /// With code 0 soon after its start, while other processes of its tree lived on.
    Backgrounded,
}

/// A page of events.
#[derive(Debug, Default)]
pub struct Events {
    pub events: Vec<Event>,
    /// The number to continue reading from.
    pub next: u64,
    /// Events that were dropped before they were read.
    pub missed: u64,
    /// More events are available already.
    pub more: bool,
}

/// The position to start reading at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// After the event of this number.
    After(u64),
    /// This many before the end.
    Last(usize),
}

/// The ring buffer of events.
#[derive(Default)]
pub(crate) struct EventRing {
    kept: VecDeque<Event>,
    last: u64,
    /// False until startup is complete: the states taken in before are the initial state, not events.
    live: bool,
}

impl EventRing {
    pub(crate) fn begin(&mut self) {
        self.live = true;
    }

    pub(crate) fn push(&mut self, service: Option<&ServiceName>, what: EventKind) {
        if !self.live {
            return;
        }
        self.last += 1;
        if self.kept.len() >= MAX_EVENTS {
            self.kept.pop_front();
        }
        let at = proctor_sys::clock::now().wall;
        self.kept.push_back(Event { number: self.last, at, service: service.cloned(), what });
    }

    /// Adds the event that a new state of a service means, if any.
    pub(crate) fn state(&mut self, before: Option<&ServiceState>, now: &ServiceState) {
        let exit = |state: &ServiceState| state.last_exit.as_ref().map(|exit| exit.run);
        if let Some(last) = &now.last_exit
            && before.and_then(exit) != Some(last.run)
        {
            self.push(Some(&now.name), EventKind::Exited(RunEnd::of(&last.exit)));
        }
        let run = |state: &ServiceState| state.phase.run().map(|run| run.id);
        let same = |before: &ServiceState| {
            PhaseName::of(&before.phase) == PhaseName::of(&now.phase) && run(before) == run(now)
        };
        if !before.is_some_and(same) {
            let state = PhaseName::of(&now.phase);
            let pid = now.phase.run().map_or(0, |run| run.pid);
            let restarts = u32::try_from(now.restarts).unwrap_or(u32::MAX);
            self.push(Some(&now.name), EventKind::Phase { state, pid, restarts });
        }
    }

    /// Adds an event if a health check had a different result than the previous one.
    pub(crate) fn health(&mut self, service: &ServiceView, now: &Health) {
        let kind = |health: &Health| match health {
            Health::Unknown | Health::Starting { .. } => None,
            Health::Healthy { .. } => Some((true, 0)),
            Health::Failing { failures, .. } => Some((false, *failures)),
        };
        let before = service.health.as_ref().and_then(kind).map(|(healthy, _)| healthy);
        if let Some((healthy, failures)) = kind(now)
            && before != Some(healthy)
        {
            self.push(Some(&service.name), EventKind::Health { healthy, failures });
        }
    }

    /// Returns at most `most` events for which `wanted` is true; the others are skipped.
    pub(crate) fn read(
        &self,
        from: ReadFrom,
        most: usize,
        wanted: impl Fn(&Event) -> bool,
    ) -> Events {
        let oldest = self.last - self.kept.len() as u64;
        let after = match from {
            ReadFrom::After(number) => number.min(self.last),
            ReadFrom::Last(count) => {
                let before = self.kept.iter().rev().filter(|event| wanted(event)).nth(count);
                before.map_or(oldest, |event| event.number)
            }
        };
        let missed = oldest.saturating_sub(after);
        let skip = usize::try_from(after.max(oldest) - oldest).unwrap_or(usize::MAX);
        let mut page = Events { events: Vec::new(), next: self.last, missed, more: false };
        for event in self.kept.iter().skip(skip).filter(|event| wanted(event)) {
            if page.events.len() == most {
                page.more = true;
                page.next = page.events.last().map_or(after, |event| event.number);
                break;
            }
            page.events.push(event.clone());
        }
        page
    }
}

impl RunEnd {
    fn of(exit: &Exit) -> RunEnd {
        match exit {
            Exit::Code(code) => RunEnd::Code(*code),
            Exit::Signal { signal, oom, core: _ } => RunEnd::Signal { signal: *signal, oom: *oom },
            Exit::SpawnFailed(_) => RunEnd::NotStarted,
            Exit::Unknown => RunEnd::Unknown,
            Exit::Backgrounded => RunEnd::Backgrounded,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::lifecycle::Wish;
    use proctor_core::name::RunId;
    use proctor_core::wire::{LastExit, RunView};

    fn ring(events: u64) -> EventRing {
        let mut ring = EventRing { live: true, ..EventRing::default() };
        (0..events).for_each(|_| ring.push(None, EventKind::Configured));
        ring
    }

    #[track_caller]
    fn check(
        ring: &EventRing,
        from: ReadFrom,
        most: usize,
        numbers: &[u64],
        rest: (u64, u64, bool),
    ) {
        let page = ring.read(from, most, |_| true);
        let found: Vec<u64> = page.events.iter().map(|event| event.number).collect();
        assert_eq!((found.as_slice(), (page.next, page.missed, page.more)), (numbers, rest));
    }

    #[test]
    fn readers_go_on_where_they_were_and_hear_what_they_missed() {
        let small = ring(4);
        check(&small, ReadFrom::After(0), 10, &[1, 2, 3, 4], (4, 0, false));
        check(&small, ReadFrom::After(0), 2, &[1, 2], (2, 0, true));
        check(&small, ReadFrom::After(2), 2, &[3, 4], (4, 0, false));
        check(&small, ReadFrom::After(4), 2, &[], (4, 0, false));
        check(&small, ReadFrom::After(99), 2, &[], (4, 0, false));
        check(&small, ReadFrom::Last(0), 9, &[], (4, 0, false));
        check(&small, ReadFrom::Last(1), 9, &[4], (4, 0, false));
        check(&small, ReadFrom::Last(9), 9, &[1, 2, 3, 4], (4, 0, false));
        let full = ring(MAX_EVENTS as u64 + 7);
        assert_eq!(full.kept.len(), MAX_EVENTS);
        check(&full, ReadFrom::After(0), 1, &[8], (8, 7, true));
        check(&full, ReadFrom::After(7), 1, &[8], (8, 0, true));
        check(&ring(0), ReadFrom::After(0), 1, &[], (0, 0, false));
    }

    #[test]
    fn what_is_filtered_out_is_read_over() {
        let ring = ring(6);
        let even = |event: &Event| event.number.is_multiple_of(2);
        let page = ring.read(ReadFrom::After(0), 2, even);
        assert_eq!((page.events.len(), page.next, page.more), (2, 4, true));
        let page = ring.read(ReadFrom::After(page.next), 2, even);
        assert_eq!((page.events.len(), page.next, page.more), (1, 6, false));
        assert_eq!(ring.read(ReadFrom::Last(1), 9, even).events[0].number, 6);
    }

    #[test]
    fn a_crash_is_an_exit_and_a_new_state_and_news_without_a_change_is_none() {
        let run = RunView { id: RunId(1), pid: 7, started: Wall(0), cgroup: None };
        let up = ServiceState {
            name: ServiceName::parse("web").unwrap(),
            wish: Wish::Up,
            phase: PhaseView::Up { run },
            since: Wall(0),
            restarts: 0,
            last_exit: None,
        };
        let exit = LastExit { run: RunId(1), at: Wall(1), exit: Exit::Code(3) };
        let down = ServiceState { phase: PhaseView::Down, last_exit: Some(exit), ..up.clone() };
        let mut ring = ring(0);
        ring.state(None, &up);
        ring.state(Some(&up), &up);
        ring.state(Some(&up), &down);
        ring.state(Some(&down), &down);
        let all = ring.read(ReadFrom::After(0), 9, |_| true).events;
        let happened: Vec<EventKind> = all.into_iter().map(|event| event.what).collect();
        assert_eq!(
            happened,
            [
                EventKind::Phase { state: PhaseName::Running, pid: 7, restarts: 0 },
                EventKind::Exited(RunEnd::Code(3)),
                EventKind::Phase { state: PhaseName::Stopped, pid: 0, restarts: 0 },
            ]
        );
    }

    #[test]
    fn an_event_is_small() {
        assert_eq!(size_of::<Event>(), 48);
    }

    #[test]
    fn nothing_has_happened_before_it_is_live() {
        let mut ring = EventRing::default();
        ring.push(None, EventKind::Configured);
        assert_eq!(ring.read(ReadFrom::After(0), 9, |_| true).next, 0);
    }
}
