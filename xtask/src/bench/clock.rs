//! The clock that the services under test also use: `CLOCK_MONOTONIC`, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// A moment, or the time between two.
pub(crate) type Nanoseconds = u64;

pub(crate) const SECOND: Nanoseconds = 1_000_000_000;

pub(crate) fn now() -> Nanoseconds {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("the monotonic clock begins at boot");
    let part = u64::try_from(time.tv_nsec).expect("a part of a second is not negative");
    seconds * SECOND + part
}

pub(crate) fn seconds(time: Nanoseconds) -> f64 {
    time as f64 / SECOND as f64
}

pub(crate) fn milliseconds(time: Nanoseconds) -> f64 {
    time as f64 / 1e6
}
