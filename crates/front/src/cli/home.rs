//! Which Proctor a command means: the one that was named, or the user's own, wherever that runs.

use super::session::has_runs;
use proctor_core::home::Home;
use proctor_ops::error::{Code, OpError};
use proctor_sys::file::Lock;
use proctor_sys::keeper_note::KeeperNote;
use std::path::PathBuf;

/// `--home`, `PROCTOR_HOME`, or where this user's Proctor lives.
pub(crate) fn home(given: Option<&PathBuf>) -> Result<Home, OpError> {
    let home = usual(given)?;
    Ok(if explicit(given)?.is_some() { home } else { where_it_runs(home) })
}

/// The same without a look at what runs where.
pub(crate) fn usual(given: Option<&PathBuf>) -> Result<Home, OpError> {
    let explicit = explicit(given)?;
    let uid = rustix::process::geteuid().as_raw();
    let home =
        Home::locate(explicit.as_deref(), uid, &|name| std::env::var_os(name).map(PathBuf::from))
            .ok_or_else(|| {
            OpError::bad_input("no home for Proctor").help("set HOME, or give --home DIR")
        })?;
    // The path is handed on as text. A near miss would be another folder.
    for path in [&home.state, &home.runtime] {
        if path.to_str().is_none() {
            let message = format!("{} is not UTF-8 text", path.display());
            return Err(OpError::bad_input(message).help("give --home DIR with a name that is"));
        }
    }
    Ok(home)
}

/// The folder that `--home` or `PROCTOR_HOME` names.
pub(crate) fn explicit(given: Option<&PathBuf>) -> Result<Option<PathBuf>, OpError> {
    let explicit = given
        .cloned()
        .or_else(|| std::env::var_os("PROCTOR_HOME").filter(|v| !v.is_empty()).map(PathBuf::from));
    explicit.map(|path| std::path::absolute(&path)).transpose().map_err(|error| {
        OpError::new(Code::Failed, format!("cannot tell where --home is: {error}"))
    })
}

/// A user has one Proctor. Who is started without `XDG_RUNTIME_DIR` (by cron, or by a client of assistants that passes on little of
/// its environment) finds it where it was started with, and the other way round.
fn where_it_runs(home: Home) -> Home {
    if Lock::holder(&home.lock()).is_some() {
        return home;
    }
    let noted = KeeperNote::read(&home).map(|note| note.runtime);
    let Some(runtime) = noted.filter(|path| *path != home.runtime) else { return home };
    let there = Home { runtime, ..home.clone() };
    // Also one that died and left services behind: whoever takes them over has to find them.
    if Lock::holder(&home.state_lock()).is_some() || has_runs(&there) { there } else { home }
}
