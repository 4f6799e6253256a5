//! The pipes that carry a service's output, and moving bytes out of them inside the kernel.
//!
//! A service's end is opened **read-write**: a pipe that its writer also holds open for reading
//! raises no SIGPIPE and keeps its buffer when the reader dies. Our end is a second, non-blocking,
//! read-only opening.

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Buffer size of a pipe after [`grow`]; the kernel's default limit for one pipe.
pub const CAPACITY: usize = 1 << 20;

/// The two ends of a new FIFO.
pub struct FifoEnds {
    pub ours: OwnedFd,
    /// The service's end: read-write, blocking.
    pub theirs: OwnedFd,
}

/// Creates a FIFO at `path` that belongs to `owner` (user and group) and opens both ends.
pub fn create(path: &Path, owner: Option<(u32, u32)>) -> io::Result<FifoEnds> {
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, path, FileType::Fifo, mode, 0)?;
    let ends = open_both(path)?;
    if let Some((uid, gid)) = owner {
        let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        rustix::fs::fchown(&ends.theirs, Some(uid), Some(gid))?;
    }
    Ok(ends)
}

/// Open both ends of a FIFO that nobody has to write to.
pub(crate) fn open_both(path: &Path) -> io::Result<FifoEnds> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let theirs = rustix::fs::open(path, flags, Mode::empty())?;
    Ok(FifoEnds { ours: open(path)?, theirs })
}

/// Grows the buffer to [`CAPACITY`]. Use it only for pipes that need it: the kernel's page list
/// alone takes 16 KiB and more time than the rest of the pipe.
pub fn grow(pipe: impl AsFd) {
    // Refused if this user's pipes hold too much already; then the default of 64 KiB stays.
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, CAPACITY);
}

/// Opens our end of an existing FIFO: after a takeover, or to keep its buffer alive.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    checked(rustix::fs::open(path, flags, Mode::empty())?)
}

fn checked(fd: OwnedFd) -> io::Result<OwnedFd> {
    if FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode) != FileType::Fifo {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "is not a FIFO"));
    }
    Ok(fd)
}

/// Opens our end of a deleted FIFO through the process that still has it as descriptor `number`.
pub fn open_through(pid: u32, number: u32, path: &Path) -> io::Result<OwnedFd> {
    let door = PathBuf::from(format!("/proc/{pid}/fd/{number}"));
    // The process may have opened something else there; only the file with this name is accepted.
    let mut removed = path.file_name().unwrap_or_default().to_owned();
    removed.push(" (deleted)");
    if std::fs::read_link(&door)?.file_name() != Some(removed.as_os_str()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    checked(rustix::fs::open(&door, flags, Mode::empty())?)
}

/// Bytes waiting in the pipe.
pub fn waiting(pipe: impl AsFd) -> u64 {
    rustix::io::ioctl_fionread(pipe).unwrap_or(0)
}

/// The result of one move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpliceOutcome {
    Bytes(u64),
    /// The pipe is empty.
    Empty,
    /// The pipe is empty and has no writer left.
    Closed,
}

/// Moves up to `most` bytes from the pipe into `file` at `offset` inside the kernel: they are never
/// only in our memory.
pub fn move_to_file(
    pipe: impl AsFd,
    file: &File,
    offset: u64,
    most: usize,
) -> io::Result<SpliceOutcome> {
    let mut at = offset;
    outcome(rustix::pipe::splice(
        pipe,
        None,
        file,
        Some(&mut at),
        most,
        SpliceFlags::NONBLOCK | SpliceFlags::MOVE,
    ))
}

/// Discards up to `most` bytes.
pub fn discard(pipe: impl AsFd, null: &File, most: usize) -> io::Result<SpliceOutcome> {
    outcome(rustix::pipe::splice(pipe, None, null, None, most, SpliceFlags::NONBLOCK))
}

fn outcome(result: Result<usize, Errno>) -> io::Result<SpliceOutcome> {
    match result {
        Ok(0) => Ok(SpliceOutcome::Closed),
        Ok(bytes) => Ok(SpliceOutcome::Bytes(bytes as u64)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(SpliceOutcome::Empty),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::time::Duration;

    #[test]
    fn output_waits_in_the_pipe_while_no_reader_lives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let ends = create(&path, None).unwrap();
        let mut writer = File::from(ends.theirs);
        drop(ends.ours);
        writer.write_all(b"written without a reader\n").unwrap();
        let reader = open(&path).unwrap();
        let mut file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.path().join("log"))
            .unwrap();
        assert_eq!(move_to_file(&reader, &file, 0, 1 << 20).unwrap(), SpliceOutcome::Bytes(25));
        assert_eq!(move_to_file(&reader, &file, 25, 1 << 20).unwrap(), SpliceOutcome::Empty);
        drop(writer);
        // A process that another test spawns may hold a copy for a moment.
        let closed = || move_to_file(&reader, &file, 25, 1 << 20).unwrap() == SpliceOutcome::Closed;
        proctor_testkit::wait_until("nobody can write", Duration::from_secs(20), closed);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "written without a reader\n");
    }

    #[test]
    fn one_that_is_grown_holds_more_and_keeps_what_it_held() {
        let dir = tempfile::tempdir().unwrap();
        let ends = create(&dir.path().join("out"), None).unwrap();
        let mut writer = File::from(ends.theirs);
        writer.write_all(b"before\n").unwrap();
        let usual = rustix::pipe::fcntl_getpipe_size(&ends.ours).unwrap();
        grow(&ends.ours);
        let grown = rustix::pipe::fcntl_getpipe_size(&ends.ours).unwrap();
        assert!(grown == CAPACITY && usual < grown, "{usual}, then {grown}");
        assert_eq!(waiting(&ends.ours), 7);
    }

    #[test]
    fn what_is_not_a_fifo_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink("/dev/null", dir.path().join("link")).unwrap();
        for name in ["file", "link", "missing"] {
            assert!(open(&dir.path().join(name)).is_err(), "{name} was opened");
        }
    }
}
