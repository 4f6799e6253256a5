//! Files that a new keeper trusts after a crash: accepted if complete and valid, otherwise refused.

use crate::messages::name;
use proctor_core::lifecycle::{Event, Machine, Rules, Wish};
use proctor_core::name::RunId;
use proctor_core::record_encoding::{
    self, Body, BootId, IDENTITY_SIZE, Identity, OnceVariables, RecordError, SharedVariables,
};
use proctor_core::spec::{
    Credentials, EnvId, ExecSpec, Limit, LogSpec, OnFull, OnShutdown, Policy, Resource,
    RestartSpec, ServiceSpec, StopSpec,
};
use proctor_core::state_file::{self, Layout, RunHeader, StoredState};
use proctor_core::stored::StoredError;
use proctor_core::time::{Millis, Mono, Now, Wall};
use std::fmt::Debug;

const NOW: Now = Now { mono: Mono(10_000_000), wall: Wall(1_763_193_600_000_000) };

/// The formats that are read, by the number in a file's header.
const VERSIONS: [u16; 2] = [1, 2];

/// A state file as it is, and one with this content: damage alone is found by checksums.
pub(crate) fn state(bytes: &[u8]) {
    state_file(bytes);
    for version in VERSIONS {
        state_file(&file_with(version, bytes));
    }
}

fn state_file(bytes: &[u8]) {
    let Ok(found) = state_file::decode(bytes) else { return };
    let identity = found.identity.as_ref().ok().copied().flatten();
    let (_, anew) = Layout::create(&found.state, identity.map(|found| found.encode()).as_ref())
        .expect("what was read can be written");
    let again = state_file::decode(&anew).expect("what was written can be read");
    // Compared as written: an encoding may represent the same number in several ways.
    assert_eq!(
        anew,
        Layout::create(&again.state, identity.map(|found| found.encode()).as_ref())
            .expect("as before")
            .1
    );
    assert_eq!(again.identity, Ok(identity));
    let next = StoredState { run: None, ..found.state.clone() };
    if let Ok(Some(patch)) = found.layout.next(&next) {
        let mut file = bytes.to_vec();
        let at = usize::try_from(patch.offset).expect("a small file");
        file.resize(file.len().max(at + patch.bytes.len()), 0);
        file[at..at + patch.bytes.len()].copy_from_slice(&patch.bytes);
        if let Ok(patched) = state_file::decode(&file) {
            assert_eq!(patched.state.run, None, "the state that was written last counts");
        }
    }
    goes_on(found.state.machine);
}

/// A file with this content in its first place and valid checksums.
fn file_with(version: u16, content: &[u8]) -> Vec<u8> {
    let place = u32::try_from(content.len() + 16).expect("a small file");
    let mut out = b"PRST".to_vec();
    out.extend(version.to_le_bytes());
    out.extend([0; 2]);
    out.extend(place.to_le_bytes());
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out.extend(2u64.to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    let sum = crc32fast::hash(&[&2u64.to_le_bytes(), content].concat());
    out.extend(sum.to_le_bytes());
    out.extend(content);
    out.resize(out.len() + place as usize + IDENTITY_SIZE, 0);
    out
}

/// The first byte selects the kind; the rest is used as a file, and as the content of one.
pub(crate) fn sealed(bytes: &[u8]) {
    let Some((kind, bytes)) = crate::choice(bytes) else { return };
    match kind % 3 {
        0 => sealed_as::<ServiceSpec>(bytes),
        1 => sealed_as::<SharedVariables>(bytes),
        _ => sealed_as::<OnceVariables>(bytes),
    }
}

fn sealed_as<B: Body + Debug>(bytes: &[u8]) {
    let whole = [bytes.to_vec()].into_iter();
    for file in whole.chain(VERSIONS.map(|version| envelope::<B>(version, bytes))) {
        let Ok(body) = record_encoding::open::<B>(&file) else { continue };
        let sealed = record_encoding::seal(&body).expect("what was read can be written");
        let again = record_encoding::open::<B>(&sealed).expect("what was written can be read");
        assert_eq!(sealed, record_encoding::seal(&again).expect("as before"), "{body:?}");
        for length in 0..sealed.len() {
            assert!(
                record_encoding::open::<B>(&sealed[..length]).is_err(),
                "cut to {length} it was read"
            );
        }
    }
    for version in VERSIONS {
        if record_encoding::open::<B>(&envelope::<B>(version, bytes)).is_ok() {
            let longer =
                record_encoding::open::<B>(&envelope::<B>(version, &[bytes, &[0]].concat()));
            let trailing = RecordError::Body(StoredError::Trailing(1));
            assert_eq!(longer.err(), Some(trailing), "a byte after the content was accepted");
        }
    }
}

/// A valid header for this content.
fn envelope<B: Body>(version: u16, content: &[u8]) -> Vec<u8> {
    let mut out = b"PRCT".to_vec();
    out.extend(version.to_le_bytes());
    out.extend(B::KIND.to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    out.extend(crc32fast::hash(content).to_le_bytes());
    out.extend(content);
    out
}

/// The machine accepts further events in any decoded state.
fn goes_on(mut machine: Machine) {
    let spec = spec();
    let rules = Rules { restart: &spec.restart, grace: spec.stop.grace };
    let run = machine.run().unwrap_or(RunId(1));
    for event in [
        Event::Tick,
        Event::Started { run },
        Event::Unhealthy { run },
        Event::TreeEmpty { run },
        Event::Restart,
        Event::SetWish(Wish::Down),
        Event::TreeEmpty { run },
        Event::SetWish(Wish::Up),
    ] {
        let mut actions = Vec::new();
        machine.handle(NOW, rules, event, &mut actions);
        assert!(actions.len() < 8, "one event has many consequences: {actions:?}");
        machine.deadline();
    }
}

pub(crate) fn spec() -> ServiceSpec {
    ServiceSpec {
        name: name("web@2"),
        exec: ExecSpec {
            argv: vec!["/bin/sh".into(), "-c".into(), "exec serve".into()],
            env: vec![("PORT".into(), "3000".into())],
            base_env: EnvId(1 << 60),
            working_dir: "/srv".into(),
            credentials: Some(Credentials { uid: 1000, gid: 1000, groups: vec![4, 24] }),
            umask: Some(0o022),
            limits: vec![Limit { resource: Resource::OpenFiles, soft: Some(1024), hard: None }],
            nice: Some(-5),
            oom_score_adj: Some(500),
        },
        stop: StopSpec { signal: 15, grace: Millis(10_000), on_shutdown: OnShutdown::Leave },
        restart: RestartSpec {
            policy: Policy::OnFailure,
            success_codes: vec![0, 143],
            max_restarts: Some(5),
            window: Millis(60_000),
            delay: None,
            max_delay: Millis(30_000),
            backoff: 2.0,
            jitter: 0.1,
            stable_after: Millis(10_000),
            cool_off: Some(Millis(300_000)),
        },
        logs: LogSpec {
            segment_bytes: 16 << 20,
            max_age: None,
            max_segments: 5,
            max_total_bytes: 64 << 20,
            on_full: OnFull::Block,
        },
    }
}

pub(crate) fn seeds_state() -> Vec<Vec<u8>> {
    let spec = spec();
    let rules = Rules { restart: &spec.restart, grace: Millis(1000) };
    let mut machine = Machine::new(NOW);
    let mut machines = vec![machine.clone(), Machine::found_running(NOW, RunId(3))];
    let run = machine.last_run().after(NOW.wall);
    for event in [
        Event::SetWish(Wish::Up),
        Event::Started { run },
        Event::Unhealthy { run },
        Event::TreeEmpty { run },
    ] {
        machine.handle(NOW, rules, event, &mut Vec::new());
        machines.push(machine.clone());
    }
    let boot = BootId([7; 16]);
    let identity = Identity { pid: 77, start_ticks: 1 << 40, pidfs_inode: 9, boot, run };
    let header = RunHeader { run, started: NOW.wall, cgroup: Some("/sys/x".into()) };
    let files = machines.into_iter().flat_map(|machine| {
        let run = machine.run().map(|_| header.clone());
        let state = StoredState { name: name("web"), machine, run };
        let file = Layout::create(&state, Some(&identity.encode())).expect("it can be encoded").1;
        let content = content_of(&file);
        [file, content]
    });
    files.chain(released("state")).collect()
}

/// The newest state of a file that was just created.
fn content_of(file: &[u8]) -> Vec<u8> {
    let word = |at: usize| file.get(at..at + 4).and_then(|four| four.first_chunk());
    let word = |at: usize| word(at).map_or(0, |four| u32::from_le_bytes(*four) as usize);
    let place = 16 + word(8);
    file[place + 16..place + 16 + word(place + 8)].to_vec()
}

/// The files of this kind that each version wrote, from the fixtures of `proctor-core`.
fn released(kind: &str) -> Vec<Vec<u8>> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/fixtures");
    let folders = VERSIONS.map(|version| format!("{root}/v{version}/{kind}"));
    let files = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    files.flatten().filter_map(|file| std::fs::read(file.path()).ok()).collect()
}

pub(crate) fn seeds_sealed() -> Vec<Vec<u8>> {
    let env = SharedVariables(vec![("A".into(), "b".into()), ("EMPTY".into(), String::new())]);
    let once = OnceVariables { after: RunId(1 << 50), env: env.0.clone() };
    let sealed = [
        (0, record_encoding::seal(&spec())),
        (1, record_encoding::seal(&env)),
        (2, record_encoding::seal(&once)),
    ];
    let both = sealed.into_iter().flat_map(|(kind, file)| {
        let file = file.expect("the seeds can be encoded");
        [[&[kind], file.as_slice()].concat(), [&[kind], &file[16..]].concat()]
    });
    let kinds = ["spec", "env", "once"].into_iter().zip(0u8..);
    let released = kinds.flat_map(|(kind, number)| {
        released(kind).into_iter().map(move |file| [&[number], file.as_slice()].concat())
    });
    both.chain(released).collect()
}
