//! Makes folders of ours and says in the log what had to be moved aside or corrected for that.

use proctor_core::home::{FolderRule, Home, OwnFolder};
use proctor_sys::own_folder;
use std::io;
use std::path::Path;

/// Makes a folder of the table.
pub(crate) fn make(home: &Home, folder: OwnFolder) -> io::Result<()> {
    make_at(&home.folder(folder), folder.rule())
}

/// Corrects or moves aside whatever is in the place of the folders that a daemon uses. Missing ones are made when they are needed.
pub(crate) fn mend(home: &Home) {
    for folder in OwnFolder::ALL.into_iter().filter(|folder| !folder.is_made_at_start()) {
        let path = home.folder(folder);
        if own_folder::is_damaged(&path, folder.rule())
            && let Err(error) = make(home, folder)
        {
            tracing::error!(folder = %path.display(), %error, "a folder of Proctor's cannot be used");
        }
    }
}

/// Makes a folder by its rule.
pub(crate) fn make_at(path: &Path, rule: FolderRule) -> io::Result<()> {
    if let Some(mended) = own_folder::make(path, rule)? {
        tracing::warn!("{mended}");
    }
    Ok(())
}
