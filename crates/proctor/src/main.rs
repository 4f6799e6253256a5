//! The one binary. It picks its role: command line, keeper, daemon or guard. Everything else is in the crates.
//!
//! Proctor starts itself with `__keeper`, `__daemon` and `__guard`; people never type them.

#![no_main]

mod daemon;
mod fronts;
mod guard;
mod keeper;
mod launch;

use proctor_sys::failpoint;
use std::ffi::OsStr;
use std::io::Write;

/// Lists the failpoints of a build for the fault campaign; in any other build this word has no meaning.
const FAILPOINTS: &str = "__failpoints";

proctor_sys::begin_with!(run);

fn run() -> u8 {
    let role = std::env::args_os().nth(1);
    let ended = match role.as_deref().and_then(OsStr::to_str) {
        Some(keeper::ROLE) => keeper::main(),
        Some(daemon::ROLE) => daemon::main(),
        Some(guard::ROLE) => guard::main(),
        Some(FAILPOINTS) if let Some(table) = failpoint::table() => {
            std::io::stdout().write_all(table.as_bytes()).map_err(Into::into)
        }
        _ => return proctor_front::cli::main(&launch::Launcher),
    };
    match ended {
        Ok(()) => 0,
        Err(error) => {
            // The own log; if it cannot be written, there is no receiver left.
            let _ = writeln!(std::io::stderr(), "proctor[{}]: {error:#}", std::process::id());
            1
        }
    }
}
