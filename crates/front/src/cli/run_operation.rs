//! Commands that are one operation: arguments become an input, and the response is shown.

use super::progress::Progress;
use super::session::Session;
use super::{CommandResult, Failure};
use super::{caller, configuration::Choice, wait_for_operation};
use crate::protocol::TerminalLook;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ArgMatches;
use proctor_ops::error::{Code, OpError};
use proctor_ops::table::{Entry, find};
use serde_json::{Value, json};
use std::io::Read as _;

/// Arguments that ask for a part of the whole.
const PARTS: [&str; 4] = ["cursor", "most", "limit", "max_bytes"];

pub(crate) fn operate(
    session: &mut Session<'_>,
    entry: &Entry,
    arguments: &ArgMatches,
) -> CommandResult {
    let input = input(entry, arguments)?;
    answer(session, entry, &input)
}

fn answer(session: &mut Session<'_>, entry: &Entry, input: &Value) -> CommandResult {
    if let Some(answer) = entry.without_daemon(&session.home, input) {
        return session.terminal.answer(entry, &answer?);
    }
    match session.terminal.look(entry) {
        None if entry.meta.attended && input.get("background").is_none() => {
            wait_for_operation::attend(session, entry, input)
        }
        look => pages(session, entry, input, look),
    }
}

/// Shows all pages if the whole is wanted; otherwise one page and its cursor.
fn pages(
    session: &mut Session<'_>,
    entry: &Entry,
    input: &Value,
    look: Option<TerminalLook>,
) -> CommandResult {
    let mut input = input.clone();
    let goes_on = entry.meta.whole && !PARTS.iter().any(|part| input.get(part).is_some());
    // Printed once, at the end.
    let (mut remarks, mut is_first) = (Vec::new(), true);
    loop {
        let mut told = match look {
            Some(look) => {
                let page = patiently(session, entry, &input, |session| {
                    session.page(entry.meta.name, &input, look)
                })?;
                session.terminal.page(page)?
            }
            None => {
                let answer = ask(session, entry, &input)?;
                session.terminal.tell(entry, &answer)?
            }
        };
        if is_first || !told.empty {
            remarks.extend(told.remarks.lines().map(ToOwned::to_owned));
        }
        is_first = false;
        match told.next.take_if(|_| goes_on && told.code == 0) {
            Some(next) => input["cursor"] = json!(next),
            None => {
                remarks.dedup();
                session.terminal.remark(&remarks, told.next.as_deref());
                return Ok(told.code);
            }
        }
    }
}

/// Without a running Proctor, `config` shows the file that `up` would run.
pub(crate) fn config(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let entry = entry("config.show")?;
    let mut input = input(entry, arguments)?;
    let about_the_running = input.get("check").is_none() && input.get("example").is_none();
    if about_the_running
        && session.find()?.is_none()
        && let Some(path) = Choice::new(None)?.path()
    {
        input["check"] = json!(path.to_string_lossy());
        input["verbose"] = json!(true);
    }
    answer(session, entry, &input)
}

/// Returns the table entry of an operation by its name.
pub(crate) fn entry(name: &str) -> Result<&'static Entry, OpError> {
    find(name)
        .ok_or_else(|| OpError::new(Code::Internal, format!("the operation {name} is missing")))
}

/// Returns the input of a command line, with the caller fields that the operation wants.
pub(crate) fn input(entry: &Entry, arguments: &ArgMatches) -> Result<Value, Failure> {
    let mut input = entry.input(arguments)?;
    caller::fill_for(&entry.meta, &mut input);
    if entry.meta.wants_folder {
        input["from_base"] = json!(true);
    }
    if let Some([text, base64]) = entry.meta.from_stdin
        && input.get(text).is_some_and(|text| text == "-")
        && let Some(fields) = input.as_object_mut()
    {
        fields.shift_remove(text);
        let (field, given) = match String::from_utf8(standard_input(entry.meta.max_input)?) {
            Ok(given) => (text, given),
            Err(bytes) => (base64, STANDARD.encode(bytes.as_bytes())),
        };
        fields.insert(field.to_owned(), Value::String(given));
    }
    Ok(input)
}

/// Reads standard input up to the maximum size of an input.
fn standard_input(most: usize) -> Result<Vec<u8>, OpError> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(most as u64 + 1).read_to_end(&mut text);
    match read {
        Ok(_) if text.len() > most => Err(OpError::new(
            Code::TooLarge,
            format!("standard input is too large: the maximum is {most} bytes"),
        )),
        Ok(_) => Ok(text),
        Err(error) => Err(OpError::bad_input(format!("cannot read standard input: {error}"))),
    }
}

/// Sends the request, and shows progress if it takes a while.
pub(crate) fn ask(
    session: &mut Session<'_>,
    entry: &Entry,
    input: &Value,
) -> Result<Value, Failure> {
    patiently(session, entry, input, |session| session.call(entry.meta.name, input))
}

fn patiently<'a, T>(
    session: &mut Session<'a>,
    entry: &Entry,
    input: &Value,
    ask: impl FnOnce(&mut Session<'a>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    session.connect(entry.meta.launches)?;
    let progress = entry.meta.waits.map(|what| Progress::begin(session, what, input));
    let answer = ask(session);
    drop(progress);
    answer
}
