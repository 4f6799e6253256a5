//! Readable text of an output, independent of the front: its content and the meaning of each part.
//!
//! A front chooses the look of a [`Style`] and the width of a line. All text on a page is made harmless first (`harmless`): a
//! name may contain escapes, which a terminal must not obey.

pub mod escape_filter;
mod layout;

use crate::error::Code;
use crate::timestamps;
use escape_filter::{harmless, harmless_but_tabs};
use jiff::tz::TimeZone;
pub use layout::{Column, Fit, Table};
use std::borrow::Cow;

/// An output for people.
pub trait Show {
    fn show(&self, page: &mut Page);

    /// Returns the generation of the state that it shows. An equal generation means that nothing changed.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// Returns a code if the call succeeded but the requested state was not reached.
    fn verdict(&self) -> Option<Code> {
        None
    }
}

/// Meaning of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Name,
    Good,
    Warn,
    Bad,
    Dim,
    Heading,
}

/// Text with one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span<'a> {
    style: Style,
    text: Cow<'a, str>,
}

impl<'a> Span<'a> {
    pub fn new(style: Style, text: impl Into<Cow<'a, str>>) -> Span<'a> {
        let text = text.into();
        let changed = match harmless(&text) {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        };
        Span { style, text: changed.map_or(text, Cow::Owned) }
    }
}

/// A line, built from left to right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    spans: Vec<Span<'static>>,
}

impl Line {
    pub fn add(&mut self, style: Style, text: impl AsRef<str>) -> &mut Line {
        self.spans.push(Span::new(style, text.as_ref().to_owned()));
        self
    }

    pub fn plain(&mut self, text: impl AsRef<str>) -> &mut Line {
        self.add(Style::Plain, text)
    }

    pub fn name(&mut self, text: impl AsRef<str>) -> &mut Line {
        self.add(Style::Name, text)
    }

    pub fn dim(&mut self, text: impl AsRef<str>) -> &mut Line {
        self.add(Style::Dim, text)
    }
}

#[derive(Debug, Clone)]
enum Block {
    Line(Line),
    Table(Table),
    /// A remark about the rest: that it is empty, or incomplete.
    Remark(Line),
    /// A line of a command's stdout.
    CommandStdout(Line),
    /// A line of a command's stderr.
    CommandStderr(Line),
}

/// Draws a style: appends `text` to `out`.
pub type Paint = fn(Style, &str, &mut String);

/// Paint for fronts without styles.
pub fn unpainted(_: Style, text: &str, out: &mut String) {
    out.push_str(text);
}

/// Content of an output.
#[derive(Debug, Clone)]
pub struct Page {
    blocks: Vec<Block>,
    next: Option<String>,
    part: String,
    zone: fn() -> TimeZone,
}

impl Page {
    /// Creates a page. `zone` returns the reader's time zone; it is called only if a time is shown, because it reads files.
    pub fn new(zone: fn() -> TimeZone) -> Page {
        Page { blocks: Vec::new(), next: None, part: String::new(), zone }
    }

    pub fn line(&mut self) -> &mut Line {
        self.blocks.push(Block::Line(Line::default()));
        match self.blocks.last_mut() {
            Some(Block::Line(line)) => line,
            Some(
                Block::Table(_)
                | Block::Remark(_)
                | Block::CommandStdout(_)
                | Block::CommandStderr(_),
            )
            | None => unreachable!("a line was just pushed"),
        }
    }

    /// Adds a remark. Fronts keep it apart if they can, so a reader that counts lines does not count it.
    pub fn remark(&mut self, text: impl AsRef<str>) {
        let mut line = Line::default();
        line.dim(text);
        self.blocks.push(Block::Remark(line));
    }

    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Adds the output of a command. The command line writes each stream to its own.
    pub fn command_output(&mut self, stdout: &str, stderr: &str) {
        type MakeBlock = fn(Line) -> Block;
        let streams: [(&str, MakeBlock); 2] =
            [(stdout, Block::CommandStdout), (stderr, Block::CommandStderr)];
        for (text, block) in streams {
            for line in text.lines() {
                let mut shown = Line::default();
                shown.plain(line);
                self.blocks.push(block(shown));
            }
        }
    }

    /// Adds text of several lines.
    pub fn text(&mut self, style: Style, text: &str) {
        for line in text.lines() {
            self.line().add(style, line);
        }
    }

    /// Adds text of several lines and keeps its tabs.
    pub fn code(&mut self, text: &str, style: impl Fn(&str) -> Style) {
        for line in text.split_inclusive('\n') {
            let line = line.strip_suffix('\n').unwrap_or(line);
            let text = harmless_but_tabs(line).into_owned().into();
            let span = Span { style: style(line), text };
            self.line().spans.push(span);
        }
    }

    /// Adds the text of a file, with its tabs; `before` returns a prefix for each line.
    pub fn content(&mut self, text: &str, before: impl Fn(usize) -> String) {
        for (number, line) in text.lines().enumerate() {
            let text = harmless_but_tabs(line).into_owned().into();
            let span = Span { style: Style::Plain, text };
            let shown = self.line();
            match before(number) {
                before if before.is_empty() => {}
                before => drop(shown.dim(before)),
            }
            shown.spans.push(span);
        }
    }

    /// Formats an RFC 3339 time in the reader's zone.
    pub fn moment(&self, rfc3339: &str) -> String {
        timestamps::local(rfc3339, &(self.zone)()).unwrap_or_else(|| rfc3339.to_owned())
    }

    /// Sets the cursor of the next page. The front explains how to use it.
    pub fn goes_on(&mut self, cursor: Option<&str>) {
        self.next = cursor.map(ToOwned::to_owned);
    }

    /// Sets the cursor of the next page, and the part of the whole that this page shows.
    pub fn goes_on_after(&mut self, part: String, cursor: Option<&str>) {
        self.goes_on(cursor);
        self.part = part;
    }

    /// Returns the part of the whole that this page shows, if it was set.
    pub fn part(&self) -> &str {
        &self.part
    }

    /// Returns the cursor of the next page, if there is one.
    pub fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// Renders text of at most `width` columns where possible; every line ends with a newline.
    pub fn render(&self, width: Option<usize>, paint: Paint) -> String {
        self.render_those(|_| true, width, paint)
    }

    /// Renders the content and the remarks apart; the remarks are not painted.
    pub fn render_apart(&self, width: Option<usize>, paint: Paint) -> (String, String) {
        let is_remark = |block: &Block| matches!(block, Block::Remark(_));
        let text = self.render_those(|block| !is_remark(block), width, paint);
        (text, self.render_those(is_remark, None, unpainted))
    }

    /// Renders the page of a change for stdout and stderr. Output of a command goes to its own stream, a remark to stderr, and
    /// everything else to stderr if the change failed.
    pub fn render_streams(
        &self,
        is_failure: bool,
        width: Option<usize>,
        stdout: Paint,
        stderr: Paint,
    ) -> (String, String) {
        let is_error = |block: &Block| match block {
            Block::CommandStdout(_) => false,
            Block::CommandStderr(_) | Block::Remark(_) => true,
            Block::Line(_) | Block::Table(_) => is_failure,
        };
        let text = self.render_those(|block| !is_error(block), width, stdout);
        (text, self.render_those(is_error, width, stderr))
    }

    fn render_those(
        &self,
        wanted: impl Fn(&Block) -> bool,
        width: Option<usize>,
        paint: Paint,
    ) -> String {
        let mut out = String::new();
        for block in self.blocks.iter().filter(|block| wanted(block)) {
            match block {
                Block::Line(line)
                | Block::Remark(line)
                | Block::CommandStdout(line)
                | Block::CommandStderr(line) => layout::line(line, paint, &mut out),
                Block::Table(table) => table.render(width, paint, &mut out),
            }
        }
        out
    }
}
/// Formats as `1 file`, `3 files`.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
