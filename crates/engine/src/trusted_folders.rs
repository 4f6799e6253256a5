//! Folders of other users whose configurations the owner of this Proctor trusts, and the check of every file
//! that a configuration is read from.
//!
//! The list is `trusted` in the state folder, one path per line. `PROCTOR_TRUST` in the environment that
//! Proctor was started with adds to it. No request can add to either: the caller is not always the owner.

use proctor_core::config::redact::command_line;
use proctor_core::home::Home;
use proctor_sys::ownership::{self, Owners};
use proctor_sys::user;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The list of this process. Without one nothing is checked: a process that only shows a file runs nothing.
static LIST: OnceLock<PathBuf> = OnceLock::new();

/// Checks files from now on, by the list of this home.
pub(crate) fn begin(home: &Home) {
    LIST.get_or_init(|| home.trusted());
}

/// Fails with the reason if another user controls the content of the file.
pub(crate) fn check(path: &Path, file: &File) -> Result<(), String> {
    let Some(foreign) = foreign(path, file) else { return Ok(()) };
    let folder = path.parent().unwrap_or(path);
    let remedy = command_line(&["proctor", "trust", &folder.to_string_lossy()].map(str::to_owned));
    Err(format!(
        "{foreign}, so another user controls its content; if you trust them, run `{remedy}`"
    ))
}

/// Fails with the reason and the remedy if another user can change this open file of ours.
pub(crate) fn check_own(path: &Path, file: &File) -> Result<(), String> {
    let Some(foreign) = foreign(path, file) else { return Ok(()) };
    let (own, _) = user::effective();
    Err(format!(
        "is not trusted: {foreign}, so another user controls its content; if the content is right, take ownership (`chown {own}`, `chmod go-w`)"
    ))
}

fn foreign(path: &Path, file: &File) -> Option<String> {
    let trusted = folders(LIST.get()?, ownership::named_folders());
    match Owners::ours().check_file(path, file, &trusted) {
        Ok(Ok(())) => None,
        Ok(Err(foreign)) => Some(foreign.to_string()),
        Err(error) => Some(format!("cannot determine its owner: {error}")),
    }
}

/// The trusted folders without links, since paths are compared without links. Missing folders are ignored.
fn folders(list: &Path, named: Vec<PathBuf>) -> Vec<PathBuf> {
    let listed = ownership::read_list(list, &named).unwrap_or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            tracing::warn!(file = %list.display(), %error, "ignoring the list of trusted folders");
        }
        String::new()
    });
    let listed = listed.lines().map(PathBuf::from).filter(|folder| folder.is_absolute());
    listed.filter_map(|folder| folder.canonicalize().ok()).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_from_the_list_and_the_variable() {
        let scene = tempfile::tempdir().unwrap();
        let real = scene.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        std::os::unix::fs::symlink("a", real.join("b")).unwrap();
        let list = real.join("trusted");
        let text = format!("{}\nrelative\n\n/surely/not/here\n", real.join("b").display());
        assert_eq!(folders(&list, Vec::new()), Vec::<PathBuf>::new());
        std::fs::write(&list, text).unwrap();
        assert_eq!(folders(&list, vec![real.clone()]), [real.join("a"), real]);
    }
}
