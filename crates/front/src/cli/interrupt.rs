//! Ctrl-C for commands that stay: a signal is something to wait for beside the connection, not an end.

use super::Failure;
use proctor_sys::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, Signals, Wake};
use std::os::fd::AsFd;
use std::time::Duration;

/// From here on, Ctrl-C, TERM and a closed terminal are told instead of ending this process.
///
/// To be made after Proctor was started, if it has to be: a process inherits what is blocked.
pub(crate) struct Interrupts(Signals);

/// What came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    Answer,
    Interrupt,
    Nothing,
}

impl Interrupts {
    pub(crate) fn catch() -> Result<Interrupts, Failure> {
        Ok(Interrupts(Signals::new(&[SIGINT, SIGTERM, SIGHUP])?))
    }

    /// Like [`Interrupts::catch`], and SIGQUIT as well: somebody whose terminal is changed must put it back first.
    pub(crate) fn catch_all() -> Result<Interrupts, Failure> {
        Ok(Interrupts(Signals::new(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT])?))
    }

    /// Wait for an answer on a connection, or for an interrupt.
    pub(crate) fn wait(&self, connection: impl AsFd, limit: Duration) -> Result<Came, Failure> {
        Ok(match self.0.wait(connection.as_fd(), limit)? {
            Wake::Signal(_) => Came::Interrupt,
            Wake::Readable => Came::Answer,
            Wake::Timeout => Came::Nothing,
        })
    }
}
