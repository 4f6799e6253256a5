//! The door of a process of its own: the unix socket of the daemon, which is started when it is needed and found again when
//! it was replaced.

use super::door::{Answer, Door, Speaker};
use crate::cli::Launch;
use crate::client::CallError;
use crate::protocol::{self, Claim, Cut, Lines, MAX_ANSWER, Request, Voice};
use proctor_core::home::Home;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::Effect;
use proctor_ops::table::Entry;
use proctor_sys::memory;
use serde_json::Value;
use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Connections that are kept for the next call. More are open only while more calls are under way.
const MOST_IDLE: usize = 2;

/// ... for this long: a conversation that pauses takes no place from others.
const KEPT_FOR: Duration = Duration::from_secs(20);

/// Nothing was asked for so long: a conversation of an assistant's pauses while it thinks, or for hours.
const RESTS_AFTER: Duration = Duration::from_secs(1);

/// Beyond an operation's own deadline: its answer is the one that should be seen.
const MARGIN: Duration = Duration::from_secs(10);

const READ_CHUNK: usize = 16 << 10;

/// The one shared daemon.
#[derive(Clone)]
pub(super) struct Remote(Arc<Shared>);

struct Shared {
    home: Home,
    launch: &'static dyn Launch,
    idle: Mutex<Vec<Connection>>,
    /// How many there were; tells whether there was one lately.
    calls: AtomicU64,
    /// Somebody sees to it that idle connections are closed.
    tidying: AtomicBool,
    /// Held by who looks for the daemon or starts it: the others find it then.
    reaching: tokio::sync::Mutex<()>,
}

struct Connection {
    stream: UnixStream,
    lines: Lines,
}

impl Remote {
    pub(super) fn new(home: Home, launch: &'static dyn Launch) -> Remote {
        Remote(Arc::new(Shared {
            home,
            launch,
            idle: Mutex::default(),
            calls: AtomicU64::new(0),
            tidying: AtomicBool::new(false),
            reaching: tokio::sync::Mutex::default(),
        }))
    }
}

impl Door for Remote {
    fn call(&self, speaker: &Speaker, entry: &'static Entry, input: Value) -> Answer {
        self.ask(speaker, entry, input, true)
    }

    fn glance(&self, speaker: &Speaker, entry: &'static Entry, input: Value) -> Answer {
        self.ask(speaker, entry, input, false)
    }
}

impl Remote {
    fn ask(
        &self,
        speaker: &Speaker,
        entry: &'static Entry,
        input: Value,
        launches: bool,
    ) -> Answer {
        let client = speaker.client.clone().map(String::from);
        let (shared, voice) = (Arc::clone(&self.0), Voice { front: Claim::Mcp, client });
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

/// Let go of memory, and later of connections, when nothing was asked for a while: there is one such process for each
/// conversation.
async fn tidy(shared: Arc<Shared>) {
    loop {
        let before = shared.calls.load(Ordering::Relaxed);
        tokio::time::sleep(RESTS_AFTER).await;
        if shared.calls.load(Ordering::Relaxed) != before {
            continue;
        }
        memory::give_back();
        memory::let_go_of_code();
        tokio::time::sleep(KEPT_FOR - RESTS_AFTER).await;
        if shared.calls.load(Ordering::Relaxed) == before {
            // Before the look: a call that comes now begins anew.
            shared.tidying.store(false, Ordering::Relaxed);
            shared.idle.lock().expect("nothing panics in between").clear();
            return;
        }
    }
}

impl Shared {
    /// Ask. A question is asked again if the connection is lost; a change never is.
    async fn call(
        &self,
        voice: &Voice,
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
            let error = OpError::new(Code::Timeout, "Proctor does not answer");
            Err(CallError::Refused(error.help("`proctor daemon status` tells how it is")))
        });
        // One that was not read to the end of its answer is of no use any more.
        let answer = asked?;
        self.keep(connection);
        match answer {
            protocol::Answer::Ok(value) => Ok(value),
            protocol::Answer::Error(error) => Err(CallError::Refused(error)),
            protocol::Answer::Page(_) | protocol::Answer::Follows(_) => Err(CallError::Refused(
                OpError::new(Code::Internal, "a page that nobody asked for"),
            )),
        }
    }

    /// A connection that is still open.
    fn kept(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().expect("nothing panics in between");
        while let Some(connection) = idle.pop() {
            // Nothing is to be read from it, unless it has ended.
            let ended = connection.stream.try_read(&mut [0]);
            if matches!(ended, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
                return Some(connection);
            }
        }
        None
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock().expect("nothing panics in between");
        if idle.len() < MOST_IDLE {
            idle.push(connection);
        }
    }

    /// A new connection; the daemon is started if none runs and that is wanted.
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
        // It may have refused us and closed: then its answer is still to be read.
        let sent = self.stream.write_all(line).await;
        if let Err(error) = sent
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Err(CallError::Lost);
        }
        loop {
            match self.lines.next(MAX_ANSWER) {
                Cut::Line(line) => {
                    return serde_json::from_slice(&line).map_err(|error| {
                        let message = format!("an answer that cannot be read: {error}");
                        CallError::Refused(OpError::new(Code::Internal, message))
                    });
                }
                Cut::TooLong => return Err(CallError::Lost),
                Cut::Unfinished => {}
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
