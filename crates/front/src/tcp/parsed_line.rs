//! Parses a line, a JSON value or plain words, to one operation of the table.

use super::json;
use super::plain_words;
use proctor_ops::error::OpError;
use serde_json::Value;

/// Format of a line, and so of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyFormat {
    /// One line of JSON.
    Json,
    /// Text for a person, and an empty line.
    Words,
}

/// A parsed line.
#[derive(Debug, Clone, PartialEq)]
pub enum ParsedLine {
    /// An empty line without a response.
    Nothing,
    Quit,
    /// A request for this help text.
    Help(String),
    /// A token for the rest of the connection.
    Auth(String),
    Call(OperationCall),
}

/// A call of one operation.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationCall {
    pub op: String,
    pub input: Value,
    /// Token for this call only.
    pub token: Option<String>,
    pub shape: Shape,
}

/// Shape of the output in `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The operation's own shape.
    AsItIs,
    /// One service of `crate::legacy`, or a map of them.
    Status(StatusTarget),
    /// `{"healthy":…}`: an unhealthy service is a result, not an error.
    Health,
    /// Only these fields, which earlier programs know.
    Only(&'static [&'static str]),
}

/// Services of a status request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusTarget {
    /// None was named: the default one, if there is one.
    Nothing,
    Name,
    /// Every one, so the result is always a map.
    All,
}

/// Parses a line of text.
pub fn understand(text: &str) -> (ReplyFormat, Result<ParsedLine, OpError>) {
    match text.as_bytes().first() {
        None => (ReplyFormat::Words, Ok(ParsedLine::Nothing)),
        Some(b'{' | b'"' | b'[') => (ReplyFormat::Json, json::understand(text)),
        Some(_) => plain_words::understand(text),
    }
}
