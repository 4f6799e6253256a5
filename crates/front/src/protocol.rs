//! What travels over the unix socket: one JSON value a line, a request and its answer, one after the other.
//!
//! `{"op":"service.status","input":{"names":["web"]}}` → `{"ok":{…}}` or `{"error":{"code":…,"message":…}}`. With `"page":{}` in
//! the request a good answer is text for a person instead: `{"page":{"text":…}}`.

use proctor_ops::error::{Code, OpError};
use proctor_ops::reply::{Form, Reply};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// Longest request line: an environment of 2 MiB with every byte escaped still fits.
pub(crate) const MAX_REQUEST: usize = 4 << 20;

/// Longest answer: a full page of log lines, every byte of it escaped, and a thousand services fit many times.
pub(crate) const MAX_ANSWER: usize = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request<'a> {
    pub op: Cow<'a, str>,
    #[serde(default)]
    pub input: Cow<'a, Value>,
    /// Text for a person is wanted, and this is where it will be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<Look>,
}

impl Request<'_> {
    pub fn parse(line: &[u8]) -> Result<Request<'_>, OpError> {
        serde_json::from_slice(line)
            .map_err(|error| OpError::bad_input(format!("not a request: {error}")))
    }

    pub(crate) fn owned(self) -> (String, Value, Option<Look>) {
        (self.op.into_owned(), self.input.into_owned(), self.page)
    }
}

/// The terminal in which a page is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Look {
    /// Columns; everything is shown if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) width: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) colour: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ok(Value),
    Page(Shown),
    Error(OpError),
}

/// An output as a person sees it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Shown {
    pub(crate) text: String,
    /// What was asked for is not what is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verdict: Option<Code>,
}

/// An answer as a line. What is JSON already is not read again.
pub(crate) fn line(answer: Result<Reply, OpError>, form: Form) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::new();
    match (answer, form) {
        (Err(error), _) => {
            line.extend_from_slice(b"{\"error\":");
            serde_json::to_writer(&mut line, &error)?;
        }
        (Ok(Reply { text, verdict, .. }), Form::Page { .. }) => {
            line.reserve(text.len() + text.len() / 16);
            line.extend_from_slice(b"{\"page\":");
            serde_json::to_writer(&mut line, &Shown { text, verdict })?;
        }
        (Ok(reply), Form::Json) => line = format!("{{\"ok\":{}", reply.text).into_bytes(),
    }
    line.extend_from_slice(b"}\n");
    Ok(line)
}

/// What has arrived and nobody has looked at yet, cut into lines.
#[derive(Debug, Default)]
pub struct Lines {
    buffer: Vec<u8>,
    /// So far there is no line end.
    searched: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// Without its end.
    Line(Vec<u8>),
    /// It will never be taken.
    TooLong,
    /// More has to arrive first.
    Unfinished,
}

impl Lines {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Where a reader puts what arrives: behind what is there.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// The first line, if it is at most `longest` bytes long.
    pub fn next(&mut self, longest: usize) -> Cut {
        let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let length = end.map_or(self.buffer.len(), |end| self.searched + end);
        if length > longest {
            return Cut::TooLong;
        }
        self.searched = length;
        if end.is_none() {
            return Cut::Unfinished;
        }
        let rest = self.buffer.split_off(length + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.truncate(length);
        self.searched = 0;
        Cut::Line(line)
    }

    /// What came after the last line end.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.searched = 0;
        std::mem::take(&mut self.buffer)
    }
}
