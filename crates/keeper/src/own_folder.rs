//! Makes folders of ours and says in the log what had to be moved aside or corrected for that.

use crate::log;
use proctor_core::home::{FolderRule, Home, OwnFolder};
use proctor_sys::own_folder;
use std::io;
use std::path::Path;

/// Makes a folder of the table.
pub(crate) fn make(home: &Home, folder: OwnFolder) -> io::Result<()> {
    make_at(&home.folder(folder), folder.rule())
}

/// Makes the runtime folder of a service. A link in the place of the folder of all services is not followed.
pub(crate) fn make_service(home: &Home, path: &Path) -> io::Result<()> {
    let services = OwnFolder::Services;
    if own_folder::check(&home.folder(services), services.rule()).is_err() {
        make(home, services)?;
    }
    make_inner(path)
}

/// Makes a folder inside of one of the table.
pub(crate) fn make_inner(path: &Path) -> io::Result<()> {
    make_at(path, FolderRule::INNER)
}

/// Makes the folder of all logs.
pub(crate) fn make_logs(path: &Path) -> io::Result<()> {
    make_at(path, OwnFolder::Logs.rule())
}

fn make_at(path: &Path, rule: FolderRule) -> io::Result<()> {
    if let Some(mended) = own_folder::make(path, rule)? {
        log!("{mended}");
    }
    Ok(())
}
