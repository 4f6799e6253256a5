//! Decodes and encodes again the bytes that come from outside the engine. Only the checks in `decoders` use
//! this.

use crate::api::{LogPage, LogQuery};
use crate::error::EngineError;
use crate::{logs, service_store};
use std::path::Path;

/// Decodes `services.json` and encodes it again.
pub fn stored(bytes: &[u8]) -> Result<Vec<u8>, String> {
    service_store::encode(&service_store::parse(bytes)?)
}

/// Decodes `tokens.json` and encodes it again.
pub fn tokens(bytes: &[u8]) -> Result<Vec<u8>, String> {
    crate::tokens::again(bytes)
}

/// Decodes a line of the audit and encodes it again, without its end.
pub fn audit_line(line: &[u8]) -> Result<Vec<u8>, String> {
    crate::audit::again(line)
}

/// A line with its correct hash.
pub fn with_hash(body: &[u8]) -> Vec<u8> {
    crate::audit::with_hash(body)
}

/// Decodes a client's cursor and encodes it again.
pub fn cursor(text: &str) -> Result<String, EngineError> {
    logs::cursor_again(text)
}

/// A page of the logs in this folder, as `log.read` returns it.
pub fn page(logs: &Path, query: &LogQuery) -> Result<LogPage, EngineError> {
    logs::read(logs, query)
}
