//! How an operation fails: a stable code for programs, a sentence and a remedy for people.
//!
//! [`TABLE`] is the one list of codes with what each front says for it; references are made from it. Over TCP a code goes
//! by its name, as in JSON everywhere.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct OpError {
    pub code: Code,
    /// What failed, on what.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// For programs; its shape depends on the code.
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

/// Stable: programs compare these. A code this version does not know is read as `internal`.
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

/// What a code is called, what each front says for it, and what it means.
pub struct Row {
    pub code: Code,
    pub name: &'static str,
    /// What a command exits with.
    pub exit: u8,
    /// The status of an HTTP answer.
    pub http: u16,
    /// The JSON-RPC error that MCP has for it; `None`: a tool's result with `isError`, which the assistant reads.
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

/// What JSON-RPC calls an error of the server itself, and MCP a tool that does not exist.
const INTERNAL: i32 = -32603;
const UNKNOWN_TOOL: i32 = -32602;

pub const TABLE: &[Row] = &[
    row(Code::Failed, "failed", 1, 422, "it could not be done; the message says why"),
    row(Code::Internal, "internal", 1, 500, "a mistake in Proctor itself").rpc(INTERNAL),
    row(Code::Forbidden, "forbidden", 1, 403, "this caller may not do that"),
    row(
        Code::Unauthenticated,
        "unauthenticated",
        1,
        401,
        "a token is needed, or this one is not valid",
    ),
    row(Code::Cancelled, "cancelled", 1, 409, "somebody cancelled it"),
    row(
        Code::AuditUnavailable,
        "audit_unavailable",
        1,
        503,
        "the audit cannot be written, so nothing is changed",
    ),
    row(Code::BadInput, "bad_input", 2, 400, "the request itself is wrong"),
    row(Code::TooLarge, "too_large", 2, 413, "the request is too large"),
    row(Code::InvalidMode, "invalid_mode", 2, 400, "there is no such runtime mode"),
    row(Code::UnknownOperation, "unknown_operation", 2, 404, "there is no such operation")
        .rpc(UNKNOWN_TOOL),
    row(Code::UnknownService, "unknown_service", 3, 404, "no service or group has that name"),
    row(Code::NotFound, "not_found", 3, 404, "no such thing; the message says what"),
    row(Code::NotRunning, "not_running", 4, 409, "the service does not run"),
    row(Code::ServiceFailed, "service_failed", 4, 409, "the service ended or is unhealthy"),
    row(Code::Unavailable, "unavailable", 5, 503, "no Proctor runs, or it does not answer"),
    row(Code::ConnectionLost, "connection_lost", 5, 502, "the connection ended before the answer"),
    row(Code::Busy, "busy", 5, 503, "too many requests at once"),
    row(Code::RateLimited, "rate_limited", 5, 429, "too many requests from this caller"),
    row(Code::Timeout, "timeout", 6, 504, "it did not happen in time"),
    row(Code::BadConfig, "bad_config", 7, 422, "the configuration has problems"),
    row(Code::AlreadyExists, "already_exists", 8, 409, "that name is taken"),
    row(
        Code::DefinedInFile,
        "defined_in_file",
        8,
        409,
        "the service belongs to a configuration file",
    ),
    row(Code::HomeInUse, "home_in_use", 8, 409, "this home runs another configuration"),
    row(Code::PortInUse, "port_in_use", 8, 409, "the port is taken"),
    row(Code::Conflict, "conflict", 8, 409, "something else is under way that this would disturb"),
    row(Code::Stale, "stale", 8, 412, "it has changed since the caller looked"),
    row(
        Code::ProgramMissing,
        "program_missing",
        9,
        422,
        "the program to run was not found or cannot be run",
    ),
    row(Code::UnknownUser, "unknown_user", 9, 422, "no such user or group on this machine"),
];

/// The table as a page of the documentation.
pub fn reference() -> String {
    let mut text = String::from(
        "# Errors\n\nMade by `cargo xtask gen`. Every front answers with the code, in JSON as `code` (over TCP in `data`); a command \
         exits with the number, HTTP has the status, MCP the JSON-RPC error or a tool's result with `isError`.\n\n\
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

    /// The JSON-RPC error that MCP has for it, if it has one.
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

    /// A new code does not compile here until it was thought of.
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
