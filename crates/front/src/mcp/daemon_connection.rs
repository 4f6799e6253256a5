//! OperationCaller of a separate process: the unix socket of the daemon, which is started on demand and found again after it was replaced.

use super::operation_caller::{Answer, OperationCaller, RequestCaller};
use crate::cli::Launch;
use crate::client::CallError;
use crate::protocol::{self, ClientIdentity, ClientKind, CutLine, Lines, MAX_ANSWER, Request};
use proctor_core::home::Home;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::Effect;
use proctor_ops::table::Entry;
use proctor_sys::allocator;
use serde_json::Value;
use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Maximum idle connections kept for the next call.
const MAX_IDLE_CONNECTIONS: usize = 2;

/// Maximum idle time of a connection, so a paused conversation takes no slot from others.
const KEPT_FOR: Duration = Duration::from_secs(20);

/// Idle time after which memory is given back: an assistant pauses while it thinks, or for hours.
const RESTS_AFTER: Duration = Duration::from_secs(1);

/// Time beyond an operation's own timeout, so the operation's error is reported first.
const MARGIN: Duration = Duration::from_secs(10);

const READ_CHUNK: usize = 16 << 10;

/// OperationCaller to the one shared daemon.
#[derive(Clone)]
pub(super) struct DaemonConnection(Arc<Shared>);

struct Shared {
    home: Home,
    launch: &'static dyn Launch,
    idle: Mutex<Vec<Connection>>,
    /// Number of calls; shows whether there was one recently.
    calls: AtomicU64,
    /// True while a task closes idle connections.
    tidying: AtomicBool,
    /// Held by the call that finds or starts the daemon; the others wait and find it.
    reaching: tokio::sync::Mutex<()>,
}

struct Connection {
    stream: UnixStream,
    lines: Lines,
}

impl DaemonConnection {
    pub(super) fn new(home: Home, launch: &'static dyn Launch) -> DaemonConnection {
        DaemonConnection(Arc::new(Shared {
            home,
            launch,
            idle: Mutex::default(),
            calls: AtomicU64::new(0),
            tidying: AtomicBool::new(false),
            reaching: tokio::sync::Mutex::default(),
        }))
    }
}

impl OperationCaller for DaemonConnection {
    fn call(&self, speaker: &RequestCaller, entry: &'static Entry, input: Value) -> Answer {
        self.ask(speaker, entry, input, true)
    }

    fn glance(&self, speaker: &RequestCaller, entry: &'static Entry, input: Value) -> Answer {
        self.ask(speaker, entry, input, false)
    }
}

impl DaemonConnection {
    fn ask(
        &self,
        speaker: &RequestCaller,
        entry: &'static Entry,
        input: Value,
        launches: bool,
    ) -> Answer {
        let client = speaker.client.clone().map(String::from);
        let (shared, voice) =
            (Arc::clone(&self.0), ClientIdentity { front: ClientKind::Mcp, client });
        Box::pin(async move {
            let answer = shared.call(&voice, entry, &input, launches).await;
            shared.calls.fetch_add(1, Ordering::Relaxed);
            if !shared.tidying.swap(true, Ordering::Relaxed) {
                tokio::spawn(tidy(Arc::clone(&shared)));
            }
            answer
        })
    }
}

/// Gives memory back, and later closes connections, after a pause: there is one such process for each conversation.
async fn tidy(shared: Arc<Shared>) {
    loop {
        let before = shared.calls.load(Ordering::Relaxed);
        tokio::time::sleep(RESTS_AFTER).await;
        if shared.calls.load(Ordering::Relaxed) != before {
            continue;
        }
        allocator::give_back();
        allocator::let_go_of_code();
        tokio::time::sleep(KEPT_FOR - RESTS_AFTER).await;
        if shared.calls.load(Ordering::Relaxed) == before {
            // Before the check, so a call that comes now starts a new task.
            shared.tidying.store(false, Ordering::Relaxed);
            shared.idle.lock().expect("nothing panics in between").clear();
            return;
        }
    }
}

impl Shared {
    /// Sends a request. A read is retried if the connection is lost; a change never is.
    async fn call(
        &self,
        voice: &ClientIdentity,
        entry: &'static Entry,
        input: &Value,
        launches: bool,
    ) -> Result<Value, OpError> {
        let request = Request {
            op: Cow::Borrowed(entry.meta.name),
            input: Cow::Borrowed(input),
            page: None,
            voice: Some(Cow::Borrowed(voice)),
        };
        let mut line = serde_json::to_vec(&request)
            .map_err(|error| OpError::new(Code::Internal, format!("cannot encode: {error}")))?;
        line.push(b'\n');
        let limit = entry.meta.timeout + MARGIN;
        match self.ask(&line, limit, launches).await {
            Err(CallError::Lost) if entry.meta.effect == Effect::Read => {
                Ok(self.ask(&line, limit, launches).await?)
            }
            answer => Ok(answer?),
        }
    }

    async fn ask(&self, line: &[u8], limit: Duration, launches: bool) -> Result<Value, CallError> {
        let mut connection = match self.kept() {
            Some(connection) => connection,
            None => self.reach(launches).await.map_err(CallError::Refused)?,
        };
        let asked = timeout(limit, connection.ask(line)).await.unwrap_or_else(|_| {
            let error = OpError::new(Code::Timeout, "Proctor does not respond");
            Err(CallError::Refused(error.help("check it with `proctor daemon status`")))
        });
        // A connection with an unread response cannot be reused.
        let answer = asked?;
        self.keep(connection);
        match answer {
            protocol::Answer::Ok(value) => Ok(value),
            protocol::Answer::Error(error) => Err(CallError::Refused(error)),
            protocol::Answer::Page(_) | protocol::Answer::Follows(_) => Err(CallError::Refused(
                OpError::new(Code::Internal, "the response is a page that was not requested"),
            )),
        }
    }

    /// Returns an idle connection that is still open.
    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().expect("nothing panics in between");
        while let Some(connection) = idle.pop() {
            // It has nothing to read, unless it was closed.
            let ended = connection.stream.try_read(&mut [0]);
            if matches!(ended, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().expect("nothing panics in between");
        if idle.len() < MAX_IDLE_CONNECTIONS {
            idle.push(connection);
        }
    }

    /// Opens a connection; starts the daemon if none runs and `launches` is set.
    async fn reach(&self, launches: bool) -> Result<Connection, OpError> {
        let _one_at_a_time = self.reaching.lock().await;
        let (home, launch) = (self.home.clone(), self.launch);
        let found =
            tokio::task::spawn_blocking(move || crate::cli::reach(home, launch, launches)).await;
        let failed = |error: &dyn std::fmt::Display| {
            OpError::new(Code::Unavailable, format!("cannot reach Proctor: {error}"))
        };
        let stream = found.map_err(|error| failed(&error))??;
        stream.set_nonblocking(true).map_err(|error| failed(&error))?;
        let stream = UnixStream::from_std(stream).map_err(|error| failed(&error))?;
        Ok(Connection { stream, lines: Lines::default() })
    }
}

impl Connection {
    async fn ask(&mut self, line: &[u8]) -> Result<protocol::Answer, CallError> {
        // The server may have refused us and closed; its response can still be read.
        let sent = self.stream.write_all(line).await;
        if let Err(error) = sent
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(CallError::Lost);
        }
        loop {
            match self.lines.next(MAX_ANSWER) {
                CutLine::Line(line) => {
                    return serde_json::from_slice(&line).map_err(|error| {
                        let message = format!("cannot decode the response: {error}");
                        CallError::Refused(OpError::new(Code::Internal, message))
                    });
                }
                CutLine::TooLong => return Err(CallError::Lost),
                CutLine::Unfinished => {}
            }
            let buffer = self.lines.buffer();
            buffer.reserve(READ_CHUNK);
            match self.stream.read_buf(buffer).await {
                Ok(0) | Err(_) => return Err(CallError::Lost),
                Ok(_) => {}
            }
        }
    }
}
