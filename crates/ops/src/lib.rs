//! The one door: every capability of Proctor is one operation, described once.
//!
//! A front turns its own shape of a request into an operation's name and JSON input, calls [`dispatch::dispatch`], and
//! passes on the reply. Every check (decoding, permission, limits) is on that way and nowhere else.
//! Out of scope: sockets, terminals, argument parsing. They belong to the fronts.

mod audit_entry;
mod audit_targets;
mod authority;
mod command;
pub mod counters;
pub mod dispatch;
pub mod error;
mod error_hints;
mod execute_rules;
pub mod field_aliases;
mod file;
mod file_change;
pub mod git;
pub mod input;
mod input_check;
pub mod limits;
pub mod log_lines;
mod mode;
pub mod openmetrics;
pub mod operation;
pub mod operations;
mod redaction;
pub mod reply;
pub mod running_operations;
pub mod status;
pub mod table;
pub mod text_output;
pub mod timestamps;
pub mod tools;
mod wait_condition;
pub mod wait_for_services;
