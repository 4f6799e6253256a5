//! The one door: every capability of Proctor is one operation, described once.
//!
//! A front turns its own shape of a request into an operation's name and JSON input, calls [`dispatch::dispatch`], and
//! passes on the reply. Every check (decoding, permission, limits) is on that way and nowhere else.
//! Out of scope: sockets, terminals, argument parsing. They belong to the fronts.

mod authority;
mod change;
mod check;
mod command;
pub mod counters;
pub mod dispatch;
pub mod error;
mod execute_rules;
pub mod field_aliases;
mod file;
pub mod git;
pub mod input;
pub mod limits;
pub mod lines;
mod mode;
pub mod moment;
mod noted;
pub mod openmetrics;
pub mod operation;
pub mod operations;
mod quiet;
mod remedy;
pub mod reply;
pub mod settle;
pub mod show;
pub mod status;
mod subject;
pub mod table;
pub mod tools;
pub mod underway;
mod waiting;
