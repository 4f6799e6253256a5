//! Values of every shape that is stored or sent: the fixtures of version 1 were written from these.

use proctor_core::lifecycle::{Event, Exit, FailReason, Machine, Rules, SpawnFailure, Wish};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record_encoding::{BootId, Identity};
use proctor_core::spec::{
    Credentials, EnvId, ExecSpec, Limit, LogSpec, OnFull, OnShutdown, Policy, Resource,
    RestartSpec, ServiceSpec, StopSpec,
};
use proctor_core::state_file::{RunHeader, StoredState};
use proctor_core::time::{Millis, Mono, Now, Wall};
use proctor_core::wire::{
    FromKeeper, LastExit, PhaseView, Refusal, RunView, ServiceState, ToKeeper, Tracking, Whom,
};

const NOW: Now = Now { mono: Mono(10_000_000), wall: Wall(1_763_193_600_000_000) };

pub(crate) fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).unwrap()
}

/// The identity at the end of each state file.
pub(crate) fn identity() -> Identity {
    let run = RunId(1_763_193_600_000_000);
    let boot = BootId(*b"0123456789abcdef");
    Identity { pid: 77, start_ticks: 1 << 40, pidfs_inode: 9, boot, run }
}

pub(crate) fn variables() -> Vec<(String, String)> {
    let pairs = [("PATH", "/usr/bin"), ("EMPTY", ""), ("NAME", "grün ✓"), ("PATH", "/bin")];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// A limit of each resource.
fn limits() -> Vec<Limit> {
    let resources = [
        Resource::AddressSpace,
        Resource::Core,
        Resource::Cpu,
        Resource::Data,
        Resource::FileSize,
        Resource::LockedMemory,
        Resource::OpenFiles,
        Resource::Processes,
        Resource::Stack,
    ];
    let limits = resources.into_iter().zip(0u64..).map(|(resource, at)| Limit {
        resource,
        soft: (at > 0).then_some(at << 40),
        hard: (at % 2 == 0).then_some(u64::MAX),
    });
    limits.collect()
}

/// A spec with every field.
fn full_spec() -> ServiceSpec {
    ServiceSpec {
        name: name("web@2"),
        exec: ExecSpec {
            argv: vec!["/bin/sh".into(), "-c".into(), "exec serve".into(), String::new()],
            env: variables(),
            base_env: EnvId(1 << 60),
            working_dir: "/srv/ü".into(),
            credentials: Some(Credentials { uid: 1000, gid: 1001, groups: vec![4, 24, u32::MAX] }),
            umask: Some(0o027),
            limits: limits(),
            nice: Some(-5),
            oom_score_adj: Some(500),
        },
        stop: StopSpec { signal: 15, grace: Millis(10_000), on_shutdown: OnShutdown::Leave },
        restart: RestartSpec {
            policy: Policy::OnFailure,
            success_codes: vec![0, 143, -1],
            max_restarts: Some(5),
            window: Millis(60_000),
            delay: Some(Millis(7)),
            max_delay: Millis(30_000),
            backoff: 1.5,
            jitter: 0.1,
            stable_after: Millis(10_001),
            cool_off: Some(Millis(300_000)),
        },
        logs: LogSpec {
            segment_bytes: 16 << 20,
            max_age: Some(Millis(86_400_000)),
            max_segments: 5,
            max_total_bytes: u64::MAX,
            on_full: OnFull::Block,
        },
    }
}

/// A spec with as few fields as there can be.
fn least_spec() -> ServiceSpec {
    ServiceSpec {
        name: name("a"),
        exec: ExecSpec {
            argv: vec!["x".into()],
            env: vec![],
            base_env: EnvId(0),
            working_dir: "/".into(),
            credentials: None,
            umask: None,
            limits: vec![],
            nice: None,
            oom_score_adj: None,
        },
        stop: StopSpec { signal: 0, grace: Millis(0), on_shutdown: OnShutdown::Stop },
        restart: RestartSpec {
            policy: Policy::Always,
            success_codes: vec![],
            max_restarts: None,
            window: Millis(0),
            delay: None,
            max_delay: Millis(0),
            backoff: 0.0,
            jitter: 0.0,
            stable_after: Millis(0),
            cool_off: None,
        },
        logs: LogSpec {
            segment_bytes: 0,
            max_age: None,
            max_segments: 0,
            max_total_bytes: 0,
            on_full: OnFull::Drop,
        },
    }
}

/// Specs with each choice of an enumeration.
pub(crate) fn specs() -> Vec<(&'static str, ServiceSpec)> {
    let (full, least) = (full_spec(), least_spec());
    let with = |policy| ServiceSpec {
        restart: RestartSpec { policy, ..full.restart.clone() },
        ..full.clone()
    };
    vec![
        ("never", with(Policy::Never)),
        ("one_shot", with(Policy::OneShot)),
        ("full", full),
        ("least", least),
    ]
}

/// A machine that these events led to, each a second after the one before.
fn machine(policy: Policy, cool_off: Option<Millis>, events: &[Event]) -> Machine {
    let spec = full_spec();
    let restart = RestartSpec { policy, cool_off, max_restarts: Some(1), ..spec.restart };
    let rules = Rules { restart: &restart, grace: Millis(5000) };
    let mut machine = Machine::new(NOW);
    for (event, second) in events.iter().zip(0u32..) {
        let later = Millis::seconds(u64::from(second));
        let wall = Wall(NOW.wall.0 + i64::from(second) * 1_000_000);
        let now = Now { mono: NOW.mono.plus(later), wall };
        machine.handle(now, rules, event.clone(), &mut Vec::new());
    }
    machine
}

fn exits(run: RunId, exit: Exit) -> Event {
    Event::Exited { run, exit, tree_empty: true }
}

/// Each phase that a service can be stored in, with each wish and each kind of exit.
pub(crate) fn states() -> Vec<(&'static str, StoredState)> {
    let run = identity().run;
    let up = || vec![Event::SetWish(Wish::Up), Event::Started { run }];
    let after = |more: &[Event]| [up(), more.to_vec()].concat();
    let always = |events: &[Event]| machine(Policy::Always, None, events);
    let never = |exit: Exit| machine(Policy::Never, None, &after(&[exits(run, exit)]));
    let failure = SpawnFailure { step: "run".into(), subject: "/no/such".into(), errno: 2 };
    let second = run.after(Wall(NOW.wall.0 + 3_000_000));
    let again = [exits(run, Exit::Code(1)), Event::Tick, exits(second, Exit::Unknown)];
    let leaves = Event::Exited { run, exit: Exit::Code(3), tree_empty: false };
    let late = [Event::SetWish(Wish::Down), Event::Tick, Event::Tick, Event::Tick, Event::Tick];
    let late = [&late[..], &[Event::Tick, Event::Tick]].concat();
    let signal = Exit::Signal { signal: 9, oom: true, core: false };
    let dumped = Exit::Signal { signal: 11, oom: false, core: true };
    let machines = vec![
        ("down", Machine::new(NOW)),
        ("starting", always(&up()[..1])),
        ("up", always(&up())),
        ("up_once", always(&[Event::SetWish(Wish::Once), Event::Started { run }])),
        ("stopping", always(&after(&[Event::SetWish(Wish::Down)]))),
        ("stopping_unhealthy", always(&after(&[Event::Unhealthy { run }]))),
        ("stopping_exited", always(&after(&[leaves]))),
        ("stopping_killed", always(&after(&late))),
        ("backoff", always(&after(&[exits(run, Exit::Code(1))]))),
        ("spent", always(&after(&again))),
        ("cooling", machine(Policy::Always, Some(Millis(60_000)), &after(&again))),
        ("failed", never(signal)),
        ("dumped", never(dumped)),
        ("unknown", never(Exit::Unknown)),
        ("unmade", never(Exit::SpawnFailed(Box::new(failure)))),
        ("backgrounded", never(Exit::Backgrounded)),
    ];
    let header = |machine: &Machine| {
        let cgroup = (machine.wish() != Wish::Once).then(|| "/sys/fs/cgroup/proctor/web".into());
        Some(RunHeader { run: machine.run()?, started: NOW.wall, cgroup })
    };
    let state = |(label, machine): (_, Machine)| {
        let run = header(&machine);
        (label, StoredState { name: name("web"), machine, run })
    };
    machines.into_iter().map(state).collect()
}

pub(crate) fn to_keeper(protocol: u32) -> Vec<(&'static str, ToKeeper)> {
    let (request, name) = (7, name("web@2"));
    let spec = full_spec();
    let wish = |wish| ToKeeper::SetWish { request, name: name.clone(), wish };
    let whom = |whom| ToKeeper::Signal { request, name: name.clone(), signal: 15, whom };
    vec![
        ("hello", ToKeeper::Hello { protocol, pid: 4242 }),
        ("environment", ToKeeper::Environment { id: EnvId(u64::MAX), vars: variables() }),
        ("define", ToKeeper::Define { request, spec: Box::new(spec) }),
        ("remove", ToKeeper::Remove { request, name: name.clone() }),
        ("wish_up", wish(Wish::Up)),
        ("wish_once", wish(Wish::Once)),
        ("wish_down", wish(Wish::Down)),
        ("restart", ToKeeper::Restart { request, name: name.clone() }),
        ("signal_main", whom(Whom::Main)),
        ("signal_tree", whom(Whom::Tree)),
        ("unhealthy", ToKeeper::Unhealthy { name: name.clone(), run: RunId(1 << 50) }),
        ("shutdown", ToKeeper::Shutdown { request }),
        ("upgrade", ToKeeper::Upgrade { request, binary: "/usr/bin/proctor".into() }),
        ("restart_with", ToKeeper::RestartWith { request, name: name.clone(), env: variables() }),
    ]
}

pub(crate) fn from_keeper(protocol: u32) -> Vec<(&'static str, FromKeeper)> {
    let run = || RunView {
        id: RunId(1 << 50),
        pid: 77,
        started: NOW.wall,
        cgroup: Some("/sys/fs/cgroup/proctor/web".into()),
    };
    let bare = RunView { cgroup: None, ..run() };
    let failure = SpawnFailure { step: "run".into(), subject: "/no/such".into(), errno: 2 };
    let state = |phase, exit: Option<Exit>| {
        let last_exit = exit.map(|exit| LastExit { run: RunId(4), at: Wall(6), exit });
        let (name, wish, since) = (name("web"), Wish::Up, Wall(-1));
        FromKeeper::State(Box::new(ServiceState {
            name,
            wish,
            phase,
            since,
            restarts: 2,
            last_exit,
        }))
    };
    let stopping = |kill_at, left| PhaseView::Stopping { run: run(), kill_at, left };
    let spent = FailReason::BudgetSpent { restarts: 5 };
    let reply = |result| FromKeeper::Reply { request: 1, result };
    let hello =
        |tracking| FromKeeper::Hello { protocol, pid: 9, started: NOW.wall, tracking, services: 2 };
    let signal = Exit::Signal { signal: 9, oom: true, core: false };
    vec![
        ("hello_v2", hello(Tracking::CgroupV2)),
        ("hello_hybrid", hello(Tracking::CgroupHybrid)),
        ("hello_processes", hello(Tracking::Processes)),
        ("down", state(PhaseView::Down, None)),
        ("held", state(PhaseView::Held, Some(Exit::Unknown))),
        ("backoff", state(PhaseView::Backoff { until: Mono(5) }, Some(Exit::Code(-3)))),
        ("starting", state(PhaseView::Starting { run: bare }, Some(Exit::Backgrounded))),
        ("up", state(PhaseView::Up { run: run() }, Some(signal))),
        ("stopping", state(stopping(Some(Mono(9)), 0), Some(Exit::SpawnFailed(Box::new(failure))))),
        ("stopping_killed", state(stopping(None, 3), None)),
        ("spent", state(PhaseView::Failed { why: spent }, None)),
        ("failed", state(PhaseView::Failed { why: FailReason::Exited }, None)),
        ("cooling", state(PhaseView::Cooling { until: Mono(u64::MAX) }, None)),
        ("snapshot_end", FromKeeper::SnapshotEnd),
        ("removed", FromKeeper::Removed { name: name("db") }),
        ("reply_ok", reply(Ok(()))),
        ("reply_unknown", reply(Err(Refusal::UnknownService(name("db"))))),
        ("reply_not_running", reply(Err(Refusal::NotRunning(name("db"))))),
        ("reply_shutting_down", reply(Err(Refusal::ShuttingDown))),
        ("reply_failed", reply(Err(Refusal::Failed("no room".into())))),
        ("ending", FromKeeper::Ending { for_good: true }),
        ("replaced", FromKeeper::Ending { for_good: false }),
    ]
}
