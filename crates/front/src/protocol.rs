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
pub(crate) struct Request {
    pub(crate) op: String,
    #[serde(default)]
    pub(crate) input: Value,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
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
