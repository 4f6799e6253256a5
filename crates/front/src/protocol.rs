//! What travels over the unix socket: one JSON value a line, a request and its answer, one after the other.
//!
//! `{"op":"service.status","input":{"names":["web"]}}` → `{"ok":{…}}` or `{"error":{"code":…,"message":…}}`.

use proctor_ops::error::OpError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest request line: an environment of 2 MiB with every byte escaped still fits.
pub(crate) const MAX_REQUEST: usize = 4 << 20;

/// Longest answer: a full page of log lines, every byte of it escaped, and a thousand services fit many times.
pub(crate) const MAX_ANSWER: usize = 64 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub op: String,
    #[serde(default)]
    pub input: Value,
}

impl Request {
    pub fn parse(line: &[u8]) -> Result<Request, OpError> {
        serde_json::from_slice(line)
            .map_err(|error| OpError::bad_input(format!("not a request: {error}")))
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ok(Value),
    Error(OpError),
}

impl From<Result<Value, OpError>> for Answer {
    fn from(result: Result<Value, OpError>) -> Answer {
        match result {
            Ok(value) => Answer::Ok(value),
            Err(error) => Answer::Error(error),
        }
    }
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
