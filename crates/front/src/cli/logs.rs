//! `logs`: pages of `log.read` in a row, endless with `-f`; and the look of a log line.

use super::session::Session;
use super::terminal::Terminal;
use super::{CommandResult, Failure, run_operation};
use crate::terminal_colors::paint;
use clap::{ArgMatches, Args, FromArgMatches};
use jiff::tz::TimeZone;
use proctor_ops::error::{Code, OpError};
use proctor_ops::log_lines::{Item, Kind, StreamWord, without_marks};
use proctor_ops::operations::logs::Output;
use proctor_ops::operations::service::list;
use proctor_ops::status::ServiceStatus;
use proctor_ops::table::find;
use proctor_ops::text_output::Style;
use proctor_ops::text_output::escape_filter::{Colours, harmless_line};
use proctor_ops::timestamps;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Seconds of one long poll of a follower. Without news it costs one message.
pub(crate) const POLL_SECONDS: f64 = 60.0;

/// Maximum aligned name; a longer one sticks out instead of moving all others to the right.
const WIDEST: usize = 24;

#[derive(Args, Debug, Default)]
pub(crate) struct Options {
    /// Keep showing new lines
    #[arg(long, short)]
    follow: bool,
    /// Start each line with its time
    #[arg(long, short)]
    timestamps: bool,
}

pub(crate) fn logs(session: &mut Session<'_>, arguments: &ArgMatches) -> CommandResult {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let entry = find("log.read")
        .ok_or_else(|| OpError::new(Code::Internal, "the operation log.read is missing"))?;
    let mut input = run_operation::input(entry, arguments)?;
    if input.get("tail").is_some() {
        input["tail_each"] = json!(true);
    }
    let once = input.get("max_bytes").is_some() && !options.follow;
    if session.terminal.json && once {
        let answer = session.call("log.read", &input)?;
        return session.terminal.answer(entry, &answer);
    }
    if session.terminal.json && !options.follow {
        return as_document(session, input);
    }
    let mut view = View::asked(session.terminal, &input, options.timestamps);
    view.align(meant(session, &input).iter().map(String::as_str));
    let mut begun = false;
    loop {
        let page = match read(session, &input) {
            Err(failure) if begun && options.follow && session.has_ended(&failure) => {
                session.terminal.note("Proctor has ended");
                return Ok(0);
            }
            page => page?,
        };
        begun = true;
        view.show(&page.items)?;
        if once {
            say_what_is_missing(session.terminal, &page);
            return Ok(0);
        }
        go_on(&mut input, &page.cursor);
        if !page.more {
            if !options.follow {
                return Ok(0);
            }
            input["wait"] = json!(POLL_SECONDS);
        }
    }
}

pub(crate) fn read(session: &mut Session<'_>, input: &Value) -> Result<Output, Failure> {
    page(session.call("log.read", input)?)
}

pub(crate) fn page(answer: Value) -> Result<Output, Failure> {
    let page = serde_json::from_value(answer);
    page.map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode a page: {error}")).into()
    })
}

/// Notes what a single page leaves out.
fn say_what_is_missing(terminal: &Terminal, page: &Output) {
    if page.truncated {
        terminal.note("older lines were omitted; raise --max-bytes to see them");
    }
    if page.more {
        terminal.note(&format!("more lines follow: continue with --cursor {}", page.cursor));
    }
}

/// Returns the known services that will be shown; their names decide the width of the prefix.
fn meant(session: &mut Session<'_>, input: &Value) -> Vec<String> {
    let words: Vec<&str> = words(input).iter().filter_map(Value::as_str).collect();
    let answer = session.call("service.list", &json!({ "no_usage": true }));
    // Without the list, only the alignment suffers.
    let Ok(Ok(list)) = answer.map(serde_json::from_value::<list::Output>) else {
        return words.into_iter().map(ToOwned::to_owned).collect();
    };
    let is_meant = |service: &ServiceStatus| {
        let base = service.name.split('@').next().unwrap_or_default();
        let groups = || service.groups.iter().map(String::as_str);
        let mut names = [service.name.as_str(), base, "all"].into_iter().chain(groups());
        words.is_empty() || names.any(|name| words.contains(&name))
    };
    let names: Vec<String> =
        list.services.into_iter().filter(is_meant).map(|service| service.name).collect();
    // Removed services are not in the list, but their logs may exist.
    if names.is_empty() { words.into_iter().map(ToOwned::to_owned).collect() } else { names }
}

fn words(input: &Value) -> &[Value] {
    input.get("services").and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

/// Sets the cursor for the next page.
pub(crate) fn go_on(input: &mut Value, cursor: &str) {
    input["cursor"] = json!(cursor);
    if let Value::Object(fields) = input {
        fields.shift_remove("tail");
    }
}

/// Writes all pages as one JSON document, as they come.
fn as_document(session: &mut Session<'_>, mut input: Value) -> CommandResult {
    let mut out = io::stdout().lock();
    let mut comma = "";
    let mut begun = false;
    loop {
        let page = read(session, &input)?;
        if !begun {
            // Written only now: a rejected request prints no document.
            write!(out, "{{\"items\":[")?;
            begun = true;
        }
        for item in &page.items {
            write!(out, "{comma}\n  {}", serde_json::to_string(item).map_err(io::Error::from)?)?;
            comma = ",";
        }
        go_on(&mut input, &page.cursor);
        if !page.more {
            writeln!(out, "\n],\"cursor\":{},\"more\":false}}", json!(page.cursor))?;
            out.flush()?;
            return Ok(0);
        }
    }
}

/// Format of lines.
pub(crate) struct View {
    format: Format,
    /// The only requested service; its lines need no prefix.
    only: Option<String>,
    timestamps: bool,
    colour: bool,
    /// Width of the longest aligned name.
    width: usize,
    /// Colours of the names known from the start.
    colours: BTreeMap<String, &'static str>,
    zone: Option<TimeZone>,
    /// True if the last written part of a long line has no line end yet.
    open: bool,
}

enum Format {
    Text,
    Raw,
    Json,
}

impl View {
    /// Creates a view whose lines all have the name of their service.
    pub(crate) fn new(terminal: &Terminal) -> View {
        View {
            format: if terminal.json { Format::Json } else { Format::Text },
            only: None,
            timestamps: false,
            colour: terminal.colours_stdout(),
            width: 0,
            colours: BTreeMap::new(),
            zone: None,
            open: false,
        }
    }

    /// Creates a view for the options of a person.
    fn asked(terminal: &Terminal, input: &Value, timestamps: bool) -> View {
        let mut view = View { timestamps, ..View::new(terminal) };
        if !terminal.json && input.get("raw") == Some(&Value::Bool(true)) {
            view.format = Format::Raw;
        }
        if let [Value::String(one)] = words(input) {
            view.only = Some(one.clone());
        }
        view
    }

    /// Makes room for these names from the first line on.
    pub(crate) fn align<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let names: Vec<&str> = names.collect();
        let lengths = names.iter().map(|name| name.len());
        self.width = lengths.filter(|length| *length <= WIDEST).max().unwrap_or(0);
        self.colours = colours_of(&names);
    }

    pub(crate) fn show(&mut self, items: &[Item]) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        let mut text = Vec::new();
        for item in items {
            match self.format {
                Format::Json => {
                    serde_json::to_writer(&mut text, item)?;
                    text.push(b'\n');
                }
                Format::Raw => raw(item, &mut text),
                Format::Text => self.text(item, &mut text),
            }
        }
        let mut out = io::stdout().lock();
        out.write_all(&text)?;
        out.flush()
    }

    fn text(&mut self, item: &Item, out: &mut Vec<u8>) {
        let mut line = String::new();
        let style = paint(self.colour);
        if let Some(event) = item.event() {
            if std::mem::take(&mut self.open) {
                line.push('\n');
            }
            let at = self.time(item);
            style(Style::Dim, &format!("── {} {event}, {at} ──", item.service), &mut line);
            line.push('\n');
        } else {
            if !self.open {
                self.prefix(item, &mut line);
            }
            let text = item.line();
            let colours = if self.colour { Colours::Keep } else { Colours::Strip };
            let text = String::from_utf8_lossy(&text);
            line.push_str(&without_marks(&harmless_line(&text, colours)));
            let remark = item.remark();
            if !remark.is_empty() {
                style(Style::Dim, &remark, &mut line);
            }
            self.open = item.cut;
            if !item.cut {
                line.push('\n');
            }
        }
        out.extend_from_slice(line.as_bytes());
    }

    fn prefix(&mut self, item: &Item, line: &mut String) {
        let style = paint(self.colour);
        if self.timestamps {
            let at = self.moment(item);
            style(Style::Dim, &at, line);
            line.push(' ');
        }
        if self.only.as_ref() == Some(&item.service) {
            return;
        }
        let name = format!("{:width$}", item.service, width = self.width);
        if self.colour {
            let known = self.colours.get(&item.service).copied();
            let colour = known.unwrap_or_else(|| COLOURS[preferred(&item.service)]);
            line.push_str(&format!("\x1b[{colour}m{name}\x1b[0m"));
        } else {
            line.push_str(&name);
        }
        line.push(' ');
        let stream = match item.stream {
            StreamWord::Stdout => Style::Dim,
            StreamWord::Stderr => Style::Bad,
        };
        style(stream, "|", line);
        line.push(' ');
    }

    fn time(&mut self, item: &Item) -> String {
        timestamps::local_time(&item.at, self.zone()).unwrap_or_else(|| item.at.clone())
    }

    fn moment(&mut self, item: &Item) -> String {
        timestamps::local(&item.at, self.zone()).unwrap_or_else(|| item.at.clone())
    }

    /// Returns the zone, read once and only if a time is shown, because it reads files.
    fn zone(&mut self) -> &TimeZone {
        self.zone.get_or_insert_with(timestamps::zone)
    }
}

/// Writes the exact bytes of a line.
fn raw(item: &Item, out: &mut Vec<u8>) {
    if item.kind == Kind::Line {
        out.extend_from_slice(&item.line());
        if !item.cut {
            out.push(b'\n');
        }
    }
}

/// Colours of names. Red is for errors.
const COLOURS: [&str; 10] = ["36", "33", "32", "35", "34", "96", "93", "92", "95", "94"];

/// Returns the colour that a service has unless another service on the screen has it.
fn preferred(name: &str) -> usize {
    let sum = name.bytes().fold(7usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    sum % COLOURS.len()
}

/// Returns a colour for each name, without duplicates while there are colours left.
fn colours_of(names: &[&str]) -> BTreeMap<String, &'static str> {
    let mut taken = [0; COLOURS.len()];
    let mut colours = BTreeMap::new();
    for name in names {
        let fewest = taken.iter().min().copied().unwrap_or(0);
        let places = (0..COLOURS.len()).map(|step| (preferred(name) + step) % COLOURS.len());
        let place = places.into_iter().find(|at| taken[*at] == fewest).unwrap_or(0);
        taken[place] += 1;
        colours.insert((*name).to_owned(), COLOURS[place]);
    }
    colours
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(service: &str, kind: Kind, text: &str) -> Item {
        Item {
            service: service.into(),
            at: "2026-03-01T14:05:03.25Z".into(),
            stream: StreamWord::Stderr,
            run: "5f0".into(),
            kind,
            text: Some(text.into()),
            bytes: None,
            cut: false,
            left_out: None,
            context: false,
            repeated: None,
            last_at: None,
            dropped: Some(2048),
            unhealthy: None,
        }
    }

    fn check(only: Option<&str>, colour: bool, timestamps: bool, items: &[Item], expected: &str) {
        let mut view = View {
            format: Format::Text,
            only: only.map(Into::into),
            timestamps,
            colour,
            width: 4,
            colours: BTreeMap::new(),
            zone: Some(TimeZone::UTC),
            open: false,
        };
        let mut out = Vec::new();
        items.iter().for_each(|item| view.text(item, &mut out));
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn lines_have_prefixes_when_several_services_are_shown() {
        let two = [item("web", Kind::Line, "hello"), item("worker", Kind::Line, "there")];
        check(None, false, false, &two, "web  | hello\nworker | there\n");
        check(Some("web"), false, false, &two[..1], "hello\n");
        check(Some("web"), false, true, &two[..1], "2026-03-01 14:05:03 hello\n");
        check(Some("api"), false, false, &two[..1], "web  | hello\n");
        let red =
            format!("\x1b[{}mweb \x1b[0m \x1b[31m|\x1b[0m hello\n", COLOURS[preferred("web")]);
        check(None, true, false, &two[..1], &red);
    }

    #[test]
    fn services_on_one_screen_have_colours_that_differ() {
        let names: Vec<String> =
            (0..COLOURS.len()).map(|number| format!("worker-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for count in 1..=names.len() {
            let colours = colours_of(&names[..count]);
            let different: std::collections::BTreeSet<_> = colours.values().collect();
            assert_eq!(different.len(), count, "{colours:?}");
        }
        assert_eq!(colours_of(&["web"])["web"], COLOURS[preferred("web")]);
        assert_eq!(colours_of(&[names.as_slice(), &["more"]].concat()).len(), COLOURS.len() + 1);
    }

    #[test]
    fn what_happened_to_a_service_stands_between_its_lines() {
        let all = [
            item("web", Kind::Started, ""),
            item("web", Kind::Exited, "exit code 1"),
            item("web", Kind::Dropped, ""),
        ];
        check(
            Some("web"),
            false,
            false,
            &all,
            "── web started, 14:05:03 ──\n── web exited with code 1, 14:05:03 ──\n── web lost 2.0 KiB of output, 14:05:03 ──\n",
        );
    }

    #[test]
    fn pieces_of_a_long_line_are_one_line_and_escapes_are_harmless() {
        let mut first = item("web", Kind::Line, "ab\x1b[2J");
        first.cut = true;
        check(
            None,
            false,
            false,
            &[first.clone(), item("web", Kind::Line, "cd")],
            "web  | ab\\x1b[2Jcd\n",
        );
        check(
            Some("web"),
            false,
            false,
            &[first, item("web", Kind::Started, "")],
            "ab\\x1b[2J\n── web started, 14:05:03 ──\n",
        );
    }

    #[test]
    fn what_is_not_shown_of_a_line_is_said_behind_it() {
        let mut line = item("web", Kind::Line, "tick");
        (line.left_out, line.repeated) = (Some(2048), Some(3));
        check(Some("web"), false, false, &[line], "tick… (2.0 KiB more) (×3)\n");
    }

    #[test]
    fn raw_is_the_bytes_and_nothing_else() {
        let mut out = Vec::new();
        let mut line = item("web", Kind::Line, "");
        line.bytes = Some("/wD+DQ==".into());
        raw(&line, &mut out);
        raw(&item("web", Kind::Exited, "exit code 1"), &mut out);
        assert_eq!(out, b"\xff\x00\xfe\r\n");
    }
}
