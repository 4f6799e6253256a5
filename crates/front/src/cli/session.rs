//! One command's dealings with the daemon: finding it, starting it when that is wanted, asking, asking again.

use super::terminal::Terminal;
use super::{Failure, Launch, Launching};
use crate::client::{CallError, Client};
use crate::protocol::{Look, Shown, Voice};
use proctor_core::home::Home;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Effect, Meta};
use proctor_ops::table::find;
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

/// Beyond an operation's own deadline: its answer is the one that should be seen.
pub(crate) const MARGIN: Duration = Duration::from_secs(10);

/// A keeper that died is replaced within tens of milliseconds. Who comes in between is not told that none runs.
const TAKEOVER: Duration = Duration::from_millis(500);

/// Who has seen Proctor run can wait longer: a busy machine takes its time.
const TAKEOVER_KNOWN: Duration = Duration::from_secs(5);

/// From one look for the new keeper to the next.
const TAKEOVER_PAUSE: Duration = Duration::from_millis(10);

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
                None if launches => self.launch()?,
                None => return Err(none_runs(&self.home).into()),
            }
        }
        self.client.as_mut().ok_or_else(|| none_runs(&self.home).into())
    }

    /// A connection of its own, to a Proctor that runs.
    pub(crate) fn another(&self) -> Result<Client, Failure> {
        Ok(self.find_within(TAKEOVER_KNOWN)?.ok_or_else(|| none_runs(&self.home))?)
    }

    pub(crate) fn find(&self) -> Result<Option<Client>, OpError> {
        self.find_within(TAKEOVER)
    }

    /// The Proctor that runs. Where a dead one left services behind, the one that takes them over is waited for.
    fn find_within(&self, patience: Duration) -> Result<Option<Client>, OpError> {
        let give_up = Instant::now() + patience;
        loop {
            let found = Client::connect(&self.home)?;
            if found.is_some() || !self.left_behind() || Instant::now() >= give_up {
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
        let home = self.home.state.display();
        let launched = self.launch.launch(&self.home, &self.launching);
        let pid = match launched {
            Ok(pid) => pid,
            // Somebody else may have been quicker: then all is well.
            Err(why) => match self.find()? {
                Some(client) => {
                    self.client = Some(client);
                    return Ok(());
                }
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
        self.launched = true;
        self.terminal.note(&format!("started Proctor (keeper pid {pid}), home {home}"));
        self.client = Some(self.another()?);
        Ok(())
    }

    /// Become Proctor; returns when it has ended.
    pub(crate) fn become_keeper(&self) -> Result<(), Failure> {
        match self.launch.launch(&self.home, &self.launching) {
            Ok(_) => Ok(()),
            Err(why) => Err(OpError::new(Code::Unavailable, why).into()),
        }
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
