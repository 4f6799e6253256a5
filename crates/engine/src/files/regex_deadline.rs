//! The time limit of a pattern on one content.
//!
//! One match takes time proportional to the bytes read, whatever the pattern. But a pattern may read to the end
//! of the content before it knows that a match is short, and do so at each match: then kilobytes take minutes.
//! So the clock is checked between matches.

use super::error::FileError;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time limit: far longer than patterns that people write take on the largest accepted files.
pub(super) const SLOWEST: Duration = Duration::from_secs(10);

/// Matches between two readings of the clock, which costs as much as a quick match.
const MATCHES: u32 = 16;

pub(super) struct RegexDeadline<'a> {
    stop: &'a dyn Fn() -> bool,
    /// The time limit, counted from the first matches.
    most: Option<Duration>,
    asked: Cell<u32>,
    until: Cell<Option<Instant>>,
    over: Cell<Option<StopReason>>,
}

/// Why the search stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    Stopped,
    TooSlow,
}

impl StopReason {
    pub(super) fn at(self, path: &str) -> FileError {
        match self {
            StopReason::Stopped => FileError::Cancelled,
            StopReason::TooSlow => FileError::TooSlow { path: path.to_owned() },
        }
    }
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            StopReason::Stopped => "the caller stopped waiting",
            StopReason::TooSlow => "it takes too long",
        })
    }
}

impl<'a> RegexDeadline<'a> {
    pub(super) fn new(stop: &'a dyn Fn() -> bool, most: Option<Duration>) -> RegexDeadline<'a> {
        let (asked, until, over) = (Cell::new(0), Cell::new(None), Cell::new(None));
        RegexDeadline { stop, most, asked, until, over }
    }

    /// Called before each match. Fails if the search must stop, and from then on always.
    pub(super) fn ask(&self) -> Result<(), StopReason> {
        if self.over.get().is_none() {
            if self.is_stopped() {
                self.over.set(Some(StopReason::Stopped));
            } else if self.is_late() {
                self.over.set(Some(StopReason::TooSlow));
            }
        }
        self.over.get().map_or(Ok(()), Err)
    }

    pub(super) fn over(&self) -> Option<StopReason> {
        self.over.get()
    }

    /// Returns true if no caller waits any more.
    pub(super) fn is_stopped(&self) -> bool {
        (self.stop)()
    }

    fn is_late(&self) -> bool {
        let asked = self.asked.get().wrapping_add(1);
        self.asked.set(asked);
        let Some(most) = self.most.filter(|_| asked.is_multiple_of(MATCHES)) else { return false };
        let now = Instant::now();
        let until = self.until.get().unwrap_or(now + most);
        self.until.set(Some(until));
        now >= until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_nobody_waits_or_it_takes_too_long() {
        let stopped = Cell::new(false);
        let stop = || stopped.get();
        let patience = RegexDeadline::new(&stop, None);
        assert!((0..1000).all(|_| patience.ask().is_ok()));
        stopped.set(true);
        assert_eq!(patience.ask(), Err(StopReason::Stopped));
        stopped.set(false);
        assert_eq!(patience.ask(), Err(StopReason::Stopped), "it stays so");
        let none = RegexDeadline::new(&|| false, Some(Duration::ZERO));
        let few = (0..100).take_while(|_| none.ask().is_ok()).count();
        assert_eq!((few as u32, none.over()), (MATCHES - 1, Some(StopReason::TooSlow)));
    }
}
