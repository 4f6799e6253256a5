//! Opens Proctor's own files: never through a link, never waiting for the other end of a pipe, and
//! only regular files that belong to us.
//!
//! Another user may have put a link, a pipe or a folder in the place of any of them. Every file of
//! the state and runtime folders is opened here or created with `create_new`, which follows no link
//! either. Folders may be links: people move them to larger disks.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Readable and writable by the owner only.
const MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Opens an existing file for reading.
pub fn read(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDONLY)
}

/// Opens an existing file for reading and writing.
pub fn modify(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR)
}

/// Opens a file for reading and writing; creates a missing one.
pub fn modify_or_create(path: &Path) -> io::Result<File> {
    open(path, OFlags::RDWR | OFlags::CREATE)
}

/// Opens a file for appending; creates a missing one.
pub fn append(path: &Path) -> io::Result<File> {
    open(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
}

/// Whether the error means that something else is in the place of the file.
pub fn is_misplaced(error: &io::Error) -> bool {
    match Errno::from_io_error(error) {
        // A link, a folder, a pipe without a reader or a socket.
        Some(errno) => matches!(errno, Errno::LOOP | Errno::ISDIR | Errno::NXIO),
        None => error.get_ref().is_some_and(|inner| inner.is::<ForeignFile>()),
    }
}

/// Runs `open`; if something else is in the place of the file, moves it aside and retries.
pub fn or_set_aside<T>(path: &Path, open: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
    match open(path) {
        Err(error) if is_misplaced(&error) => {
            set_aside(path)?;
            open(path)
        }
        opened => opened,
    }
}

/// Renames whatever is at `path` to `PATH.damaged-SECONDS`, and returns its new path. Deletes and
/// overwrites nothing.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    /// Maximum number of names in one second; more is a loop.
    const MAX_NAMES: u32 = 100;
    for number in 0..MAX_NAMES {
        let mut aside = path.to_path_buf().into_os_string();
        aside.push(format!(".damaged-{now}"));
        if number > 0 {
            aside.push(format!("-{number}"));
        }
        let aside = PathBuf::from(aside);
        if aside.symlink_metadata().is_err() {
            return std::fs::rename(path, &aside).map(|()| aside);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[derive(Debug, thiserror::Error)]
enum ForeignFile {
    #[error("is not a regular file")]
    Kind,
    #[error("belongs to user {0}")]
    Owner(u32),
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let safe = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags | safe, MODE)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other(ForeignFile::Kind));
    }
    let us = rustix::process::geteuid();
    // Root may act on the homes of others.
    if found.uid() != us.as_raw() && !us.is_root() {
        return Err(io::Error::other(ForeignFile::Owner(found.uid())));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    const WAYS: [fn(&Path) -> io::Result<File>; 4] = [read, modify, modify_or_create, append];

    #[test]
    fn a_link_a_pipe_a_folder_and_a_device_are_refused_at_once_and_left_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        fs::write(&target, "theirs").unwrap();
        let make = |n: &str| dir.path().join(n);
        symlink(&target, make("link")).unwrap();
        symlink(dir.path().join("nowhere"), make("dangling")).unwrap();
        symlink("/dev/null", make("device")).unwrap();
        fs::create_dir(make("folder")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            make("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        for name in ["link", "dangling", "device", "folder", "pipe"] {
            for way in WAYS {
                let error = way(&make(name)).unwrap_err();
                assert!(is_misplaced(&error), "{name}: {error}");
            }
        }
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert!(!dir.path().join("nowhere").exists());
    }

    #[test]
    fn what_is_in_the_way_is_moved_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("own"), dir.path().join("target"));
        fs::write(&target, "theirs").unwrap();
        for _ in 0..3 {
            symlink(&target, &path).unwrap();
            or_set_aside(&path, append).unwrap().write_all(b"ours").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"ours");
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1 + 3, "the target and three links");
        let missing = or_set_aside(&dir.path().join("no"), read).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
