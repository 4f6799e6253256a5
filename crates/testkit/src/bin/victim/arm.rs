//! The victim's reaction to TERM, INT and HUP.
//!
//! Safe code can install handlers but not `SIG_IGN`: a victim that "ignores" a signal catches it
//! and does nothing. From outside the two differ only in the masks of `/proc/PID/status`, and in
//! that `exec` does not preserve a handler. That is why descendants get `--ignore-term` themselves.

use crate::output;
use crate::script::Script;
use crate::wait;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(crate) fn arm(script: &Script) -> Result<(), String> {
    if script.ignore_term {
        return ignore(&[SIGTERM, SIGINT, SIGHUP]);
    }
    if script.term_exit.is_none() && script.term_delay.is_none() {
        return Ok(());
    }
    answer_term(script.term_delay.unwrap_or_default(), script.term_exit)
}

fn ignore(signals: &[i32]) -> Result<(), String> {
    for &signal in signals {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(|why| format!("cannot catch signal {signal}: {why}"))?;
    }
    Ok(())
}

/// Reacts to a single TERM: waits, then exits with the code, or dies of TERM.
fn answer_term(delay: Duration, exit: Option<u8>) -> Result<(), String> {
    let mut signals = Signals::new([SIGTERM]).map_err(|why| format!("cannot catch TERM: {why}"))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_none() {
            return;
        }
        wait::rest(delay);
        if let Some(code) = exit {
            std::process::exit(code.into());
        }
        if let Err(why) = signal_hook::low_level::emulate_default_handler(SIGTERM) {
            output::complain(&format!("cannot die of TERM: {why}"));
        }
    });
    Ok(())
}
