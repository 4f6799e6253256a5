//! Waits of the victim. Every wait has a limit, so that a forgotten victim does not live forever.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Longer than any test, shorter than a machine's uptime.
const MAX_LIFETIME: Duration = Duration::from_secs(3600);
/// Timeout for a file; a test that has not created it by then is gone.
const FILE_TIMEOUT: Duration = Duration::from_secs(300);
const FILE_LOOK: Duration = Duration::from_millis(5);

/// Waits this long.
pub(crate) fn rest(time: Duration) {
    let never = Mutex::new(());
    let guard = never.lock().expect("nobody else has this mutex");
    drop(Condvar::new().wait_timeout_while(guard, time, |()| true));
}

/// Waits until a signal ends this process.
pub(crate) fn for_signals() -> Result<ExitCode, String> {
    rest(MAX_LIFETIME);
    Err(format!("nobody ended me within {} s", MAX_LIFETIME.as_secs()))
}

/// Waits until the file exists.
pub(crate) fn for_file(path: &Path) -> Result<(), String> {
    let deadline = Instant::now() + FILE_TIMEOUT;
    while !path.exists() {
        if Instant::now() >= deadline {
            return Err(format!("{} did not appear", path.display()));
        }
        rest(FILE_LOOK);
    }
    Ok(())
}
