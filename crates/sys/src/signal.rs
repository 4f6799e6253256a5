//! Signals as a descriptor to wait on. Their names are in `proctor_core::config::signal`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

/// Signals that are blocked for this thread (and those it starts later) and readable instead.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

/// The reason a [`Signals::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    Signal(i32),
    /// The other descriptor is readable, or its peer is gone.
    Readable,
    Timeout,
}

impl Signals {
    pub fn new(signals: &[i32]) -> io::Result<Signals> {
        let set = set_of(signals)?;
        block(&set)?;
        // SAFETY: `set` is an initialised signal set; -1 requests a new descriptor.
        let fd = unsafe { libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just created this descriptor; nobody else owns it.
        Ok(Signals { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Returns the next pending signal, if any.
    pub fn take(&self) -> Option<i32> {
        let mut buffer = [0u8; size_of::<libc::signalfd_siginfo>()];
        let length = rustix::io::read(&self.fd, &mut buffer).ok()?;
        if length < buffer.len() {
            return None;
        }
        let number = buffer.first_chunk::<4>()?;
        i32::try_from(u32::from_ne_bytes(*number)).ok()
    }

    /// Waits for one of the signals, or for `other` to become readable.
    pub fn wait(&self, other: BorrowedFd<'_>, timeout: Duration) -> io::Result<Wake> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let limit = Timespec {
            tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut fds =
            [PollFd::new(&self.fd, PollFlags::IN), PollFd::from_borrowed_fd(other, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(0) => Ok(Wake::Timeout),
            Ok(_) if !fds[0].revents().is_empty() => {
                Ok(self.take().map_or(Wake::Timeout, Wake::Signal))
            }
            Ok(_) => Ok(Wake::Readable),
            Err(rustix::io::Errno::INTR) => Ok(Wake::Timeout),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

fn set_of(signals: &[i32]) -> io::Result<libc::sigset_t> {
    // SAFETY: a signal set is plain memory; `sigemptyset` below initialises it.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid place for a signal set.
    unsafe { libc::sigemptyset(&mut set) };
    for signal in signals {
        // SAFETY: `set` is initialised; a bad number returns an error.
        if unsafe { libc::sigaddset(&mut set, *signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(set)
}

fn block(set: &libc::sigset_t) -> io::Result<()> {
    // SAFETY: `set` is initialised; the old mask is not requested.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, set, std::ptr::null_mut()) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Signals that this process ignores or handles, as of the first call. Call it after they were set
/// up.
pub(crate) fn arranged() -> &'static [i32] {
    /// Highest signal number.
    const SIGNALS: i32 = 64;
    static ARRANGED: OnceLock<Vec<i32>> = OnceLock::new();
    let is_arranged = |signal: &i32| {
        // A buffer larger than the kernel's structure on any platform. Uses the raw call, because
        // the C library reserves two signals.
        let mut action = [0usize; 16];
        let none = std::ptr::null::<usize>();
        // SAFETY: a valid buffer for the result; nothing is changed.
        let asked = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                *signal,
                none,
                action.as_mut_ptr(),
                size_of::<u64>(),
            )
        };
        asked == 0 && action[0] != libc::SIG_DFL
    };
    ARRANGED.get_or_init(|| (1..=SIGNALS).filter(is_arranged).collect())
}

/// Blocks every signal for this thread; returns the old mask for [`restore_mask`].
pub(crate) fn block_all() -> libc::sigset_t {
    // SAFETY: plain memory, filled by the calls below.
    let (mut all, mut old): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is a valid place for a signal set.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: both sets are valid; blocking everything cannot fail.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old) };
    old
}

pub(crate) fn restore_mask(old: &libc::sigset_t) {
    // SAFETY: `old` came from `block_all`.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old, std::ptr::null_mut()) };
}

pub use libc::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH,
};
