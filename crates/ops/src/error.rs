//! Errors of operations: a stable code for programs, a message and a remedy for people.
//!
//! [`TABLE`] is the only list of codes, with the representation in each front; references are generated from it. Over TCP a code
//! has the same name as in JSON.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct OpError {
    pub code: Code,
    /// Message: the failure, its object and the reason.
    pub message: String,
    /// Remedy: the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Details for programs; the shape depends on the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Value>>,
}

impl OpError {
    pub fn new(code: Code, message: impl Into<String>) -> OpError {
        OpError { code, message: message.into(), help: None, details: None }
    }

    #[must_use]
    pub fn help(self, help: impl Into<String>) -> OpError {
        OpError { help: Some(help.into()), ..self }
    }

    #[must_use]
    pub fn details(self, details: Value) -> OpError {
        OpError { details: Some(Box::new(details)), ..self }
    }

    pub fn bad_input(message: impl Into<String>) -> OpError {
        OpError::new(Code::BadInput, message)
    }
}

/// Stable codes that programs compare. A code unknown to this version is read as `internal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Code {
    Internal,
    Failed,
    BadInput,
    UnknownOperation,
    UnknownService,
    NotFound,
    NotRunning,
    ServiceFailed,
    Unavailable,
    ConnectionLost,
    Busy,
    Timeout,
    BadConfig,
    AlreadyExists,
    DefinedInFile,
    HomeInUse,
    PortInUse,
    ProgramMissing,
    UnknownUser,
    Forbidden,
    Unauthenticated,
    RateLimited,
    TooLarge,
    InvalidMode,
    Conflict,
    Stale,
    Cancelled,
    AuditUnavailable,
}

/// Name of a code, its representation in each front, and its meaning.
pub struct Row {
    pub code: Code,
    pub name: &'static str,
    /// Exit code of a command.
    pub exit: u8,
    /// HTTP status.
    pub http: u16,
    /// JSON-RPC error code in MCP; `None` for a tool result with `isError`, which the assistant reads.
    pub rpc: Option<i32>,
    pub meaning: &'static str,
}

const fn row(code: Code, name: &'static str, exit: u8, http: u16, meaning: &'static str) -> Row {
    Row { code, name, exit, http, rpc: None, meaning }
}

impl Row {
    const fn rpc(self, number: i32) -> Row {
        Row { rpc: Some(number), ..self }
    }
}

/// JSON-RPC code of an internal server error; MCP uses it for an unknown tool.
const INTERNAL: i32 = -32603;
const UNKNOWN_TOOL: i32 = -32602;

pub const TABLE: &[Row] = &[
    row(Code::Failed, "failed", 1, 422, "the operation failed; the message says why"),
    row(Code::Internal, "internal", 1, 500, "a bug in Proctor itself").rpc(INTERNAL),
    row(Code::Forbidden, "forbidden", 1, 403, "this caller may not do that"),
    row(Code::Unauthenticated, "unauthenticated", 1, 401, "a token is missing or invalid"),
    row(Code::Cancelled, "cancelled", 1, 409, "the operation was cancelled"),
    row(
        Code::AuditUnavailable,
        "audit_unavailable",
        1,
        503,
        "the audit log cannot be written, so nothing was changed",
    ),
    row(Code::BadInput, "bad_input", 2, 400, "the request is invalid"),
    row(Code::TooLarge, "too_large", 2, 413, "the request is too large"),
    row(Code::InvalidMode, "invalid_mode", 2, 400, "the runtime mode does not exist"),
    row(Code::UnknownOperation, "unknown_operation", 2, 404, "the operation does not exist")
        .rpc(UNKNOWN_TOOL),
    row(Code::UnknownService, "unknown_service", 3, 404, "no service or group has that name"),
    row(Code::NotFound, "not_found", 3, 404, "an object does not exist; the message names it"),
    row(Code::NotRunning, "not_running", 4, 409, "the service does not run"),
    row(Code::ServiceFailed, "service_failed", 4, 409, "the service ended or is unhealthy"),
    row(Code::Unavailable, "unavailable", 5, 503, "Proctor does not run, or does not respond"),
    row(
        Code::ConnectionLost,
        "connection_lost",
        5,
        502,
        "the connection ended before the response",
    ),
    row(Code::Busy, "busy", 5, 503, "too many requests at once"),
    row(Code::RateLimited, "rate_limited", 5, 429, "too many requests from this caller"),
    row(Code::Timeout, "timeout", 6, 504, "the time limit expired"),
    row(Code::BadConfig, "bad_config", 7, 422, "the configuration is invalid"),
    row(Code::AlreadyExists, "already_exists", 8, 409, "the name is in use"),
    row(
        Code::DefinedInFile,
        "defined_in_file",
        8,
        409,
        "the service belongs to a configuration file",
    ),
    row(Code::HomeInUse, "home_in_use", 8, 409, "this home runs another configuration"),
    row(Code::PortInUse, "port_in_use", 8, 409, "the port is in use"),
    row(Code::Conflict, "conflict", 8, 409, "another operation or change is in the way"),
    row(Code::Stale, "stale", 8, 412, "the object changed since the caller read it"),
    row(
        Code::ProgramMissing,
        "program_missing",
        9,
        422,
        "the program was not found or cannot be executed",
    ),
    row(Code::UnknownUser, "unknown_user", 9, 422, "no such user or group on this machine"),
];

/// Returns the table as a page of the documentation.
pub fn reference() -> String {
    let mut text = String::from(
        "# Errors\n\nGenerated by `cargo xtask gen`. Every interface returns the code, in JSON as `code` (over TCP in `data`). A command \
         exits with the number; HTTP returns the status; MCP returns the JSON-RPC error, or a tool result with `isError`.\n\n\
         | code | exit | HTTP | MCP | meaning |\n|---|---|---|---|---|\n",
    );
    for row in TABLE {
        let Row { name, exit, http, rpc, meaning, .. } = row;
        let mcp = rpc.map_or_else(|| "`isError`".to_owned(), |number| number.to_string());
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{name}` | {exit} | {http} | {mcp} | {meaning} |");
    }
    text
}

impl Code {
    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.code == self).expect("a test checks that every code has a row")
    }

    pub fn as_str(self) -> &'static str {
        self.row().name
    }

    pub fn exit(self) -> u8 {
        self.row().exit
    }

    pub fn meaning(self) -> &'static str {
        self.row().meaning
    }

    pub fn http(self) -> u16 {
        self.row().http
    }

    /// Returns the JSON-RPC error code in MCP, if there is one.
    pub fn rpc(self) -> Option<i32> {
        self.row().rpc
    }
}

impl From<Code> for String {
    fn from(code: Code) -> String {
        code.as_str().into()
    }
}

impl From<String> for Code {
    fn from(text: String) -> Code {
        TABLE.iter().find(|row| row.name == text).map_or(Code::Internal, |row| row.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists every code. A new code does not compile until it is added here.
    fn every_code() -> Vec<Code> {
        use Code::*;
        let all = [
            Internal,
            Failed,
            BadInput,
            UnknownOperation,
            UnknownService,
            NotRunning,
            ServiceFailed,
            Unavailable,
            ConnectionLost,
            Busy,
            Timeout,
            BadConfig,
            AlreadyExists,
            DefinedInFile,
            HomeInUse,
            PortInUse,
            ProgramMissing,
            UnknownUser,
            Forbidden,
            NotFound,
            Unauthenticated,
            RateLimited,
            TooLarge,
            InvalidMode,
            Conflict,
            Stale,
            Cancelled,
            AuditUnavailable,
        ];
        for code in all {
            match code {
                Internal | Failed | BadInput | UnknownOperation | UnknownService | NotRunning
                | ServiceFailed | Unavailable | ConnectionLost | Busy | Timeout | BadConfig
                | AlreadyExists | DefinedInFile | HomeInUse | PortInUse | ProgramMissing
                | UnknownUser | Forbidden | NotFound | Unauthenticated | RateLimited | TooLarge
                | InvalidMode | Conflict | Stale | Cancelled | AuditUnavailable => {}
            }
        }
        all.to_vec()
    }

    #[test]
    fn every_code_has_one_row_and_comes_back_from_json() {
        for code in every_code() {
            let rows = TABLE.iter().filter(|row| row.code == code || row.name == code.as_str());
            assert_eq!(rows.count(), 1, "{code:?}");
            let json = serde_json::to_string(&code).unwrap();
            assert_eq!(serde_json::from_str::<Code>(&json).unwrap(), code);
            assert!(code.exit() > 0, "{code:?} would look like success");
            assert!((400..600).contains(&code.http()), "{code:?} would look like success");
        }
        assert_eq!(TABLE.len(), every_code().len());
    }

    #[test]
    fn a_code_of_a_newer_version_is_still_an_error() {
        let error: OpError =
            serde_json::from_str(r#"{"code":"from_the_future","message":"x"}"#).unwrap();
        assert_eq!((error.code, error.help), (Code::Internal, None));
    }
}
