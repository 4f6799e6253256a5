//! Descriptors inherited from the previous program of this process, or passed to the next.

use rustix::io::FdFlags;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

/// Takes ownership of an inherited descriptor. Returns `None` if the number is not open. Call it
/// once for each number, before anything else opens descriptors.
pub fn take(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: reading the flags of a number is harmless whether or not it is open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and by this function's contract nobody in this program owns it yet.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    set_inherited(&fd, false).ok()?;
    Some(fd)
}

/// The numbers of all open descriptors above standard error.
pub fn open_numbers() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    // The listing's own descriptor is in the list; it is closed before we return.
    let numbers: Vec<RawFd> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|n| *n > 2)
        .collect();
    // SAFETY: reading the flags of a number is harmless whether or not it is open.
    numbers.into_iter().filter(|n| unsafe { libc::fcntl(*n, libc::F_GETFD) } >= 0).collect()
}

/// Gives the calling thread its own descriptor table with standard input, output, error and those
/// in `keep`. A process spawned by another thread then neither inherits nor has to close the
/// descriptors of this one. Returns false if the kernel does not support it (before Linux 5.9); the
/// table stays shared then.
pub fn own_table(keep: &[RawFd]) -> bool {
    let mut kept = keep.to_vec();
    kept.sort_unstable();
    // `close_range` and not `unshare`, which many containers forbid.
    let above = kept.last().map_or(3, |last| last + 1);
    if !close_range(above, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE) {
        return false;
    }
    let mut first = 3;
    for number in kept {
        if first < number {
            close_range(first, number - 1, 0);
        }
        first = number + 1;
    }
    true
}

fn close_range(first: RawFd, last: RawFd, flags: libc::c_uint) -> bool {
    // SAFETY: numbers only. `own_table` is the only caller: descriptors of other threads stay open
    // in their table.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
}

/// Sets whether a program executed later keeps this descriptor.
pub fn set_inherited(fd: impl AsFd, inherited: bool) -> io::Result<()> {
    let flags = if inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// Raises the limit of open files to the maximum; returns the previous soft and hard limits for the
/// services and for [`restore_open_files`].
pub fn raise_open_files() -> (Option<u64>, Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let _ =
        setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    (before.current, before.maximum)
}

/// Restores the limit before this process executes another program. Open descriptors stay open.
pub fn restore_open_files((current, maximum): (Option<u64>, Option<u64>)) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}
