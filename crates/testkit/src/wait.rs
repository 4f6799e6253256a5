//! The only place where tests wait.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// First interval between checks; short, because most conditions hold soon.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// Longest interval between checks; short enough not to be noticed.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Waits until the condition holds; panics with `what` if it does not within `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, limit, || condition().then_some(()));
}

/// Waits until there is a value; panics with `what` if there is none within `limit`.
#[track_caller]
pub fn wait_for<Found>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Option<Found>,
) -> Found {
    let deadline = Instant::now() + limit;
    let mut pause = FIRST_LOOK;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {limit:?} in vain for {what}");
        rest(pause);
        pause = (pause * 2).min(MAX_POLL_INTERVAL);
    }
}

/// Sleeps for a condition that no event reports.
fn rest(time: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().expect("nobody else has this mutex");
    drop(Condvar::new().wait_timeout_while(guard, time, |()| true));
}
