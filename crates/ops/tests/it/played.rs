//! A keeper that is played, so that operations run against a real engine: it has no services and agrees to everything.

use proctor_core::home::Home;
use proctor_core::time::Wall;
use proctor_core::wire::{FromKeeper, PROTOCOL, ToKeeper, Tracking, decode, encode};
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

    /// Be a daemon here for the length of `body`.
    pub(crate) fn daemon(&self, body: impl AsyncFnOnce(Context)) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let end = Arc::new(Mutex::new(ours.try_clone().unwrap()));
        let keeper = std::thread::spawn(move || play(ours));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let home = self.home.clone();
        runtime.block_on(daemon::run(self.home.clone(), theirs, async |engine| {
            let binary = Path::new("/bin/true").to_owned();
            body(Context::new(engine, home, binary, Caller::local(0))).await;
            say(&mut end.lock().unwrap(), &FromKeeper::Ending { for_good: true });
        }));
        drop(runtime);
        end.lock().unwrap().shutdown(std::net::Shutdown::Both).ok();
        keeper.join().unwrap();
    }

    /// Every line of the audit.
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
    let request = match message {
        ToKeeper::Hello { .. } => {
            let (protocol, tracking) = (PROTOCOL, Tracking::Processes);
            let (pid, started, services) = (1, Wall(0), 0);
            let hello = FromKeeper::Hello { protocol, pid, started, tracking, services };
            return vec![hello, FromKeeper::SnapshotEnd];
        }
        ToKeeper::Environment { .. } | ToKeeper::Unhealthy { .. } => return Vec::new(),
        ToKeeper::Define { request, .. }
        | ToKeeper::Remove { request, .. }
        | ToKeeper::SetWish { request, .. }
        | ToKeeper::Restart { request, .. }
        | ToKeeper::RestartWith { request, .. }
        | ToKeeper::Signal { request, .. }
        | ToKeeper::Shutdown { request }
        | ToKeeper::Upgrade { request, .. } => *request,
    };
    vec![FromKeeper::Reply { request, result: Ok(()) }]
}

fn say(stream: &mut UnixStream, message: &FromKeeper) {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).unwrap();
    // The daemon may have left.
    stream.write_all(&bytes).ok();
}
