//! `up`: applies the configuration and, in the foreground, follows its services until Ctrl-C.

use super::configuration::Choice;
use super::daemon::{statuses, still_running};
use super::interrupt::{FirstEvent, Interrupts};
use super::logs::{self, View};
use super::progress::Progress;
use super::session::Session;
use super::{CommandResult, Failure, daemon, run_operation};
use crate::client::Client;
use clap::{ArgMatches, Args, FromArgMatches};
use proctor_ops::error::{Code, OpError};
use proctor_ops::log_lines::Kind;
use proctor_ops::operations::service::up;
use proctor_ops::status::{ServiceStatus, State};
use proctor_ops::timestamps::rfc3339;
use proctor_ops::wait_for_services::{ChangedServices, Outcome, Report};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Read timeout, longer than a long poll.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(90);

/// Polling interval for the last output while services stop.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Number of state checks after the end of a service, and the seconds between them.
const LOOKS: u32 = 4;
const SOON: f64 = 0.3;

#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Return when the services run, and leave them to Proctor
    #[arg(long, short)]
    detach: bool,
}

pub(crate) fn up(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let entry = run_operation::entry("service.up")?;
    let mut input = run_operation::input(entry, arguments)?;
    let choice = Choice::new(input["config"].as_str().map(PathBuf::from))?;
    choice.fill(&mut input);
    if choice == Choice::Last {
        input["example"] = json!(true);
    }
    check_first(session, &choice)?;
    session.launching.holds_listeners = true;
    if options.detach {
        let answer = run_operation::ask(session, entry, &input)?;
        let begun = output(answer.clone())?;
        tell_source(session, &choice, &begun);
        let code = session.terminal.answer(entry, &answer)?;
        welcome(session, &begun);
        return Ok(code);
    }
    in_foreground(session, &choice, &mut input)
}

/// If no Proctor runs, an invalid file must not start one.
fn check_first(session: &Session<'_>, choice: &Choice) -> Result<(), Failure> {
    let Some(path) = choice.path() else { return Ok(()) };
    if session.find()?.is_some() {
        return Ok(());
    }
    let mut input = json!({ "check": path.to_string_lossy() });
    super::caller::fill(&mut input);
    let checked = run_operation::entry("config.show")?.without_daemon(&session.home, &input);
    checked.transpose()?;
    Ok(())
}

/// Reports which configuration is used, and why. The built-in example has its own text.
fn tell_source(session: &Session<'_>, choice: &Choice, begun: &up::Output) {
    if !begun.example {
        session.terminal.note(&choice.describe(&begun.source));
    }
}

fn output(answer: Value) -> Result<up::Output, OpError> {
    serde_json::from_value(answer).map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode the response: {error}"))
    })
}

fn in_foreground(session: &mut Session<'_>, choice: &Choice, input: &mut Value) -> CommandResult {
    session.connect(true)?;
    let interrupts = Interrupts::catch()?;
    let since = rfc3339(proctor_sys::clock::now().wall);
    // The command does not wait for the start; the logs show it.
    input["no_wait"] = json!(true);
    let begun = output(session.call("service.up", input)?)?;
    welcome(session, &begun);
    tell_source(session, choice, &begun);
    tell_notes(session, &begun);
    let names: Vec<String> =
        begun.services.iter().map(|report| report.service.name.clone()).collect();
    if names.is_empty() {
        session.terminal.note(&format!("{} has nothing to start", begun.source));
        return Ok(0);
    }
    let input = json!({ "services": names, "since": since });
    let mut follow = Follow { input, view: View::new(session.terminal), unheard: false, looks: 0 };
    follow.view.align(names.iter().map(String::as_str));
    let ours = stopped_at_the_end(&begun, session.launched);
    session.terminal.note(&announcement(&begun.source, &names, &ours));
    match follow.until_interrupted(session, &interrupts)? {
        Until::Interrupted => {}
        Until::Ended => {
            session.terminal.note("Proctor was stopped by another command");
            return Ok(0);
        }
        Until::Done(services) => return done(session, &services),
    }
    stop(session, &interrupts, &mut follow, &ours)
}

/// Returns the services that Ctrl-C stops: those that this command started. If it launched Proctor, these are all services, some
/// perhaps started before the request.
fn stopped_at_the_end(begun: &up::Output, launched: bool) -> Vec<String> {
    let is_ours = |report: &&Report| launched || report.result != Outcome::AlreadyRunning;
    begun.services.iter().filter(is_ours).map(|report| report.service.name.clone()).collect()
}

/// Reports the running services, and the effect of Ctrl-C.
fn announcement(source: &str, names: &[String], ours: &[String]) -> String {
    let left: Vec<&str> =
        names.iter().filter(|name| !ours.contains(name)).map(String::as_str).collect();
    let running = format!("running {} of {source}", names.join(", "));
    match (ours, left.as_slice()) {
        (_, []) => format!("{running}; Ctrl-C stops them"),
        ([], _) => format!("{running}; they ran before, and Ctrl-C leaves them running"),
        (ours, left) => format!(
            "{running}; Ctrl-C stops {}, and leaves {} running, which ran before",
            ours.join(", "),
            left.join(", ")
        ),
    }
}

/// Follower of the logs of some services.
struct Follow {
    input: Value,
    view: View,
    /// True if the terminal or the pipe was closed.
    unheard: bool,
    /// Remaining checks whether all services have ended, after one has.
    looks: u32,
}

/// Reason why following ended.
enum Until {
    /// Ctrl-C, TERM, a closed terminal, or a closed pipe.
    Interrupted,
    /// Proctor has ended in order and left no service behind.
    Ended,
    /// All services are done or have failed permanently.
    Done(Vec<ServiceStatus>),
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
            match interrupts.wait(&client, CONNECT_TIMEOUT)? {
                FirstEvent::Interrupt => return Ok(Until::Interrupted),
                FirstEvent::Nothing => {}
                FirstEvent::Answer => match self.take_in(&mut client) {
                    Ok(_) if self.unheard => return Ok(Until::Interrupted),
                    Ok(Some(services)) => return Ok(Until::Done(services)),
                    Ok(None) => {}
                    // Proctor was replaced; its successor has the same logs.
                    Err(Failure::Op(error)) if error.code == Code::ConnectionLost => {
                        client = match session.find()? {
                            Some(client) => client,
                            None if !session.left_behind() => return Ok(Until::Ended),
                            None => session.another()?,
                        };
                        client.send("log.read", &self.input).map_err(OpError::from)?;
                    }
                    Err(failure) => return Err(failure),
                },
            }
        }
    }

    /// Shows the page that has come and requests the next. Returns all services if they are done.
    fn take_in(&mut self, client: &mut Client) -> Result<Option<Vec<ServiceStatus>>, Failure> {
        let answer = client.receive(CONNECT_TIMEOUT).map_err(OpError::from)?;
        self.show(answer)?;
        let done = self.all_done(client)?;
        client.send("log.read", &self.input).map_err(OpError::from)?;
        Ok(done)
    }

    /// After the end of a service, checks whether all have ended and will not be restarted. The exit mark is in the log a moment
    /// before the state changes, so one check is not enough.
    fn all_done(&mut self, client: &mut Client) -> Result<Option<Vec<ServiceStatus>>, Failure> {
        if self.looks == 0 {
            return Ok(None);
        }
        self.looks -= 1;
        self.input["wait"] = if self.looks > 0 { json!(SOON) } else { json!(logs::POLL_SECONDS) };
        let input = json!({ "names": self.input["services"], "no_usage": true });
        let answer =
            client.call("service.status", &input, CONNECT_TIMEOUT).map_err(OpError::from)?;
        let services = statuses(answer)?;
        let over = |s: &ServiceStatus| matches!(s.state, State::Stopped | State::Failed);
        Ok(services.iter().all(over).then_some(services))
    }

    /// Shows all output available now.
    fn catch_up(&mut self, client: &mut Client) -> Result<(), Failure> {
        self.input["wait"] = json!(0);
        loop {
            let answer =
                client.call("log.read", &self.input, CONNECT_TIMEOUT).map_err(OpError::from)?;
            if !self.show(answer)? {
                return Ok(());
            }
        }
    }

    /// Shows a page. Returns true if more is available.
    fn show(&mut self, answer: Value) -> Result<bool, Failure> {
        let page = logs::page(answer)?;
        if page.items.iter().any(|item| item.kind == Kind::Exited) {
            self.looks = LOOKS;
        }
        // The services are stopped even if the reader of the output is gone.
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
) -> CommandResult {
    if ours.is_empty() {
        session.terminal.note("this command started no services; they keep running");
        return Ok(0);
    }
    session.terminal.note_over(&format!(
        "stopping {}; press Ctrl-C again to let Proctor finish that",
        ours.join(", ")
    ));
    let input = json!({ "names": ours });
    let (mut stopper, mut reader) = (session.another()?, session.another()?);
    let progress = Progress::plain(session, "to stop", &input);
    stopper.send("service.stop", &input).map_err(OpError::from)?;
    loop {
        match interrupts.wait(&stopper, LAST_WORDS)? {
            FirstEvent::Answer => break,
            FirstEvent::Nothing => follow.catch_up(&mut reader)?,
            FirstEvent::Interrupt => {
                drop(progress);
                session
                    .terminal
                    .note_over("left: Proctor continues to stop them; see `proctor list`");
                return Ok(Code::Timeout.exit());
            }
        }
    }
    let answer = stopper.receive(CONNECT_TIMEOUT).map_err(OpError::from)?;
    drop(progress);
    follow.catch_up(&mut reader)?;
    let stopped: ChangedServices = serde_json::from_value(answer.clone()).map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode the response: {error}"))
    })?;
    if !stopped.settled {
        return session.terminal.answer(run_operation::entry("service.stop")?, &answer);
    }
    session.terminal.note("stopped");
    if session.launched {
        match still_running(session)?.as_slice() {
            [] => drop(daemon::end(session, "daemon.stop", &json!({}))?),
            names => session.terminal.note(&format!(
                "started meanwhile and still running: {}; stop all with `proctor down`",
                names.join(", ")
            )),
        }
    }
    Ok(0)
}

/// Ends the command, because nothing runs and nothing will.
fn done(session: &mut Session<'_>, services: &[ServiceStatus]) -> CommandResult {
    let failed: Vec<&str> =
        services.iter().filter(|s| s.state == State::Failed).map(|s| s.name.as_str()).collect();
    session.terminal.note_over(&match failed.as_slice() {
        [] => "all services are done".to_owned(),
        names => format!("no service runs any more; failed: {}", names.join(", ")),
    });
    // Services also end because another command stops Proctor; a Proctor that does not respond is ending already.
    if session.launched && still_running(session).is_ok_and(|names| names.is_empty()) {
        match daemon::end(session, "daemon.stop", &json!({})) {
            Err(Failure::Op(error)) if error.code == Code::Unavailable => {}
            ended => drop(ended?),
        }
    }
    Ok(if failed.is_empty() { 0 } else { Code::ServiceFailed.exit() })
}

/// Explains the example to a user without a configuration.
fn welcome(session: &Session<'_>, begun: &up::Output) {
    if begun.example {
        session.terminal.note(WELCOME);
    }
}

/// Prints notes for the caller before the output of services.
fn tell_notes(session: &Session<'_>, begun: &up::Output) {
    for note in &begun.notes {
        session.terminal.note(note);
    }
}

const WELCOME: &str = "
There is no proctor.yaml here, so this is Proctor's built-in example: a few
small services. In another terminal, `proctor list` shows them, `proctor
logs -f` their output, and `proctor config --example` their configuration.
To run your own, write a file named proctor.yaml and run `proctor up` again:

supervisor:
  services:
    web:
      command: npm run dev
      env: { PORT: \"3000\" }
      restart_policy: on_failure
";
