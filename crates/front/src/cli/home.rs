//! Finds the home of a command: the given one, or the one of the user's running Proctor.

use super::session::has_runs;
use proctor_core::home::Home;
use proctor_ops::error::{Code, OpError};
use proctor_sys::keeper_note::KeeperNote;
use proctor_sys::small_file::Lock;
use std::path::PathBuf;

/// Returns `--home`, `PROCTOR_HOME`, or the home of this user's Proctor.
pub(crate) fn home(given: Option<&PathBuf>) -> Result<Home, OpError> {
    let home = usual(given)?;
    Ok(if explicit(given)?.is_some() { home } else { where_it_runs(home) })
}

/// Returns the home without checking where Proctor runs.
pub(crate) fn usual(given: Option<&PathBuf>) -> Result<Home, OpError> {
    let explicit = explicit(given)?;
    let uid = rustix::process::geteuid().as_raw();
    let home =
        Home::locate(explicit.as_deref(), uid, &|name| std::env::var_os(name).map(PathBuf::from))
            .ok_or_else(|| {
            OpError::bad_input("the home folder of Proctor is not known")
                .help("set HOME, or give --home DIR")
        })?;
    // The path is passed on as text. A lossy conversion would name another folder.
    for path in [&home.state, &home.runtime] {
        if path.to_str().is_none() {
            let message = format!("{} is not UTF-8 text", path.display());
            return Err(OpError::bad_input(message).help("give --home DIR with a UTF-8 name"));
        }
    }
    Ok(home)
}

/// Returns the folder of `--home` or `PROCTOR_HOME`.
pub(crate) fn explicit(given: Option<&PathBuf>) -> Result<Option<PathBuf>, OpError> {
    let explicit = given
        .cloned()
        .or_else(|| std::env::var_os("PROCTOR_HOME").filter(|v| !v.is_empty()).map(PathBuf::from));
    explicit
        .map(|path| std::path::absolute(&path))
        .transpose()
        .map_err(|error| OpError::new(Code::Failed, format!("cannot resolve --home: {error}")))
}

/// A user has one Proctor. A process without `XDG_RUNTIME_DIR` (from cron, or from an MCP client that passes on little of its
/// environment) finds the one started with it, and vice versa.
fn where_it_runs(home: Home) -> Home {
    if Lock::holder(&home.lock()).is_some() {
        return home;
    }
    let noted = KeeperNote::read(&home).map(|note| note.runtime);
    let Some(runtime) = noted.filter(|path| *path != home.runtime) else { return home };
    let there = Home { runtime, ..home.clone() };
    // This includes a Proctor that died and left services behind, which the next one must take over.
    if Lock::holder(&home.state_lock()).is_some() || has_runs(&there) { there } else { home }
}
