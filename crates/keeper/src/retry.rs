//! Retries steps of a takeover that failed because a resource was short: a service must not stay
//! unread or unwatched for that.

use crate::keeper::Keeper;
use crate::log;
use proctor_core::name::RunId;
use proctor_core::time::{Millis, Mono};
use rustix::io::Errno;
use std::io;

/// Interval between two retries. Another process must close a file or free memory first.
const AGAIN: Millis = Millis(200);

/// A pending step for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingStep {
    /// Open the pipe of a live run: 0 is standard output, 1 standard error.
    Pipe { slot: u32, run: RunId, number: usize },
    /// Watch the adopted main process.
    Watch { slot: u32 },
    /// Take over a run that is over; its pipes may hold its last output.
    Run { slot: u32, run: RunId },
}

#[derive(Debug, Default)]
pub(crate) struct RetryList {
    undone: Vec<PendingStep>,
    at: Option<Mono>,
}

impl RetryList {
    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.at
    }
}

impl Keeper {
    pub(crate) fn again_later(&mut self, undone: PendingStep, error: &io::Error) {
        log!("{undone:?} failed: {error}; retrying");
        self.again.undone.push(undone);
        self.again.at.get_or_insert(proctor_sys::clock::now().mono.plus(AGAIN));
    }

    /// A run ends: opens its pipes now, because there is no later chance.
    pub(crate) fn open_now_or_never(&mut self, slot: u32, run: RunId) {
        let is_meant = |undone: &PendingStep| matches!(undone, PendingStep::Pipe { slot: s, run: r, .. } if (*s, *r) == (slot, run));
        let all = std::mem::take(&mut self.again.undone);
        let (now, later): (Vec<_>, Vec<_>) = all.into_iter().partition(is_meant);
        self.again.undone = later;
        for undone in now {
            if let PendingStep::Pipe { number, .. } = undone {
                self.open_log_again(slot, run, number);
            }
        }
    }

    pub(crate) fn try_again(&mut self, now: Mono) {
        if self.again.at.is_none_or(|at| at > now) {
            return;
        }
        self.again.at = None;
        for undone in std::mem::take(&mut self.again.undone) {
            match undone {
                PendingStep::Pipe { slot, run, number } => self.open_log_again(slot, run, number),
                PendingStep::Watch { slot } => self.watch_again(slot),
                PendingStep::Run { slot, run } => self.take_over_again(slot, run),
            }
        }
    }
}

/// Whether the error is temporary; any other would occur again.
pub(crate) fn passes(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::IO))
}
