//! A process identified with certainty: never a bare pid.
//!
//! A pid that is not our child may belong to another process when it is used. So a process is
//! opened (pidfd), its identity is compared, and only then is it signalled, through the descriptor.

use proctor_core::lifecycle::Exit;
use proctor_core::name::RunId;
use proctor_core::record_encoding::Identity;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// `f_type` of pidfs (Linux 6.9 and later), where a pidfd's inode is unique until reboot.
const PIDFS_MAGIC: rustix::fs::FsWord = 0x5049_4446;

/// A process that cannot be confused with another.
#[derive(Debug)]
pub struct Process {
    pidfd: OwnedFd,
    pid: u32,
}

impl Process {
    /// Opens the process of a run record; returns `None` if it is gone or its pid now belongs to
    /// another process.
    pub fn recognise(identity: &Identity) -> Option<Process> {
        if identity.boot != crate::boot_id::id() {
            return None;
        }
        let process = Process::open(identity.pid)?;
        let same = match (identity.pidfs_inode, pidfs_inode(&process.pidfd)) {
            (recorded, Some(inode)) if recorded != 0 => recorded == inode,
            _ => crate::proc::stat(identity.pid)?.start_ticks == identity.start_ticks,
        };
        same.then_some(process)
    }

    /// Opens the process that has `pid` now. Compare its identity before trusting it.
    pub fn open(pid: u32) -> Option<Process> {
        let raw = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let pidfd = rustix::process::pidfd_open(raw, PidfdFlags::empty()).ok()?;
        Some(Process { pidfd, pid })
    }

    /// Takes over a pidfd that another program of this process opened.
    pub fn from_inherited(pidfd: OwnedFd, pid: u32) -> Process {
        Process { pidfd, pid }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the identity of this process as the process of `run`; `None` if it is gone.
    pub fn identity(&self, run: RunId) -> Option<Identity> {
        let start_ticks = crate::proc::stat(self.pid)?.start_ticks;
        // Not reaped yet, so the pid was still its own when it was read.
        send(&self.pidfd, 0, 0).is_ok_and(|still_there| still_there).then(|| Identity {
            pid: self.pid,
            start_ticks,
            pidfs_inode: pidfs_inode(&self.pidfd).unwrap_or(0),
            boot: crate::boot_id::id(),
            run,
        })
    }

    /// Duplicates the descriptor.
    pub fn try_clone(&self) -> io::Result<Process> {
        Ok(Process { pidfd: self.pidfd.try_clone()?, pid: self.pid })
    }

    /// Returns the descriptor alone, to keep it open.
    pub fn into_fd(self) -> OwnedFd {
        self.pidfd
    }

    /// Sends a signal to this process; returns false if it is gone.
    pub fn signal(&self, signal: i32) -> io::Result<bool> {
        let Some(signal) = Signal::from_named_raw(signal) else {
            return send(&self.pidfd, signal, 0);
        };
        match rustix::process::pidfd_send_signal(&self.pidfd, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal to the process group it leads; fails if the kernel does not support it
    /// (before Linux 6.9).
    pub fn signal_group(&self, signal: i32) -> io::Result<bool> {
        const PIDFD_SIGNAL_PROCESS_GROUP: u32 = 1 << 2;
        send(&self.pidfd, signal, PIDFD_SIGNAL_PROCESS_GROUP)
    }

    /// Whether it has exited.
    pub fn is_gone(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(1))
    }

    /// Returns the exit status if the kernel still knows it: always for a process that was not
    /// reaped; on Linux 6.15 and later also for one that another process reaped.
    pub fn exit(&self) -> Exit {
        let reaped_meanwhile = || exit_info(&self.pidfd);
        let status =
            exit_info(&self.pidfd).or_else(|| self.zombie_status()).or_else(reaped_meanwhile);
        status.map_or(Exit::Unknown, exit_of)
    }

    /// The wait status of an unreaped process.
    fn zombie_status(&self) -> Option<i32> {
        let status = crate::proc::zombie_status(self.pid)?;
        // Not reaped yet, so the pid was still its own when it was read.
        send(&self.pidfd, 0, 0).is_ok_and(|still_there| still_there).then_some(status)
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

fn send(pidfd: &OwnedFd, signal: i32, flags: u32) -> io::Result<bool> {
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a valid descriptor, no siginfo; the kernel checks the rest.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, pidfd.as_raw_fd(), signal, none, flags)
    };
    if result == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::ESRCH) => Ok(false),
        error => Err(error),
    }
}

/// The inode of a pidfd in pidfs; `None` if pidfds are anonymous.
pub fn pidfs_inode(fd: impl AsFd) -> Option<u64> {
    let kind = rustix::fs::fstatfs(&fd).ok()?.f_type;
    (kind == PIDFS_MAGIC).then(|| rustix::fs::fstat(&fd).ok().map(|stat| stat.st_ino)).flatten()
}

/// `struct pidfd_info` of <linux/pidfd.h>, first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    pid: [u32; 3],
    ids: [u32; 8],
    exit_code: i32,
}

fn exit_info(pidfd: &OwnedFd) -> Option<i32> {
    const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request's number encodes the size of `PidfdInfo`, which the kernel fills.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO as _, &mut info) };
    (result == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

/// Decodes a wait status.
fn exit_of(status: i32) -> Exit {
    let signal = status & 0x7f;
    if signal == 0 {
        return Exit::Code((status >> 8) & 0xff);
    }
    Exit::Signal { signal, oom: false, core: status & 0x80 != 0 }
}

/// Reaps the next child that has exited, if any; returns its pid and exit.
pub fn reap() -> Option<(u32, Exit)> {
    let (pid, status) = rustix::process::wait(WaitOptions::NOHANG).ok()??;
    Some((pid.as_raw_nonzero().get().unsigned_abs(), exit_of(status.as_raw())))
}

/// Signals the group of an unreaped child, whose pid cannot belong to another process.
pub fn signal_child_group(pid: u32, signal: i32) -> io::Result<()> {
    signal_raw(-i64::from(pid), signal)
}

/// Signals an unreaped child.
pub fn signal_child(pid: u32, signal: i32) -> io::Result<()> {
    signal_raw(i64::from(pid), signal)
}

fn signal_raw(target: i64, signal: i32) -> io::Result<()> {
    let target = i32::try_from(target).map_err(io::Error::other)?;
    // SAFETY: no memory is involved.
    match unsafe { libc::kill(target, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets the kernel reap our children. Programs that this process executes do not inherit this.
pub fn reap_none() -> io::Result<()> {
    // SAFETY: plain memory, initialised below.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = libc::SIG_DFL;
    action.sa_flags = libc::SA_NOCLDWAIT;
    // SAFETY: an initialised action without a handler, and no room for the old one.
    match unsafe { libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes this process the parent of orphaned descendants.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::record_encoding::BootId;

    #[test]
    fn a_process_is_recognised_only_by_its_whole_identity() {
        let me = Process::open(std::process::id()).unwrap().identity(RunId(1)).unwrap();
        assert!(Process::recognise(&me).is_some());
        let other_boot = Identity { boot: BootId([1; 16]), ..me };
        let older = Identity { start_ticks: me.start_ticks - 1, pidfs_inode: 0, ..me };
        let stranger = Identity { pidfs_inode: me.pidfs_inode + 1, ..me };
        assert!(Process::recognise(&other_boot).is_none());
        assert!(Process::recognise(&older).is_none());
        assert!(me.pidfs_inode == 0 || Process::recognise(&stranger).is_none());
    }

    #[test]
    fn wait_statuses_are_read_as_the_kernel_writes_them() {
        assert_eq!(exit_of(3 << 8), Exit::Code(3));
        assert_eq!(exit_of(9), Exit::Signal { signal: 9, oom: false, core: false });
        assert_eq!(exit_of(11 | 0x80), Exit::Signal { signal: 11, oom: false, core: true });
    }
}
