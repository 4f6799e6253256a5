//! A fake keeper, so operations run with a real engine: it has no processes and reports every wish as fulfilled.

use proctor_core::home::Home;
use proctor_core::lifecycle::Wish;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Wall;
use proctor_core::wire::{
    FromKeeper, PROTOCOL, PhaseView, RunView, ServiceState, ToKeeper, Tracking, decode, encode,
};
use proctor_engine::daemon;
use proctor_ops::operation::{Caller, Context};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

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

    /// Runs a daemon for the length of `body`.
    pub(crate) fn daemon(&self, body: impl AsyncFnOnce(Context)) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let end = Arc::new(Mutex::new(ours.try_clone().unwrap()));
        let keeper = std::thread::spawn(move || play(ours));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let home = self.home.clone();
        runtime.block_on(daemon::run(
            self.home.clone(),
            theirs,
            daemon::Listen::AtOnce,
            async |engine| {
                let binary = Path::new("/bin/true").to_owned();
                body(Context::new(engine, home, binary, Caller::local(0))).await;
                say(&mut end.lock().unwrap(), &FromKeeper::Ending { for_good: true });
            },
        ));
        drop(runtime);
        end.lock().unwrap().shutdown(std::net::Shutdown::Both).ok();
        keeper.join().unwrap();
    }

    /// Returns every line of the audit log.
    pub(crate) fn audit(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.home.audit().join("00000001.jsonl"));
        let text = text.unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn play(mut stream: UnixStream) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        bytes.extend_from_slice(&chunk[..count]);
        while let Some(message) = decode::<ToKeeper>(&mut bytes).unwrap() {
            for answer in answers(&message) {
                say(&mut stream, &answer);
            }
        }
    }
}

fn answers(message: &ToKeeper) -> Vec<FromKeeper> {
    let mut answers = Vec::new();
    let request = match message {
        ToKeeper::Hello { .. } => {
            let (protocol, tracking) = (PROTOCOL, Tracking::Processes);
            let (pid, started, services) = (1, Wall(0), 0);
            let hello = FromKeeper::Hello { protocol, pid, started, tracking, services };
            return vec![hello, FromKeeper::SnapshotEnd];
        }
        ToKeeper::Environment { .. } | ToKeeper::Unhealthy { .. } | ToKeeper::Unknown { .. } => {
            return Vec::new();
        }
        ToKeeper::Remove { request, name } => {
            answers.push(FromKeeper::Removed { name: name.clone() });
            *request
        }
        ToKeeper::SetWish { request, name, wish } => {
            answers.push(wished(*request, name, *wish));
            *request
        }
        ToKeeper::Restart { request, name } | ToKeeper::RestartWith { request, name, .. } => {
            answers.push(wished(*request, name, Wish::Up));
            *request
        }
        ToKeeper::Define { request, .. }
        | ToKeeper::Signal { request, .. }
        | ToKeeper::Shutdown { request }
        | ToKeeper::Upgrade { request, .. } => *request,
    };
    answers.push(FromKeeper::Reply { request, result: Ok(()) });
    answers
}

/// Each run has its own number, like each request.
fn wished(request: u64, name: &ServiceName, wish: Wish) -> FromKeeper {
    let run = RunView { id: RunId(request + 1), pid: u32::MAX, started: Wall(0), cgroup: None };
    let phase = match wish {
        Wish::Up | Wish::Once => PhaseView::Up { run },
        Wish::Down => PhaseView::Down,
    };
    FromKeeper::State(Box::new(ServiceState {
        name: name.clone(),
        wish,
        phase,
        since: Wall(0),
        restarts: 0,
        last_exit: None,
    }))
}

fn say(stream: &mut UnixStream, message: &FromKeeper) {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).unwrap();
    // The daemon may have ended.
    stream.write_all(&bytes).ok();
}
