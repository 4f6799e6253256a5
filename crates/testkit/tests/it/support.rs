//! Runs and ends a victim: dropping a [`Victim`] kills every process in its pid file.

use proctor_testkit::{descendants_alive, finish, kill9, recorded, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Far more than anything here takes, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The end of a process, as written in tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Signal(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> End {
        match (status.code(), status.signal()) {
            (Some(code), _) => End::Code(code),
            (None, Some(signal)) => End::Signal(signal),
            (None, None) => panic!("neither code nor signal: {status}"),
        }
    }
}

/// Runs a victim that ends by itself; returns its output on each stream and its end.
#[track_caller]
pub(crate) fn run(args: &[&str]) -> (Vec<u8>, Vec<u8>, End) {
    let output = finish(Command::new(proctor_testkit::victim()).args(args), LIMIT);
    (output.stdout, output.stderr, output.status.into())
}

/// The lines it printed; it must have exited with code 0.
#[track_caller]
pub(crate) fn printed(command: &mut Command) -> Vec<String> {
    let output = finish(command, LIMIT);
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// A live victim with a pid file that is ready.
pub(crate) struct Victim {
    pub(crate) folder: TempDir,
    pub(crate) child: Child,
}

impl Victim {
    #[track_caller]
    pub(crate) fn start(args: &[&str]) -> Victim {
        Victim::start_with(args, Stdio::null())
    }

    /// Returns when all its actions are done.
    #[track_caller]
    pub(crate) fn start_with(args: &[&str], stdout: Stdio) -> Victim {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let child = Command::new(proctor_testkit::victim())
            .arg("--pid-file")
            .arg(folder.path().join("pids"))
            .args(args)
            .arg("--ready-file")
            .arg(&ready)
            .env("MARK", "inherited")
            .stdin(Stdio::null())
            .stdout(stdout)
            .spawn()
            .unwrap();
        let victim = Victim { folder, child };
        wait_until("the victim to be ready", LIMIT, || ready.exists());
        victim
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.folder.path().join("pids")
    }

    /// Roles of the live processes, in alphabetical order.
    #[track_caller]
    pub(crate) fn living(&self) -> Vec<String> {
        let mut roles: Vec<String> =
            descendants_alive(&self.pid_file()).into_iter().map(|one| one.role).collect();
        roles.sort();
        roles
    }

    /// Pid of the only process in this role.
    #[track_caller]
    pub(crate) fn pid_of(&self, role: &str) -> u32 {
        let all = recorded(&self.pid_file());
        let found: Vec<u32> =
            all.iter().filter(|one| one.role == role).map(|one| one.pid).collect();
        assert_eq!(found.len(), 1, "one {role} in {all:?}");
        found[0]
    }

    #[track_caller]
    pub(crate) fn end(&mut self) -> End {
        wait_for("the victim to end", LIMIT, || self.child.try_wait().unwrap()).into()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        for one in descendants_alive(&self.pid_file()) {
            kill9(one.pid);
        }
        let _already_waited_for = self.child.wait();
    }
}

#[track_caller]
pub(crate) fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// One field of `/proc/PID/status`.
pub(crate) fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// Content of a file; empty if there is none.
pub(crate) fn content(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
