//! The sockets and the command line, against a scripted daemon.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod cli;
mod generated;
mod local;
mod parity;
mod script;
mod tcp;
