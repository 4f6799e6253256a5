//! The victim's descendants: children, children in their own session, daemonised grandchildren, a
//! fork storm.
//!
//! Each writes its pid into the pid file before any effect that a test could see, and confirms its
//! arrival to its parent. Only then does the next action begin. The file lists every process that
//! must die.

use crate::output;
use crate::script::{Role, Script};
use crate::wait;
use rustix::fd::OwnedFd;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Number of children in a fork storm.
const STORM: usize = 2000;
/// Maximum number of them alive at once.
const STORM_WIDTH: usize = 8;
/// Timeout for the arrival of a descendant.
const ARRIVAL: Duration = Duration::from_secs(30);

/// Appends `role pid` to the pid file. One write of a short line: appends of several processes do
/// not mix.
pub(crate) fn record(script: &Script) -> Result<(), String> {
    let Some(path) = &script.pid_file else { return Ok(()) };
    let line = format!("{} {}\n", script.role.as_str(), std::process::id());
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|why| format!("cannot write {}: {why}", path.display()))
}

/// Starts a descendant and waits until it and its own descendants have arrived.
pub(crate) fn start(script: &Script, role: Role) -> Result<(), String> {
    let (mut ours, theirs) =
        UnixStream::pair().map_err(|why| format!("cannot make a socket pair: {why}"))?;
    let mut child = {
        let mut command = command(script, role)?;
        command.stdin(OwnedFd::from(theirs));
        command.spawn().map_err(|why| format!("cannot start a {}: {why}", role.as_str()))?
    };
    ours.set_read_timeout(Some(ARRIVAL))
        .and_then(|()| ours.read_exact(&mut [0]))
        .map_err(|why| format!("a {} did not arrive: {why}", role.as_str()))?;
    if role.passes_by() {
        child.wait().map_err(|why| format!("cannot wait for a {}: {why}", role.as_str()))?;
    }
    Ok(())
}

/// Creates children that exit at once, in the background.
pub(crate) fn storm(script: &Script) -> Result<(), String> {
    let script = script.clone();
    std::thread::Builder::new()
        .name("storm".into())
        .spawn(move || {
            if let Err(why) = make_storm(&script) {
                output::complain(&why);
            }
        })
        .map(drop)
        .map_err(|why| format!("cannot start a thread: {why}"))
}

fn make_storm(script: &Script) -> Result<(), String> {
    let mut alive = std::collections::VecDeque::with_capacity(STORM_WIDTH);
    for _ in 0..STORM {
        if alive.len() == STORM_WIDTH {
            reap(alive.pop_front());
        }
        let child = command(script, Role::Brief)?.stdin(Stdio::null()).spawn();
        alive.push_back(child.map_err(|why| format!("the storm is over: {why}"))?);
    }
    alive.into_iter().for_each(|child| reap(Some(child)));
    Ok(())
}

fn reap(child: Option<std::process::Child>) {
    if let Some(Err(why)) = child.map(|mut child| child.wait()) {
        output::complain(&format!("cannot reap a child: {why}"));
    }
}

/// The main function of a descendant.
pub(crate) fn live(script: &Script) -> Result<ExitCode, String> {
    match script.role {
        Role::Main => unreachable!("main has a script of its own"),
        Role::Brief => return Ok(ExitCode::SUCCESS),
        Role::Child | Role::Holder | Role::Daemon => {}
        Role::Session => leave_session()?,
        Role::HolderMiddle => start(script, Role::Holder)?,
        Role::Middle => {
            leave_session()?;
            start(script, Role::Daemon)?;
        }
    }
    arrived()?;
    if script.role.passes_by() {
        return Ok(ExitCode::SUCCESS);
    }
    wait::for_signals()
}

fn leave_session() -> Result<(), String> {
    rustix::process::setsid().map(drop).map_err(|why| format!("cannot make a session: {why}"))
}

/// Stdin is a socket to the parent: confirms the arrival there, then closes it.
fn arrived() -> Result<(), String> {
    let say = || -> std::io::Result<()> {
        rustix::io::write(rustix::stdio::stdin(), b"!")?;
        Ok(rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?)
    };
    say().map_err(|why| format!("cannot report my arrival: {why}"))
}

fn command(script: &Script, role: Role) -> Result<Command, String> {
    let program =
        std::env::current_exe().map_err(|why| format!("cannot tell my own path: {why}"))?;
    let mut command = Command::new(program);
    command.args(["--role", role.as_str()]);
    if let Some(path) = &script.pid_file {
        command.arg("--pid-file").arg(path);
    }
    if script.ignore_term {
        command.arg("--ignore-term");
    }
    if script.clear_env {
        command.arg("--clear-env");
        if role.escapes() {
            command.env_clear();
        }
    }
    if role == Role::Daemon {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    Ok(command)
}
