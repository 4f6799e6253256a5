//! Descriptors that arrive from, or go on to, another program in this process.

use rustix::io::FdFlags;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

/// Take ownership of a descriptor that whoever executed us left open at this number.
/// `None` if nothing is open there. Call once for each number, before anything else opens descriptors.
pub fn take(number: RawFd) -> Option<OwnedFd> {
    // SAFETY: asking for the flags of a number is harmless whether or not it is open.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return None;
    }
    // SAFETY: it is open, and by this function's contract nobody in this program owns it yet.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    set_inherited(&fd, false).ok()?;
    Some(fd)
}

/// All descriptors above standard error that are open now, by number.
pub fn open_numbers() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return Vec::new() };
    // The listing's own descriptor is in the list and is closed by the time we return.
    let numbers: Vec<RawFd> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|n| *n > 2)
        .collect();
    // SAFETY: asking for the flags of a number is harmless whether or not it is open.
    numbers.into_iter().filter(|n| unsafe { libc::fcntl(*n, libc::F_GETFD) } >= 0).collect()
}

/// Give the calling thread a table of descriptors of its own, with standard input, output, error and those in `keep`: a
/// process made by another thread then neither inherits nor has to close what this thread opens. False where the kernel
/// cannot (before Linux 5.9): the table is shared as before.
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
    // SAFETY: numbers only. `own_table` is the only caller: what other threads own stays open in their table.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
}

/// Choose whether a program executed later keeps this descriptor.
pub fn set_inherited(fd: impl AsFd, inherited: bool) -> io::Result<()> {
    let flags = if inherited { FdFlags::empty() } else { FdFlags::CLOEXEC };
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// Raise the limit of open files to what is allowed; returns the soft and hard limits that were, for the services and
/// for [`restore_open_files`].
pub fn raise_open_files() -> (Option<u64>, Option<u64>) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let _ =
        setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    (before.current, before.maximum)
}

/// Before this process executes another program: that one finds the limit as we found it. What is open stays open.
pub fn restore_open_files((current, maximum): (Option<u64>, Option<u64>)) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum });
}
