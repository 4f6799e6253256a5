//! One connection to the control port: lines in, responses out, in order.
//!
//! It is idle while no request is in progress, even with a partial line: a client that sends a byte now and then is closed first
//! when others come. A change is finished even if the client disconnects.

use super::line_text::{LineText, hear};
use super::parsed_line::{OperationCall, ParsedLine, ReplyFormat, understand};
use super::receive_buffer::{Line, ReceiveBuffer};
use super::reply::{self, Answer};
use crate::listen::{AcceptedConnection, CloseWhen, ConnectionSlot};
use crate::local_peer;
use crate::receive_budget::{self, ReceiveBudget};
use crate::unix_socket::Dispatch;
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

/// Maximum line of most callers. A list of a thousand services fits; all connections together take 8 MiB.
const SHORT_LINE: usize = 16 << 10;

/// Maximum line of an admin: an environment fits, as on the unix socket. Others need no environment.
const LONG_LINE: usize = 4 << 20;

/// Maximum KiB of all longer lines in memory.
const MAX_LONG_LINES_KIB: usize = 8 << 10;

/// Time after which a connection of an unauthorised caller is closed.
const STRANGER_TIME: Duration = Duration::from_secs(60);

/// Time after which an idle connection is closed.
const IDLE_TIME: Duration = Duration::from_secs(600);

/// Timeout for a client to read its response.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// Maximum refusals for a missing or invalid token; then the connection is closed.
const MAX_REFUSALS: u32 = 8;

/// Memory for the long lines of all connections.
pub(super) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_LONG_LINES_KIB))
}

/// Serves one connection to its end.
pub(super) async fn serve(
    guest: AcceptedConnection,
    dispatch: Arc<dyn Dispatch>,
    room: Arc<Semaphore>,
) {
    let AcceptedConnection { mut stream, peer, local, mut seat } = guest;
    // Responses are written completely; Nagle's algorithm would only delay them.
    stream.set_nodelay(true).ok();
    let (read, mut write) = stream.split();
    let mut incoming =
        ReceiveBuffer::new(read, (local, peer), ReceiveBudget::new(room, SHORT_LINE));
    let session = Session {
        dispatch,
        ours: local,
        theirs: peer,
        token: None,
        admin: false,
        nearby: None,
        refusals: 0,
    };
    // The client is gone, speaks another protocol or does not read, so there is no receiver for an error.
    let _ = session.lines(&mut incoming, &mut write, &mut seat).await;
    // Further input is ignored; the response is on its way.
    let _ = write.shutdown().await;
}

struct Session {
    dispatch: Arc<dyn Dispatch>,
    ours: SocketAddr,
    theirs: SocketAddr,
    /// Token that was presented. It is checked for every command, because it may be revoked meanwhile.
    token: Option<String>,
    /// True if it belonged to an admin.
    admin: bool,
    /// Principal without a token, once the kernel was asked.
    nearby: Option<Principal>,
    refusals: u32,
}

/// Result of a line.
enum Next {
    Answer(ReplyFormat, Result<Answer, OpError>),
    Silence,
    /// A response, then the end of the connection.
    Last(ReplyFormat, OpError),
    Close,
}

impl Next {
    /// Returns true for a missing or invalid token.
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
        incoming: &mut ReceiveBuffer<'_>,
        write: &mut WriteHalf<'_>,
        seat: &mut ConnectionSlot,
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
            if self.refusals > MAX_REFUSALS {
                return Ok(());
            }
        }
    }

    /// Returns true if the caller has any right.
    fn is_welcome(&self) -> bool {
        self.token.is_some() || self.nearby == Some(Principal::Anonymous)
    }

    fn longest(&self) -> usize {
        if self.admin { LONG_LINE } else { SHORT_LINE }
    }

    async fn next(&mut self, line: Line, incoming: &mut ReceiveBuffer<'_>) -> Next {
        let line = match line {
            Line::Whole(line) => line,
            Line::End | Line::Late => return Next::Close,
            Line::TooLong => return Next::Last(ReplyFormat::Json, self.too_long()),
            Line::NoRoom => return Next::Last(ReplyFormat::Json, receive_budget::none()),
        };
        let (manner, said) = match hear(&line) {
            Ok(LineText::Text(text)) => understand(&text),
            Ok(LineText::Http) => return Next::Close,
            Err(error) => (manner_of(&line), Err(error)),
        };
        match said {
            Ok(ParsedLine::Nothing) => Next::Silence,
            Ok(ParsedLine::Quit) => Next::Close,
            Ok(ParsedLine::Help(text)) => Next::Answer(manner, Ok(Answer::Help(text))),
            Ok(ParsedLine::Auth(token)) => Next::Answer(manner, self.authenticate(&token)),
            Ok(ParsedLine::Call(call)) => match self.call(manner, call, incoming).await {
                Some(answer) => Next::Answer(manner, answer),
                None => Next::Close,
            },
            Err(error) => Next::Answer(manner, Err(error)),
        }
    }

    fn too_long(&self) -> OpError {
        let longest = self.longest();
        let error = OpError::new(
            Code::TooLarge,
            format!("the line is too long: the maximum is {longest} bytes"),
        );
        match self.admin {
            true => error,
            false => error.help("longer lines need `auth TOKEN` with an admin's token"),
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

    /// Returns the principal of a call: of its own token, of an earlier `auth`, or from the kernel.
    fn principal(&mut self, token: Option<String>) -> Result<Principal, OpError> {
        if let Some(token) = token.or(self.token.clone()) {
            return self.presented(&token);
        }
        let (ours, theirs) = (self.ours, self.theirs);
        Ok(self.nearby.get_or_insert_with(|| local_peer::without_token(ours, theirs)).clone())
    }

    fn caller(&self, principal: Principal) -> Caller {
        Caller::remote(principal, Front::Tcp, self.theirs)
    }

    /// Returns `None` if the client is gone.
    async fn call(
        &mut self,
        manner: ReplyFormat,
        call: OperationCall,
        incoming: &mut ReceiveBuffer<'_>,
    ) -> Option<Result<Answer, OpError>> {
        let OperationCall { op, input, token, shape } = call;
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

/// Guesses the format of a line that is not text.
fn manner_of(line: &[u8]) -> ReplyFormat {
    match line.trim_ascii_start().first() {
        Some(b'{' | b'"' | b'[') => ReplyFormat::Json,
        Some(_) | None => ReplyFormat::Words,
    }
}

/// A client that does not read is as idle as one that does not write.
async fn send(
    write: &mut WriteHalf<'_>,
    seat: &mut ConnectionSlot,
    manner: ReplyFormat,
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

/// Completes when another connection needs the slot. A listener that only moves lets us finish.
async fn pushed_out(seat: &mut ConnectionSlot) {
    match seat.leave().await {
        CloseWhen::Now => {}
        CloseWhen::AfterThis => std::future::pending().await,
    }
}
