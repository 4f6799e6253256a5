//! The victim's descendants: children, children in a session of their own, daemonised grandchildren, a storm.
//!
//! Each writes its pid into the pid file before it does anything a test could see, and tells whoever started it that
//! it has arrived; only then does the next action begin. A file says who must die, and nobody is missing from it.

use crate::output;
use crate::script::{Role, Script};
use crate::wait;
use rustix::fd::OwnedFd;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// Children that a storm makes before it is over.
const STORM: usize = 2000;
/// Of those, how many may be alive at once.
const STORM_WIDTH: usize = 8;
/// A descendant that has not arrived by then never will.
const ARRIVAL: Duration = Duration::from_secs(30);

/// Append `role pid` to the pid file. One write of a short line: appends of many processes do not mix.
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

/// Start a descendant and wait until it, and whom it starts, has arrived.
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

/// Keep making children that end at once, in the background.
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

/// The life of a descendant.
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

/// Stdin is a socket to whoever started this process: say so there, then let go of it.
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
