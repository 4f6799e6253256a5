//! Ctrl-C for commands that stay: a signal to wait for next to the connection, instead of an end.

use super::Failure;
use proctor_sys::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, Signals, Wake};
use std::os::fd::AsFd;
use std::time::Duration;

/// While this exists, Ctrl-C, TERM and a closed terminal are reported instead of ending this process.
///
/// Create it after a possible start of Proctor, because a process inherits blocked signals.
pub(crate) struct Interrupts(Signals);

/// The event that came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstEvent {
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
    pub(crate) fn wait(
        &self,
        connection: impl AsFd,
        limit: Duration,
    ) -> Result<FirstEvent, Failure> {
        Ok(match self.0.wait(connection.as_fd(), limit)? {
            Wake::Signal(_) => FirstEvent::Interrupt,
            Wake::Readable => FirstEvent::Answer,
            Wake::Timeout => FirstEvent::Nothing,
        })
    }
}
