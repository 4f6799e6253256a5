//! Files that a new keeper trusts after a crash: whole and ours, or refused.

use crate::messages::name;
use proctor_core::lifecycle::{Event, Machine, Rules, Wish};
use proctor_core::name::RunId;
use proctor_core::record::{
    self, Body, BootId, IDENTITY_SIZE, Identity, RecordError, RunHeader, StoredEnv, StoredSpec,
    StoredState,
};
use proctor_core::spec::{
    Credentials, EnvId, ExecSpec, Limit, LogSpec, OnFull, OnShutdown, Policy, Resource,
    RestartSpec, ServiceSpec, StopSpec,
};
use proctor_core::time::{Millis, Mono, Now, Wall};
use std::fmt::Debug;

const NOW: Now = Now { mono: Mono(10_000_000), wall: Wall(1_763_193_600_000_000) };

/// A run record as it is, and with checksums that are right: damage alone is found by those.
pub(crate) fn run(bytes: &[u8]) {
    run_record(bytes);
    run_record(&summed(bytes));
}

fn run_record(bytes: &[u8]) {
    let Ok((header, identity)) = record::decode_run(bytes) else { return };
    let mut again = header.encode();
    if let Some(identity) = identity {
        again[..IDENTITY_SIZE].copy_from_slice(&identity.encode());
    }
    assert_eq!(bytes, again, "another record was read than was written: {header:?} {identity:?}");
    for length in 0..bytes.len() {
        assert!(record::decode_run(&bytes[..length]).is_err(), "cut to {length} bytes it was read");
    }
    assert!(record::decode_run(&[bytes, &[0]].concat()).is_err(), "a byte too many was read");
}

/// The same with the checksums that its content has.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if bytes.len() > IDENTITY_SIZE + 4 {
        let (identity, rest) = bytes.split_at_mut(IDENTITY_SIZE);
        if identity.iter().any(|byte| *byte != 0) {
            sum(identity);
        }
        sum(rest);
    }
    bytes
}

fn sum(part: &mut [u8]) {
    let (content, last) = part.split_at_mut(part.len() - 4);
    last.copy_from_slice(&crc32fast::hash(content).to_le_bytes());
}

/// The first byte chooses the kind; the rest is a file as it is, and the content of one.
pub(crate) fn sealed(bytes: &[u8]) {
    let Some((kind, bytes)) = crate::choice(bytes) else { return };
    match kind % 3 {
        0 => drop(sealed_as::<StoredSpec>(bytes)),
        1 => sealed_as::<StoredState>(bytes).into_iter().for_each(|found| goes_on(found.machine)),
        _ => drop(sealed_as::<StoredEnv>(bytes)),
    }
}

fn sealed_as<B: Body + Debug>(bytes: &[u8]) -> Option<B> {
    for found in [record::open::<B>(bytes), record::open::<B>(&envelope::<B>(bytes))] {
        let Ok(body) = found else { continue };
        let sealed = record::seal(&body).expect("what was read can be written");
        let again = record::open::<B>(&sealed).expect("what was written can be read");
        assert_eq!(sealed, record::seal(&again).expect("as before"), "{body:?}");
        for length in 0..sealed.len() {
            assert!(record::open::<B>(&sealed[..length]).is_err(), "cut to {length} it was read");
        }
    }
    let content = record::open::<B>(&envelope::<B>(bytes)).ok()?;
    let longer = record::open::<B>(&envelope::<B>(&[bytes, &[0]].concat()));
    assert_eq!(longer.err(), Some(RecordError::Damaged), "a byte behind the content was taken");
    Some(content)
}

/// A header that is right for this content.
fn envelope<B: Body>(content: &[u8]) -> Vec<u8> {
    let mut out = b"PRCT\x01\0".to_vec();
    out.extend(B::KIND.to_le_bytes());
    out.extend((content.len() as u32).to_le_bytes());
    out.extend(crc32fast::hash(content).to_le_bytes());
    out.extend(content);
    out
}

/// Whatever the state says, the machine takes the next events.
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

pub(crate) fn seeds_run() -> Vec<Vec<u8>> {
    let header = |cgroup: Option<&str>| {
        RunHeader { run: RunId(5 << 40), started: NOW.wall, cgroup: cgroup.map(Into::into) }
            .encode()
    };
    let identity =
        Identity { pid: 77, start_ticks: 1 << 40, pidfs_inode: 9, boot: BootId([7; 16]) };
    let mut whole = header(Some("/sys/fs/cgroup/proctor/web"));
    whole[..IDENTITY_SIZE].copy_from_slice(&identity.encode());
    vec![header(None), header(Some("/sys/x")), whole]
}

pub(crate) fn seeds_sealed() -> Vec<Vec<u8>> {
    let spec = StoredSpec(spec());
    let rules = Rules { restart: &spec.0.restart, grace: Millis(1000) };
    let mut machine = Machine::new(NOW);
    let mut states = vec![machine.clone(), Machine::found_running(NOW, RunId(3))];
    let run = machine.last_run().after(NOW.wall);
    for event in [
        Event::SetWish(Wish::Up),
        Event::Started { run },
        Event::Unhealthy { run },
        Event::TreeEmpty { run },
    ] {
        machine.handle(NOW, rules, event, &mut Vec::new());
        states.push(machine.clone());
    }
    let env = StoredEnv(vec![("A".into(), "b".into()), ("EMPTY".into(), String::new())]);
    let stored = |machine| StoredState { name: name("web"), machine };
    let sealed = [(0, record::seal(&spec)), (2, record::seal(&env))]
        .into_iter()
        .chain(states.into_iter().map(|machine| (1, record::seal(&stored(machine)))));
    let both = sealed.flat_map(|(kind, file)| {
        let file = file.expect("the seeds can be encoded");
        [[&[kind], file.as_slice()].concat(), [&[kind], &file[16..]].concat()]
    });
    both.collect()
}
