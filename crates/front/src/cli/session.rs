//! Connection of one command to the daemon: finds it, starts it on demand, sends requests, retries.

use super::terminal::Terminal;
use super::{Failure, Launch, Launching};
use crate::client::{CallError, Client};
use crate::protocol::{ClientIdentity, ShownOutput, TerminalLook};
use proctor_core::home::{FolderRule, Home, OwnFolder};
use proctor_core::lifecycle::Wish;
use proctor_core::state_file;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Effect, Meta};
use proctor_ops::table::find;
use proctor_sys::keeper_note::KeeperNote;
use proctor_sys::own_folder;
use proctor_sys::small_file::{Lock, read_small};
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time beyond an operation's own timeout, so the operation's error is reported first.
pub(crate) const MARGIN: Duration = Duration::from_secs(10);

/// Maximum wait for a takeover. A dead keeper is replaced within tens of milliseconds or, if its daemon died as well, within two
/// seconds by the guard. A command waits for that, because the guard knows more of the services than a new keeper.
const TAKEOVER: Duration = Duration::from_secs(3);

/// Maximum wait if Proctor was seen running before: a busy machine is slow.
const TAKEOVER_KNOWN: Duration = Duration::from_secs(5);

/// Pause between two attempts to find the new keeper.
const TAKEOVER_PAUSE: Duration = Duration::from_millis(10);

/// Larger than any state file.
const MAX_STATE_BYTES: u64 = 4 << 20;

/// More than the identity of a boot has.
const BOOT_ID_SIZE: u64 = 64;

pub(crate) struct Session<'a> {
    pub(crate) home: Home,
    pub(crate) terminal: &'a Terminal,
    launch: &'a dyn Launch,
    /// Options, if this command has to start Proctor.
    pub(crate) launching: Launching,
    /// The program that acts for the user, if there is one.
    pub(crate) voice: Option<ClientIdentity>,
    client: Option<Client>,
    /// True if this command started Proctor.
    pub(crate) launched: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(home: Home, launch: &'a dyn Launch, terminal: &'a Terminal) -> Session<'a> {
        let launching = Launching::default();
        Session { home, terminal, launch, launching, voice: None, client: None, launched: false }
    }

    /// Sends a request, and starts Proctor if the operation wants that. A read is retried if the connection is lost; a change
    /// never is.
    pub(crate) fn call(&mut self, op: &str, input: &Value) -> Result<Value, Failure> {
        Ok(self.try_call(op, input)?.map_err(|error| failed(op, error))?)
    }

    /// Like [`Session::call`], but always starts Proctor, also if the one that was found is ending.
    pub(crate) fn call_or_launch(&mut self, op: &str, input: &Value) -> Result<Value, Failure> {
        let ask = |client: &mut Client, limit| client.call(op, input, limit);
        Ok(self.ask(op, true, ask)?.map_err(OpError::from)?)
    }

    /// Like [`Session::call`], for text that is printed as it comes.
    pub(crate) fn page(
        &mut self,
        op: &str,
        input: &Value,
        look: TerminalLook,
    ) -> Result<ShownOutput, Failure> {
        let ask = |client: &mut Client, limit| client.page(op, input, look, limit);
        Ok(self.ask(op, meta(op)?.launches, ask)?.map_err(OpError::from)?)
    }

    /// Like [`Session::call`], but returns a lost connection to the caller.
    pub(crate) fn try_call(
        &mut self,
        op: &str,
        input: &Value,
    ) -> Result<Result<Value, CallError>, Failure> {
        let ask = |client: &mut Client, limit| client.call(op, input, limit);
        self.ask(op, meta(op)?.launches, ask)
    }

    fn ask<T>(
        &mut self,
        op: &str,
        launches: bool,
        ask: impl Fn(&mut Client, Duration) -> Result<T, CallError>,
    ) -> Result<Result<T, CallError>, Failure> {
        let meta = meta(op)?;
        let limit = meta.timeout + MARGIN;
        let answer = ask(self.connect(launches)?, limit);
        match answer {
            Err(CallError::Lost) => {
                self.client = None;
                match meta.effect {
                    Effect::Read => Ok(ask(self.connect(launches)?, limit)),
                    Effect::Write | Effect::Exec | Effect::Admin => Ok(Err(CallError::Lost)),
                }
            }
            answer => Ok(answer),
        }
    }

    /// Returns the connection; connects, and starts Proctor, if needed.
    pub(crate) fn connect(&mut self, launches: bool) -> Result<&mut Client, Failure> {
        if self.client.is_none() {
            match self.find()? {
                Some(client) => self.client = Some(client),
                None if launches || has_died(&self.home) => self.launch()?,
                None => return Err(none_runs(&self.home).into()),
            }
        }
        self.client.as_mut().ok_or_else(|| none_runs(&self.home).into())
    }

    /// Returns a separate connection to a running Proctor.
    pub(crate) fn another(&self) -> Result<Client, Failure> {
        match self.find_within(TAKEOVER_KNOWN)? {
            Some(client) => Ok(client),
            None if has_died(&self.home) => Ok(self.start()?.1),
            None => Err(none_runs(&self.home).into()),
        }
    }

    pub(crate) fn find(&self) -> Result<Option<Client>, OpError> {
        self.find_within(TAKEOVER)
    }

    /// Finds the running Proctor. If a dead one left services behind, waits for the one that takes them over.
    fn find_within(&self, patience: Duration) -> Result<Option<Client>, OpError> {
        let give_up = Instant::now() + patience;
        loop {
            let found = Client::connect(&self.home)?;
            if found.is_some() || !has_died(&self.home) || Instant::now() >= give_up {
                return Ok(found.map(|client| client.spoken_by(self.voice.clone())));
            }
            std::thread::park_timeout(TAKEOVER_PAUSE);
        }
    }

    /// Gives the connection away, to be waited on.
    pub(crate) fn take(&mut self, launches: bool) -> Result<Client, Failure> {
        self.connect(launches)?;
        self.client.take().ok_or_else(|| none_runs(&self.home).into())
    }

    fn launch(&mut self) -> Result<(), Failure> {
        let (started, client) = self.start()?;
        self.launched = started == StartKind::Afresh;
        self.client = Some(client);
        Ok(())
    }

    /// Starts Proctor and reports it. Services that a dead Proctor left behind are taken over.
    fn start(&self) -> Result<(StartKind, Client), Failure> {
        let left = has_died(&self.home);
        let pid = match self.launch.launch(&self.home, &self.launching) {
            Ok(pid) => pid,
            // Another process may have started it first; that is fine.
            Err(why) => match self.find()? {
                Some(client) => return Ok((StartKind::BySomebodyElse, client)),
                None => {
                    return Err(OpError::new(
                        Code::Unavailable,
                        format!("cannot start Proctor: {why}"),
                    )
                    .help("use another folder with --home DIR (or PROCTOR_HOME)")
                    .into());
                }
            },
        };
        let home = self.home.state.display();
        self.terminal.note(&match left {
            true => format!(
                "Proctor had died; a new one (keeper pid {pid}) has taken over its services, home {home}"
            ),
            false => format!("started Proctor (keeper pid {pid}), home {home}"),
        });
        let client = self.find_within(TAKEOVER_KNOWN)?.ok_or_else(|| none_runs(&self.home))?;
        Ok((if left { StartKind::AfterDeath } else { StartKind::Afresh }, client))
    }

    /// Becomes Proctor; returns when it has ended.
    pub(crate) fn become_keeper(&self) -> Result<(), Failure> {
        match self.launch.launch(&self.home, &self.launching) {
            Ok(_) => Ok(()),
            Err(why) => Err(OpError::new(Code::Unavailable, why).into()),
        }
    }

    /// Returns true if a follower failed because Proctor has ended in order, so nothing more follows.
    pub(crate) fn has_ended(&self, failure: &Failure) -> bool {
        let lost = match failure {
            Failure::Op(error) => {
                matches!(error.code, Code::Unavailable | Code::ConnectionLost)
            }
            Failure::Pipe => false,
        };
        lost && matches!(self.find(), Ok(None)) && !has_died(&self.home)
    }

    /// No Proctor runs, and one was killed and left services.
    pub(crate) fn has_died(&self) -> bool {
        let runs = || Lock::holder(&self.home.lock()).is_some();
        has_died(&self.home) && !runs()
    }

    /// An earlier Proctor died and left services that may still be running.
    pub(crate) fn left_behind(&self) -> bool {
        has_runs(&self.home) || has_lost_runs(&self.home)
    }
}

/// Returns the error of an unanswered operation. An interrupted file operation left the files unchanged or fully changed; the
/// files show which.
pub(crate) fn failed(op: &str, error: CallError) -> OpError {
    let lost = matches!(error, CallError::Lost);
    let error = OpError::from(error);
    let on_files = op.starts_with("file.") || op == "change.check";
    if !lost || !on_files {
        return error;
    }
    error.help("check with `proctor file history PATH` whether a file was changed; `proctor file undo PATH` restores it")
}

fn meta(op: &str) -> Result<&'static Meta, OpError> {
    let entry = find(op)
        .ok_or_else(|| OpError::new(Code::Internal, format!("unknown operation '{op}'")))?;
    Ok(&entry.meta)
}

/// How this command started Proctor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartKind {
    /// Nothing ran before.
    Afresh,
    /// It took over the services of a dead one.
    AfterDeath,
    BySomebodyElse,
}

/// Returns true if a Proctor was killed during this boot and left runs without a keeper. One that ends in order
/// removes its socket.
fn has_died(home: &Home) -> bool {
    let boot = read_small(&home.boot(), BOOT_ID_SIZE).ok();
    let left =
        home.socket().exists() && boot.is_some_and(|boot| boot == proctor_sys::boot_id::id().0);
    let has_work = || has_runs(home) || has_pending_start(home);
    (left || is_noted(home)) && has_work() || has_lost_runs(home)
}

/// Returns true if some service is to run: it may wait for its next start after a crash.
fn has_pending_start(home: &Home) -> bool {
    let names = own_folder::names(&home.services(), OwnFolder::Services.rule()).unwrap_or_default();
    let state = |name: OsString| home.services().join(name).join("state");
    let states = names.into_iter().map(|name| read_small(&state(name), MAX_STATE_BYTES));
    states.flatten().any(|bytes| {
        state_file::decode(&bytes).is_ok_and(|found| found.state.machine.wish() != Wish::Down)
    })
}

/// The note of a Proctor that did not end in order during this boot.
fn is_noted(home: &Home) -> bool {
    KeeperNote::read(home)
        .is_some_and(|note| note.is_of_this_boot() && note.runtime == home.runtime)
}

/// A Proctor was killed during this boot, and nothing is left of what it wrote about its services: only a keeper finds them.
fn has_lost_runs(home: &Home) -> bool {
    let rule = OwnFolder::Services.rule();
    let nothing = own_folder::names(&home.services(), rule).is_ok_and(|names| names.is_empty());
    let missing = home.services().symlink_metadata().is_err();
    (nothing || missing) && is_noted(home) && home.services_json().exists()
}

/// There is a run's output (`services/NAME/ID.out` in the runtime folder), or something that keeps us from seeing it.
pub(crate) fn has_runs(home: &Home) -> bool {
    let rule = FolderRule::INNER;
    if own_folder::is_damaged(&home.runtime, rule) || own_folder::is_damaged(&home.services(), rule)
    {
        return true;
    }
    let is_output = |name: &OsString| Path::new(name).extension().is_some_and(|it| it == "out");
    let has_output = |service: OsString| {
        let folder = home.services().join(&service);
        let is_aside = service.to_string_lossy().contains(".damaged-");
        match own_folder::names(&folder, rule) {
            Ok(names) => names.iter().any(is_output),
            Err(error) => own_folder::unsound(&error).is_some() && !is_aside,
        }
    };
    own_folder::names(&home.services(), rule).unwrap_or_default().into_iter().any(has_output)
}

fn none_runs(home: &Home) -> OpError {
    let error = OpError::new(
        Code::Unavailable,
        format!("Proctor is not running in {}", home.state.display()),
    );
    if home.services_json().exists() || has_runs(home) {
        error.help("start it and its services with `proctor daemon start`")
    } else {
        error.help("`proctor up` starts the services of proctor.yaml; `proctor start --name` starts a single program")
    }
}
