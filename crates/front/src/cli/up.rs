//! `up`: make the configuration run, and in the foreground stay with it until Ctrl-C.

use super::interrupt::{Came, Interrupts};
use super::logs::{self, View};
use super::progress::Progress;
use super::session::Session;
use super::{Ended, Failure, caller, daemon, operate};
use crate::client::Client;
use clap::{ArgMatches, Args, FromArgMatches};
use proctor_ops::error::{Code, OpError};
use proctor_ops::moment::rfc3339;
use proctor_ops::operations::{list, up};
use proctor_ops::settle::{Changed, Outcome};
use proctor_ops::status::State;
use serde_json::{Value, json};
use std::time::Duration;

/// Longer than one long poll: an answer comes first.
const PATIENCE: Duration = Duration::from_secs(90);

/// While services stop, their last words are fetched this often.
const LAST_WORDS: Duration = Duration::from_millis(200);

#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Return when the services run, and leave them to Proctor
    #[arg(long, short)]
    detach: bool,
}

pub(crate) fn up(session: &mut Session<'_>, arguments: &ArgMatches) -> Ended {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let entry = operate::entry("service.up")?;
    let mut input = operate::input(entry, arguments)?;
    if input.get("config").is_none() {
        match caller::configuration() {
            Some(path) => input["config"] = json!(path.to_string_lossy()),
            None => input["example"] = json!(true),
        }
    }
    if options.detach {
        let answer = operate::ask(session, entry, &input)?;
        let code = session.terminal.answer(entry, &answer)?;
        welcome(session, &output(answer)?);
        return Ok(code);
    }
    in_foreground(session, &mut input)
}

fn output(answer: Value) -> Result<up::Output, OpError> {
    serde_json::from_value(answer).map_err(|error| {
        OpError::new(Code::Internal, format!("an answer that cannot be read: {error}"))
    })
}

fn in_foreground(session: &mut Session<'_>, input: &mut Value) -> Ended {
    session.connect(true)?;
    let interrupts = Interrupts::catch()?;
    let since = rfc3339(proctor_sys::clock::now().wall);
    // Nobody waits for the start: the logs below show how it goes.
    input["no_wait"] = json!(true);
    let begun = output(session.call("service.up", input)?)?;
    welcome(session, &begun);
    tell_notes(session, &begun);
    let names: Vec<String> =
        begun.services.iter().map(|report| report.service.name.clone()).collect();
    if names.is_empty() {
        session.terminal.note(&format!("{} has nothing to start", begun.source));
        return Ok(0);
    }
    let input = json!({ "services": names, "since": since });
    let mut follow = Follow { input, view: View::new(session.terminal), unheard: false };
    follow.view.align(names.iter().map(String::as_str));
    session.terminal.note(&format!(
        "running {} of {}; Ctrl-C stops",
        names.join(", "),
        begun.source
    ));
    match follow.until_interrupted(session, &interrupts)? {
        Until::Interrupted => {}
        Until::Ended => {
            session.terminal.note("Proctor was ended by somebody else");
            return Ok(0);
        }
    }
    let ours: Vec<String> = begun
        .services
        .iter()
        .filter(|report| report.result != Outcome::AlreadyRunning)
        .map(|report| report.service.name.clone())
        .collect();
    stop(session, &interrupts, &mut follow, &ours)
}

/// The logs of some services, page after page.
struct Follow {
    input: Value,
    view: View,
    /// Nobody takes the output any more: the terminal or the pipe was closed.
    unheard: bool,
}

/// Why nothing more is shown.
enum Until {
    /// Ctrl-C, TERM, a closed terminal, or a closed pipe.
    Interrupted,
    /// Proctor has ended in order, and nothing of its services is left behind.
    Ended,
}

impl Follow {
    fn until_interrupted(
        &mut self,
        session: &mut Session<'_>,
        interrupts: &Interrupts,
    ) -> Result<Until, Failure> {
        self.input["wait"] = json!(logs::POLL_SECONDS);
        let mut client = session.take(false)?;
        client.send("log.read", &self.input).map_err(OpError::from)?;
        loop {
            match interrupts.wait(&client, PATIENCE)? {
                Came::Interrupt => return Ok(Until::Interrupted),
                Came::Nothing => {}
                Came::Answer => {
                    let answer = match client.receive(PATIENCE) {
                        Ok(answer) => answer,
                        // Proctor was replaced meanwhile: its successor knows the same logs.
                        Err(crate::client::CallError::Lost) => {
                            client = match session.find()? {
                                Some(client) => client,
                                None if !session.left_behind() => return Ok(Until::Ended),
                                None => session.another()?,
                            };
                            client.send("log.read", &self.input).map_err(OpError::from)?;
                            continue;
                        }
                        Err(error) => return Err(OpError::from(error).into()),
                    };
                    self.show(answer)?;
                    if self.unheard {
                        return Ok(Until::Interrupted);
                    }
                    client.send("log.read", &self.input).map_err(OpError::from)?;
                }
            }
        }
    }

    /// Show what is there now.
    fn catch_up(&mut self, client: &mut Client) -> Result<(), Failure> {
        self.input["wait"] = json!(0);
        loop {
            let answer = client.call("log.read", &self.input, PATIENCE).map_err(OpError::from)?;
            if !self.show(answer)? {
                return Ok(());
            }
        }
    }

    /// Show a page; whether more is there already.
    fn show(&mut self, answer: Value) -> Result<bool, Failure> {
        let page = logs::page(answer)?;
        // What was started is stopped all the same; only there is nobody to tell.
        self.unheard = self.unheard || self.view.show(&page.items).is_err();
        logs::go_on(&mut self.input, &page.cursor);
        Ok(page.more)
    }
}

fn stop(
    session: &mut Session<'_>,
    interrupts: &Interrupts,
    follow: &mut Follow,
    ours: &[String],
) -> Ended {
    if ours.is_empty() {
        session.terminal.note("nothing was started by this command; the services go on running");
        return Ok(0);
    }
    session
        .terminal
        .note_over(&format!("stopping {}; Ctrl-C again leaves that to Proctor", ours.join(", ")));
    let input = json!({ "names": ours });
    let (mut stopper, mut reader) = (session.another()?, session.another()?);
    let progress = Progress::plain(session, "to stop", &input);
    stopper.send("service.stop", &input).map_err(OpError::from)?;
    loop {
        match interrupts.wait(&stopper, LAST_WORDS)? {
            Came::Answer => break,
            Came::Nothing => follow.catch_up(&mut reader)?,
            Came::Interrupt => {
                drop(progress);
                session.terminal.note_over(
                    "left: Proctor goes on stopping them; `proctor list` shows how far it is",
                );
                return Ok(Code::Timeout.exit());
            }
        }
    }
    let answer = stopper.receive(PATIENCE).map_err(OpError::from)?;
    drop(progress);
    follow.catch_up(&mut reader)?;
    let stopped: Changed = serde_json::from_value(answer.clone()).map_err(|error| {
        OpError::new(Code::Internal, format!("an answer that cannot be read: {error}"))
    })?;
    if !stopped.settled {
        return session.terminal.answer(operate::entry("service.stop")?, &answer);
    }
    session.terminal.note("stopped");
    if session.launched && nothing_runs(session)? {
        daemon::end(session, "daemon.stop", &json!({}))?;
    }
    Ok(0)
}

/// Whether Proctor, which this command started, has nothing left to do.
fn nothing_runs(session: &mut Session<'_>) -> Result<bool, Failure> {
    let answer = session.call("service.list", &json!({ "no_usage": true }))?;
    let list: list::Output = serde_json::from_value(answer).map_err(|error| {
        OpError::new(Code::Internal, format!("an answer that cannot be read: {error}"))
    })?;
    Ok(list.services.iter().all(|service| matches!(service.state, State::Stopped | State::Failed)))
}

/// For somebody who has no configuration yet: what is running, and what to write.
fn welcome(session: &Session<'_>, begun: &up::Output) {
    if begun.example {
        session.terminal.note(WELCOME);
    }
}

/// What the caller should know before the output of services begins.
fn tell_notes(session: &Session<'_>, begun: &up::Output) {
    for note in &begun.notes {
        session.terminal.note(note);
    }
}

const WELCOME: &str = "
There is no proctor.yaml here, so this is Proctor's built-in example: a few
small services. In another terminal, `proctor list` shows them, `proctor
logs -f` what they say, `proctor config --example` how they are written.
To run your own, write a file named proctor.yaml and call `proctor up` again:

supervisor:
  services:
    web:
      command: npm run dev
      env: { PORT: \"3000\" }
      restart_policy: on_failure
";
