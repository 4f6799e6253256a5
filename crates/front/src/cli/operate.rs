//! A command that is one operation: its arguments become an input, its answer is shown.

use super::progress::Progress;
use super::session::Session;
use super::{Ended, Failure};
use super::{attend, caller, configuration::Choice};
use crate::protocol::Look;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ArgMatches;
use proctor_ops::error::{Code, OpError};
use proctor_ops::table::{Entry, find};
use serde_json::{Value, json};
use std::io::Read as _;

/// Who gives one of these wants a part of the whole.
const PARTS: [&str; 4] = ["cursor", "most", "limit", "max_bytes"];

pub(crate) fn operate(session: &mut Session<'_>, entry: &Entry, arguments: &ArgMatches) -> Ended {
    let input = input(entry, arguments)?;
    answer(session, entry, &input)
}

fn answer(session: &mut Session<'_>, entry: &Entry, input: &Value) -> Ended {
    if let Some(answer) = entry.without_daemon(&session.home, input) {
        return session.terminal.answer(entry, &answer?);
    }
    match session.terminal.look(entry) {
        None if entry.meta.attended && input.get("background").is_none() => {
            attend::attend(session, entry, input)
        }
        look => pages(session, entry, input, look),
    }
}

/// One page after the other, where the whole is wanted; otherwise one, and where it goes on.
fn pages(session: &mut Session<'_>, entry: &Entry, input: &Value, look: Option<Look>) -> Ended {
    let mut input = input.clone();
    let goes_on = entry.meta.whole && !PARTS.iter().any(|part| input.get(part).is_some());
    // Said once, at the end.
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

/// `config` without a Proctor that could be asked is about the file that `up` would run.
pub(crate) fn config(session: &mut Session<'_>, arguments: &ArgMatches) -> Ended {
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

/// The line of the table for an operation by its name.
pub(crate) fn entry(name: &str) -> Result<&'static Entry, OpError> {
    find(name).ok_or_else(|| OpError::new(Code::Internal, format!("no operation {name}")))
}

/// The input that a command line means, with what the operation wants to know of the caller.
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

/// All of it, as far as an input may be long: more is refused by whoever gets it.
fn standard_input(most: usize) -> Result<Vec<u8>, OpError> {
    let mut text = Vec::new();
    let read = std::io::stdin().lock().take(most as u64 + 1).read_to_end(&mut text);
    match read {
        Ok(_) if text.len() > most => {
            Err(OpError::new(Code::TooLarge, format!("standard input: {most} bytes at most")))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(OpError::bad_input(format!("standard input: {error}"))),
    }
}

/// Ask, and show what is waited for if it takes a while.
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
