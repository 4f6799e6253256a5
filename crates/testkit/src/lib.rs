//! What Proctor's tests stand on: the `victim` process, a fixture for the real binary, and the one way to wait.
//!
//! Everything here panics when something is wrong: the caller is a test, and the message is for whoever reads its
//! failure. Nothing here knows the insides of Proctor; a fixture that shared code with it would share its mistakes.

mod binary;
mod groups;
mod home;
mod http;
mod mcp;
mod process;
mod pty;
mod sweep;
mod wait;

pub use binary::{proctor, victim};
pub use home::Home;
pub use http::{Event, Http, Response, Stream, exchange};
pub use mcp::{Conversation, Told};
pub use process::{
    Recorded, alive, children, descendants_alive, finish, free_port, kill9, recorded, running,
    signal, with_variable,
};
pub use pty::Pty;
pub use wait::{wait_for, wait_until};
