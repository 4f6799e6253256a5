//! The command line: the first front. It has one command for each operation of the table, and a few that combine several
//! (`up` in the foreground, `logs -f`, `run`).
//!
//! It starts in less than a millisecond: no runtime, no compiled patterns. The arguments of a command are built only when that
//! command is called, and simple commands skip even that (`plain`).

mod caller;
mod command_tree;
pub(crate) mod configuration;
mod daemon;
mod events;
mod home;
mod install;
mod interrupt;
mod logs;
mod mcp;
mod overview;
mod plain_output;
mod progress;
mod reference;
mod run;
mod run_input;
mod run_operation;
mod run_terminal;
mod session;
mod terminal;
mod trust;
mod up;
mod wait_for_operation;

use crate::client::Client;
pub(crate) use caller::fill_for as fill_caller;
use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
pub use install::reference as clients;
#[doc(hidden)]
pub use install::rewritten;
use proctor_core::config::listen::Port;
use proctor_core::home::Home;
use proctor_ops::error::{Code, OpError};
use proctor_ops::table;
pub use reference::reference;
use session::Session;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use terminal::Terminal;

/// Starts Proctor itself; implemented in `main`.
pub trait Launch: Sync {
    /// Starts Proctor and returns the keeper's pid when it responds. In the foreground, becomes Proctor and returns
    /// when it has ended.
    fn launch(&self, home: &Home, how: &Launching) -> Result<u32, String>;
}

/// Options for starting Proctor.
#[derive(Debug, Clone, Default)]
pub struct Launching {
    pub foreground: bool,
    /// Log level of the daemon; `None` takes it from the environment.
    pub log_level: Option<String>,
    /// Port of TCP control; `None` takes it from the configuration.
    pub port: Option<Port>,
    /// In the foreground: the configuration of `--config`, applied as soon as Proctor runs.
    pub config: Option<PathBuf>,
    /// Listen on the network only after a configuration has been applied, because the command is about to apply one.
    pub holds_listeners: bool,
}

/// Reason why a command ended early.
pub(crate) enum Failure {
    Op(OpError),
    /// The reader of our output is gone; no message is needed.
    Pipe,
}

impl From<OpError> for Failure {
    fn from(error: OpError) -> Failure {
        Failure::Op(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::Pipe;
        }
        Failure::Op(OpError::new(Code::Failed, error.to_string()))
    }
}

/// Exit code of a finished command.
pub(crate) type CommandResult = Result<u8, Failure>;

/// Runs the command of this process and returns its exit code.
pub fn main(launch: &'static dyn Launch) -> u8 {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = plain_output::answered(&words) {
        return code;
    }
    if words.len() == 1 {
        return bare();
    }
    let matches = match command_tree::parse(&words) {
        Ok(matches) => matches,
        Err(error) => return misused(&error, words.iter().any(|word| word == "--json")),
    };
    let terminal = Terminal::new(&matches);
    match run(&matches, &terminal, launch) {
        Ok(code) => code,
        Err(Failure::Pipe) => 0,
        Err(Failure::Op(error)) => {
            terminal.error(&error);
            error.code.exit()
        }
    }
}

fn run(matches: &ArgMatches, terminal: &Terminal, launch: &'static dyn Launch) -> CommandResult {
    let Some((word, arguments)) = matches.subcommand() else {
        return Err(OpError::bad_input("the command is missing").into());
    };
    match (word, arguments.subcommand()) {
        ("completions", _) => return command_tree::completions(arguments, terminal),
        ("mcp", Some(("install", inner))) => {
            mcp::alone(arguments)?;
            return install::install(matches, inner, terminal);
        }
        ("trust", _) => {
            return trust::trust(&home::home(matches.get_one("home"))?, arguments, terminal);
        }
        ("mcp", _) => return mcp::mcp(home::home(matches.get_one("home"))?, launch, arguments),
        _ => {}
    }
    let mut session = Session::new(home::home(matches.get_one("home"))?, launch, terminal);
    let ended = command(&mut session, word, arguments);
    if let Err(Failure::Op(_)) = &ended {
        daemon::end_idle(&mut session);
    }
    ended
}

fn command(session: &mut Session<'_>, word: &str, arguments: &ArgMatches) -> CommandResult {
    match (word, arguments.subcommand()) {
        ("up", _) => up::up(session, arguments),
        ("events", _) => events::events(session, arguments),
        ("logs", _) => logs::logs(session, arguments),
        ("run", _) => run::run(session, arguments),
        ("config", _) => run_operation::config(session, arguments),
        ("down", _) => daemon::down(session, arguments),
        ("daemon", Some(("start", arguments))) => daemon::start(session, arguments),
        ("daemon", Some(("stop", arguments))) => daemon::stop(session, arguments),
        ("daemon", Some(("upgrade", arguments))) => daemon::upgrade(session, arguments),
        (word, Some((second, arguments))) => operation(session, &[word, second], arguments),
        (word, None) => operation(session, &[word], arguments),
    }
}

/// Connects to the daemon of a home, and starts it if none runs and `launches` is set. Prints nothing, because nobody
/// would read it.
pub(crate) fn reach(
    home: Home,
    launch: &dyn Launch,
    launches: bool,
) -> Result<UnixStream, OpError> {
    let terminal = Terminal::silent();
    let client = Session::new(home, launch, &terminal).take(launches);
    client.map(Client::into_stream).map_err(|failure| match failure {
        Failure::Op(error) => error,
        Failure::Pipe => OpError::new(Code::Unavailable, "cannot reach Proctor"),
    })
}

fn operation(session: &mut Session<'_>, words: &[&str], arguments: &ArgMatches) -> CommandResult {
    let entry = table::TABLE.iter().find(|entry| entry.meta.cli == words);
    let entry =
        entry.ok_or_else(|| OpError::new(Code::Internal, "the command has no operation"))?;
    run_operation::operate(session, entry, arguments)
}

/// Handles a command line without a command.
fn bare() -> u8 {
    // With a closed stderr there is no reader.
    let _ = io::stderr().lock().write_all(overview::OVERVIEW.as_bytes());
    Code::BadInput.exit()
}

/// Prints help as output; every other message of clap is an error in the command line.
fn misused(error: &clap::Error, json: bool) -> u8 {
    if let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word))) =
        (error.kind(), error.get(ContextKind::InvalidSubcommand))
        && let Some(error) = overview::known_elsewhere(word)
    {
        match json {
            true => terminal::json_error(&error),
            false => Terminal::usual().error(&error),
        }
        return error.code.exit();
    }
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if json && !asked {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        terminal::json_error(&OpError::bad_input(text));
    } else {
        // With a closed pipe there is no reader.
        let _ = error.print();
    }
    if asked { 0 } else { Code::BadInput.exit() }
}
