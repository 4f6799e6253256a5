//! One command's dealings with the daemon: finding it, starting it when that is wanted, asking, asking again.

use super::terminal::Terminal;
use super::{Failure, Launch, Launching};
use crate::client::{CallError, Client};
use crate::protocol::{Look, Shown, Voice};
use proctor_core::home::Home;
use proctor_core::lifecycle::Wish;
use proctor_core::statefile;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Effect, Meta};
use proctor_ops::table::find;
use proctor_sys::file::read_small;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Beyond an operation's own deadline: its answer is the one that should be seen.
pub(crate) const MARGIN: Duration = Duration::from_secs(10);

/// A keeper that died is replaced within tens of milliseconds, and if its daemon died as well within two seconds, by the guard. A
/// command that comes in between waits for that: the guard knows more of the services than a new keeper can.
const TAKEOVER: Duration = Duration::from_secs(3);

/// Who has seen Proctor run can wait longer: a busy machine takes its time.
const TAKEOVER_KNOWN: Duration = Duration::from_secs(5);

/// From one look for the new keeper to the next.
const TAKEOVER_PAUSE: Duration = Duration::from_millis(10);

/// Larger than any state file.
const MAX_STATE_BYTES: u64 = 4 << 20;

/// More than the identity of a boot has.
const BOOT_ID_SIZE: u64 = 64;

pub(crate) struct Session<'a> {
    pub(crate) home: Home,
    pub(crate) terminal: &'a Terminal,
    launch: &'a dyn Launch,
    /// How, if this command has to start it.
    pub(crate) launching: Launching,
    /// Who speaks for the user, if not they themselves.
    pub(crate) voice: Option<Voice>,
    client: Option<Client>,
    /// This command started Proctor.
    pub(crate) launched: bool,
}

impl<'a> Session<'a> {
    pub(crate) fn new(home: Home, launch: &'a dyn Launch, terminal: &'a Terminal) -> Session<'a> {
        let launching = Launching::default();
        Session { home, terminal, launch, launching, voice: None, client: None, launched: false }
    }

    /// Ask, starting Proctor if that is what the operation wants. A question is asked twice if the
    /// connection is lost; a change never is.
    pub(crate) fn call(&mut self, op: &str, input: &Value) -> Result<Value, Failure> {
        Ok(self.try_call(op, input)?.map_err(|error| failed(op, error))?)
    }

    /// Like [`Session::call`], but starting Proctor whatever the operation wants, also when the one that was found
    /// turns out to be dying.
    pub(crate) fn call_or_launch(&mut self, op: &str, input: &Value) -> Result<Value, Failure> {
        let ask = |client: &mut Client, limit| client.call(op, input, limit);
        Ok(self.ask(op, true, ask)?.map_err(OpError::from)?)
    }

    /// Like [`Session::call`], for text that is shown as it comes.
    pub(crate) fn page(&mut self, op: &str, input: &Value, look: Look) -> Result<Shown, Failure> {
        let ask = |client: &mut Client, limit| client.page(op, input, look, limit);
        Ok(self.ask(op, meta(op)?.launches, ask)?.map_err(OpError::from)?)
    }

    /// Like [`Session::call`], but a lost connection is for the caller to judge.
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

    /// The connection; made, and Proctor started, if need be.
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

    /// A connection of its own, to a Proctor that runs.
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

    /// The Proctor that runs. Where a dead one left services behind, the one that takes them over is waited for.
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

    /// Give the connection away, to be waited on.
    pub(crate) fn take(&mut self, launches: bool) -> Result<Client, Failure> {
        self.connect(launches)?;
        self.client.take().ok_or_else(|| none_runs(&self.home).into())
    }

    fn launch(&mut self) -> Result<(), Failure> {
        let (started, client) = self.start()?;
        self.launched = started == Started::Afresh;
        self.client = Some(client);
        Ok(())
    }

    /// Start Proctor and say so. One that died has left services behind, and these are taken over.
    fn start(&self) -> Result<(Started, Client), Failure> {
        let left = has_died(&self.home);
        let pid = match self.launch.launch(&self.home, &self.launching) {
            Ok(pid) => pid,
            // Somebody else may have been quicker: then all is well.
            Err(why) => match self.find()? {
                Some(client) => return Ok((Started::BySomebodyElse, client)),
                None => {
                    return Err(OpError::new(
                        Code::Unavailable,
                        format!("cannot start Proctor: {why}"),
                    )
                    .help("--home DIR (or PROCTOR_HOME) keeps everything of Proctor in another folder")
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
        Ok((if left { Started::AfterDeath } else { Started::Afresh }, client))
    }

    /// Become Proctor; returns when it has ended.
    pub(crate) fn become_keeper(&self) -> Result<(), Failure> {
        match self.launch.launch(&self.home, &self.launching) {
            Ok(_) => Ok(()),
            Err(why) => Err(OpError::new(Code::Unavailable, why).into()),
        }
    }

    /// A follower failed because Proctor has ended in order: there is nothing more to come.
    pub(crate) fn has_ended(&self, failure: &Failure) -> bool {
        let lost = match failure {
            Failure::Op(error) => {
                matches!(error.code, Code::Unavailable | Code::ConnectionLost)
            }
            Failure::Pipe => false,
        };
        lost && matches!(self.find(), Ok(None)) && !has_died(&self.home)
    }

    /// An earlier Proctor died and left services that may still be running.
    pub(crate) fn left_behind(&self) -> bool {
        has_runs(&self.home)
    }
}

/// Why an operation was not answered. One on files that was cut off left them as they were or as they were to be, and who asked for it
/// finds out by the files.
pub(crate) fn failed(op: &str, error: CallError) -> OpError {
    let lost = matches!(error, CallError::Lost);
    let error = OpError::from(error);
    let on_files = op.starts_with("file.") || op == "change.check";
    if !lost || !on_files {
        return error;
    }
    error.help("`proctor file history PATH` tells whether a file was changed, and `proctor file undo PATH` brings back what it was")
}

fn meta(op: &str) -> Result<&'static Meta, OpError> {
    let entry =
        find(op).ok_or_else(|| OpError::new(Code::Internal, format!("no operation '{op}'")))?;
    Ok(&entry.meta)
}

/// How this command came to a running Proctor that it did not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Started {
    /// Nothing ran before.
    Afresh,
    /// It took over what a dead one left.
    AfterDeath,
    BySomebodyElse,
}

/// A Proctor was killed during this boot and left runs, or services that are to run, without a keeper. One that ends in order
/// removes its socket.
fn has_died(home: &Home) -> bool {
    let boot = read_small(&home.boot(), BOOT_ID_SIZE).ok();
    home.socket().exists()
        && boot.is_some_and(|boot| boot == proctor_sys::boot::id().0)
        && (has_runs(home) || has_pending_start(home))
}

/// Some service is to run: it may wait for its next start after a crash.
fn has_pending_start(home: &Home) -> bool {
    let services = std::fs::read_dir(home.services()).into_iter().flatten().flatten();
    let states = services.map(|service| read_small(&service.path().join("state"), MAX_STATE_BYTES));
    states.flatten().any(|bytes| {
        statefile::decode(&bytes).is_ok_and(|found| found.state.machine.wish() != Wish::Down)
    })
}

/// There is a run's output: `services/NAME/ID.out` in the runtime folder.
pub(crate) fn has_runs(home: &Home) -> bool {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries(&home.services())
        .flat_map(|service| entries(&service.path()).collect::<Vec<_>>())
        .any(|entry| entry.path().extension().is_some_and(|extension| extension == "out"))
}

fn none_runs(home: &Home) -> OpError {
    let error =
        OpError::new(Code::Unavailable, format!("no Proctor runs in {}", home.state.display()));
    if home.services_json().exists() || has_runs(home) {
        error.help("`proctor daemon start` starts it and brings back the services it knew")
    } else {
        error.help("`proctor up` runs what proctor.yaml says; `proctor start --name` starts a single program")
    }
}
