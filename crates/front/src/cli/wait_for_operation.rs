//! Waits for an operation that Ctrl-C cancels, until its changes are undone or its effects are known.
//!
//! The operation runs in the background, because cancelling needs its id. Its response is shown as if it did not.

use super::interrupt::{FirstEvent, Interrupts};
use super::progress::Progress;
use super::session::{self, Session};
use super::{CommandResult, Failure};
use crate::client::Client;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operations::operation::cancel as operation_cancel;
use proctor_ops::operations::operation::status::{OperationStatus, Problem};
use proctor_ops::running_operations::{Outcome, StartedOperation};
use proctor_ops::table::Entry;
use serde_json::{Value, json};
use std::time::Duration;

/// Seconds of one long poll for the end; then it is repeated.
const POLL_SECONDS: u64 = 60;

/// Read timeout, longer than a long poll.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(90);

pub(crate) fn attend(session: &mut Session<'_>, entry: &Entry, input: &Value) -> CommandResult {
    session.connect(entry.meta.launches)?;
    let interrupts = Interrupts::catch()?;
    let mut request = input.clone();
    request["background"] = json!(true);
    let begun: StartedOperation = understood(session.call(entry.meta.name, &request)?)?;
    let progress = entry.meta.waits.map(|what| Progress::begin(session, what, input));
    let status = followed(session, entry, &interrupts, &begun.operation)?;
    drop(progress);
    match status {
        Some(status) => shown(session, entry, status),
        None => cancelled(session, entry, &interrupts, &begun.operation),
    }
}

/// Returns the result, or `None` if an interrupt came first.
fn followed(
    session: &Session<'_>,
    entry: &Entry,
    interrupts: &Interrupts,
    id: &str,
) -> Result<Option<OperationStatus>, Failure> {
    let input = json!({ "operation": id, "wait": POLL_SECONDS });
    let mut client = session.another()?;
    loop {
        let asked = ask(&mut client, entry, interrupts, "operation.status", &input)?;
        let Some(answer) = asked else { return Ok(None) };
        let status: OperationStatus = understood(answer)?;
        if status.state != Outcome::Running {
            return Ok(Some(status));
        }
    }
}

/// Returns the response, unless an interrupt comes first.
fn ask(
    client: &mut Client,
    entry: &Entry,
    interrupts: &Interrupts,
    op: &str,
    input: &Value,
) -> Result<Option<Value>, Failure> {
    let lost = |error| session::failed(entry.meta.name, error);
    client.send(op, input).map_err(lost)?;
    loop {
        match interrupts.wait(&*client, RECONNECT_TIMEOUT)? {
            FirstEvent::Nothing => {}
            FirstEvent::Interrupt => return Ok(None),
            FirstEvent::Answer => {
                return Ok(Some(client.receive(RECONNECT_TIMEOUT).map_err(lost)?));
            }
        }
    }
}

fn shown(session: &Session<'_>, entry: &Entry, status: OperationStatus) -> CommandResult {
    match (status.error, status.result) {
        (Some(Problem { code, message, help, details }), _) => {
            let details = details.map(Box::new);
            Err(OpError { code: Code::from(code), message, help, details }.into())
        }
        (None, Some(answer)) => session.terminal.answer(entry, &answer),
        (None, None) => {
            let code = status.verdict.map_or(0, |code| Code::from(code).exit());
            session.terminal.note("the operation has ended; its response is too long to be kept");
            Ok(code)
        }
    }
}

/// Cancels the operation and waits until its changes are undone or its effects are known.
fn cancelled(
    session: &Session<'_>,
    entry: &Entry,
    interrupts: &Interrupts,
    id: &str,
) -> CommandResult {
    let terminal = session.terminal;
    let taken_back = entry.meta.taken_back;
    terminal.note_over(match taken_back {
        true => "restoring the change; press Ctrl-C again to let Proctor finish that",
        false => "cancelling; press Ctrl-C again to let Proctor finish that",
    });
    let mut client = session.another()?;
    let input = json!({ "operation": id });
    loop {
        let answer = ask(&mut client, entry, interrupts, "operation.cancel", &input)?;
        let Some(answer) = answer else {
            terminal.note_over(match taken_back {
                true => "left: Proctor continues to restore the change",
                false => "left: Proctor continues to end the operation",
            });
            return Ok(Code::Timeout.exit());
        };
        let ended: operation_cancel::Output = understood(answer)?;
        // The operation had ended before.
        if matches!(ended.status.state, Outcome::Succeeded | Outcome::Failed)
            && let Some(status) = followed(session, entry, interrupts, id)?
        {
            return shown(session, entry, status);
        }
        if !ended.restoring {
            let error = OpError::new(Code::Cancelled, ended.message);
            return Err(match ended.left.is_empty() || !taken_back {
                true => error,
                false => error.help(ended.left.join("\n")),
            }
            .into());
        }
    }
}

fn understood<T: serde::de::DeserializeOwned>(answer: Value) -> Result<T, OpError> {
    serde_json::from_value(answer).map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode the response: {error}"))
    })
}
