//! Messages from keeper to daemon. Each kind is a field: an older daemon sees one that it does not know as no kind at all, and
//! goes on without it.

use super::machine::{PhaseKind, StoredLastExit, fail_reason, spent_restarts};
use super::{Numbered, StoredError, owned, required, service_name, v1};
use crate::lifecycle::Wish;
use crate::name::RunId;
use crate::time::{Mono, Wall};
use crate::wire::{
    FromKeeper, LastExit, Message, PhaseView, Refusal, RunView, ServiceState, Tracking,
};
use minicbor::{Decode, Encode};
use std::borrow::Cow;

#[derive(Default, Encode, Decode)]
#[cbor(map)]
struct Frame<'a> {
    #[n(1)]
    hello: Option<Hello>,
    #[b(2)]
    state: Option<State<'a>>,
    #[n(3)]
    snapshot_end: Option<SnapshotEnd>,
    #[b(4)]
    removed: Option<Removed<'a>>,
    #[b(5)]
    reply: Option<Reply<'a>>,
    #[n(6)]
    ending: Option<Ending>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Hello {
    #[n(0)]
    protocol: u32,
    #[n(1)]
    pid: u32,
    #[n(2)]
    started: i64,
    #[n(3)]
    tracking: u32,
    #[n(4)]
    services: u32,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct State<'a> {
    #[b(0)]
    name: &'a str,
    #[n(1)]
    wish: u32,
    #[b(2)]
    phase: Phase<'a>,
    #[n(3)]
    since: i64,
    #[n(4)]
    restarts: u64,
    #[b(5)]
    last_exit: Option<StoredLastExit<'a>>,
}

/// The kind says which of the fields there are.
#[derive(Encode, Decode)]
#[cbor(map)]
struct Phase<'a> {
    #[n(0)]
    kind: u32,
    #[b(1)]
    run: Option<Run<'a>>,
    #[n(2)]
    until: Option<u64>,
    #[n(3)]
    kill_at: Option<u64>,
    #[n(4)]
    left: Option<u32>,
    #[n(5)]
    spent_restarts: Option<u32>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Run<'a> {
    #[n(0)]
    id: u64,
    #[n(1)]
    pid: u32,
    #[n(2)]
    started: i64,
    #[b(3)]
    cgroup: Option<&'a str>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct SnapshotEnd {}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Removed<'a> {
    #[b(0)]
    name: &'a str,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Reply<'a> {
    #[n(0)]
    request: u64,
    #[b(1)]
    refusal: Option<StoredRefusal<'a>>,
}

/// A kind that this version does not know is read as its text.
#[derive(Encode, Decode)]
#[cbor(map)]
struct StoredRefusal<'a> {
    #[n(0)]
    kind: u32,
    #[b(1)]
    text: Cow<'a, str>,
    #[b(2)]
    service: Option<&'a str>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct Ending {
    #[n(0)]
    for_good: bool,
}

impl Message for FromKeeper {
    fn encode_into(&self, out: &mut Vec<u8>) {
        super::encode_into(&Frame::from(self), out);
    }

    fn decode(bytes: &[u8]) -> Result<FromKeeper, StoredError> {
        if v1::is_message(bytes) {
            return v1::hello_from_keeper(bytes);
        }
        super::decode::<Frame<'_>>(bytes)?.try_into()
    }
}

impl<'a> From<&'a FromKeeper> for Frame<'a> {
    fn from(message: &'a FromKeeper) -> Frame<'a> {
        let empty = Frame::default();
        match message {
            FromKeeper::Hello { protocol, pid, started, tracking, services } => {
                let (protocol, pid, services) = (*protocol, *pid, *services);
                let (started, tracking) = (started.0, tracking.number());
                let hello = Hello { protocol, pid, started, tracking, services };
                Frame { hello: Some(hello), ..empty }
            }
            FromKeeper::State(state) => Frame { state: Some(state.as_ref().into()), ..empty },
            FromKeeper::SnapshotEnd => Frame { snapshot_end: Some(SnapshotEnd {}), ..empty },
            FromKeeper::Removed { name } => {
                Frame { removed: Some(Removed { name: name.as_str() }), ..empty }
            }
            FromKeeper::Reply { request, result } => {
                let refusal = result.as_ref().err().map(StoredRefusal::from);
                Frame { reply: Some(Reply { request: *request, refusal }), ..empty }
            }
            FromKeeper::Ending { for_good } => {
                Frame { ending: Some(Ending { for_good: *for_good }), ..empty }
            }
            FromKeeper::Unknown => empty,
        }
    }
}

impl TryFrom<Frame<'_>> for FromKeeper {
    type Error = StoredError;

    fn try_from(frame: Frame<'_>) -> Result<FromKeeper, StoredError> {
        Ok(match frame {
            Frame { hello: Some(hello), .. } => FromKeeper::Hello {
                protocol: hello.protocol,
                pid: hello.pid,
                started: Wall(hello.started),
                tracking: Tracking::from_number(hello.tracking)?,
                services: hello.services,
            },
            Frame { state: Some(state), .. } => FromKeeper::State(Box::new(state.try_into()?)),
            Frame { snapshot_end: Some(SnapshotEnd {}), .. } => FromKeeper::SnapshotEnd,
            Frame { removed: Some(Removed { name }), .. } => {
                FromKeeper::Removed { name: service_name(name)? }
            }
            Frame { reply: Some(Reply { request, refusal }), .. } => {
                let result = match refusal {
                    None => Ok(()),
                    Some(refusal) => Err(refusal.try_into()?),
                };
                FromKeeper::Reply { request, result }
            }
            Frame { ending: Some(Ending { for_good }), .. } => FromKeeper::Ending { for_good },
            Frame { .. } => FromKeeper::Unknown,
        })
    }
}

impl<'a> From<&'a ServiceState> for State<'a> {
    fn from(state: &'a ServiceState) -> State<'a> {
        State {
            name: state.name.as_str(),
            wish: state.wish.number(),
            phase: Phase::from(&state.phase),
            since: state.since.0,
            restarts: state.restarts,
            last_exit: state.last_exit.as_ref().map(StoredLastExit::from),
        }
    }
}

impl TryFrom<State<'_>> for ServiceState {
    type Error = StoredError;

    fn try_from(sent: State<'_>) -> Result<ServiceState, StoredError> {
        Ok(ServiceState {
            name: service_name(sent.name)?,
            wish: Wish::from_number(sent.wish)?,
            phase: sent.phase.try_into()?,
            since: Wall(sent.since),
            restarts: sent.restarts,
            last_exit: sent.last_exit.map(LastExit::from),
        })
    }
}

impl<'a> From<&'a PhaseView> for Phase<'a> {
    fn from(phase: &'a PhaseView) -> Phase<'a> {
        let of = |kind: PhaseKind| Phase {
            kind: kind.number(),
            run: phase.run().map(Run::from),
            until: None,
            kill_at: None,
            left: None,
            spent_restarts: None,
        };
        match phase {
            PhaseView::Down => of(PhaseKind::Down),
            PhaseView::Held => of(PhaseKind::Held),
            PhaseView::Backoff { until } => {
                Phase { until: Some(until.0), ..of(PhaseKind::Backoff) }
            }
            PhaseView::Starting { .. } => of(PhaseKind::Starting),
            PhaseView::Up { .. } => of(PhaseKind::Up),
            PhaseView::Stopping { kill_at, left, .. } => {
                let kill_at = kill_at.map(|at| at.0);
                Phase { kill_at, left: Some(*left), ..of(PhaseKind::Stopping) }
            }
            PhaseView::Failed { why } => {
                Phase { spent_restarts: spent_restarts(why), ..of(PhaseKind::Failed) }
            }
            PhaseView::Cooling { until } => {
                Phase { until: Some(until.0), ..of(PhaseKind::Cooling) }
            }
        }
    }
}

impl TryFrom<Phase<'_>> for PhaseView {
    type Error = StoredError;

    fn try_from(sent: Phase<'_>) -> Result<PhaseView, StoredError> {
        let until = || required(sent.until, "end of a wait").map(Mono);
        let run = || required(sent.run.as_ref(), "run").map(RunView::from);
        Ok(match PhaseKind::from_number(sent.kind)? {
            PhaseKind::Down => PhaseView::Down,
            PhaseKind::Held => PhaseView::Held,
            PhaseKind::Backoff => PhaseView::Backoff { until: until()? },
            PhaseKind::Starting => PhaseView::Starting { run: run()? },
            PhaseKind::Up => PhaseView::Up { run: run()? },
            PhaseKind::Stopping => PhaseView::Stopping {
                run: run()?,
                kill_at: sent.kill_at.map(Mono),
                left: sent.left.unwrap_or(0),
            },
            PhaseKind::Failed => PhaseView::Failed { why: fail_reason(sent.spent_restarts) },
            PhaseKind::Cooling => PhaseView::Cooling { until: until()? },
        })
    }
}

impl<'a> From<&'a RunView> for Run<'a> {
    fn from(run: &'a RunView) -> Run<'a> {
        let cgroup = run.cgroup.as_deref();
        Run { id: run.id.0, pid: run.pid, started: run.started.0, cgroup }
    }
}

impl From<&Run<'_>> for RunView {
    fn from(sent: &Run<'_>) -> RunView {
        RunView {
            id: RunId(sent.id),
            pid: sent.pid,
            started: Wall(sent.started),
            cgroup: sent.cgroup.map(owned),
        }
    }
}

/// The kinds of refusal by number.
mod refusal_kind {
    pub(super) const UNKNOWN_SERVICE: u32 = 0;
    pub(super) const NOT_RUNNING: u32 = 1;
    pub(super) const SHUTTING_DOWN: u32 = 2;
    pub(super) const FAILED: u32 = 3;
}

impl<'a> From<&'a Refusal> for StoredRefusal<'a> {
    fn from(refusal: &'a Refusal) -> StoredRefusal<'a> {
        let (kind, service) = match refusal {
            Refusal::UnknownService(name) => (refusal_kind::UNKNOWN_SERVICE, Some(name)),
            Refusal::NotRunning(name) => (refusal_kind::NOT_RUNNING, Some(name)),
            Refusal::ShuttingDown => (refusal_kind::SHUTTING_DOWN, None),
            Refusal::Failed(_) => (refusal_kind::FAILED, None),
        };
        let text = refusal.to_string().into();
        StoredRefusal { kind, text, service: service.map(|name| name.as_str()) }
    }
}

impl TryFrom<StoredRefusal<'_>> for Refusal {
    type Error = StoredError;

    fn try_from(sent: StoredRefusal<'_>) -> Result<Refusal, StoredError> {
        let service = || service_name(required(sent.service, "service")?);
        Ok(match sent.kind {
            refusal_kind::UNKNOWN_SERVICE => Refusal::UnknownService(service()?),
            refusal_kind::NOT_RUNNING => Refusal::NotRunning(service()?),
            refusal_kind::SHUTTING_DOWN => Refusal::ShuttingDown,
            _ => Refusal::Failed(sent.text.into_owned()),
        })
    }
}

impl Numbered for Tracking {
    const WHAT: &'static str = "way to find processes";
    const ALL: &'static [Tracking] =
        &[Tracking::CgroupV2, Tracking::CgroupHybrid, Tracking::Processes];

    fn number(self) -> u32 {
        match self {
            Tracking::CgroupV2 => 0,
            Tracking::CgroupHybrid => 1,
            Tracking::Processes => 2,
        }
    }
}
