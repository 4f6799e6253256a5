//! Role of the keeper: arguments in, descriptors in, then the loop.

use crate::{daemon, guard};
use anyhow::{Context, Result, anyhow, bail};
use proctor_core::config::listen::Port;
use proctor_core::home::Home;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::keeper_note::KeeperNote;
use proctor_sys::small_file::Lock;
use proctor_sys::{allocator, inherited_fds};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const ROLE: &str = "__keeper";

/// First argument of its command line, for process listings.
pub(crate) const TITLE: &str = "proctor: keeper";

/// Path of the running program, even after its file was replaced.
pub(crate) const SELF: &str = "/proc/self/exe";

/// Maximum wait for a keeper that is dying. The kernel releases the lock with the process.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// Interval between attempts; a wait in the kernel would have no limit.
const LOCK_AGAIN: Duration = Duration::from_millis(5);

/// Command line of a role.
pub(crate) struct Arguments {
    pub(crate) home: Home,
    lock: Option<RawFd>,
    listener: Option<RawFd>,
    ready: Option<RawFd>,
    pub(crate) manner: PassedOptions,
}

/// Options that a keeper passes on to its daemon and to its successor.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassedOptions {
    /// A service manager (systemd, a container) restarts the keeper.
    pub(crate) foreground: bool,
    /// Log level of the daemon; `None` takes it from the environment.
    pub(crate) log_level: Option<String>,
    /// Port of TCP control; `None` takes it from the configuration.
    pub(crate) port: Option<Port>,
    /// The daemon listens on the network after the first `up`.
    pub(crate) holds_listeners: bool,
}

impl PassedOptions {
    /// Options of a successor: Proctor has been started by then.
    pub(crate) fn of_successor(&self) -> PassedOptions {
        PassedOptions { holds_listeners: false, ..self.clone() }
    }
}

pub(crate) fn main() -> Result<()> {
    let arguments = Arguments::parse(std::env::args_os().skip(2))?;
    if !arguments.manner.foreground {
        // Already a leader after an upgrade or a takeover; that is fine.
        let _ = rustix::process::setsid();
    }
    run(arguments, None)
}

/// Runs the keeper of `home` in this process until it is asked to end, and applies its configuration meanwhile.
pub(crate) fn run_in_foreground(
    home: Home,
    manner: PassedOptions,
    config: ForegroundConfig<'_>,
) -> Result<()> {
    run(Arguments { home, lock: None, listener: None, ready: None, manner }, Some(config))
}

/// Configuration for a keeper in the foreground: the file of `--config`, or `None` for the one that the rule finds.
pub(crate) struct ForegroundConfig<'a>(pub(crate) Option<&'a Path>);

fn run(arguments: Arguments, config: Option<ForegroundConfig<'_>>) -> Result<()> {
    allocator::share_one_heap();
    let Arguments { home, lock, listener, ready, manner } = arguments;
    failpoint::moment(Point::KeeperBegin);
    // Before anything is opened: descriptors open now were passed to us.
    let take = |number: Option<RawFd>| number.and_then(inherited_fds::take);
    let (lock, listener, ready) = (take(lock), take(listener), take(ready));
    let witnesses: Vec<OwnedFd> = inherited_fds::open_numbers()
        .into_iter()
        .filter(|number| !is_one_of(*number, &[&lock, &listener, &ready]))
        .filter_map(inherited_fds::take)
        .collect();
    proctor_keeper::make_home(&home)?;
    let (mut lock, mut state_lock) = match lock {
        Some(fd) => (Lock::from_inherited(File::from(fd)), wait_for_state_lock(&home)),
        None => take_locks(&home)?,
    };
    failpoint::moment(Point::KeeperLocked);
    note(lock.file(), &std::process::id().to_string());
    if let Some(state_lock) = &mut state_lock {
        // For commands whose environment would lead them elsewhere.
        note(state_lock.file(), &KeeperNote::now(&home).to_string());
    }
    if let Some(config) = config {
        bring_up(&home, &config)?;
    }
    proctor_keeper::run(proctor_keeper::Options {
        lock,
        state_lock,
        listener: listener.map(UnixListener::from),
        program: SELF.into(),
        daemon: command(daemon::TITLE, daemon::ROLE, &home, &manner),
        guard: command(guard::TITLE, guard::ROLE, &home, &manner.of_successor()),
        keeper: command(TITLE, ROLE, &home, &manner.of_successor()),
        ready,
        witnesses,
        home,
    })?;
    Ok(())
}

/// Overwrites the old note, because a full disk has no room for more. A failure must not leave services without a
/// keeper. After an
/// upgrade the descriptor is where the last program left it.
fn note(file: &File, text: &str) {
    let line = format!("{text}\n");
    let _ = file.write_all_at(line.as_bytes(), 0).and_then(|()| file.set_len(line.len() as u64));
}

/// Starts a command that waits for this keeper and then applies its configuration. It is our child, and is reaped like any other.
fn bring_up(home: &Home, config: &ForegroundConfig<'_>) -> Result<()> {
    let mut command = Command::new(SELF);
    command.arg0("proctor");
    if let Some(folder) = home.explicit() {
        command.arg("--home").arg(folder);
    }
    command.args(["daemon", "start", "--begun"]).stdin(Stdio::null());
    if let Some(path) = config.0 {
        command.arg("--config").arg(path);
    }
    command.spawn().context("cannot bring up the configuration")?;
    Ok(())
}

fn is_one_of(number: RawFd, fds: &[&Option<OwnedFd>]) -> bool {
    use std::os::fd::AsRawFd;
    fds.iter().any(|fd| fd.as_ref().is_some_and(|fd| fd.as_raw_fd() == number))
}

/// Takes both locks, or neither. The one in the state folder comes first, because it is still held if the other was removed.
fn take_locks(home: &Home) -> Result<(Lock, Option<Lock>)> {
    let path = home.lock();
    let give_up = Instant::now() + LOCK_WAIT;
    loop {
        failpoint::step(Point::KeeperLock)?;
        let state_lock = StateLock::take(home);
        if !matches!(state_lock, StateLock::Taken)
            && let Some(lock) =
                Lock::take(&path).with_context(|| format!("cannot lock {}", path.display()))?
        {
            return Ok((lock, state_lock.into_lock()));
        }
        drop(state_lock);
        if Instant::now() >= give_up {
            let holder = Lock::holder(&path).or_else(|| Lock::holder(&home.state_lock()));
            let holder = holder.map_or_else(String::new, |pid| format!(" (pid {pid})"));
            bail!("another keeper{holder} is running in {}", home.runtime.display());
        }
        std::thread::sleep(LOCK_AGAIN);
    }
}

/// After an upgrade, another process that tries to become the keeper may hold the lock for a moment.
fn wait_for_state_lock(home: &Home) -> Option<Lock> {
    let give_up = Instant::now() + LOCK_WAIT;
    loop {
        match StateLock::take(home) {
            StateLock::Taken if Instant::now() < give_up => std::thread::sleep(LOCK_AGAIN),
            lock @ (StateLock::Ours(_) | StateLock::Taken | StateLock::Unavailable) => {
                return lock.into_lock();
            }
        }
    }
}

/// State of the lock in the state folder.
enum StateLock {
    Ours(Lock),
    /// Another process holds it.
    Taken,
    /// The file system has no locks, or the disk has no room; the other lock is enough.
    Unavailable,
}

impl StateLock {
    fn take(home: &Home) -> StateLock {
        match Lock::take(&home.state_lock()) {
            Ok(Some(lock)) => StateLock::Ours(lock),
            Ok(None) => StateLock::Taken,
            Err(_) => StateLock::Unavailable,
        }
    }

    fn into_lock(self) -> Option<Lock> {
        match self {
            StateLock::Ours(lock) => Some(lock),
            StateLock::Taken | StateLock::Unavailable => None,
        }
    }
}

/// Returns title and arguments that make a process take a role in this home.
pub(crate) fn command(title: &str, role: &str, home: &Home, manner: &PassedOptions) -> Vec<String> {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let mut words = vec![
        title.into(),
        role.into(),
        "--state".into(),
        text(&home.state),
        "--runtime".into(),
        text(&home.runtime),
    ];
    words.extend(manner.foreground.then(|| "--foreground".into()));
    if let Some(level) = &manner.log_level {
        words.extend(["--log-level".into(), level.clone()]);
    }
    if let Some(port) = manner.port {
        words.extend(["--port".into(), port.to_string()]);
    }
    words.extend(manner.holds_listeners.then(|| "--hold-listeners".into()));
    words
}

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Arguments> {
        let (mut state, mut runtime) = (None, None);
        let (mut lock, mut listener, mut ready) = (None, None, None);
        let mut manner = PassedOptions::default();
        while let Some(word) = words.next() {
            let mut value =
                || words.next().with_context(|| format!("{} needs a value", word.display()));
            match word.to_str() {
                Some("--state") => state = Some(PathBuf::from(value()?)),
                Some("--runtime") => runtime = Some(PathBuf::from(value()?)),
                Some("--foreground") => manner.foreground = true,
                Some("--hold-listeners") => manner.holds_listeners = true,
                Some("--log-level") => {
                    manner.log_level = Some(value()?.to_string_lossy().into_owned());
                }
                Some("--port") => {
                    let port = value()?.to_string_lossy().parse();
                    manner.port = Some(port.map_err(|what| anyhow!("--port: {what}"))?);
                }
                Some("--lock-fd") => lock = Some(number(&value()?)?),
                Some("--listener-fd") => listener = Some(number(&value()?)?),
                Some("--ready-fd") => ready = Some(number(&value()?)?),
                _ => bail!("unknown argument {}", word.display()),
            }
        }
        let home = Home {
            state: state.context("--state is missing")?,
            runtime: runtime.context("--runtime is missing")?,
        };
        Ok(Arguments { home, lock, listener, ready, manner })
    }
}

fn number(text: &OsString) -> Result<RawFd> {
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|n: &RawFd| *n > 2);
    number.with_context(|| format!("{} is not a descriptor", text.display()))
}
