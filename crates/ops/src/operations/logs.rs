//! `log.read`: a page of what services wrote, and a cursor to go on from. With `wait` it is a long poll, and
//! `--follow` is a loop over it.

use crate::error::{Code, OpError};
use crate::input::seconds_of;
use crate::moment::{self, rfc3339};
use crate::operation::{About, Context, Effect, Meta, Method, Operation};
use crate::show::harmless::{Colours, harmless_line};
use crate::show::{Page, Show, Style};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use proctor_core::config::signal;
use proctor_core::logindex::Stream;
use proctor_core::name::ServiceName;
use proctor_core::time::Wall;
use proctor_engine::api::{LogItem, LogPage, LogQuery, LogWhat};
use proctor_engine::error::EngineError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Lines shown where nobody says how many.
const USUAL_TAIL: usize = 50;

/// Content of a page: small enough to travel as one line of JSON whatever the bytes are.
const USUAL_PAGE: usize = 256 << 10;
const LARGEST_PAGE: usize = 1 << 20;

pub struct Logs;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services, all instances of one, groups, or `all`; removed services, too, while their logs are there
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Go on from where an earlier answer ended
    #[arg(long, hide = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Begin this many lines before the end (50, unless --since says where to begin)
    #[arg(long = "lines", short = 'n', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
    /// Begin at this time: 10m, 14:05, 2026-03-01 14:05, or RFC 3339
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// End at this time
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Only what was written there
    #[arg(long, value_enum, value_name = "STREAM")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamWord>,
    /// Only lines that match this regular expression
    #[arg(long, value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grep: Option<String>,
    /// If there is nothing yet, wait this many seconds for something
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// Exactly the bytes that were written (in an answer: as base64)
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub raw: bool,
    /// About how much of content one answer may hold
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
}

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StreamWord {
    Stdout,
    Stderr,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub items: Vec<Item>,
    /// Pass it back to go on from here
    pub cursor: String,
    /// More is there already
    pub more: bool,
}

/// A line, or something that happened to the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    pub service: String,
    /// RFC 3339
    pub at: String,
    pub stream: StreamWord,
    /// Id of the run
    pub run: String,
    pub kind: Kind,
    /// Of a line: its text; bytes that are no text are replaced. Of an exit: what it was
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Of a line, with `raw`: its bytes as base64
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// A piece of a very long line; the rest follows
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// How many bytes were lost here
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Line,
    Started,
    Exited,
    Dropped,
}

impl Operation for Logs {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["logs"],
        summary: "Show what services wrote",
        details: "\
Examples:
  proctor logs web
  proctor logs -f web worker
  proctor logs web --since 10m --stream stderr
  proctor logs web -n 1000 --grep 'error|warn'",
        ..Meta::of("log.read", Effect::Read).long().at(
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
            // Either there is something or the time is over; reading tells which.
            let _ =
                timeout_at(deadline, context.engine.logs_changed(&query.services, &page.cursor))
                    .await;
            page = context.engine.read_logs(next).await?;
        }
        Ok(output(page, input.raw))
    }
}

fn query(context: &Context, input: &Input) -> Result<LogQuery, OpError> {
    let now = proctor_sys::clock::now().wall;
    let zone = TimeZone::system();
    let time = |field: &str, text: &Option<String>| -> Result<Option<Wall>, OpError> {
        let parsed = text.as_ref().map(|text| moment::parse(text, now, &zone)).transpose();
        parsed.map_err(|why| OpError::bad_input(format!("{field}: {why}")))
    };
    let since = time("since", &input.since)?;
    let from_the_end = input.cursor.is_none() && since.is_none();
    Ok(LogQuery {
        services: services(context, &input.services)?,
        cursor: input.cursor.clone(),
        tail: input.tail.or(from_the_end.then_some(USUAL_TAIL)).filter(|_| input.cursor.is_none()),
        since,
        until: time("until", &input.until)?,
        stream: input.stream.map(|stream| match stream {
            StreamWord::Stdout => Stream::Stdout,
            StreamWord::Stderr => Stream::Stderr,
        }),
        grep: input.grep.clone(),
        max_bytes: input.max_bytes.unwrap_or(USUAL_PAGE).min(LARGEST_PAGE),
    })
}

/// Services by name; one that was removed counts while its logs are there.
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

fn output(page: LogPage, raw: bool) -> Output {
    let items = page.items.into_iter().map(|item| one(item, raw)).collect();
    Output { items, cursor: page.cursor, more: page.more }
}

fn one(item: LogItem, raw: bool) -> Item {
    let mut out = Item {
        service: item.service.to_string(),
        at: rfc3339(item.wall),
        stream: match item.stream {
            Stream::Stdout => StreamWord::Stdout,
            Stream::Stderr => StreamWord::Stderr,
        },
        run: item.run.to_string(),
        kind: Kind::Line,
        text: None,
        bytes: None,
        cut: false,
        dropped: None,
    };
    match item.what {
        LogWhat::Line { bytes, cut } => {
            out.cut = cut;
            if raw {
                out.bytes = Some(STANDARD.encode(&bytes));
            } else {
                out.text = Some(String::from_utf8_lossy(&bytes).into_owned());
            }
        }
        LogWhat::Started => out.kind = Kind::Started,
        LogWhat::Exited(exit) => {
            out.kind = Kind::Exited;
            out.text = Some(exit.to_string());
        }
        LogWhat::Dropped(bytes) => {
            out.kind = Kind::Dropped;
            out.dropped = Some(bytes);
        }
    }
    out
}

impl Item {
    /// The bytes of a line, exactly with `raw`, else as far as they are text.
    pub fn line(&self) -> Vec<u8> {
        let exact = self.bytes.as_ref().and_then(|text| STANDARD.decode(text).ok());
        exact.unwrap_or_else(|| self.text.clone().unwrap_or_default().into_bytes())
    }

    /// What happened, as a sentence about the service; `None` for a line.
    pub fn event(&self) -> Option<String> {
        match self.kind {
            Kind::Line => None,
            Kind::Started => Some("started".into()),
            Kind::Exited => Some(exit_event(self.text.as_deref().unwrap_or("exit status unknown"))),
            Kind::Dropped => {
                Some(format!("lost {} of output", moment::bytes(self.dropped.unwrap_or(0).into())))
            }
        }
    }
}

/// The text of an exit as a sentence about the service.
fn exit_event(text: &str) -> String {
    if let Some(code) = text.strip_prefix("exit code ") {
        return format!("exited with code {code}");
    }
    match text.strip_prefix("signal ").and_then(|number| number.parse().ok()) {
        Some(number) => format!("was ended by {}", signal::long_name(number)),
        None => format!("exited: {text}"),
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for item in &self.items {
            let at = page.moment(&item.at);
            let line = page.line();
            line.dim(at).plain(" ").name(&item.service).plain(" ");
            match item.event() {
                Some(event) => line.add(Style::Dim, format!("── {event}")),
                None => {
                    let text = item.line();
                    line.plain(harmless_line(&String::from_utf8_lossy(&text), Colours::Strip))
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::lifecycle::Exit;
    use proctor_core::logindex::ExitMark;
    use proctor_core::name::RunId;

    #[test]
    fn an_exit_reads_as_a_sentence() {
        for (exit, expected) in [
            (Exit::Code(3), "exited with code 3"),
            (Exit::Signal { signal: 15, oom: false, core: false }, "was ended by SIGTERM"),
            (Exit::Signal { signal: 9, oom: true, core: false }, "exited: out of memory"),
            (Exit::Unknown, "exited: exit status unknown"),
        ] {
            let item = LogItem {
                service: ServiceName::parse("web").unwrap(),
                stream: Stream::Stdout,
                wall: Wall(0),
                run: RunId(1),
                what: LogWhat::Exited(ExitMark::of(&exit)),
            };
            assert_eq!(one(item, false).event().as_deref(), Some(expected));
        }
    }
}
