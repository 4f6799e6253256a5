//! How the victim lets time pass. Every wait has a bound, so that a forgotten victim does not live for ever.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Longer than any test, shorter than a machine's uptime.
const LONGEST_LIFE: Duration = Duration::from_secs(3600);
/// A test that has not made its file by then is gone.
const LONGEST_FILE_WAIT: Duration = Duration::from_secs(300);
const FILE_LOOK: Duration = Duration::from_millis(5);

/// Let this much time pass.
pub(crate) fn rest(time: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().expect("nobody else has this mutex");
    drop(Condvar::new().wait_timeout_while(guard, time, |()| true));
}

/// Until a signal ends this process.
pub(crate) fn for_signals() -> Result<ExitCode, String> {
    rest(LONGEST_LIFE);
    Err(format!("nobody ended me within {} s", LONGEST_LIFE.as_secs()))
}

/// Until the file is there.
pub(crate) fn for_file(path: &Path) -> Result<(), String> {
    let deadline = Instant::now() + LONGEST_FILE_WAIT;
    while !path.exists() {
        if Instant::now() >= deadline {
            return Err(format!("{} did not appear", path.display()));
        }
        rest(FILE_LOOK);
    }
    Ok(())
}
