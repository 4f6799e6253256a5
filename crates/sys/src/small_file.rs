//! Small files of the runtime directory, replaced in one step and read with a size limit; and the
//! process lock.
//!
//! No fsync here: these files matter during one boot only, and a killed process loses nothing that
//! reached the kernel.

use crate::failpoint::{self, Point};
use crate::own_file;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// Writes `bytes` to a temporary file and renames it to `path`: a reader sees the old content or
/// the new.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temp = path.with_extension("new");
    failpoint::step(Point::PersistBegin)?;
    let create = || File::options().write(true).create_new(true).mode(0o600).open(&temp);
    let mut file = match create() {
        // A leftover of a dead process, or a planted file: opening a pipe would wait for its
        // reader.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            out_of_the_way(&temp)?;
            create()?
        }
        created => created?,
    };
    file.write_all(bytes)?;
    drop(file);
    failpoint::step(Point::PersistWritten)?;
    match std::fs::rename(&temp, path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            out_of_the_way(path)?;
            std::fs::rename(&temp, path)?;
        }
        renamed => renamed?,
    }
    failpoint::step(Point::PersistRenamed)
}

/// Creates a file that does not exist yet.
pub fn create_new(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Removes a file or socket that a dead process left in the place of one of ours, if there is any. A folder, which is not ours,
/// is only moved aside.
pub(crate) fn out_of_the_way(path: &Path) -> io::Result<()> {
    match remove(path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            own_file::set_aside(path).map(drop)
        }
        removed => removed,
    }
}

/// Overwrites an existing file. Needs no disk space unless `bytes` is longer than the old content.
pub fn overwrite(path: &Path, bytes: &[u8]) -> io::Result<File> {
    use std::os::unix::fs::FileExt;
    let file = own_file::modify(path)?;
    file.write_all_at(bytes, 0)?;
    file.set_len(bytes.len() as u64)?;
    Ok(file)
}

/// Syncs these files to disk and closes them. Starts all writes before it waits for the first, so
/// that they share the slow part: on most file systems one journal commit.
pub fn sync_together(files: &mut Vec<File>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    for file in files.iter() {
        use std::os::fd::AsRawFd as _;
        // SAFETY: numbers only. A write that could not be started is waited for below.
        unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
    }
    files.drain(..).try_for_each(|file| file.sync_all())
}

/// Like [`sync_together`], once there are too many to keep open.
pub fn sync_many(files: &mut Vec<File>) -> io::Result<()> {
    const MANY: usize = 32;
    if files.len() < MANY { Ok(()) } else { sync_together(files) }
}

/// Whether the error means that the disk or our quota is full.
pub fn no_room(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Reads a small file; more than `most` bytes is an error.
pub fn read_small(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_opened(own_file::read(path)?, most)
}

/// Reads the rest of a small open file.
pub fn read_opened(file: File, most: u64) -> io::Result<Vec<u8>> {
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

/// Reads a small kernel file into `room`, as far as it fits, with as few calls as possible.
pub fn read_into<'a>(path: &Path, room: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut length = 0;
    while length < room.len() {
        match rustix::io::read(&file, &mut room[length..])? {
            0 => break,
            more => length += more,
        }
    }
    Ok(&room[..length])
}

/// Creates a folder and its parents that only we may access.
pub fn private_dir(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes the access of others to a folder of ours.
pub fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let found = std::fs::symlink_metadata(path)?;
    if found.is_dir() && found.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Removes a file; succeeds if it is already gone.
pub fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A process lock. Children do not inherit it, it survives exec (while the descriptor stays open),
/// and the kernel releases it however the process dies.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock on `path`; returns `None` if another process has it. Anything at `path` that
    /// is not a file is moved aside.
    pub fn take(path: &Path) -> io::Result<Option<Lock>> {
        let file = own_file::or_set_aside(path, own_file::modify_or_create)?;
        match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the process that holds the lock on `path`. The holder must not call it: closing the
    /// file would release the lock.
    pub fn holder(path: &Path) -> Option<u32> {
        let file = own_file::read(path).ok()?;
        // SAFETY: plain memory, initialised below.
        let mut query: libc::flock = unsafe { std::mem::zeroed() };
        query.l_type = libc::F_WRLCK as libc::c_short;
        query.l_whence = libc::SEEK_SET as libc::c_short;
        // SAFETY: `query` is valid for the kernel to read and write.
        let asked = unsafe {
            libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&file), libc::F_GETLK, &mut query)
        };
        let held = asked == 0 && query.l_type != libc::F_UNLCK as libc::c_short;
        held.then(|| u32::try_from(query.l_pid).ok()).flatten()
    }

    /// Whether `path` still names the locked file.
    pub fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt;
        let place = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
        match (self.0.metadata(), std::fs::symlink_metadata(path)) {
            (Ok(ours), Ok(there)) => place(&ours) == place(&there),
            _ => false,
        }
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.0
    }

    /// Takes over the lock from the program that this process ran before.
    pub fn from_inherited(file: File) -> Lock {
        Lock(file)
    }
}

/// Locks an open file for every copy of the descriptor, including inherited ones; returns false if
/// another process holds the lock.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_synced_together_is_closed_and_few_are_waited_with() {
        let some = |count: usize| -> Vec<File> {
            (0..count).map(|_| tempfile::tempfile().unwrap()).collect()
        };
        let (mut few, mut many) = (some(2), some(40));
        sync_many(&mut few).unwrap();
        sync_many(&mut many).unwrap();
        assert_eq!((few.len(), many.len()), (2, 0));
        sync_together(&mut few).unwrap();
        assert_eq!(few.len(), 0);
        let mut pipe = vec![File::from(rustix::pipe::pipe().unwrap().1)];
        assert!(sync_together(&mut pipe).is_err(), "a failed sync is reported");
    }

    #[test]
    fn a_file_is_replaced_whatever_is_in_its_place_or_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let fifo = |path: &Path| {
            let kind = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
        };
        let link = |path: &Path| std::os::unix::fs::symlink("/dev/full", path).unwrap();
        let dir = |path: &Path| std::fs::create_dir_all(path.join("full")).unwrap();
        let obstacles: [&dyn Fn(&Path); 4] =
            [&fifo, &link, &dir, &|path| std::fs::write(path, "an older and longer one").unwrap()];
        for obstacle in obstacles {
            for place in [&path, &path.with_extension("new")] {
                out_of_the_way(place).ok();
                obstacle(place);
                replace(&path, b"new").unwrap();
                assert_eq!(read_small(&path, 3).unwrap(), b"new");
            }
        }
    }
}
