//! A command that is one operation: its arguments become an input, its answer is shown.

use super::caller;
use super::progress::Progress;
use super::session::Session;
use super::{Ended, Failure};
use clap::ArgMatches;
use proctor_ops::table::Entry;
use serde_json::Value;

pub(crate) fn operate(session: &mut Session<'_>, entry: &Entry, arguments: &ArgMatches) -> Ended {
    let input = input(entry, arguments)?;
    let answer = match entry.without_daemon(&input) {
        Some(answer) => answer,
        None => ask(session, entry, &input)?,
    };
    session.terminal.answer(entry, &answer)
}

/// The input that a command line means, with what the operation wants to know of the caller.
pub(crate) fn input(entry: &Entry, arguments: &ArgMatches) -> Result<Value, Failure> {
    let mut input = entry.input(arguments)?;
    if entry.meta.wants_caller {
        caller::fill(&mut input);
    }
    Ok(input)
}

/// Ask, and show what is waited for if it takes a while.
pub(crate) fn ask(
    session: &mut Session<'_>,
    entry: &Entry,
    input: &Value,
) -> Result<Value, Failure> {
    session.connect(entry.meta.launches)?;
    let progress = entry.meta.waits.map(|what| Progress::begin(session, what, input));
    let answer = session.call(entry.meta.name, input);
    drop(progress);
    answer
}
