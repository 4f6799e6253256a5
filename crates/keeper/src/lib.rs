//! The keeper: parent of every service and of the daemon.
//!
//! It spawns, reaps, restarts and stops services, and stores their output. It parses no
//! configuration and listens on no network: it receives resolved specs as messages. It stores
//! everything it needs in the runtime directory, so that the successor of a killed keeper knows
//! everything (`takeover`). One thread decides (`keeper`), others move log bytes (`pump`).

mod again;
mod daemon;
mod ending;
mod environment;
mod guard;
mod keeper;
mod lost;
mod named;
mod once;
mod own_folder;
mod pipes;
mod pump;
mod records;
mod requests;
mod rest;
mod runs;
mod service;
mod streams;
mod takeover;

pub use guard::process::{GuardOptions, run_guard};
pub use keeper::{KeeperError, Options, make_home, run};

/// Writes a line to the keeper's own log: standard error, which is a file in the background.
macro_rules! log {
    ($($words:tt)*) => { crate::write_log("keeper", format_args!($($words)*)) };
}
pub(crate) use log;

fn write_log(role: &str, words: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let at = proctor_sys::clock::now().wall.rfc3339();
    // There is no place to report a failing log.
    let _ = writeln!(std::io::stderr(), "{at}  WARN {role}[{}]: {words}", std::process::id());
}
