//! Small files of the runtime directory: replaced in one step, read with a bound; and the lock.
//!
//! No fsync here: these files matter during one boot only, and a killed process loses nothing that reached the kernel.

use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Write `bytes` beside `path` and rename: a reader sees the old content or the new.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = path.with_extension("new");
    let mut file =
        File::options().write(true).create(true).truncate(true).mode(0o600).open(&temp)?;
    file.write_all(bytes)?;
    drop(file);
    std::fs::rename(&temp, path)
}

/// Read a file that is expected to be small; more than `most` bytes is an error.
pub fn read_small(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("is larger than {most} bytes"),
        ));
    }
    Ok(bytes)
}

/// Make a folder only we may look into, with those above it.
pub fn private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Remove a file; that it is gone already is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A lock held by an open file, and by every copy of it that a forked child inherits.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Take the lock on `path`; `None` if somebody else has it.
    pub fn take(path: &Path) -> io::Result<Option<Lock>> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        Ok(try_lock(&file)?.then_some(Lock(file)))
    }

    /// Is the lock on `path` held by somebody? Asks without taking it.
    pub fn is_held(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        matches!(
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared),
            Err(rustix::io::Errno::WOULDBLOCK)
        )
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.0
    }

    /// Take up a lock that was passed on by the program this process ran before.
    pub fn from_inherited(file: File) -> Lock {
        Lock(file)
    }
}

/// Lock a file that is open already; false if somebody else has it.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
