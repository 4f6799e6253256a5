//! Protocol of the unix socket: one JSON value per line, a request and its response, in order.
//!
//! `{"op":"service.status","input":{"names":["web"]}}` → `{"ok":{…}}` or `{"error":{"code":…,"message":…}}`. With `"page":{}` in
//! the request, a successful response is text for a person: `{"page":{"text":…}}`. With `"page":{"bytes":true}` the
//! raw text follows
//! a line with its length: `{"follows":{"length":…}}`. A program that acts for a user says so in each request:
//! `"as":{"front":"mcp","client":"claude-code"}`.

use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, ClientName, Front};
use proctor_ops::reply::{Form, Reply};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// Maximum request line: an environment of 2 MiB with every byte escaped fits.
pub(crate) const MAX_REQUEST: usize = 4 << 20;

/// Maximum response: a full page of log lines with every byte escaped, or a thousand services, fit many times.
pub(crate) const MAX_ANSWER: usize = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request<'a> {
    pub op: Cow<'a, str>,
    #[serde(default)]
    pub input: Cow<'a, Value>,
    /// Set if text for a person is wanted; describes its terminal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<TerminalLook>,
    /// Set if a program acts for the calling user.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub voice: Option<Cow<'a, ClientIdentity>>,
}

impl Request<'_> {
    pub fn parse(line: &[u8]) -> Result<Request<'_>, OpError> {
        serde_json::from_slice(line)
            .map_err(|error| OpError::bad_input(format!("not a request: {error}")))
    }

    pub(crate) fn owned(self) -> Request<'static> {
        Request {
            op: Cow::Owned(self.op.into_owned()),
            input: Cow::Owned(self.input.into_owned()),
            page: self.page,
            voice: self.voice.map(|voice| Cow::Owned(voice.into_owned())),
        }
    }
}

/// A program that acts for a user. The kernel identifies the process, so this claim never adds rights.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientIdentity {
    pub front: ClientKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// Front that a client of this socket may claim; the others are the server's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientKind {
    Mcp,
}

impl ClientIdentity {
    pub(crate) fn speaks_for(&self, user: &Caller) -> Caller {
        let front = match self.front {
            ClientKind::Mcp => Front::Mcp,
        };
        user.clone().through(front, self.client.as_deref().and_then(ClientName::parse))
    }
}

/// Maximum length of the line before a raw text.
const MAX_HEADER_BYTES: usize = 128;

/// Terminal in which a page is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TerminalLook {
    /// Columns; unlimited if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) width: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) colour: bool,
    /// Send the text raw after the response, so it needs no escapes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) bytes: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ok(Value),
    Page(ShownOutput),
    Follows(FollowedOutput),
    Error(OpError),
}

/// An output as text for a person.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownOutput {
    pub(crate) text: String,
    /// Remarks about the text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) remarks: String,
    /// Cursor of the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
    /// Code if the requested state was not reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Code>,
}

/// Header of an output whose text follows this line.
#[derive(Debug, Serialize, Deserialize)]
pub struct FollowedOutput {
    pub(crate) length: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Code>,
}

/// Encodes a response as a line, with the text that follows it. Existing JSON is not parsed again.
pub(crate) fn line(
    answer: Result<Reply, OpError>,
    form: Form,
    bytes: bool,
) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::new();
    match (answer, form) {
        (Err(error), _) => {
            line.extend_from_slice(b"{\"error\":");
            serde_json::to_writer(&mut line, &error)?;
        }
        (Ok(Reply { text, remarks, verdict, .. }), Form::Page { .. }) if bytes => {
            let text = text + &remarks;
            line.reserve(text.len() + MAX_HEADER_BYTES);
            line.extend_from_slice(b"{\"follows\":");
            serde_json::to_writer(&mut line, &FollowedOutput { length: text.len(), verdict })?;
            line.extend_from_slice(b"}\n");
            line.extend_from_slice(text.as_bytes());
            return Ok(line);
        }
        (Ok(Reply { text, remarks, next, verdict, .. }), Form::Page { .. }) => {
            line.reserve(text.len() + text.len() / 16);
            line.extend_from_slice(b"{\"page\":");
            serde_json::to_writer(&mut line, &ShownOutput { text, remarks, next, verdict })?;
        }
        (Ok(reply), Form::Json) => line = format!("{{\"ok\":{}", reply.text).into_bytes(),
    }
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// Received bytes that are not processed yet, split into lines.
#[derive(Debug, Default)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Bytes before this position are consumed. They are removed rarely, so a thousand short lines in one buffer are not moved a
    /// thousand times.
    start: usize,
    /// No line end before this position.
    searched: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub enum CutLine {
    /// A line without its end.
    Line(Vec<u8>),
    /// A line that exceeds the maximum.
    TooLong,
    /// More bytes are needed.
    Unfinished,
}

impl Lines {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer().extend_from_slice(bytes);
    }

    /// Returns the buffer to which a reader appends.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        if self.start > self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        &mut self.buffer
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns the first line, if it has at most `longest` bytes.
    pub fn next(&mut self, longest: usize) -> CutLine {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let stop = end.map_or(self.buffer.len(), |end| self.searched + end);
        if stop - self.start > longest {
            return CutLine::TooLong;
        }
        self.searched = stop;
        if end.is_none() {
            return CutLine::Unfinished;
        }
        if stop + 1 == self.buffer.len() {
            let mut line = self.rest();
            line.pop();
            return CutLine::Line(line);
        }
        let line = self.buffer[self.start..stop].to_vec();
        self.start = stop + 1;
        self.searched = self.start;
        CutLine::Line(line)
    }

    /// Returns the bytes after the last line, if that many have arrived.
    pub(crate) fn bytes(&mut self, length: usize) -> Option<Vec<u8>> {
        if self.len() < length {
            return None;
        }
        let bytes = self.buffer[self.start..self.start + length].to_vec();
        self.start += length;
        self.searched = self.start;
        Some(bytes)
    }

    /// Returns the bytes after the last line end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let Lines { mut buffer, start, .. } = std::mem::take(self);
        buffer.drain(..start);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let text = b"one\n\nthree and more\n4\nrest";
        for size in 1..text.len() {
            let (mut lines, mut found) = (Lines::default(), Vec::new());
            for chunk in text.chunks(size) {
                lines.push(chunk);
                while let CutLine::Line(line) = lines.next(14) {
                    found.push(line);
                }
            }
            assert_eq!(found, [&b"one"[..], b"", b"three and more", b"4"], "{size}");
            assert_eq!((lines.len(), lines.rest()), (4, b"rest".to_vec()), "{size}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_not_waited_for() {
        let mut lines = Lines::default();
        lines.push(b"ab\nabcd");
        assert_eq!(lines.next(3), CutLine::Line(b"ab".to_vec()));
        assert_eq!(lines.next(3), CutLine::TooLong);
        assert_eq!(lines.next(4), CutLine::Unfinished);
    }

    #[test]
    fn what_follows_a_line_stays_where_it_is() {
        let mut lines = Lines::default();
        lines.push(&b"\n".repeat(1000));
        let place = lines.buffer.as_ptr();
        for _ in 0..999 {
            assert_eq!(lines.next(10), CutLine::Line(Vec::new()));
            assert_eq!(lines.buffer.as_ptr(), place);
        }
        assert_eq!(lines.next(10), CutLine::Line(Vec::new()));
        assert_eq!((lines.len(), lines.buffer.capacity()), (0, 0));
    }
}
