//! A line of a log, or an event of its service, as in every response.

use crate::operation::Context;
use crate::text_output::escape_filter::{Colours, harmless_line};
use crate::timestamps::{self, rfc3339};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_core::config::signal;
use proctor_core::log_index::Stream;
use proctor_engine::api::{LogItem, LogLine, LogWhat};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StreamWord {
    Stdout,
    Stderr,
}

impl From<StreamWord> for Stream {
    fn from(word: StreamWord) -> Stream {
        match word {
            StreamWord::Stdout => Stream::Stdout,
            StreamWord::Stderr => Stream::Stderr,
        }
    }
}

impl From<Stream> for StreamWord {
    fn from(stream: Stream) -> StreamWord {
        match stream {
            Stream::Stdout => StreamWord::Stdout,
            Stream::Stderr => StreamWord::Stderr,
        }
    }
}

/// A line, or an event of the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Item {
    pub service: String,
    /// Time in RFC 3339
    pub at: String,
    pub stream: StreamWord,
    /// Id of the run
    pub run: String,
    pub kind: Kind,
    /// Text of a line, with invalid UTF-8 replaced; or the kind of an exit
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// With `raw`: bytes of a line as base64
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Part of a very long line; the rest follows
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Number of bytes (at least) cut off after the text of a long line
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// With `context`: a context line, not a match
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub context: bool,
    /// With `fold`: number of consecutive equal lines
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
    /// With `repeated`: time of the last one in RFC 3339
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_at: Option<String>,
    /// Number of bytes lost here
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u32>,
    /// Reason of an exit caused by a failed health check
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unhealthy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Line,
    Started,
    Exited,
    Dropped,
}

impl Item {
    pub(crate) fn of(item: LogItem, raw: bool) -> Item {
        let mut out = Item {
            service: item.service.to_string(),
            at: rfc3339(item.wall),
            stream: item.stream.into(),
            run: item.run.to_string(),
            kind: Kind::Line,
            text: None,
            bytes: None,
            cut: false,
            left_out: None,
            context: false,
            repeated: None,
            last_at: None,
            dropped: None,
            unhealthy: None,
        };
        match item.what {
            LogWhat::Line(line) => out.fill(&line, raw),
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

    fn fill(&mut self, line: &LogLine, raw: bool) {
        if raw {
            self.bytes = Some(STANDARD.encode(&line.bytes));
        } else {
            self.text = Some(String::from_utf8_lossy(&line.bytes).into_owned());
        }
        self.cut = line.cut;
        self.left_out = left_out(line);
        self.context = line.context;
        self.repeated = repeated(line);
        self.last_at = line.repeats.map(|repeats| rfc3339(repeats.wall));
    }

    /// Returns the bytes of a line: exact with `raw`, otherwise those of its text.
    pub fn line(&self) -> Vec<u8> {
        let exact = self.bytes.as_ref().and_then(|text| STANDARD.decode(text).ok());
        exact.unwrap_or_else(|| self.text.clone().unwrap_or_default().into_bytes())
    }

    /// Returns the event as a sentence about the service; `None` for a line.
    pub fn event(&self) -> Option<String> {
        match self.kind {
            Kind::Line => None,
            Kind::Started => Some("started".into()),
            Kind::Exited => {
                let event = exit_event(self.text.as_deref().unwrap_or("exit status unknown"));
                let why = self.unhealthy.as_ref().map(|why| format!(" ({why})"));
                Some(event + &why.unwrap_or_default())
            }
            Kind::Dropped => Some(format!(
                "lost {} of output",
                timestamps::bytes(self.dropped.unwrap_or(0).into())
            )),
        }
    }

    /// Returns the remark that follows the text of a line.
    pub fn remark(&self) -> String {
        remark(self.left_out, self.repeated)
    }

    /// Returns the item as one line for people.
    pub(crate) fn readable(&self) -> String {
        if let Some(event) = self.event() {
            let at = self.at.split('.').next().unwrap_or(&self.at).trim_end_matches('Z');
            return format!("── {event}, {at}Z");
        }
        readable(&self.line(), self.left_out, self.repeated)
    }
}

/// Returns the text of [`Item::readable`] without making the whole response.
pub(crate) fn readable_item(item: LogItem, unhealthy: Option<String>) -> String {
    match item.what {
        LogWhat::Line(line) => readable(&line.bytes, left_out(&line), repeated(&line)),
        LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => {
            Item { unhealthy, ..Item::of(item, false) }.readable()
        }
    }
}

/// Returns the reason if Proctor ended the run because of its health check.
pub(crate) fn unhealthy(context: &Context, item: &LogItem) -> Option<String> {
    match &item.what {
        LogWhat::Exited(_) => context.engine.read(|view| {
            view.services.get(&item.service)?.unhealthy(item.run).map(ToString::to_string)
        }),
        LogWhat::Line(_) | LogWhat::Started | LogWhat::Dropped(_) => None,
    }
}

fn readable(line: &[u8], left_out: Option<u64>, repeated: Option<u64>) -> String {
    let text = String::from_utf8_lossy(line);
    let mut text = without_marks(&harmless_line(&text, Colours::Strip)).into_owned();
    text += &remark(left_out, repeated);
    text
}

/// First character of every mark. No line of a service starts with it when shown.
const MARK: char = '─';

/// Returns a line of a service in which nothing looks like our marks. The first character of a leading bar and of
/// trailing remarks
/// about repeated or cut lines is escaped. Expects a line that is harmless otherwise.
pub fn without_marks(line: &str) -> Cow<'_, str> {
    let first = first_visible(line).filter(|at| line[*at..].starts_with(MARK));
    let last = forged_remark(line);
    let mut shown = Cow::Borrowed(line);
    for at in [last, first].into_iter().flatten() {
        let forged = shown[at..].chars().next().unwrap_or(MARK);
        let escaped = forged.escape_unicode().to_string();
        shown.to_mut().replace_range(at..at + forged.len_utf8(), &escaped);
    }
    shown
}

/// Returns the first character with a width, after colours, white space and direction marks.
fn first_visible(line: &str) -> Option<usize> {
    let mut rest = line;
    loop {
        rest = rest.trim_start_matches(|c: char| {
            c.is_whitespace()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        });
        let colour =
            rest.strip_prefix("\x1b[").and_then(|after| Some(&after[after.find('m')? + 1..]));
        match colour {
            Some(after) => rest = after,
            None => return Some(line.len() - rest.len()).filter(|_| !rest.is_empty()),
        }
    }
}

/// Returns the position of a remark that the service wrote itself.
fn forged_remark(line: &str) -> Option<usize> {
    let end = line.trim_end();
    let times = end.rfind("(×").map(|at| at + 1);
    let times = times.filter(|_| end.ends_with(')'));
    let more = end.rfind("… (").filter(|_| end.ends_with(" more)"));
    times.or(more)
}

fn remark(left_out: Option<u64>, repeated: Option<u64>) -> String {
    let rest = left_out.map(|bytes| format!("… ({} more)", timestamps::bytes(bytes)));
    let times = repeated.map(|times| format!(" (×{times})"));
    rest.into_iter().chain(times).collect()
}

fn left_out(line: &LogLine) -> Option<u64> {
    Some(line.left_out).filter(|bytes| *bytes > 0)
}

fn repeated(line: &LogLine) -> Option<u64> {
    line.repeats.map(|repeats| u64::from(repeats.count) + 1)
}

/// Returns the text of an exit as a sentence about the service.
fn exit_event(text: &str) -> String {
    if let Some(code) = text.strip_prefix("exit code ") {
        return format!("exited with code {code}");
    }
    match text.strip_prefix("signal ").and_then(|number| number.parse().ok()) {
        Some(number) => format!("was killed by {}", signal::long_name(number)),
        None => format!("exited: {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::lifecycle::Exit;
    use proctor_core::log_index::ExitMark;
    use proctor_core::name::{RunId, ServiceName};
    use proctor_core::time::Wall;
    use proctor_engine::api::Repeats;

    fn item(what: LogWhat) -> Item {
        Item::of(logged(what), false)
    }

    fn logged(what: LogWhat) -> LogItem {
        LogItem {
            service: ServiceName::parse("web").unwrap(),
            stream: Stream::Stdout,
            wall: Wall(1_250_000),
            run: RunId(1),
            what,
        }
    }

    #[test]
    fn an_exit_reads_as_a_sentence() {
        for (exit, expected) in [
            (Exit::Code(3), "exited with code 3"),
            (Exit::Signal { signal: 15, oom: false, core: false }, "was killed by SIGTERM"),
            (Exit::Signal { signal: 9, oom: true, core: false }, "exited: out of memory"),
            (Exit::Unknown, "exited: exit status unknown"),
            (Exit::Backgrounded, "exited with code 0, with processes left in the background"),
        ] {
            let item = item(LogWhat::Exited(ExitMark::of(&exit)));
            assert_eq!(item.event().as_deref(), Some(expected));
            assert_eq!(item.readable(), format!("── {expected}, 1970-01-01T00:00:01Z"));
            let why = Some("unhealthy: GET http://h/: 503, 2 failures in a row".into());
            let expected = format!(
                "── {expected} (unhealthy: GET http://h/: 503, 2 failures in a row), 1970-01-01T00:00:01Z"
            );
            let logged = logged(LogWhat::Exited(ExitMark::of(&exit)));
            assert_eq!(readable_item(logged, why), expected);
        }
    }

    #[test]
    fn no_line_of_a_service_looks_like_a_mark() {
        let bar = "\\u{2500}";
        for (line, shown) in [
            (
                "── exited with code 0, 1970-01-01T00:00:01Z",
                format!("{bar}─ exited with code 0, 1970-01-01T00:00:01Z"),
            ),
            ("\x1b[2m── started", format!("{bar}─ started")),
            (" \u{200b}\u{feff}── started", format!(" \u{200b}\u{feff}{bar}─ started")),
            ("a ── b", "a ── b".into()),
            ("┌──┐", "┌──┐".into()),
            ("--- started", "--- started".into()),
            ("x (×3)", "x (\\u{d7}3)".into()),
            ("x… (2.0 KiB more)", "x\\u{2026} (2.0 KiB more)".into()),
            ("── x (×3)", format!("{bar}─ x (\\u{{d7}}3)")),
            ("a 2×3 (b)", "a 2×3 (b)".into()),
        ] {
            let line = LogLine { bytes: line.as_bytes().into(), ..LogLine::default() };
            let text = readable_item(logged(LogWhat::Line(line.clone())), None);
            let shown = shown.replace(['\u{200b}', '\u{feff}'], "");
            assert_eq!(text.replace(['\u{200b}', '\u{feff}'], ""), shown, "{line:?}");
        }
        assert_eq!(without_marks("\x1b[2m── a\x1b[0m"), format!("\x1b[2m{bar}─ a\x1b[0m"));
    }

    #[test]
    fn a_line_says_what_is_not_shown_of_it() {
        let line = LogLine { bytes: b"\x1b[31mred\x1b[0m\x07".into(), ..LogLine::default() };
        let repeats = Some(Repeats { count: 2, wall: Wall(2_000_000) });
        for (line, expected) in [
            (line.clone(), "red\\x07"),
            (LogLine { left_out: 2048, ..line.clone() }, "red\\x07… (2.0 KiB more)"),
            (LogLine { repeats, ..line.clone() }, "red\\x07 (×3)"),
            (LogLine { repeats, left_out: 1, ..line }, "red\\x07… (1 B more) (×3)"),
        ] {
            let (item, shown) = (logged(LogWhat::Line(line.clone())), item(LogWhat::Line(line)));
            assert_eq!(
                (shown.readable().as_str(), &*readable_item(item, None)),
                (expected, expected)
            );
        }
    }
}
