//! A token bucket: a rate per second with a burst; unused tokens come back up to a bound. The caller passes the clock.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    pub(super) each_second: f64,
    pub(super) burst: f64,
}

#[derive(Debug)]
pub(super) struct Bucket {
    rate: Rate,
    left: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn full(rate: Rate, now: Instant) -> Bucket {
        Bucket { rate, left: rate.burst, at: now }
    }

    /// Takes a token, or returns the wait until the next one.
    pub(super) fn take(&mut self, now: Instant) -> Result<(), Duration> {
        self.left = self.left_at(now);
        self.at = now;
        self.look(now)?;
        self.left -= 1.0;
        Ok(())
    }

    /// Checks whether a token is available, without taking it.
    pub(super) fn look(&self, now: Instant) -> Result<(), Duration> {
        let missing = 1.0 - self.left_at(now);
        if missing <= 0.0 {
            Ok(())
        } else {
            Err(Duration::from_secs_f64(missing / self.rate.each_second))
        }
    }

    pub(super) fn is_full(&self, now: Instant) -> bool {
        self.left_at(now) >= self.rate.burst
    }

    fn left_at(&self, now: Instant) -> f64 {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left + since * self.rate.each_second).min(self.rate.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_given_and_then_what_comes_back() {
        let start = Instant::now();
        let mut bucket = Bucket::full(Rate { each_second: 10.0, burst: 3.0 }, start);
        let at = |millis| start + Duration::from_millis(millis);
        assert!((0..3).all(|_| bucket.take(start).is_ok()) && !bucket.is_full(start));
        let wait = bucket.take(start).unwrap_err();
        assert!((0.09..0.11).contains(&wait.as_secs_f64()), "{wait:?}");
        assert!(bucket.take(at(50)).is_err());
        assert!(bucket.take(at(150)).is_ok() && bucket.take(at(150)).is_err());
        assert!(bucket.is_full(at(10_000)));
        assert_eq!((0..9).filter(|_| bucket.take(at(10_000)).is_ok()).count(), 3);
    }
}
