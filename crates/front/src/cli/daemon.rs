//! Commands that start, stop and replace Proctor itself, and wait for the result.

use super::command_tree::Start;
use super::configuration::Choice;
use super::session::Session;
use super::{CommandResult, Failure, Launching, run_operation};
use crate::client::CallError;
use clap::{ArgMatches, FromArgMatches};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operations::{daemon::status as daemon_status, service::status};
use proctor_ops::status::{ServiceStatus, State};
use proctor_ops::table::Entry;
use proctor_sys::small_file::Lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum wait for the end; longer than services usually need to stop.
const END_LIMIT: Duration = Duration::from_secs(120);

/// Further attempts to end a Proctor whose processes are killed meanwhile.
const MAX_ENDS: u32 = 2;

/// The end of Proctor is worth a word once it takes longer than this.
const MOMENT: Duration = Duration::from_millis(500);

/// Maximum wait for a new daemon, which normally responds within a moment.
const REPLACE_LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn start(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let options = Start::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let Start { foreground, log_level, port, config, begun } = options;
    let choice = Choice::new(config)?;
    let config = match &choice {
        Choice::Flag(path) => Some(path.clone()),
        Choice::Variable(..) | Choice::Nearest(_) | Choice::Target | Choice::Last => None,
    };
    // A home that ran before listens where it did. Only a new one waits for its configuration.
    let holds_listeners = choice != Choice::Last && !session.home.services_json().exists();
    session.launching = Launching { foreground, log_level, port, config, holds_listeners };
    if foreground {
        session.become_keeper()?;
        return Ok(0);
    }
    let status = session.call_or_launch("daemon.status", &json!({}))?;
    if !session.launched && !begun {
        tell_running(session);
    }
    let begins = session.launched || begun;
    if matches!(choice, Choice::Flag(_)) || (begins && is_another(&choice, &status)) {
        return bring_up(session, &choice);
    }
    if let (true, Some(source)) = (begins, status["config"].as_str()) {
        session.terminal.note(&choice.describe(source));
    }
    match (session.terminal.json, session.terminal.quiet || begun) {
        (true, _) => session.terminal.document(&status)?,
        (false, true) => {}
        (false, false) => {
            return session.terminal.answer(run_operation::entry("daemon.status")?, &status);
        }
    }
    Ok(0)
}

fn tell_running(session: &Session<'_>) {
    session.terminal.note(match (&session.launching.log_level, session.launching.port) {
        (None, None) => "Proctor is already running",
        (Some(_), None) => "Proctor is already running; --log-level applies at its next start",
        (None, Some(_)) => "Proctor is already running; --port applies at its next start",
        (Some(_), Some(_)) => {
            "Proctor is already running; --log-level and --port apply at its next start"
        }
    });
}

/// Returns true if the chosen configuration differs from the one that the started Proctor restored.
fn is_another(choice: &Choice, status: &Value) -> bool {
    match choice {
        Choice::Flag(path) | Choice::Variable(_, path) | Choice::Nearest(path) => {
            status["config"].as_str().map(Path::new) != Some(path)
        }
        Choice::Target => true,
        Choice::Last => false,
    }
}

/// Applies a configuration to a running Proctor, as `up -d` does.
fn bring_up(session: &mut Session<'_>, choice: &Choice) -> CommandResult {
    let mut input = json!({});
    choice.fill(&mut input);
    super::caller::fill(&mut input);
    let entry = run_operation::entry("service.up")?;
    let answer = match run_operation::ask(session, entry, &input) {
        Ok(answer) => answer,
        // Services of another configuration run, and the command did not ask to replace it.
        Err(Failure::Op(error))
            if error.code == Code::HomeInUse && !matches!(choice, Choice::Flag(_)) =>
        {
            session.terminal.note(&error.message);
            return Ok(0);
        }
        Err(failure) => return Err(failure),
    };
    session.terminal.note(&choice.describe(answer["source"].as_str().unwrap_or_default()));
    session.terminal.answer(entry, &answer)
}

/// Stops a Proctor that this command started, if the command failed and nothing runs.
pub(crate) fn end_idle(session: &mut Session<'_>) {
    if session.launched && matches!(nothing_runs(session), Ok(true)) {
        // The error of the command matters, not this one.
        if end(session, "daemon.stop", &json!({})).is_ok() {
            session.terminal.note("stopped Proctor again: no service runs");
        }
    }
}

/// Returns true if Proctor, started by this command, has nothing left to do.
pub(crate) fn nothing_runs(session: &mut Session<'_>) -> Result<bool, Failure> {
    Ok(still_running(session)?.is_empty())
}

/// Returns the services that keep Proctor busy.
pub(crate) fn still_running(session: &mut Session<'_>) -> Result<Vec<String>, Failure> {
    let services = statuses(session.call("service.status", &json!({ "no_usage": true }))?)?;
    let is_over = |s: &ServiceStatus| matches!(s.state, State::Stopped | State::Failed);
    Ok(services.into_iter().filter(|s| !is_over(s)).map(|s| s.name).collect())
}

pub(crate) fn statuses(answer: Value) -> Result<Vec<ServiceStatus>, OpError> {
    let status: status::Output = serde_json::from_value(answer).map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode the response: {error}"))
    })?;
    Ok(status.services)
}

pub(crate) fn stop(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let entry = run_operation::entry("daemon.stop")?;
    let input = run_operation::input(entry, arguments)?;
    let answer = match nothing_there(session)? {
        true => json!({ "keeper_pid": null, "services": [] }),
        false => end(session, "daemon.stop", &input)?,
    };
    ended(session, entry, &answer)
}

pub(crate) fn down(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let entry = run_operation::entry("service.down")?;
    let input = run_operation::input(entry, arguments)?;
    let answer = match nothing_there(session)? {
        true => json!({ "settled": true, "services": [], "ending": true, "keeper_pid": null }),
        false => end(session, "service.down", &input)?,
    };
    ended(session, entry, &answer)
}

/// Returns true if no Proctor runs and none has left services behind, so there is nothing to stop.
fn nothing_there(session: &Session<'_>) -> Result<bool, Failure> {
    if session.find()?.is_some() || session.left_behind() {
        return Ok(false);
    }
    session.terminal.note("Proctor is not running");
    Ok(true)
}

fn ended(session: &Session<'_>, entry: &Entry, answer: &Value) -> CommandResult {
    if answer["keeper_pid"].is_null() && !session.terminal.json {
        return Ok(0);
    }
    session.terminal.answer(entry, answer)
}

/// Requests the end, and waits until the keeper is gone. The response may be lost with the daemon; then only the keeper's end
/// counts.
pub(crate) fn end(session: &mut Session<'_>, op: &str, input: &Value) -> Result<Value, Failure> {
    try_end(session, op, input, MAX_ENDS)
}

fn try_end(
    session: &mut Session<'_>,
    op: &str,
    input: &Value,
    again: u32,
) -> Result<Value, Failure> {
    session.connect(true)?;
    let keeper = Lock::holder(&session.home.lock());
    let progress = run_operation::entry(op)?
        .meta
        .waits
        .map(|what| super::progress::Progress::begin(session, what, input));
    let answer = session.try_call(op, input)?;
    drop(progress);
    let (answer, ending) = match answer {
        Ok(answer) => {
            let ending = answer.get("ending").and_then(Value::as_bool).unwrap_or(true);
            (answer, ending)
        }
        // It was on its way out when we came, or was killed meanwhile: the next one does it.
        Err(CallError::Lost) if again > 0 && session.has_died() => {
            return try_end(session, op, input, again - 1);
        }
        Err(CallError::Lost) => {
            (json!({ "settled": true, "services": [], "ending": true, "keeper_pid": keeper }), true)
        }
        Err(CallError::Refused(error)) => return Err(error.into()),
    };
    if ending && let Some(pid) = keeper {
        wait_for_end(session, pid)?;
    }
    // A response made here has the fields of both operations; each reads its own.
    Ok(answer)
}

/// Waits until a process has ended.
fn wait_for_end(session: &Session<'_>, pid: u32) -> Result<(), Failure> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = number.map(|number| pidfd_open(number, PidfdFlags::empty())) else {
        // The process does not exist any more.
        return Ok(());
    };
    let begun = Instant::now();
    let mut told = false;
    while begun.elapsed() < END_LIMIT {
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        let tick = Timespec { tv_sec: 0, tv_nsec: MOMENT.subsec_nanos().into() };
        match poll(&mut fds, Some(&tick)) {
            Ok(1..) => return Ok(()),
            Ok(0) | Err(_) if !told => {
                told = true;
                session.terminal.note("waiting for Proctor to stop its services and end");
            }
            Ok(0) | Err(_) => {}
        }
    }
    let error =
        OpError::new(Code::Timeout, format!("Proctor (keeper pid {pid}) has not ended yet"));
    Err(error.help(format!("see {}", session.home.own_log().display())).into())
}

pub(crate) fn upgrade(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let entry = run_operation::entry("daemon.upgrade")?;
    let mut input = run_operation::input(entry, arguments)?;
    if input.get("binary").is_none() {
        let binary = std::env::current_exe()?;
        input["binary"] = json!(binary.to_string_lossy());
    }
    let before = daemon(session)?;
    let mut old = session.take(true)?;
    let answer = old.call(entry.meta.name, &input, REPLACE_LIMIT);
    match answer {
        // The response may be lost with the old daemon; the status afterwards decides.
        Ok(_) | Err(CallError::Lost) => {}
        Err(CallError::Refused(error)) => return Err(error.into()),
    }
    old.wait_for_end(REPLACE_LIMIT);
    let after = daemon(session)?;
    let keeper = |status: &daemon_status::Output| status.keeper.as_ref().map(|it| it.pid);
    // If the new binary fails as the keeper, the guard starts a keeper of the old binary, with another pid.
    if after.daemon.pid == before.daemon.pid || keeper(&after) != keeper(&before) {
        let message = format!("Proctor was not replaced; version {} runs", after.version);
        return Err(OpError::new(Code::Failed, message)
            .help(format!("see {}", session.home.own_log().display()))
            .into());
    }
    if session.terminal.json {
        let versions =
            json!({ "from": before.version, "to": after.version, "binary": input["binary"] });
        session.terminal.document(&versions)?;
    } else if !session.terminal.quiet {
        session.terminal.bytes(
            format!("Proctor {} replaced by {}\n", before.version, after.version).as_bytes(),
        )?;
    }
    Ok(0)
}

fn daemon(session: &mut Session<'_>) -> Result<daemon_status::Output, Failure> {
    let answer = session.call("daemon.status", &json!({}))?;
    serde_json::from_value(answer).map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode the response: {error}")).into()
    })
}
