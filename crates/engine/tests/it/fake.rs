//! A fake keeper: it speaks the wire protocol, obeys without any process, and records every message.

use proctor_core::home::Home;
use proctor_core::lifecycle::{FailReason, Wish};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Wall;
use proctor_core::wire::{
    FromKeeper, PROTOCOL, PhaseView, Refusal, RunView, ServiceState, ToKeeper, Tracking, decode,
    encode,
};
use proctor_engine::api::{Engine, View};
use proctor_engine::daemon::{self, DaemonExit};
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream as StdStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, watch};

/// Nothing here takes long; only a failing test waits for it.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn name(text: &str) -> ServiceName {
    ServiceName::parse(text).unwrap()
}

pub(crate) fn names(texts: &[&str]) -> Vec<ServiceName> {
    texts.iter().map(|text| name(text)).collect()
}

pub(crate) fn run_view(id: u64) -> RunView {
    RunView { id: RunId(id), pid: u32::MAX, started: Wall(0), cgroup: None }
}

pub(crate) fn up(id: u64) -> PhaseView {
    PhaseView::Up { run: run_view(id) }
}

pub(crate) fn failed() -> PhaseView {
    PhaseView::Failed { why: FailReason::Exited }
}

pub(crate) fn state(service: &str, wish: Wish, phase: PhaseView) -> ServiceState {
    ServiceState { name: name(service), wish, phase, since: Wall(0), restarts: 0, last_exit: None }
}

/// A received message, and the content of `services.json` at that moment.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) message: ToKeeper,
    pub(crate) disk: Option<String>,
}

/// The behaviour of the fake, including faults.
#[derive(Default, Clone)]
pub(crate) struct Manners {
    /// Its services when the daemon connects.
    pub(crate) services: Vec<ServiceState>,
    /// It rejects definitions of these.
    pub(crate) refuses: Vec<ServiceName>,
    /// It receives requests and does not respond.
    pub(crate) mute: bool,
    /// It sends this protocol version instead of ours.
    pub(crate) protocol: Option<u32>,
    /// Reads this file at every message.
    pub(crate) disk: Option<PathBuf>,
    /// Sends a state after the response, in another write.
    pub(crate) answers_first: bool,
    /// Sends no state after a wish.
    pub(crate) silent_states: bool,
    /// Finishes a removal only when told to with [`Fake::say`].
    pub(crate) slow_removal: bool,
}

/// The test's handle to the fake.
#[derive(Clone)]
pub(crate) struct Fake {
    heard: Arc<Mutex<Vec<Heard>>>,
    count: watch::Receiver<usize>,
    say: mpsc::UnboundedSender<Option<FromKeeper>>,
}

struct Played {
    stream: UnixStream,
    manners: Manners,
    services: BTreeMap<ServiceName, ServiceState>,
    next_run: u64,
    heard: Arc<Mutex<Vec<Heard>>>,
    count: watch::Sender<usize>,
}

impl Fake {
    fn start(manners: Manners) -> (Fake, StdStream) {
        let (ours, theirs) = StdStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (sender, count) = watch::channel(0);
        let (say, words) = mpsc::unbounded_channel();
        let heard: Arc<Mutex<Vec<Heard>>> = Arc::default();
        let services = manners.services.iter().map(|s| (s.name.clone(), s.clone())).collect();
        let played = Played {
            stream: UnixStream::from_std(ours).unwrap(),
            manners,
            services,
            next_run: 1000,
            heard: Arc::clone(&heard),
            count: sender,
        };
        tokio::spawn(played.play(words));
        (Fake { heard, count, say }, theirs)
    }

    pub(crate) fn say(&self, message: FromKeeper) {
        self.say.send(Some(message)).unwrap();
    }

    /// Closes the socket, as a killed keeper does.
    pub(crate) fn die(&self) {
        self.say.send(None).unwrap();
    }

    /// All received messages.
    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The requests, without greeting and environments.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.heard().iter().filter_map(|heard| asked(&heard.message)).collect()
    }

    /// Waits until the requests satisfy `enough`.
    pub(crate) async fn until(&mut self, what: &str, enough: impl Fn(&[String]) -> bool) {
        let (heard, count) = (Arc::clone(&self.heard), &mut self.count);
        let reached = count.wait_for(|_| {
            let heard = heard.lock().unwrap();
            let asked: Vec<String> = heard.iter().filter_map(|h| asked(&h.message)).collect();
            enough(&asked)
        });
        let reached = tokio::time::timeout(DEADLINE, reached).await;
        let well = reached.is_ok_and(|reached| reached.is_ok());
        assert!(well, "{what}: heard {:?}", self.asked());
    }
}

/// A message as the test tables write it; `None` if it is not a request about a service.
fn asked(message: &ToKeeper) -> Option<String> {
    match message {
        ToKeeper::Hello { .. } | ToKeeper::Environment { .. } => None,
        ToKeeper::Define { spec, .. } => Some(format!("define {}", spec.name)),
        ToKeeper::Remove { name, .. } => Some(format!("remove {name}")),
        ToKeeper::SetWish { name, wish, .. } => Some(format!("{wish:?} {name}").to_lowercase()),
        ToKeeper::Restart { name, .. } => Some(format!("restart {name}")),
        ToKeeper::RestartWith { name, env, .. } => Some(format!("restart {name} with {env:?}")),
        ToKeeper::Signal { name, signal, .. } => Some(format!("signal {name} {signal}")),
        ToKeeper::Unhealthy { name, run } => Some(format!("unhealthy {name} {}", run.0)),
        ToKeeper::Shutdown { .. } => Some("shutdown".into()),
        ToKeeper::Upgrade { binary, .. } => Some(format!("upgrade {binary}")),
        ToKeeper::Unknown { .. } => Some("something unknown".into()),
    }
}

impl Played {
    async fn play(mut self, mut words: mpsc::UnboundedReceiver<Option<FromKeeper>>) {
        let mut buffer = Vec::new();
        loop {
            tokio::select! {
                word = words.recv() => match word.flatten() {
                    Some(message) => self.send(&[message]).await,
                    None => return,
                },
                read = self.stream.read_buf(&mut buffer) => {
                    if matches!(read, Ok(0) | Err(_)) {
                        return;
                    }
                    while let Some(message) = decode::<ToKeeper>(&mut buffer).unwrap() {
                        let answers = self.take(message);
                        if !self.manners.answers_first {
                            self.send(&answers).await;
                            continue;
                        }
                        for answer in answers {
                            self.send(&[answer]).await;
                            tokio::task::yield_now().await;
                        }
                    }
                }
            }
        }
    }

    async fn send(&mut self, messages: &[FromKeeper]) {
        let mut bytes = Vec::new();
        for message in messages {
            encode(message, &mut bytes).unwrap();
        }
        // The daemon may have left.
        self.stream.write_all(&bytes).await.ok();
    }

    fn take(&mut self, message: ToKeeper) -> Vec<FromKeeper> {
        let disk = self.manners.disk.as_ref().map(|path| std::fs::read_to_string(path).unwrap());
        self.heard.lock().unwrap().push(Heard { message: message.clone(), disk });
        let answers = self.react(message);
        self.count.send_modify(|count| *count += 1);
        answers
    }

    fn react(&mut self, message: ToKeeper) -> Vec<FromKeeper> {
        match message {
            ToKeeper::Hello { .. } => self.greet(),
            ToKeeper::Environment { .. }
            | ToKeeper::Unhealthy { .. }
            | ToKeeper::Unknown { .. } => Vec::new(),
            _ if self.manners.mute => Vec::new(),
            ToKeeper::Define { request, spec } => {
                if self.manners.refuses.contains(&spec.name) {
                    let refusal = Refusal::Failed("the disk is full".into());
                    return vec![FromKeeper::Reply { request, result: Err(refusal) }];
                }
                let service = spec.name.as_str();
                let fresh = || state(service, Wish::Down, PhaseView::Down);
                let known = self.services.entry(spec.name.clone()).or_insert_with(fresh).clone();
                vec![FromKeeper::State(Box::new(known)), reply(request)]
            }
            ToKeeper::Remove { request, name } => {
                if self.services.remove(&name).is_none() {
                    return vec![unknown(request, name)];
                }
                let mut answers = vec![reply(request)];
                answers
                    .extend((!self.manners.slow_removal).then_some(FromKeeper::Removed { name }));
                answers
            }
            ToKeeper::SetWish { request, name, wish } => self.set_wish(request, name, wish),
            ToKeeper::Restart { request, name } | ToKeeper::RestartWith { request, name, .. } => {
                self.set_wish(request, name, Wish::Up)
            }
            ToKeeper::Signal { request, .. } => vec![reply(request)],
            ToKeeper::Shutdown { request } => {
                vec![reply(request), FromKeeper::Ending { for_good: true }]
            }
            ToKeeper::Upgrade { request, .. } => {
                vec![reply(request), FromKeeper::Ending { for_good: false }]
            }
        }
    }

    fn greet(&self) -> Vec<FromKeeper> {
        let protocol = self.manners.protocol.unwrap_or(PROTOCOL);
        let services = self.services.len() as u32;
        let tracking = Tracking::Processes;
        let hello = FromKeeper::Hello { protocol, pid: 1, started: Wall(0), tracking, services };
        let states = self.services.values().map(|state| FromKeeper::State(Box::new(state.clone())));
        [hello].into_iter().chain(states).chain([FromKeeper::SnapshotEnd]).collect()
    }

    fn set_wish(&mut self, request: u64, name: ServiceName, wish: Wish) -> Vec<FromKeeper> {
        let Some(state) = self.services.get_mut(&name) else { return vec![unknown(request, name)] };
        self.next_run += 1;
        state.wish = wish;
        state.phase = match wish {
            Wish::Up | Wish::Once => up(self.next_run),
            Wish::Down => PhaseView::Down,
        };
        let state = FromKeeper::State(Box::new(state.clone()));
        if self.manners.silent_states {
            return vec![reply(request)];
        }
        if self.manners.answers_first {
            return vec![reply(request), state];
        }
        vec![state, reply(request)]
    }
}

fn reply(request: u64) -> FromKeeper {
    FromKeeper::Reply { request, result: Ok(()) }
}

fn unknown(request: u64, name: ServiceName) -> FromKeeper {
    FromKeeper::Reply { request, result: Err(Refusal::UnknownService(name)) }
}

/// A folder for one Proctor.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) home: Home,
}

impl Place {
    pub(crate) fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let home = Home { state: folder.path().to_owned(), runtime: folder.path().join("run") };
        Place { folder, home }
    }

    /// Writes a `services.json` there.
    pub(crate) fn stored(self, text: &str) -> Place {
        std::fs::write(self.home.services_json(), text).unwrap();
        self
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.home.services_json()).unwrap()).unwrap()
    }

    /// Runs a daemon with a fake keeper while `body` runs; then the keeper shuts down.
    pub(crate) async fn daemon(&self, manners: Manners, body: impl AsyncFnOnce(Engine, Fake)) {
        let (fake, socket) = Fake::start(manners);
        let serve = async |engine: Engine| {
            body(engine, fake.clone()).await;
            fake.say(FromKeeper::Ending { for_good: true });
        };
        let ending = daemon::run(self.home.clone(), socket, daemon::Listen::AtOnce, serve);
        let ending = tokio::time::timeout(DEADLINE, ending).await.expect("the daemon ends");
        assert_eq!(ending, DaemonExit::ForGood);
    }

    /// Runs a daemon whose end is up to the fake and `body`.
    pub(crate) async fn ending(
        &self,
        manners: Manners,
        body: impl AsyncFnOnce(Engine, Fake),
    ) -> DaemonExit {
        let (fake, socket) = Fake::start(manners);
        let serve = async |engine: Engine| {
            body(engine, fake).await;
            std::future::pending().await
        };
        let ending = daemon::run(self.home.clone(), socket, daemon::Listen::AtOnce, serve);
        tokio::time::timeout(DEADLINE, ending).await.expect("the daemon ends")
    }
}

/// Waits until the view satisfies `enough`.
pub(crate) async fn until(engine: &Engine, what: &str, enough: impl Fn(&View) -> bool) {
    let waiting = async {
        loop {
            let (seen, done) = engine.read(|view| (view.generation, enough(view)));
            if done {
                return;
            }
            engine.changed(seen).await;
        }
    };
    let reached = tokio::time::timeout(DEADLINE, waiting).await;
    assert!(reached.is_ok(), "{what}: {:#?}", engine.read(|view| format!("{view:?}")));
}
