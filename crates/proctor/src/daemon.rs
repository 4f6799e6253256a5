//! Role of the daemon: the keeper's socket at 3, the clients' at 4, tokio in between.

use crate::fronts;
use crate::keeper::{self, Arguments, PassedOptions, SELF};
use anyhow::{Context, Result, anyhow};
use proctor_core::home::Home;
use proctor_engine::daemon::{DaemonExit, Listen, run};
use proctor_ops::operation;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::small_file::Lock;
use proctor_sys::{allocator, inherited_fds};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub(crate) const ROLE: &str = "__daemon";

/// First argument of its command line, for process listings.
pub(crate) const TITLE: &str = "proctor: daemon";

/// Time for a service manager to restart a keeper in the foreground; systemd waits 100 ms.
const RESTART_ABOVE_US: Duration = Duration::from_secs(3);

/// Polling interval; the kernel does not report a taken lock.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Descriptors of the sockets from the keeper.
const KEEPER: i32 = 3;
const CLIENTS: i32 = 4;

pub(crate) fn main() -> Result<()> {
    let Arguments { home, manner, .. } = Arguments::parse(std::env::args_os().skip(2))?;
    let keeper = inherited_fds::take(KEEPER)
        .map(UnixStream::from)
        .context("the keeper's socket is missing")?;
    let clients = inherited_fds::take(CLIENTS)
        .map(UnixListener::from)
        .context("the clients' socket is missing")?;
    allocator::share_one_heap();
    start_tracing(manner.log_level.clone());
    failpoint::moment(Point::DaemonBegin);
    // The daemon holds three descriptors of every run.
    let open_files = inherited_fds::raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ending = runtime.block_on(serve(&home, keeper, clients, &manner));
    runtime.shutdown_background();
    match ending {
        DaemonExit::ForGood | DaemonExit::Replaced => Ok(()),
        DaemonExit::KeeperGone if manner.foreground && another_keeper_comes(&home) => Ok(()),
        DaemonExit::KeeperGone => {
            inherited_fds::restore_open_files(open_files);
            become_keeper(&home, &manner)
        }
    }
}

async fn serve(
    home: &Home,
    keeper: UnixStream,
    clients: UnixListener,
    manner: &PassedOptions,
) -> DaemonExit {
    let (context_home, port) = (home.clone(), manner.port);
    let listen = if manner.holds_listeners { Listen::AfterUp } else { Listen::AtOnce };
    run(home.clone(), keeper, listen, async move |engine| {
        let binary = std::env::current_exe().unwrap_or_else(|_| SELF.into());
        let owner = operation::Caller::local(rustix::process::getuid().as_raw());
        let context = operation::Context::new(engine, context_home, binary, owner);
        fronts::serve(clients, context, port).await;
    })
    .await
}

/// A keeper in the foreground is restarted by its service manager; a second one would be in the way. The witness descriptors stay
/// open until the new one has taken over.
fn another_keeper_comes(home: &Home) -> bool {
    let give_up = Instant::now() + RESTART_ABOVE_US;
    while Instant::now() < give_up {
        if Lock::holder(&home.lock()).is_some() {
            tracing::warn!("the keeper is gone and another has started: exiting");
            return true;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    false
}

/// The keeper died: this process takes its role, with everything that the daemon held open as a witness.
fn become_keeper(home: &Home, manner: &PassedOptions) -> Result<()> {
    tracing::warn!("the keeper is gone: taking over");
    failpoint::moment(Point::RoleGone);
    let words = keeper::command(keeper::TITLE, keeper::ROLE, home, &manner.of_successor());
    let error = match failpoint::step(Point::RoleExec) {
        Ok(()) => Command::new(SELF).arg0(&words[0]).args(&words[1..]).exec(),
        Err(error) => error,
    };
    Err(anyhow!(error).context("cannot become the keeper"))
}

/// Logs to standard error, which the keeper has redirected to the own log. `--log-level`, then `RUST_LOG`, then
/// `SUPERVISOR_LOG_LEVEL` set the level.
fn start_tracing(flag: Option<String>) {
    let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (rust_log, level) = (flag.or_else(|| var("RUST_LOG")), var("SUPERVISOR_LOG_LEVEL"));
    // A word that is not a level would be taken as a module name and silence everything else.
    let level_parsed = level.as_deref().map_or(Ok(LevelFilter::INFO), str::parse);
    let usual = usually(*level_parsed.as_ref().unwrap_or(&LevelFilter::INFO));
    let asked = rust_log.as_deref().map(EnvFilter::try_new);
    let not_understood = [
        matches!(asked, Some(Err(_))).then_some(("RUST_LOG", rust_log)),
        level_parsed.is_err().then_some(("SUPERVISOR_LOG_LEVEL", level)),
    ];
    let filter = asked.and_then(Result::ok).unwrap_or(usual);
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| RedactingWriter(std::io::stderr()))
        .with_ansi(false)
        // It would report on standard error that standard error cannot be written, and panic: a full disk ended us.
        .log_internal_errors(false)
        .init();
    for (variable, value) in not_understood.into_iter().flatten() {
        tracing::warn!(variable, value, "invalid log level: use error, warn, info, debug or trace");
    }
}

/// Filter for this level. The MCP SDK logs each request, and a disconnected client as an error: both are shown only at debug
/// levels.
fn usually(level: LevelFilter) -> EnvFilter {
    let details = level >= LevelFilter::DEBUG;
    EnvFilter::new(if details { level.to_string() } else { format!("{level},rmcp=off") })
}

/// Writes lines without known secrets; each comes with one call.
struct RedactingWriter(std::io::Stderr);

impl std::io::Write for RedactingWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        match std::str::from_utf8(line) {
            Ok(text) => self.0.write_all(proctor_engine::secrets::hide(text).as_bytes())?,
            Err(_) => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
