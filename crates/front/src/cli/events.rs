//! `events`: pages of `event.read` in a row, endless with `--follow`.

use super::logs::{POLL_SECONDS, go_on};
use super::session::Session;
use super::{CommandResult, Failure, run_operation};
use clap::{ArgMatches, Args, FromArgMatches};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operations::events::Output;
use serde_json::{Value, json};

#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Keep showing new events
    #[arg(long, short)]
    follow: bool,
}

pub(crate) fn events(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let entry = run_operation::entry("event.read")?;
    let mut input = run_operation::input(entry, arguments)?;
    if !options.follow {
        let all = to_the_end(session, &mut input)?;
        return session.terminal.answer(entry, &all);
    }
    let mut begun = false;
    loop {
        let answer = match session.call("event.read", &input) {
            Err(failure) if begun && session.has_ended(&failure) => {
                session.terminal.note("Proctor has ended");
                return Ok(0);
            }
            answer => answer?,
        };
        begun = true;
        let page = page(&answer)?;
        match session.terminal.json {
            true => lines(session, &page)?,
            false => drop(session.terminal.answer(entry, &answer)?),
        }
        go_on(&mut input, &page.cursor);
        if !page.more {
            input["wait"] = json!(POLL_SECONDS);
        }
    }
}

/// Returns all available pages as one.
fn to_the_end(session: &mut Session<'_>, input: &mut Value) -> Result<Value, Failure> {
    let mut answer = session.call("event.read", input)?;
    let mut all = page(&answer)?;
    while all.more {
        go_on(input, &all.cursor);
        let next = page(&session.call("event.read", input)?)?;
        all.events.extend(next.events);
        (all.cursor, all.more) = (next.cursor, next.more);
        all.missed |= next.missed;
    }
    if let Ok(joined) = serde_json::to_value(&all) {
        answer = joined;
    }
    Ok(answer)
}

fn page(answer: &Value) -> Result<Output, Failure> {
    let page = serde_json::from_value(answer.clone());
    page.map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode a page: {error}")).into()
    })
}

/// Prints one event per line, and a line about missed events.
fn lines(session: &Session<'_>, page: &Output) -> Result<(), Failure> {
    let mut text = String::new();
    if page.missed {
        let missed = json!({ "missed": true, "missed_events": page.missed_events });
        text.push_str(&format!("{missed}\n"));
    }
    for event in &page.events {
        text.push_str(&format!("{}\n", json!(event)));
    }
    Ok(session.terminal.bytes(text.as_bytes())?)
}
