//! Received data of a control client that is not processed yet. An idle connection has no buffer.

use super::line_text::is_tls;
use crate::protocol::{CutLine, Lines};
use crate::receive_budget::ReceiveBudget;
use proctor_sys::peer_user;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::tcp::ReadHalf;
use tokio::time::{Instant, sleep, timeout_at};

/// Size of a read. Commands are short; a long one takes several reads.
const READ_CHUNK: usize = 4 << 10;

/// Timeout of a line from its first byte to its last, enough for typing.
const LINE_TIME: Duration = Duration::from_secs(60);

/// Interval of checks whether a half-closed client is gone, during a request; the kernel does not report it.
const ASK_AGAIN: Duration = Duration::from_secs(5);

pub(super) enum Line {
    Whole(Vec<u8>),
    TooLong,
    /// Other clients use all the memory.
    NoRoom,
    /// No more input follows.
    End,
    /// The line timed out.
    Late,
}

pub(super) struct ReceiveBuffer<'a> {
    stream: ReadHalf<'a>,
    ours: SocketAddr,
    theirs: SocketAddr,
    lines: Lines,
    room: ReceiveBudget,
    /// Length of the last line taken.
    taken: usize,
    /// True until the first byte arrives.
    fresh: bool,
    ended: bool,
}

impl<'a> ReceiveBuffer<'a> {
    pub(super) fn new(
        stream: ReadHalf<'a>,
        (ours, theirs): (SocketAddr, SocketAddr),
        room: ReceiveBudget,
    ) -> ReceiveBuffer<'a> {
        ReceiveBuffer {
            stream,
            ours,
            theirs,
            lines: Lines::default(),
            room,
            taken: 0,
            fresh: true,
            ended: false,
        }
    }

    /// Returns one line of at most `longest` bytes without its end, started before `begin`. An unfinished last line counts.
    pub(super) async fn line(&mut self, longest: usize, begin: Instant) -> io::Result<Line> {
        let mut deadline = begin;
        loop {
            // The next line is wanted only after the last one is processed.
            if !self.room.hold(self.lines.len()) {
                return Ok(Line::NoRoom);
            }
            match self.lines.next(longest) {
                CutLine::Line(line) => {
                    self.taken = line.len();
                    return Ok(Line::Whole(line));
                }
                CutLine::TooLong => return Ok(Line::TooLong),
                CutLine::Unfinished => {}
            }
            if self.lines.len() == 0 {
                *self.lines.buffer() = Vec::new();
            } else if deadline == begin {
                deadline = Instant::now() + LINE_TIME;
            }
            match timeout_at(deadline, self.more()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => {
                    let line = self.lines.rest();
                    return Ok(if line.is_empty() { Line::End } else { Line::Whole(line) });
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => return Ok(Line::Late),
            }
        }
    }

    /// Completes when the client is gone. A client that closed only its sending side still wants the response, and
    /// bytes that arrive
    /// meanwhile are its next command.
    pub(super) async fn vanished(&mut self, longest: usize) {
        while !self.ended {
            match self.more().await {
                Ok(true) if self.lines.len() <= longest && self.holds_more() => {}
                // The next call of `line` reports it.
                Ok(true) => std::future::pending().await,
                Ok(false) => {}
                Err(_) => return,
            }
        }
        while !peer_user::is_gone(self.ours, self.theirs) {
            sleep(ASK_AGAIN).await;
        }
    }

    /// Returns true if there is data beyond the line in progress.
    fn holds_more(&mut self) -> bool {
        self.room.hold(self.taken + self.lines.len())
    }

    /// Waits for more bytes; returns false at the end.
    async fn more(&mut self) -> io::Result<bool> {
        loop {
            if self.ended {
                return Ok(false);
            }
            self.stream.readable().await?;
            let buffer = self.lines.buffer();
            buffer.reserve(READ_CHUNK);
            match self.stream.try_read_buf(buffer) {
                Ok(0) => self.ended = true,
                Ok(_) if self.fresh && is_tls(buffer) => {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                Ok(_) => {
                    self.fresh = false;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
