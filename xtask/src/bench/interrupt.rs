//! Ctrl-C: checked between two waits, so that everything ends in the usual way.

use anyhow::{Context as _, Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum wait before the next check for an interrupt.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

pub(crate) fn watch() -> Result<()> {
    let flag = INTERRUPTED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag)).context("cannot catch signals")?;
    }
    Ok(())
}

pub(crate) fn happened() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

pub(crate) fn check() -> Result<()> {
    if happened() {
        bail!("interrupted");
    }
    Ok(())
}

/// Waits this long, or fails on an interrupt.
pub(crate) fn pause(time: Duration) -> Result<()> {
    let mut left = time;
    while !left.is_zero() {
        check()?;
        let step = left.min(LOOK);
        std::thread::sleep(step);
        left -= step;
    }
    check()
}
