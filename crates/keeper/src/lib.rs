//! The keeper: parent of every service and of the daemon.
//!
//! It spawns, reaps, restarts and stops services, and stores their output. It parses no
//! configuration and listens on no network: it receives resolved specs as messages. It stores
//! everything it needs in the runtime directory, so that the successor of a killed keeper knows
//! everything (`takeover`). One thread decides (`keeper`), others move log bytes (`pump`).

mod adopted_pipes;
mod daemon_process;
mod environment;
mod guard;
mod keeper;
mod next_run_env;
mod own_folder;
mod pump;
mod records;
mod requests;
mod retry;
mod runs;
mod runtime_repair;
mod service;
mod service_folder;
mod shutdown;
mod streams;
mod takeover;
mod trim_memory;

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
