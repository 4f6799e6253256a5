//! What a line means: a JSON value or plain words, both as one operation of the table.

use super::json;
use super::words;
use proctor_ops::error::OpError;
use serde_json::Value;

/// How a line was said, and so how it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// One line of JSON.
    Json,
    /// Text for a person, and an empty line.
    Words,
}

/// A line that was understood.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// An empty line: nothing is answered.
    Nothing,
    Quit,
    /// What was asked for is this text.
    Help(String),
    /// Who is calling, for the rest of the connection.
    Auth(String),
    Call(Call),
}

/// One operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub op: String,
    pub input: Value,
    /// Who is calling, for this one.
    pub token: Option<String>,
    pub shape: Shape,
}

/// In which shape the output goes back, as `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// That of the operation.
    AsItIs,
    /// One service of `crate::legacy`, or a map of them.
    Status(Asked),
    /// `{"healthy":…}`: that something is not well is an answer, and no failure to answer.
    Health,
    /// These fields of it, which are those that programs know.
    Only(&'static [&'static str]),
}

/// Of which services the status was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// None was named: the one that is meant then, if there is one.
    Nothing,
    Name,
    /// Every one, so it is a map, however many there are.
    All,
}

/// Understand a line of text.
pub fn understand(text: &str) -> (Manner, Result<Said, OpError>) {
    match text.as_bytes().first() {
        None => (Manner::Words, Ok(Said::Nothing)),
        Some(b'{' | b'"' | b'[') => (Manner::Json, json::understand(text)),
        Some(_) => words::understand(text),
    }
}
