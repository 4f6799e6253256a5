//! Client of the unix socket: blocking and without a runtime, because a command line that lives for milliseconds needs neither
//! threads nor futures.

use crate::protocol::{
    Answer, ClientIdentity, CutLine, FollowedOutput, Lines, MAX_ANSWER, Request, ShownOutput,
    TerminalLook,
};
use proctor_core::home::{Home, OwnFolder};
use proctor_ops::error::{Code, OpError};
use proctor_sys::own_folder;
use proctor_sys::ownership::Owners;
use proctor_sys::small_file::Lock;
use proctor_sys::user;
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use serde_json::Value;
use std::borrow::Cow;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Maximum wait for a keeper that holds the lock but has no socket yet.
const STARTING_LIMIT: Duration = Duration::from_secs(10);

/// Pause between two attempts while it starts; a start takes tens of milliseconds.
const STARTING_PAUSE: Duration = Duration::from_millis(10);

/// Size of a read; a list of a thousand services fits.
const READ_CHUNK: usize = 64 << 10;

/// A connection to the daemon.
pub(crate) struct Client {
    stream: UnixStream,
    lines: Lines,
    /// The program that acts for the user, sent in every request.
    voice: Option<ClientIdentity>,
}

/// Error of a call.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The connection ended before the response.
    #[error("the connection was lost")]
    Lost,
    #[error("{0}")]
    Refused(OpError),
}

impl From<CallError> for OpError {
    fn from(error: CallError) -> OpError {
        match error {
            CallError::Refused(error) => error,
            CallError::Lost => OpError::new(
                Code::ConnectionLost,
                "the connection was lost before the response; the request may or may not have been carried out",
            )
            .help("check with `proctor status`"),
        }
    }
}

impl Client {
    /// Connects to the Proctor of a home; `None` if none runs there. Waits for one that is starting.
    pub(crate) fn connect(home: &Home) -> Result<Option<Client>, OpError> {
        let deadline = Instant::now() + STARTING_LIMIT;
        let mut mended = false;
        loop {
            match proctor_sys::socket::connect(&home.socket()) {
                Ok(stream) => return Client::of_owner(stream, home).map(Some),
                Err(error) if is_absent(&error) => {
                    // The one in the state folder is held, too, while a living keeper writes a lost runtime folder anew.
                    let starting = Lock::holder(&home.lock()).is_some();
                    let holder = Lock::holder(&home.state_lock()).filter(|_| !starting);
                    if !starting && holder.is_none() {
                        return Ok(None);
                    }
                    if Instant::now() >= deadline {
                        return Err(silent(holder, home));
                    }
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied && !mended => {
                    mended = true;
                    // Our own folders with a mode that excludes ourselves. If it cannot be corrected, the error below says so.
                    for folder in [OwnFolder::State, OwnFolder::Runtime] {
                        let _ = own_folder::correct_mode(&home.folder(folder), folder.rule());
                    }
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    let path = home.socket();
                    return Err(OpError::new(
                        Code::Forbidden,
                        format!("cannot use {}: {error}", path.display()),
                    )
                    .help("this Proctor belongs to another user; choose another with --home"));
                }
                Err(error) => {
                    return Err(unavailable(&format!("cannot reach Proctor: {error}"), home));
                }
            }
            std::thread::park_timeout(STARTING_PAUSE);
        }
    }

    /// Sets the program that acts for the user.
    pub(crate) fn spoken_by(self, voice: Option<ClientIdentity>) -> Client {
        Client { voice, ..self }
    }

    /// Returns the connection alone.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.stream
    }

    /// Connects without waiting and without a reason for a failure.
    pub(crate) fn connect_at_once(home: &Home) -> Option<Client> {
        let stream = proctor_sys::socket::connect(&home.socket()).ok()?;
        Client::of_owner(stream, home).ok()
    }

    /// Checks the owner of the socket: requests contain our environment, and responses are trusted.
    fn of_owner(stream: UnixStream, home: &Home) -> Result<Client, OpError> {
        let socket = home.socket();
        let refused =
            |message: String, help: String| Err(OpError::new(Code::Forbidden, message).help(help));
        match proctor_sys::socket::peer_user(&stream) {
            Ok(uid) if Owners::ours().include(uid) => {
                Ok(Client { stream, lines: Lines::default(), voice: None })
            }
            Ok(uid) => refused(
                format!("the Proctor at {} belongs to {}", socket.display(), user::shown_user(uid)),
                format!(
                    "run this as that user (`sudo -u '#{uid}' proctor …`), or choose another home with --home"
                ),
            ),
            Err(error) => refused(
                format!("cannot determine the owner of {}: {error}", socket.display()),
                "choose another home with --home".into(),
            ),
        }
    }

    /// Sends a request and waits at most `limit` for the response.
    pub(crate) fn call(
        &mut self,
        op: &str,
        input: &Value,
        limit: Duration,
    ) -> Result<Value, CallError> {
        self.send(op, input)?;
        self.receive(limit)
    }

    /// Requests text that is printed as it comes.
    pub(crate) fn page(
        &mut self,
        op: &str,
        input: &Value,
        look: TerminalLook,
        limit: Duration,
    ) -> Result<ShownOutput, CallError> {
        self.request(op, input, Some(look))?;
        match self.answer(limit)? {
            Answer::Page(page) => Ok(page),
            Answer::Ok(_) | Answer::Follows(_) => Err(unreadable("it is not a page")),
            Answer::Error(error) => Err(CallError::Refused(error)),
        }
    }

    /// Sends an encoded request that wants the text after the response.
    pub(crate) fn text(
        &mut self,
        line: &str,
        limit: Duration,
    ) -> Result<(Vec<u8>, Option<Code>), CallError> {
        self.write(line.as_bytes())?;
        let FollowedOutput { length, verdict } = match self.answer(limit)? {
            Answer::Follows(following) if following.length <= MAX_ANSWER => following,
            Answer::Follows(_) | Answer::Ok(_) | Answer::Page(_) => {
                return Err(unreadable("it has no text to show"));
            }
            Answer::Error(error) => return Err(CallError::Refused(error)),
        };
        loop {
            if let Some(text) = self.lines.bytes(length) {
                return Ok((text, verdict));
            }
            self.read_more()?;
        }
    }

    /// Sends a request; [`Client::receive`] reads the response.
    pub(crate) fn send(&mut self, op: &str, input: &Value) -> Result<(), CallError> {
        self.request(op, input, None)
    }

    fn request(
        &mut self,
        op: &str,
        input: &Value,
        page: Option<TerminalLook>,
    ) -> Result<(), CallError> {
        let voice = self.voice.as_ref().map(Cow::Borrowed);
        let request = Request { op: Cow::Borrowed(op), input: Cow::Borrowed(input), page, voice };
        let mut line = serde_json::to_vec(&request).map_err(|error| {
            CallError::Refused(OpError::new(Code::Internal, format!("cannot encode: {error}")))
        })?;
        line.push(b'\n');
        self.write(&line)
    }

    fn write(&mut self, line: &[u8]) -> Result<(), CallError> {
        match self.stream.write_all(line) {
            Ok(()) => Ok(()),
            // The server may have refused the connection and closed it; its response can still be read.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(_) => Err(CallError::Lost),
        }
    }

    /// Returns the response to the last request.
    pub(crate) fn receive(&mut self, limit: Duration) -> Result<Value, CallError> {
        match self.answer(limit)? {
            Answer::Ok(value) => Ok(value),
            Answer::Page(_) | Answer::Follows(_) => {
                Err(unreadable("it is a page that was not requested"))
            }
            Answer::Error(error) => Err(CallError::Refused(error)),
        }
    }

    fn answer(&mut self, limit: Duration) -> Result<Answer, CallError> {
        self.stream.set_read_timeout(Some(limit)).map_err(|_| CallError::Lost)?;
        let line = self.read_line()?;
        serde_json::from_slice(&line).map_err(|error| unreadable(&error.to_string()))
    }

    fn read_line(&mut self) -> Result<Vec<u8>, CallError> {
        loop {
            match self.lines.next(MAX_ANSWER) {
                CutLine::Line(line) => return Ok(line),
                CutLine::TooLong => return Err(CallError::Lost),
                CutLine::Unfinished => self.read_more()?,
            }
        }
    }

    fn read_more(&mut self) -> Result<(), CallError> {
        let buffer = self.lines.buffer();
        buffer.reserve(READ_CHUNK);
        match rustix::io::read(&self.stream, spare_capacity(buffer)) {
            Ok(0) => Err(CallError::Lost),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            // The read timeout has passed.
            Err(Errno::AGAIN) => Err(CallError::Refused(
                OpError::new(Code::Timeout, "Proctor does not respond")
                    .help("check it with `proctor daemon status`"),
            )),
            Err(_) => Err(CallError::Lost),
        }
    }

    /// Waits until the other side has closed the connection.
    pub(crate) fn wait_for_end(&mut self, limit: Duration) {
        if self.stream.set_read_timeout(Some(limit)).is_err() {
            return;
        }
        let mut chunk = [0; 1 << 10];
        while matches!(self.stream.read(&mut chunk), Ok(1..)) {}
    }

    /// Returns a handle that can end this connection from another thread.
    pub(crate) fn breaker(&self) -> io::Result<Breaker> {
        Ok(Breaker(self.stream.try_clone()?))
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Ends a connection that another thread waits on.
pub(crate) struct Breaker(UnixStream);

impl Breaker {
    pub(crate) fn end(&self) {
        // A connection that has ended already is fine.
        let _ = self.0.shutdown(std::net::Shutdown::Both);
    }
}

fn unreadable(why: &str) -> CallError {
    let message = format!("cannot decode the response: {why}");
    CallError::Refused(OpError::new(Code::Internal, message))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::NotADirectory
    )
}

/// The error about a keeper that lives and does not answer. `lost`: one whose runtime folder is not in its place.
fn silent(lost: Option<u32>, home: &Home) -> OpError {
    let runtime = home.runtime.display();
    match lost {
        None => unavailable("Proctor is starting, but does not answer", home),
        Some(pid) => {
            let message =
                format!("another keeper (pid {pid}) runs here, but has lost its folder {runtime}");
            OpError::new(Code::Unavailable, message).help(format!(
                "it writes the folder anew as soon as it runs again; `kill {pid}` ends it and its services"
            ))
        }
    }
}

fn unavailable(message: &str, home: &Home) -> OpError {
    OpError::new(Code::Unavailable, message).help(format!("see {}", home.own_log().display()))
}
