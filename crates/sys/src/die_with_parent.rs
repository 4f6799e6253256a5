//! Ties a child process to our lifetime, for commands that a request waits for: nobody would
//! supervise them if we were gone.
//!
//! Only the child itself is tied; its descendants are found by cgroup, session, mark or tag.

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Gives the command its own session and process group. The kernel sends it this signal, if any,
/// when the starting thread ends. Start it from a thread that lives as long as the process.
pub fn hold(command: &mut Command, signal: Option<i32>) {
    let parent = rustix::process::getpid();
    let signal = signal.unwrap_or(0);
    let prepare = move || {
        rustix::process::setsid()?;
        // SAFETY: two numbers; no memory is read or written.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died before the signal was set.
        if rustix::process::getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes three system calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Limits the memory of the command and of each process it starts. Read-only mappings do not count,
/// whatever their size.
pub fn limit_memory(command: &mut Command, bytes: u64) {
    let prepare = move || -> io::Result<()> {
        // Never raises an existing limit.
        let maximum = getrlimit(Resource::Data).maximum.map_or(bytes, |most| most.min(bytes));
        let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
        Ok(setrlimit(Resource::Data, limit)?)
    };
    // SAFETY: between fork and exec it makes two system calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Makes the command move itself into the cgroup whose `cgroup.procs` this is. A command that cannot
/// is started all the same: the cgroup is only one of the ways to find its processes.
pub fn enter_cgroup(command: &mut Command, procs: OwnedFd) {
    let prepare = move || {
        // "0" is the writer itself.
        let _ = rustix::io::write(&procs, b"0");
        Ok(())
    };
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

/// Passes this descriptor to the command and to each process it starts; they share a lock on it.
pub fn keep_open(command: &mut Command, descriptor: OwnedFd) {
    let prepare = move || Ok(fcntl_setfd(&descriptor, FdFlags::empty())?);
    // SAFETY: between fork and exec it makes one system call and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc;
    use std::fs::File;
    use std::process::Stdio;

    #[test]
    fn it_leads_a_session_and_ends_with_the_thread_that_started_it() {
        for signal in [libc::SIGKILL, libc::SIGTERM] {
            let child = std::thread::spawn(move || {
                let mut command = Command::new("sleep");
                command.arg("1000").stdin(Stdio::null());
                hold(&mut command, Some(signal));
                let child = command.spawn().unwrap();
                let stat = proc::stat(child.id()).unwrap();
                assert_eq!((stat.session, stat.group), (child.id(), child.id()));
                child
            });
            let mut child = child.join().unwrap();
            use std::os::unix::process::ExitStatusExt;
            assert_eq!(child.wait().unwrap().signal(), Some(signal));
        }
    }

    #[test]
    fn without_a_signal_it_outlives_the_thread_that_started_it() {
        let child = std::thread::spawn(|| {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped());
            hold(&mut command, None);
            command.spawn().unwrap()
        });
        let mut child = child.join().unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success(), "it ended by itself");
    }

    #[test]
    fn a_lock_is_held_as_long_as_one_of_them_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let (lock, other) = (File::create(&path).unwrap(), File::create(&path).unwrap());
        lock.lock().unwrap();
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped());
        keep_open(&mut command, lock.into());
        let mut child = command.spawn().unwrap();
        drop(command);
        assert!(other.try_lock().is_err(), "the child has it");
        drop(child.stdin.take());
        child.wait().unwrap();
        other.try_lock().unwrap();
    }

    #[test]
    fn it_gets_no_more_memory_than_it_may_have() {
        let reads = |megabytes: u32, most: Option<u64>| {
            let mut command = Command::new("dd");
            command.args(["if=/dev/zero", "of=/dev/null", "count=1"]);
            command.arg(format!("bs={megabytes}M")).stderr(Stdio::null());
            if let Some(most) = most {
                limit_memory(&mut command, most << 20);
            }
            command.status().unwrap().success()
        };
        assert!(reads(200, None) && reads(10, Some(100)));
        assert!(!reads(200, Some(100)));
    }
}
