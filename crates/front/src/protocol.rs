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
pub(crate) struct Request<'a> {
    pub(crate) op: Cow<'a, str>,
    #[serde(default)]
    pub(crate) input: Cow<'a, Value>,
    /// Text for a person is wanted, and this is where it will be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) page: Option<Look>,
}

impl Request<'_> {
    pub(crate) fn owned(self) -> (String, Value, Option<Look>) {
        (self.op.into_owned(), self.input.into_owned(), self.page)
    }
}

/// The terminal in which a page is shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Look {
    /// Columns; everything is shown if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) width: Option<usize>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) colour: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Ok(Value),
    Page(Shown),
    Error(OpError),
}

/// An output as a person sees it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Shown {
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
        (Ok(Reply { text, verdict }), Form::Page { .. }) => {
            line.reserve(text.len() + text.len() / 16);
            line.extend_from_slice(b"{\"page\":");
            serde_json::to_writer(&mut line, &Shown { text, verdict })?;
        }
        (Ok(reply), Form::Json) => line = format!("{{\"ok\":{}", reply.text).into_bytes(),
    }
    line.extend_from_slice(b"}\n");
    Ok(line)
}
