//! Server of the unix socket, inside the daemon.
//!
//! Only the owner of this Proctor and root may connect; the kernel identifies the caller. Requests of one connection are
//! answered in order, connections concurrently. A client that disconnects ends its own long poll. A change is finished in any
//! case: half a change would be worse than an unreported one.

use crate::listen::{ConnectionSlot, ConnectionSlots};
use crate::protocol::{self, CutLine, Lines, MAX_REQUEST, Request};
use crate::terminal_colors::paint;
use proctor_ops::dispatch::{dispatch, may_ask, refused};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Context, Effect, Principal};
use proctor_ops::reply::{Form, Reply};
use proctor_ops::table::{self, Entry};
use proctor_ops::timestamps;
use proctor_sys::allocator;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Maximum connections of one user; the owner and root each have as many. A follower or waiting command holds one. Beyond the
/// maximum, the connection that has been idle longest is closed.
const MAX_CONNECTIONS: usize = 256;

/// Timeout for a client to read its response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time after which an idle connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);

/// Size of a read. Requests are small; an environment takes a few reads.
const READ_CHUNK: usize = 8 << 10;

/// Minimum size of a response after which memory is given back.
const LARGE_ANSWER: usize = 128 << 10;

/// Pause after a failed accept (no descriptors left), so one can be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Receiver of requests: `ops`, or that of a test.
pub trait Dispatch: Send + Sync + 'static {
    fn dispatch(
        &self,
        caller: Caller,
        op: String,
        input: Value,
        form: Form,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, OpError>> + Send>>;

    /// Returns the principal of a token presented by `caller`.
    fn authenticate(&self, caller: Caller, presented: &str) -> Result<Principal, OpError>;

    /// Checks whether `caller` may perform the operation. `known` is the known part of the input; `dispatch` checks all of it.
    fn may_ask(&self, caller: &Caller, entry: &Entry, known: &Value) -> Result<(), OpError>;

    /// Waits until the token of `caller` becomes invalid; forever without a token.
    fn token_gone(&self, _caller: &Caller) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }

    /// Records a refusal of something that is not an operation; `what` names it in the audit log.
    fn turned_away(&self, caller: Caller, what: &'static str, error: &OpError);
}

impl Dispatch for Context {
    fn dispatch(
        &self,
        caller: Caller,
        op: String,
        input: Value,
        form: Form,
    ) -> Pin<Box<dyn Future<Output = Result<Reply, OpError>> + Send>> {
        let context = self.called_by(caller);
        Box::pin(async move { dispatch(&context, &op, input, form).await })
    }

    fn authenticate(&self, caller: Caller, presented: &str) -> Result<Principal, OpError> {
        self.called_by(caller).authenticate(presented)
    }

    fn may_ask(&self, caller: &Caller, entry: &Entry, known: &Value) -> Result<(), OpError> {
        may_ask(&self.called_by(caller.clone()), entry, known)
    }

    fn token_gone(&self, caller: &Caller) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let Principal::Token { id, .. } = &caller.principal else {
            return Box::pin(std::future::pending());
        };
        let (engine, id) = (self.engine.clone(), id.clone());
        Box::pin(async move { engine.token_gone(&id).await })
    }

    fn turned_away(&self, caller: Caller, what: &'static str, error: &OpError) {
        refused(&self.called_by(caller), what, &[], error);
    }
}

/// Serves clients until the future is dropped.
pub async fn serve(
    listener: std::os::unix::net::UnixListener,
    context: Context,
) -> io::Result<std::convert::Infallible> {
    serve_with(listener, Arc::new(context)).await
}

/// Serves clients and passes their requests to `dispatch`.
pub async fn serve_with(
    listener: std::os::unix::net::UnixListener,
    dispatch: Arc<dyn Dispatch>,
) -> io::Result<std::convert::Infallible> {
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    // Dropped with the serving future, which ends every connection.
    let mut connections = JoinSet::new();
    let mut seats: BTreeMap<u32, ConnectionSlots> = BTreeMap::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let peer = peer(&stream).map(|(uid, caller)| {
                        let seats = seats.entry(uid).or_insert_with(|| ConnectionSlots::of(MAX_CONNECTIONS));
                        (caller, seats.take())
                    });
                    connections.spawn(connection(stream, peer, dispatch.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(
    stream: UnixStream,
    peer: Result<(Caller, Option<ConnectionSlot>), OpError>,
    dispatch: Arc<dyn Dispatch>,
) {
    let (read, mut write) = stream.into_split();
    let (caller, seat) = match peer {
        Ok((caller, Some(seat))) => (caller, seat),
        Ok((_, None)) => {
            let error = OpError::new(Code::Busy, "too many connections").help("retry in a moment");
            let _ = refuse(&mut write, error).await;
            return;
        }
        Err(error) => {
            let _ = refuse(&mut write, error).await;
            return;
        }
    };
    let mut incoming = ReceiveBuffer { stream: read, lines: Lines::default(), large: false };
    // The client is gone or does not read, so there is no receiver for an error.
    let _ = requests(&mut incoming, &mut write, (&caller, &seat), dispatch.as_ref()).await;
    if incoming.large {
        allocator::give_back();
    }
}

/// Identifies the peer: the owner of this process, or root.
fn peer(stream: &UnixStream) -> Result<(u32, Caller), OpError> {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred().map(|credentials| credentials.uid()) {
        Ok(uid) if uid == own || uid == 0 => Ok((uid, Caller::local(uid))),
        Ok(uid) => {
            Err(OpError::new(Code::Forbidden, format!("user {uid} may not use this Proctor"))
                .help("only its owner and root may"))
        }
        Err(_) => Err(OpError::new(Code::Forbidden, "cannot identify the caller")),
    }
}

async fn requests(
    incoming: &mut ReceiveBuffer,
    write: &mut OwnedWriteHalf,
    (caller, seat): (&Caller, &ConnectionSlot),
    dispatch: &dyn Dispatch,
) -> io::Result<()> {
    loop {
        let line = tokio::select! {
            line = timeout(IDLE_TIMEOUT, incoming.line()) => line,
            _ = seat.leave() => return Ok(()),
        };
        let Ok(line) = line else { return Ok(()) };
        let busy = seat.busy();
        let request = match line? {
            Line::End => return Ok(()),
            Line::TooLong => {
                let error = OpError::bad_input(format!(
                    "the request is too large: the maximum is {MAX_REQUEST} bytes"
                ));
                return refuse(write, error).await;
            }
            Line::Whole(line) => Request::parse(&line).map(Request::owned),
        };
        let (mut form, mut bytes) = (Form::Json, false);
        let result = match request {
            Err(error) => Err(error),
            Ok(Request { op, input, page, voice }) => {
                if let Some(look) = page {
                    bytes = look.bytes;
                    let (paint, zone) = (paint(look.colour), timestamps::machines_zone);
                    form = Form::Page { width: look.width, paint, zone };
                }
                let reading =
                    table::find(&op).is_some_and(|entry| entry.meta.effect == Effect::Read);
                let caller = voice.map_or_else(|| caller.clone(), |voice| voice.speaks_for(caller));
                // A waiting reader can ask again, so it counts as idle from now on.
                let _busy = Some(busy).filter(|_| !reading);
                let call = dispatch.dispatch(caller, op.into_owned(), input.into_owned(), form);
                tokio::select! {
                    biased;
                    result = call => result,
                    () = incoming.vanished(), if reading => return Ok(()),
                    _ = seat.leave(), if reading => return Ok(()),
                }
            }
        };
        let line = protocol::line(result, form, bytes)?;
        incoming.large |= line.len() > LARGE_ANSWER;
        tokio::select! {
            sent = send(write, &line) => sent?,
            _ = seat.leave() => return Ok(()),
        }
    }
}

enum Line {
    Whole(Vec<u8>),
    TooLong,
    End,
}

/// Received bytes that are not processed yet.
struct ReceiveBuffer {
    stream: OwnedReadHalf,
    lines: Lines,
    /// True if a response was large.
    large: bool,
}

impl ReceiveBuffer {
    /// Returns one line without its end; an unfinished last line counts as one.
    async fn line(&mut self) -> io::Result<Line> {
        loop {
            match self.lines.next(MAX_REQUEST) {
                CutLine::Line(line) => return Ok(Line::Whole(line)),
                CutLine::TooLong => return Ok(Line::TooLong),
                CutLine::Unfinished => {}
            }
            if !self.more().await? {
                let line = self.lines.rest();
                return Ok(if line.is_empty() { Line::End } else { Line::Whole(line) });
            }
        }
    }

    /// Completes when the client has closed both directions. A client that closed only its sending side still wants
    /// the response, and
    /// bytes that arrive meanwhile are its next request.
    async fn vanished(&mut self) {
        let gone = loop {
            match self.more().await {
                Ok(true) if self.lines.len() <= MAX_REQUEST => {}
                Ok(true) => break false,
                Ok(false) => break hung_up(&self.stream),
                Err(_) => break true,
            }
        };
        if !gone {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for more bytes; returns false at the end.
    async fn more(&mut self) -> io::Result<bool> {
        let buffer = self.lines.buffer();
        buffer.reserve(READ_CHUNK);
        let mut chunk = (&mut self.stream).take(READ_CHUNK as u64);
        Ok(chunk.read_buf(buffer).await? > 0)
    }
}

fn hung_up(read: &OwnedReadHalf) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(read.as_ref(), PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok()
        && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

async fn refuse(write: &mut OwnedWriteHalf, error: OpError) -> io::Result<()> {
    send(write, &protocol::line(Err(error), Form::Json, false)?).await
}

async fn send(write: &mut OwnedWriteHalf, answer: &[u8]) -> io::Result<()> {
    match timeout(WRITE_TIMEOUT, write.write_all(answer)).await {
        Ok(written) => written,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
