//! A child that ends with us: for commands that a request waits for, which nobody would look after if we were gone.
//!
//! Only the child itself is held; what it starts is found by its session or its mark.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Give the command a session and a process group of its own, and let the kernel kill it when the thread that starts it ends.
/// Start it from a thread that lives as long as the process.
pub fn hold(command: &mut Command) {
    let parent = rustix::process::getpid();
    let prepare = move || {
        rustix::process::setsid()?;
        // SAFETY: two numbers; nothing is read or written.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // It may have died before it was asked for.
        if rustix::process::getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH.into());
        }
        Ok(())
    };
    // SAFETY: between fork and exec it makes three system calls and allocates nothing.
    unsafe { command.pre_exec(prepare) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc;
    use std::process::Stdio;

    #[test]
    fn it_leads_a_session_and_ends_with_the_thread_that_started_it() {
        let child = std::thread::spawn(|| {
            let mut command = Command::new("sleep");
            command.arg("1000").stdin(Stdio::null());
            hold(&mut command);
            let child = command.spawn().unwrap();
            let stat = proc::stat(child.id()).unwrap();
            assert_eq!((stat.session, stat.group), (child.id(), child.id()));
            child
        });
        let mut child = child.join().unwrap();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }
}
