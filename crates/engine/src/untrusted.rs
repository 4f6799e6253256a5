//! What comes from outside the engine as bytes, decoded and encoded again: a door for the checks in `decoders`, which
//! nothing else uses.

use crate::api::{LogPage, LogQuery};
use crate::error::EngineError;
use crate::{logs, store};
use std::path::Path;

/// `services.json`, understood and written anew.
pub fn stored(bytes: &[u8]) -> Result<Vec<u8>, String> {
    store::encode(&store::parse(bytes)?)
}

/// `tokens.json`, understood and written anew.
pub fn tokens(bytes: &[u8]) -> Result<Vec<u8>, String> {
    crate::tokens::again(bytes)
}

/// A line of the audit, understood and written anew, without its end.
pub fn audit_line(line: &[u8]) -> Result<Vec<u8>, String> {
    crate::audit::again(line)
}

/// A line with the hash that it should have.
pub fn with_hash(body: &[u8]) -> Vec<u8> {
    crate::audit::with_hash(body)
}

/// A cursor that a client gave back, understood and written anew.
pub fn cursor(text: &str) -> Result<String, EngineError> {
    logs::cursor_again(text)
}

/// A page of the logs in this folder, as `log.read` gets it.
pub fn page(logs: &Path, query: &LogQuery) -> Result<LogPage, EngineError> {
    logs::read(logs, query)
}
