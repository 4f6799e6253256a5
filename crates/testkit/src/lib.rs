//! The base of Proctor's tests: the `victim` process, a fixture for the real binary, and the one
//! way to wait.
//!
//! Everything here panics on errors: the caller is a test, and the message is for the reader of its
//! failure. Nothing here shares code with Proctor; a fixture that did would share its mistakes.

mod binary;
mod cleanup;
mod home;
mod http;
mod mcp;
mod process;
mod process_groups;
mod pty;
mod wait;

pub use binary::{proctor, victim};
pub use home::Home;
pub use http::{Event, Http, Response, Stream, exchange};
pub use mcp::{Conversation, ToolReply};
pub use process::{
    RecordedProcess, alive, children, descendants_alive, finish, free_port, kill9, recorded,
    running, signal, with_variable,
};
pub use pty::Pty;
pub use wait::{wait_for, wait_until};
