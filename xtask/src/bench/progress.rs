//! Elapsed and estimated remaining time of a benchmark.

use std::time::{Duration, Instant};

pub(crate) struct Progress {
    begin: Instant,
    begun: usize,
    turns: usize,
}

impl Progress {
    pub(crate) fn begin(turns: usize) -> Progress {
        Progress { begin: Instant::now(), begun: 0, turns }
    }

    /// The text before the next turn.
    pub(crate) fn next(&mut self) -> String {
        let done = self.begun;
        self.begun += 1;
        said(self.begin.elapsed(), done, self.turns)
    }
}

/// Assumes that all turns take equally long; empty before the first has ended.
fn said(passed: Duration, done: usize, turns: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let left = passed.mul_f64(turns.saturating_sub(done) as f64 / done as f64);
    let minutes = |time: Duration| time.as_secs().div_ceil(60);
    format!(" ({} min so far, about {} to go)", minutes(passed), minutes(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_takes_as_long_as_what_was() {
        let minutes = |count: u64| Duration::from_secs(60 * count);
        for (passed, done, expected) in [
            (0, 0, ""),
            (2, 1, " (2 min so far, about 18 to go)"),
            (10, 5, " (10 min so far, about 10 to go)"),
            (20, 10, " (20 min so far, about 0 to go)"),
        ] {
            assert_eq!(said(minutes(passed), done, 10), expected);
        }
    }
}
