//! The daemon's end of the socket to the keeper: frames out, frames in, and each response to its caller.
//!
//! Messages are processed strictly in the keeper's order: the news of a batch is in the registry before any
//! caller gets a response from that batch. The registry decides what the news means.

use crate::definition::Definition;
use crate::error::EngineError;
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use proctor_core::time::Wall;
use proctor_core::wire::{
    FromKeeper, Refusal, ServiceState, ToKeeper, Tracking, Whom, WireError, decode, encode,
};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Timeout of a request. The keeper responds in microseconds and never waits for a disk; after this long it
/// hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of frames waiting to be written. A caller with more waits for room.
const OUTBOX: usize = 1024;

/// Maximum number of frames joined into one write.
const WRITE_BATCH: usize = 64;

/// Small, because each message is removed from the front of the read buffer.
const READ_CHUNK: usize = 16 << 10;

/// A request that the keeper answers.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    Define(Arc<Definition>),
    Remove(ServiceName),
    Wish(ServiceName, Wish),
    /// With extra variables for the new run.
    Restart(ServiceName, Arc<[(String, String)]>),
    Signal(ServiceName, i32, Whom),
    Shutdown,
    Upgrade(String),
}

impl Ask {
    fn message(&self, request: u64) -> ToKeeper {
        match self {
            Ask::Define(definition) => {
                ToKeeper::Define { request, spec: Box::new(definition.spec().clone()) }
            }
            Ask::Remove(name) => ToKeeper::Remove { request, name: name.clone() },
            Ask::Wish(name, wish) => ToKeeper::SetWish { request, name: name.clone(), wish: *wish },
            Ask::Restart(name, env) if env.is_empty() => {
                ToKeeper::Restart { request, name: name.clone() }
            }
            Ask::Restart(name, env) => {
                ToKeeper::RestartWith { request, name: name.clone(), env: env.to_vec() }
            }
            Ask::Signal(name, signal, whom) => {
                ToKeeper::Signal { request, name: name.clone(), signal: *signal, whom: *whom }
            }
            Ask::Shutdown => ToKeeper::Shutdown { request },
            Ask::Upgrade(binary) => ToKeeper::Upgrade { request, binary: binary.clone() },
        }
    }

    /// The news for the registry after the keeper has accepted the request.
    fn news(&self) -> Option<KeeperEvent> {
        match self {
            Ask::Define(definition) => Some(KeeperEvent::Defined {
                name: definition.name().clone(),
                exec: definition.exec(),
            }),
            Ask::Remove(_)
            | Ask::Wish(..)
            | Ask::Restart(..)
            | Ask::Signal(..)
            | Ask::Shutdown
            | Ask::Upgrade(_) => None,
        }
    }
}

/// A change for the registry, in the keeper's order.
#[derive(Debug)]
pub(crate) enum KeeperEvent {
    Hello {
        protocol: u32,
        pid: u32,
        started: Wall,
        tracking: Tracking,
    },
    State(Box<ServiceState>),
    SnapshotEnd,
    Removed(ServiceName),
    /// New runs use this exec part from now on.
    Defined {
        name: ServiceName,
        exec: u64,
    },
    Ending {
        for_good: bool,
    },
}

/// Why the connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkClosed {
    #[error("the keeper closed the connection")]
    Gone,
    #[error("the keeper sent an invalid message: {0}")]
    Garbled(WireError),
}

/// The sending half; cheap to clone.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    outbox: mpsc::Sender<Vec<u8>>,
    next: AtomicU64,
    /// `None` after the connection is closed: no response will arrive.
    pending: Mutex<Option<HashMap<u64, Pending>>>,
}

/// The keeper's response to any request.
type Reply = Result<(), Refusal>;

struct Pending {
    answer: oneshot::Sender<Reply>,
    news: Option<KeeperEvent>,
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Option<HashMap<u64, Pending>>> {
        self.pending.lock().expect("nothing panics while it holds the pending answers")
    }
}

/// Takes over a connected socket. The returned future writes the messages; run it as long as the link is used.
pub(crate) fn open(
    stream: std::os::unix::net::UnixStream,
) -> io::Result<(Link, Incoming, impl Future<Output = ()> + Send + 'static)> {
    stream.set_nonblocking(true)?;
    let (read, write) = UnixStream::from_std(stream)?.into_split();
    let (outbox, frames) = mpsc::channel(OUTBOX);
    let pending = Mutex::new(Some(HashMap::new()));
    let shared = Arc::new(Shared { outbox, next: AtomicU64::new(1), pending });
    let incoming = Incoming { stream: read, buffer: Vec::new(), shared: Arc::clone(&shared) };
    Ok((Link { shared }, incoming, write_frames(write, frames)))
}

async fn write_frames(mut stream: OwnedWriteHalf, mut frames: mpsc::Receiver<Vec<u8>>) {
    let mut batch = Vec::with_capacity(WRITE_BATCH);
    while frames.recv_many(&mut batch, WRITE_BATCH).await > 0 {
        let bytes = batch.concat();
        batch.clear();
        if let Err(error) = stream.write_all(&bytes).await {
            // The reading half sees the end too and reports it.
            tracing::debug!(%error, "writing to the keeper failed");
            return;
        }
    }
}

impl Link {
    /// Sends a message that has no response.
    pub(crate) async fn tell(&self, message: &ToKeeper) -> Result<(), EngineError> {
        let mut frame = Vec::new();
        encode(message, &mut frame).map_err(|error| EngineError::Failed(error.to_string()))?;
        match timeout(ANSWER_TIMEOUT, self.shared.outbox.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(EngineError::KeeperGone),
        }
    }

    pub(crate) async fn ask(&self, ask: Ask) -> Result<(), EngineError> {
        let asked = self.send(&ask).await?;
        asked.answer(ANSWER_TIMEOUT).await
    }

    /// Sends many requests at once and returns the responses in the same order. All are sent, whatever the
    /// responses are. After one timeout the rest is not waited for: only responses that have already arrived
    /// count.
    pub(crate) async fn ask_all(&self, asks: Vec<Ask>) -> Vec<Result<(), EngineError>> {
        let mut sent = Vec::with_capacity(asks.len());
        let mut silent = false;
        for ask in &asks {
            let asked = if silent { Err(EngineError::KeeperGone) } else { self.send(ask).await };
            silent = matches!(asked, Err(EngineError::KeeperGone));
            sent.push(asked);
        }
        let mut patience = ANSWER_TIMEOUT;
        let mut answers = Vec::with_capacity(sent.len());
        for asked in sent {
            let answer = match asked {
                Ok(asked) => asked.answer(patience).await,
                Err(error) => Err(error),
            };
            if matches!(answer, Err(EngineError::KeeperGone)) {
                patience = Duration::ZERO;
            }
            answers.push(answer);
        }
        answers
    }

    async fn send(&self, ask: &Ask) -> Result<PendingRequest<'_>, EngineError> {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        let (answer, receiver) = oneshot::channel();
        match self.shared.pending().as_mut() {
            Some(pending) => pending.insert(id, Pending { answer, news: ask.news() }),
            None => return Err(EngineError::KeeperGone),
        };
        let asked = PendingRequest { id, receiver, shared: &self.shared };
        self.tell(&ask.message(id)).await?;
        Ok(asked)
    }
}

/// A request in flight. If it is dropped early, its response is ignored.
struct PendingRequest<'a> {
    id: u64,
    receiver: oneshot::Receiver<Reply>,
    shared: &'a Shared,
}

impl PendingRequest<'_> {
    async fn answer(mut self, patience: Duration) -> Result<(), EngineError> {
        match timeout(patience, &mut self.receiver).await {
            Ok(Ok(result)) => Ok(result?),
            Ok(Err(_)) | Err(_) => Err(EngineError::KeeperGone),
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let Some(pending) = self.shared.pending().as_mut() {
            pending.remove(&self.id);
        }
    }
}

/// The receiving half.
pub(crate) struct Incoming {
    stream: OwnedReadHalf,
    buffer: Vec<u8>,
    shared: Arc<Shared>,
}

/// Messages that arrived together. Put `news` into the registry, then drop the batch or call [`Batch::answer`].
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) news: Vec<KeeperEvent>,
    answers: Vec<(oneshot::Sender<Reply>, Reply)>,
}

impl Batch {
    pub(crate) fn answer(self) {
        for (asker, result) in self.answers {
            // The caller may be gone.
            asker.send(result).ok();
        }
    }
}

impl Incoming {
    /// Waits for the next messages.
    pub(crate) async fn next(&mut self) -> Result<Batch, LinkClosed> {
        loop {
            let batch = self.decode()?;
            if !batch.news.is_empty() || !batch.answers.is_empty() {
                return Ok(batch);
            }
            self.buffer.reserve(READ_CHUNK);
            let mut chunk = (&mut self.stream).take(READ_CHUNK as u64);
            match chunk.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => return Err(LinkClosed::Gone),
                Ok(_) => {}
            }
        }
    }

    fn decode(&mut self) -> Result<Batch, LinkClosed> {
        let mut batch = Batch::default();
        while let Some(message) =
            decode::<FromKeeper>(&mut self.buffer).map_err(LinkClosed::Garbled)?
        {
            match message {
                FromKeeper::Hello { protocol, pid, started, tracking, services: _ } => {
                    batch.news.push(KeeperEvent::Hello { protocol, pid, started, tracking });
                }
                FromKeeper::State(state) => batch.news.push(KeeperEvent::State(state)),
                FromKeeper::Unknown => {
                    tracing::debug!("the keeper sent a message that this daemon does not know");
                }
                FromKeeper::SnapshotEnd => batch.news.push(KeeperEvent::SnapshotEnd),
                FromKeeper::Removed { name } => batch.news.push(KeeperEvent::Removed(name)),
                FromKeeper::Reply { request, result } => self.reply(request, result, &mut batch),
                FromKeeper::Ending { for_good } => {
                    batch.news.push(KeeperEvent::Ending { for_good })
                }
            }
        }
        Ok(batch)
    }

    /// Drops a response that no caller waits for any more.
    fn reply(&self, request: u64, result: Reply, batch: &mut Batch) {
        let asked = self.shared.pending().as_mut().and_then(|pending| pending.remove(&request));
        let Some(Pending { answer, news }) = asked else { return };
        if result.is_ok() {
            batch.news.extend(news);
        }
        batch.answers.push((answer, result));
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // Fails all pending requests at once: no response will arrive.
        self.shared.pending().take();
    }
}
