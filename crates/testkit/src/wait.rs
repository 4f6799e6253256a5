//! The one place where testing waits.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Looks come quickly at first, for most things happen at once …
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// … and then often enough not to be noticed.
const LONGEST_LOOK: Duration = Duration::from_millis(25);

/// Wait until the condition holds; panic, naming `what` was waited for, if it does not within `limit`.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    wait_for(what, limit, || condition().then_some(()));
}

/// Wait until there is something; panic, naming `what` was waited for, if there is nothing within `limit`.
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
        pause = (pause * 2).min(LONGEST_LOOK);
    }
}

/// A wait for something that nobody will ever say, up to a limit.
fn rest(time: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().expect("nobody else has this mutex");
    drop(Condvar::new().wait_timeout_while(guard, time, |()| true));
}
