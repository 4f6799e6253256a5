//! A client's file on disk: resolved through links, read with a bound, written completely or not at all.

use super::client::Scope;
use proctor_ops::error::{Code, OpError};
use proctor_sys::{atomic, small_file};
use rustix::fs::Access;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum size. Claude Code keeps more than servers in its file; megabytes are common.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Maximum links in a row, as in the kernel.
const MAX_LINKS: usize = 40;

/// A file as it was read.
pub(super) struct TargetFile {
    /// Path after all links.
    target: PathBuf,
    /// Content; `None` if there is no file yet.
    pub(super) text: Option<String>,
    seen: Option<FileStamp>,
}

/// Identity of the content; a difference means that another program has written since.
type FileStamp = (u64, u64, u64, i64, i64);

impl TargetFile {
    pub(super) fn read(path: &Path) -> Result<TargetFile, OpError> {
        let failed = |error: io::Error| cannot("read", path, &error);
        let target = behind_links(path).map_err(failed)?;
        let found = match fs::metadata(&target) {
            Ok(found) if found.is_file() => found,
            Ok(_) => {
                return Err(cannot("read", path, &io::Error::other("it is not a regular file")));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(TargetFile { target, text: None, seen: None });
            }
            Err(error) => return Err(failed(error)),
        };
        let bytes = small_file::read_small(&target, MAX_FILE_BYTES).map_err(failed)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let place = error.utf8_error().valid_up_to();
            cannot(
                "change",
                path,
                &io::Error::other(format!("it is not UTF-8 text, from byte {place} on")),
            )
        })?;
        Ok(TargetFile { target, text: Some(text), seen: Some(seen(&found)) })
    }

    /// Writes the file. Returns false, without writing, if another program has written meanwhile.
    pub(super) fn write(&self, text: &str, scope: Scope) -> io::Result<bool> {
        let now = match fs::metadata(&self.target) {
            Ok(now) => Some(seen(&now)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if now != self.seen {
            return Ok(false);
        }
        match (now, self.target.parent()) {
            // A read-only file is so on purpose; a rename would ignore it.
            (Some(_), _) => rustix::fs::access(&self.target, Access::WRITE_OK)?,
            (None, Some(folder)) => make(folder, scope)?,
            (None, None) => {}
        }
        // A shared file follows the umask; the user's own is private.
        let mode = match scope {
            Scope::Project => 0o666,
            Scope::User => 0o600,
        };
        atomic::replace(&self.target, text.as_bytes(), mode)?;
        Ok(true)
    }
}

pub(super) fn cannot(what: &str, path: &Path, error: &io::Error) -> OpError {
    let code =
        if error.kind() == ErrorKind::PermissionDenied { Code::Forbidden } else { Code::Failed };
    OpError::new(code, format!("cannot {what} {}: {error}", path.display()))
        .help("`--print` shows the text to paste")
}

fn make(folder: &Path, scope: Scope) -> io::Result<()> {
    match scope {
        Scope::Project => fs::create_dir_all(folder),
        Scope::User => small_file::private_dir(folder),
    }
}

fn seen(file: &Metadata) -> FileStamp {
    (file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec())
}

/// Resolves links, so a linked configuration keeps its link. A dangling link names the new file.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("/")).join(next),
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => {
                return Ok(path);
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("too many levels of links"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_somebody_else_wrote_meanwhile_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("settings.json");
        let place = TargetFile::read(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        assert!(!place.write("ours", Scope::User).unwrap(), "it was not there when it was read");
        let place = TargetFile::read(&path).unwrap();
        fs::write(&path, "theirs again").unwrap();
        assert!(!place.write("ours", Scope::User).unwrap(), "it is another by now");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs again");
        let place = TargetFile::read(&path).unwrap();
        assert!(place.write("ours", Scope::User).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "ours");
        assert_eq!(names(folder.path()), ["settings.json"]);
    }

    #[test]
    fn links_that_lead_in_a_circle_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        std::os::unix::fs::symlink(&one, &other).unwrap();
        std::os::unix::fs::symlink("other", &one).unwrap();
        let error = TargetFile::read(&one).err().unwrap();
        assert!(error.message.contains("too many levels of links"), "{}", error.message);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for path in [folder.path(), &fifo] {
            let error = TargetFile::read(path).err().unwrap();
            assert!(error.message.ends_with("it is not a regular file"), "{}", error.message);
        }
    }
}
