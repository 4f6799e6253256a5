//! One connection to the control port: lines in, answers out, one after the other.
//!
//! It is idle while nothing is being done for it, however much of a line has come: a client that sends a byte now and then is
//! the first to go when others come. A change that was begun is finished, whatever becomes of the client.

use super::heard::{Heard, hear};
use super::incoming::{Incoming, Line};
use super::reply::{self, Answer};
use super::said::{Call, Manner, Said, understand};
use crate::listen::{Guest, Leave, Seat};
use crate::local::Dispatch;
use crate::nearby;
use crate::room::{self, Room};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Effect, Front, Principal, Role};
use proctor_ops::table;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::tcp::WriteHalf;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Longest line of most. A list of a thousand services fits; all connections together take 8 MiB.
const SHORT_LINE: usize = 16 << 10;

/// Longest line of an admin: an environment fits, as on the unix socket. Nobody else may do what takes one.
const LONG_LINE: usize = 4 << 20;

/// KiB of all longer lines together that are held at once.
const MOST_LONG: usize = 8 << 10;

/// A connection that nobody may use is closed after this long.
const STRANGER_TIME: Duration = Duration::from_secs(60);

/// Without a command for this long a connection is closed.
const IDLE_TIME: Duration = Duration::from_secs(600);

/// A client that does not take its answer for this long is given up.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// Refusals for want of a token, or a right one, before the connection is closed.
const MOST_REFUSALS: u32 = 8;

/// Room for the long lines of all connections.
pub(super) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MOST_LONG))
}

/// Serve one connection to its end.
pub(super) async fn serve(guest: Guest, dispatch: Arc<dyn Dispatch>, room: Arc<Semaphore>) {
    let Guest { mut stream, peer, local, mut seat } = guest;
    // Answers are written whole; waiting for more to say only delays them.
    stream.set_nodelay(true).ok();
    let (read, mut write) = stream.split();
    let mut incoming = Incoming::new(read, (local, peer), Room::new(room, SHORT_LINE));
    let session = Session {
        dispatch,
        ours: local,
        theirs: peer,
        token: None,
        admin: false,
        nearby: None,
        refusals: 0,
    };
    // The client is gone, speaks something else, or does not read: there is nobody to tell.
    let _ = session.lines(&mut incoming, &mut write, &mut seat).await;
    // What it still sends is not for us; what we said is on its way.
    let _ = write.shutdown().await;
}

struct Session {
    dispatch: Arc<dyn Dispatch>,
    ours: SocketAddr,
    theirs: SocketAddr,
    /// The token that was presented. It is asked about again for every command: it may be taken back meanwhile.
    token: Option<String>,
    /// It was an admin's.
    admin: bool,
    /// Who it is without one, once that was asked of the kernel.
    nearby: Option<Principal>,
    refusals: u32,
}

/// What follows from a line.
enum Next {
    Answer(Manner, Result<Answer, OpError>),
    Silence,
    /// An answer, and the end.
    Last(Manner, OpError),
    Close,
}

impl Next {
    /// For want of a token, or a right one.
    fn is_refusal(&self) -> bool {
        match self {
            Next::Answer(_, Err(error)) => error.code == Code::Unauthenticated,
            Next::Answer(_, Ok(_)) | Next::Silence | Next::Last(..) | Next::Close => false,
        }
    }
}

impl Session {
    async fn lines(
        mut self,
        incoming: &mut Incoming<'_>,
        write: &mut WriteHalf<'_>,
        seat: &mut Seat,
    ) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let begin =
                if self.is_welcome() { Instant::now() + IDLE_TIME } else { begun + STRANGER_TIME };
            let line = tokio::select! {
                biased;
                _ = seat.leave() => return Ok(()),
                line = incoming.line(self.longest(), begin) => line?,
            };
            let busy = seat.busy();
            let next = self.next(line, incoming).await;
            drop(busy);
            self.refusals += u32::from(next.is_refusal());
            match next {
                Next::Silence => {}
                Next::Close => return Ok(()),
                Next::Answer(manner, answer) => send(write, seat, manner, answer).await?,
                Next::Last(manner, error) => return send(write, seat, manner, Err(error)).await,
            }
            if self.refusals > MOST_REFUSALS {
                return Ok(());
            }
        }
    }

    /// Somebody who may do something.
    fn is_welcome(&self) -> bool {
        self.token.is_some() || self.nearby == Some(Principal::Anonymous)
    }

    fn longest(&self) -> usize {
        if self.admin { LONG_LINE } else { SHORT_LINE }
    }

    async fn next(&mut self, line: Line, incoming: &mut Incoming<'_>) -> Next {
        let line = match line {
            Line::Whole(line) => line,
            Line::End | Line::Late => return Next::Close,
            Line::TooLong => return Next::Last(Manner::Json, self.too_long()),
            Line::NoRoom => return Next::Last(Manner::Json, room::none()),
        };
        let (manner, said) = match hear(&line) {
            Ok(Heard::Text(text)) => understand(&text),
            Ok(Heard::Http) => return Next::Close,
            Err(error) => (manner_of(&line), Err(error)),
        };
        match said {
            Ok(Said::Nothing) => Next::Silence,
            Ok(Said::Quit) => Next::Close,
            Ok(Said::Help(text)) => Next::Answer(manner, Ok(Answer::Help(text))),
            Ok(Said::Auth(token)) => Next::Answer(manner, self.authenticate(&token)),
            Ok(Said::Call(call)) => match self.call(manner, call, incoming).await {
                Some(answer) => Next::Answer(manner, answer),
                None => Next::Close,
            },
            Err(error) => Next::Answer(manner, Err(error)),
        }
    }

    fn too_long(&self) -> OpError {
        let longest = self.longest();
        let error = OpError::new(Code::TooLarge, format!("a line is at most {longest} bytes"));
        match self.admin {
            true => error,
            false => error.help("after `auth TOKEN` of an admin it may be longer"),
        }
    }

    fn authenticate(&mut self, token: &str) -> Result<Answer, OpError> {
        let principal = self.presented(token)?;
        self.token = Some(token.to_owned());
        self.admin = matches!(principal, Principal::Token { role: Role::Admin, .. });
        Ok(Answer::Known(principal))
    }

    fn presented(&self, token: &str) -> Result<Principal, OpError> {
        let caller = self.caller(Principal::Anonymous);
        self.dispatch.authenticate(caller, token)
    }

    /// Who makes a call: whose token came with it, who was said before, or whoever the kernel says is there.
    fn principal(&mut self, token: Option<String>) -> Result<Principal, OpError> {
        if let Some(token) = token.or(self.token.clone()) {
            return self.presented(&token);
        }
        let (ours, theirs) = (self.ours, self.theirs);
        Ok(self.nearby.get_or_insert_with(|| nearby::without_token(ours, theirs)).clone())
    }

    fn caller(&self, principal: Principal) -> Caller {
        Caller::remote(principal, Front::Tcp, self.theirs)
    }

    /// `None`: the client is gone, and with it the wish to know.
    async fn call(
        &mut self,
        manner: Manner,
        call: Call,
        incoming: &mut Incoming<'_>,
    ) -> Option<Result<Answer, OpError>> {
        let Call { op, input, token, shape } = call;
        let principal = match self.principal(token) {
            Ok(principal) => principal,
            Err(error) => return Some(Err(error)),
        };
        let reading = table::find(&op).is_some_and(|entry| entry.meta.effect == Effect::Read);
        let caller = self.caller(principal);
        let work = self.dispatch.dispatch(caller, op.clone(), input, reply::form(manner));
        let result = tokio::select! {
            biased;
            result = work => result,
            () = incoming.vanished(self.longest()), if reading => return None,
        };
        Some(result.map(|reply| Answer::Done { op, shape, reply }))
    }
}

/// How a line was meant that is no text.
fn manner_of(line: &[u8]) -> Manner {
    match line.trim_ascii_start().first() {
        Some(b'{' | b'"' | b'[') => Manner::Json,
        Some(_) | None => Manner::Words,
    }
}

/// A client that does not read is as idle as one that does not write.
async fn send(
    write: &mut WriteHalf<'_>,
    seat: &mut Seat,
    manner: Manner,
    answer: Result<Answer, OpError>,
) -> io::Result<()> {
    let bytes = reply::encode(manner, answer);
    let written = async { timeout(WRITE_TIME, write.write_all(&bytes)).await };
    tokio::select! {
        biased;
        written = written => written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        () = pushed_out(seat) => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}

/// Somebody else needs the place. A listener that only moves lets us finish.
async fn pushed_out(seat: &mut Seat) {
    match seat.leave().await {
        Leave::Now => {}
        Leave::AfterThis => std::future::pending().await,
    }
}
