//! Messages between daemon and keeper: whole frames only, cut anywhere, and no bytes after a
//! message.

use proctor_core::lifecycle::{Exit, FailReason, SpawnFailure, Wish};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::spec::EnvId;
use proctor_core::time::{Mono, Wall};
use proctor_core::wire::{
    self, FromKeeper, LastExit, MAX_FRAME, Message, PhaseView, Refusal, RunView, ServiceState,
    ToKeeper, Tracking, Whom, WireError,
};
use std::fmt::Debug;

pub(crate) fn to_keeper(bytes: &[u8]) {
    check::<ToKeeper>(bytes);
}

pub(crate) fn from_keeper(bytes: &[u8]) {
    check::<FromKeeper>(bytes);
}

/// Checks the bytes unchanged, and as the content of one frame, so that not only the frame's length
/// is tested.
fn check<M: Message + Debug>(bytes: &[u8]) {
    let whole = all::<M>(&mut bytes.to_vec());
    let mut pieces = Vec::new();
    let mut found = Vec::new();
    let mut failure = None;
    for byte in bytes {
        pieces.push(*byte);
        if failure.is_none() {
            let (more, failed) = all::<M>(&mut pieces);
            found.extend(more);
            failure = failed;
        }
    }
    assert_eq!(told(&whole.0), told(&found), "what arrives depends on the pieces it comes in");
    assert_eq!(whole.1, failure);

    if all::<M>(&mut framed(bytes)).1.is_none() {
        let (_, failed) = all::<M>(&mut framed(&[bytes, &[0]].concat()));
        assert!(failed.is_some(), "a byte behind a message was not noticed");
    }
}

/// Decodes every message of the buffer; each round-trips through encoding.
fn all<M: Message + Debug>(buffer: &mut Vec<u8>) -> (Vec<M>, Option<WireError>) {
    let mut messages = Vec::new();
    loop {
        let before = buffer.len();
        match wire::decode::<M>(buffer) {
            Ok(None) => {
                assert!(buffer.len() < 4 + MAX_FRAME, "a frame that is complete was left");
                return (messages, None);
            }
            Err(error) => return (messages, Some(error)),
            Ok(Some(message)) => {
                assert!(buffer.len() < before, "a message that takes no bytes never ends");
                same_again(&message);
                messages.push(message);
            }
        }
    }
}

fn same_again<M: Message + Debug>(message: &M) {
    let mut bytes = Vec::new();
    wire::encode(message, &mut bytes).expect("what came in a frame fits one");
    let again = wire::decode::<M>(&mut bytes.clone()).expect("what was encoded can be decoded");
    let again = again.expect("a whole frame was written");
    let mut twice = Vec::new();
    wire::encode(&again, &mut twice).expect("what came in a frame fits one");
    assert_eq!(bytes, twice, "{message:?}");
}

fn told<M: Debug>(messages: &[M]) -> Vec<String> {
    messages.iter().map(|message| format!("{message:?}")).collect()
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_le_bytes(), body].concat()
}

/// Each as a frame, each as the content of one, and all in a row.
fn seeds_of<M: Message>(messages: &[M]) -> Vec<Vec<u8>> {
    let frame = |message: &M| {
        let mut bytes = Vec::new();
        wire::encode(message, &mut bytes).expect("the seeds are small");
        bytes
    };
    let frames: Vec<Vec<u8>> = messages.iter().map(frame).collect();
    let bodies = frames.iter().map(|frame| frame[4..].to_vec());
    bodies.chain([frames.concat()]).collect()
}

pub(crate) fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).expect("the seeds have names that are allowed")
}

pub(crate) fn seeds_to_keeper() -> Vec<Vec<u8>> {
    let (request, name) = (7, name("web@2"));
    let vars = vec![("PATH".into(), "/usr/bin".into()), ("EMPTY".into(), String::new())];
    let env = vars.clone();
    seeds_of(&[
        ToKeeper::Hello { protocol: wire::PROTOCOL, pid: 4242 },
        ToKeeper::Environment { id: EnvId(u64::MAX), vars },
        ToKeeper::Define { request, spec: Box::new(crate::records::spec()) },
        ToKeeper::Remove { request, name: name.clone() },
        ToKeeper::SetWish { request, name: name.clone(), wish: Wish::Once },
        ToKeeper::Restart { request, name: name.clone() },
        ToKeeper::Signal { request, name: name.clone(), signal: 15, whom: Whom::Tree },
        ToKeeper::Unhealthy { name: name.clone(), run: RunId(1 << 50) },
        ToKeeper::Shutdown { request },
        ToKeeper::Upgrade { request, binary: "/usr/bin/proctor".into() },
        ToKeeper::RestartWith { request, name, env },
        ToKeeper::Unknown { request: Some(request) },
    ])
}

pub(crate) fn seeds_from_keeper() -> Vec<Vec<u8>> {
    let run = || RunView {
        id: RunId(1 << 50),
        pid: 77,
        started: Wall(1_763_193_600_000_000),
        cgroup: Some("/sys/fs/cgroup/proctor/web".into()),
    };
    let failure = SpawnFailure { step: "run".into(), subject: "/no/such".into(), errno: 2 };
    let exits = [
        Exit::Code(3),
        Exit::Signal { signal: 9, oom: true, core: false },
        Exit::SpawnFailed(Box::new(failure)),
        Exit::Unknown,
        Exit::Backgrounded,
    ];
    let phases = [
        PhaseView::Down,
        PhaseView::Backoff { until: Mono(5) },
        PhaseView::Starting { run: run() },
        PhaseView::Up { run: run() },
        PhaseView::Stopping { run: run(), kill_at: Some(Mono(9)), left: 3 },
        PhaseView::Failed { why: FailReason::BudgetSpent { restarts: 5 } },
        PhaseView::Cooling { until: Mono(u64::MAX) },
    ];
    let state = |(at, phase): (usize, PhaseView)| {
        FromKeeper::State(Box::new(ServiceState {
            name: name("web"),
            wish: Wish::Up,
            phase,
            since: Wall(-1),
            restarts: 2,
            last_exit: exits.get(at).map(|exit| LastExit {
                run: RunId(4),
                at: Wall(6),
                exit: exit.clone(),
            }),
        }))
    };
    let reply = |result| FromKeeper::Reply { request: 1, result };
    let mut messages: Vec<FromKeeper> = phases.into_iter().enumerate().map(state).collect();
    messages.extend([
        FromKeeper::Hello {
            protocol: wire::PROTOCOL,
            pid: 9,
            started: Wall(1),
            tracking: Tracking::CgroupHybrid,
            services: 2,
        },
        FromKeeper::SnapshotEnd,
        FromKeeper::Removed { name: name("db") },
        reply(Ok(())),
        reply(Err(Refusal::UnknownService(name("db")))),
        reply(Err(Refusal::Failed("no room".into()))),
        FromKeeper::Ending { for_good: true },
    ]);
    seeds_of(&messages)
}
