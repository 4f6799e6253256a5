//! `log.read`: returns a page of the output of services, and a cursor to continue. With `wait` it is a long poll;
//! `--follow` is a loop over it.

use crate::error::{Code, OpError};
use crate::input::seconds_of;
use crate::log_lines::{Item, StreamWord, readable_item, unhealthy};
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Target};
use crate::text_output::{Page, Show, Style};
use crate::timestamps;
use proctor_core::name::ServiceName;
use proctor_core::time::Wall;
use proctor_engine::api::{LogItem, LogPage, LogQuery};
use proctor_engine::error::EngineError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Default number of lines.
const USUAL_TAIL: usize = 50;

/// Default size of a page: small enough for one line of JSON, whatever the bytes are.
const USUAL_PAGE: usize = 256 << 10;
const MAX_PAGE_BYTES: usize = 1 << 20;

/// Bytes that an item adds to the JSON besides its text: service, time, stream, run and their keys.
const ITEM: usize = 128;

/// Bytes that a line adds to a text: its newline, and a short name before it.
const TEXT_LINE: usize = 16;

/// Maximum context lines before and after a match; longer than a long backtrace.
const MAX_CONTEXT: usize = 100;

/// Pattern of `errors`, derived from the output of real programs. It is fixed, so the result does not depend on the caller.
pub const ERRORS: &str = r"(?i)error|exception|traceback|panic|fatal|critical|fail(ed|ure)|segfault|segmentation fault|core dumped|out of memory|unhandled|uncaught|\berr!|refused|denied";

pub struct Logs;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services or groups; a name selects all its instances; `all`; removed services too while their logs exist
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Cursor from an earlier response; continues after it
    #[arg(long, value_name = "CURSOR", visible_alias = "after")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Number of last lines (default 50, without --since)
    #[arg(
        long = "lines",
        short = 'n',
        visible_alias = "tail",
        value_name = "COUNT",
        help = "Number of last lines of each service (without this and --since: 50 lines of all together)"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// Count `tail` for each service, not for all together
    #[arg(skip)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub tail_each: bool,
    /// Start at this time: 10m, 14:05, 2026-03-01 14:05, or RFC 3339
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// End at this time
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Only this stream
    #[arg(long, value_enum, value_name = "STREAM")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamWord>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grep: Option<String>,
    /// Only lines that look like errors: error, exception, panic, fatal, failed, refused and similar, in any case
    #[arg(long, conflicts_with = "grep")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub errors: bool,
    /// With --grep or --errors: only lines that do not match
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub invert: bool,
    /// With --grep or --errors: context lines before and after each match (maximum 100)
    #[arg(long, short = 'C', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<usize>,
    /// Replace consecutive lines that differ only in a leading time with one line and a count
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fold: bool,
    /// Seconds to wait for output if there is none
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// Return the exact bytes (in a response: as base64)
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
    /// Approximate maximum response size in bytes; the newest lines are kept, a longer line is cut
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Maximum length of a line in bytes; unlimited without this and --max-bytes
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_line: Option<usize>,
    /// Return one text without times, instead of items
    #[arg(skip)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub text: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub items: Vec<Item>,
    /// With `text`: the items as text, one line each
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Cursor for the next request: no line is lost or repeated
    pub cursor: String,
    /// The response is full; more lines are available now
    pub more: bool,
    /// Older lines were omitted because of `max_bytes`
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl Operation for Logs {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["logs"],
        summary: "Show the output of services",
        details: "\
Examples:
  proctor logs web
  proctor logs -f web worker
  proctor logs web --since 10m --stream stderr
  proctor logs web -n 1000 --grep 'error|warn'
  proctor logs web -n 5 --errors --context 3
  proctor logs web --fold --max-bytes 4000",
        ..Meta::of("log.read", Effect::Read, Target::Nothing).long().at(
            Method::Get,
            "/services/{name}/logs",
            "services",
        )
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.services)
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let wait = input.wait.map_or(Ok(Duration::ZERO), |seconds| seconds_of("wait", seconds))?;
        let deadline = Instant::now() + wait;
        let query = query(context, &input)?;
        let mut page = context.engine.read_logs(query.clone()).await?;
        while page.items.is_empty() && !page.more && Instant::now() < deadline {
            let next = LogQuery { cursor: Some(page.cursor.clone()), tail: None, ..query.clone() };
            // Either there is something or the time is over; the next read shows which.
            let _ =
                timeout_at(deadline, context.engine.logs_changed(&query.services, &page.cursor))
                    .await;
            page = context.engine.read_logs(next).await?;
        }
        Ok(Output::of(context, page, &input))
    }
}

fn query(context: &Context, input: &Input) -> Result<LogQuery, OpError> {
    let now = proctor_sys::clock::now().wall;
    let time = |field: &str, text: &Option<String>| -> Result<Option<Wall>, OpError> {
        let parsed = text
            .as_ref()
            .map(|text| timestamps::parse(text, now, &timestamps::machines_zone()))
            .transpose();
        parsed.map_err(|why| OpError::bad_input(format!("{field}: {why}")))
    };
    let since = time("since", &input.since)?;
    let from_the_end = input.cursor.is_none() && since.is_none();
    let tail = input.tail.or(from_the_end.then_some(USUAL_TAIL)).filter(|_| input.cursor.is_none());
    let budget = input.max_bytes.map(|bytes| bytes.min(MAX_PAGE_BYTES));
    Ok(LogQuery {
        services: services(context, &input.services)?,
        cursor: input.cursor.clone(),
        tail,
        tail_each: input.tail_each,
        since,
        until: time("until", &input.until)?,
        stream: input.stream.map(Into::into),
        grep: pattern(input)?,
        invert: input.invert,
        context: input.context.unwrap_or(0).min(MAX_CONTEXT),
        max_bytes: budget.unwrap_or(USUAL_PAGE),
        item_cost: budget.map(|_| if input.text { TEXT_LINE } else { ITEM }),
        newest: budget.is_some() && tail.is_some(),
        max_line: input.max_line.or(budget),
        fold: input.fold,
        ..LogQuery::default()
    })
}

fn pattern(input: &Input) -> Result<Option<String>, OpError> {
    match (&input.grep, input.errors) {
        (Some(_), true) => Err(OpError::bad_input("give 'grep' or 'errors', not both")),
        (None, false) if input.invert || input.context.is_some() => {
            Err(OpError::bad_input("'invert' and 'context' need 'grep' or 'errors'")
                .help("also give 'grep' or 'errors'"))
        }
        (grep, false) => Ok(grep.clone()),
        (None, true) => Ok(Some(ERRORS.into())),
    }
}

/// Finds services by name; a removed service counts while its logs exist.
fn services(context: &Context, words: &[String]) -> Result<Vec<ServiceName>, OpError> {
    if words.is_empty() {
        let all: Vec<ServiceName> =
            context.engine.read(|view| view.services.keys().cloned().collect());
        return if all.is_empty() {
            Err(OpError::new(Code::UnknownService, "no services"))
        } else {
            Ok(all)
        };
    }
    let mut names = Vec::new();
    for word in words {
        match context.engine.select(std::slice::from_ref(word)) {
            Ok(found) => names.extend(found),
            Err(error @ EngineError::UnknownService { .. }) => {
                let removed = ServiceName::parse(word)
                    .ok()
                    .filter(|name| context.home.log_dir(name).is_dir());
                names.push(removed.ok_or(error)?);
            }
            Err(error) => return Err(error.into()),
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

impl Output {
    fn of(context: &Context, page: LogPage, input: &Input) -> Output {
        let LogPage { items, cursor, more, truncated } = page;
        let (items, text) = if input.text {
            (Vec::new(), Some(text(context, items)))
        } else {
            let item =
                |item| Item { unhealthy: unhealthy(context, &item), ..Item::of(item, input.raw) };
            (items.into_iter().map(item).collect(), None)
        };
        Output { items, text, cursor, more, truncated }
    }
}

/// One line each, with the name of the service if there are several.
fn text(context: &Context, items: Vec<LogItem>) -> String {
    let one = items.iter().all(|item| item.service == items[0].service);
    let mut text = String::new();
    for item in items {
        if !one {
            text.push_str(item.service.as_str());
            text.push_str(" | ");
        }
        let unhealthy = unhealthy(context, &item);
        text.push_str(&readable_item(item, unhealthy));
        text.push('\n');
    }
    text
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.truncated {
            page.line().dim("older lines were omitted; raise max_bytes to see them");
        }
        for item in &self.items {
            let at = page.moment(&item.at);
            let line = page.line();
            line.dim(at).plain(" ").name(&item.service).plain(" ");
            match item.event() {
                Some(event) => line.add(Style::Dim, format!("── {event}")),
                None => line.plain(item.readable()),
            };
        }
        page.text(Style::Plain, self.text.as_deref().unwrap_or_default());
        if self.more {
            page.line().dim(format!("more lines follow: continue with the cursor {}", self.cursor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    #[test]
    fn what_looks_like_an_error_is_found_and_little_else() {
        let errors = Regex::new(ERRORS).unwrap();
        for line in [
            "TypeError: x is not a function",
            "npm ERR! code ELIFECYCLE",
            "Traceback (most recent call last):",
            "thread 'main' panicked at src/main.rs:1:1",
            "FATAL: password authentication failed",
            "java.lang.NullPointerException",
            "connect ECONNREFUSED 127.0.0.1:5432",
            "Segmentation fault (core dumped)",
            "[CRITICAL] worker timeout",
            "mkdir: Permission denied",
            "UnhandledPromiseRejectionWarning",
            "build failed",
        ] {
            assert!(errors.is_match(line), "{line}");
        }
        for line in ["GET /health 200", "listening on 3000", "warning: unused", "deferred", "ready"]
        {
            assert!(!errors.is_match(line), "{line}");
        }
    }
}
