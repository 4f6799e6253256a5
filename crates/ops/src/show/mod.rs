//! Readable text of an output, independent of the front: what it says and what each part means.
//!
//! A front chooses how a [`Style`] looks and how wide a line may be. Whatever is put on a page is made
//! harmless first (`harmless`): a service's name for a thing may hold escapes, a terminal must not obey them.

pub mod harmless;
mod layout;

use crate::error::Code;
use crate::moment;
use harmless::{harmless, harmless_but_tabs};
use jiff::tz::TimeZone;
pub use layout::{Column, Fit, Table};
use std::borrow::Cow;

/// An output that people can read.
pub trait Show {
    fn show(&self, page: &mut Page);

    /// The generation of the state that this shows: while that is the same, nothing has happened.
    fn generation(&self) -> Option<u64> {
        None
    }

    /// The call succeeded, but what was asked for is not what is: the code that says so.
    fn verdict(&self) -> Option<Code> {
        None
    }
}

/// What a piece of text means.
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

/// Text with one meaning.
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

/// One line, built from left to right.
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
}

/// How a front draws a style: append `text` to `out`.
pub type Paint = fn(Style, &str, &mut String);

/// For fronts without styles.
pub fn unpainted(_: Style, text: &str, out: &mut String) {
    out.push_str(text);
}

/// What an output has to say.
#[derive(Debug, Clone)]
pub struct Page {
    blocks: Vec<Block>,
    zone: fn() -> TimeZone,
}

impl Page {
    /// `zone`: where the reader is; asked only when a moment is shown, because finding out reads files.
    pub fn new(zone: fn() -> TimeZone) -> Page {
        Page { blocks: Vec::new(), zone }
    }

    pub fn line(&mut self) -> &mut Line {
        self.blocks.push(Block::Line(Line::default()));
        match self.blocks.last_mut() {
            Some(Block::Line(line)) => line,
            Some(Block::Table(_)) | None => unreachable!("a line was just pushed"),
        }
    }

    pub fn table(&mut self, table: Table) {
        self.blocks.push(Block::Table(table));
    }

    /// Text of several lines.
    pub fn text(&mut self, style: Style, text: &str) {
        for line in text.lines() {
            self.line().add(style, line);
        }
    }

    /// Text of a file, with its tabs; `before` stands in front of each line.
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

    /// A moment in the reader's own time, from RFC 3339.
    pub fn moment(&self, rfc3339: &str) -> String {
        moment::local(rfc3339, &(self.zone)()).unwrap_or_else(|| rfc3339.to_owned())
    }

    /// As text of at most `width` columns where that is possible; every line ends with a newline.
    pub fn render(&self, width: Option<usize>, paint: Paint) -> String {
        let mut out = String::new();
        for block in &self.blocks {
            match block {
                Block::Line(line) => layout::line(line, paint, &mut out),
                Block::Table(table) => table.render(width, paint, &mut out),
            }
        }
        out
    }
}
