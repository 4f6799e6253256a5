//! Differences between two contents, line by line: made, written as a unified diff, read from one, and applied.
//!
//! Contents are bytes, and a line has its end: what is not UTF-8, ends with `\r\n` or does not end at all stays exactly as it is.
//! Which files are meant, and whether they may be changed, is decided elsewhere.

mod apply;
mod compare;
mod index;
mod make;
mod parse;

#[cfg(test)]
mod tests;

pub use apply::{Applied, Effort, Fitted, How, Missed, Near, Outcome, apply, apply_with};
pub use compare::{Block, compare};
pub use make::{Names, unified, unified_of, write};
pub use parse::{BadDiff, Reading, parse};

/// What a line of a hunk is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It is there before and after.
    Same,
    Gone,
    New,
}

/// A line of a hunk, with its end if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub sign: Sign,
    pub text: Vec<u8>,
}

/// Lines that change together, with some around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The number of its first line before, as a diff says it: the line it comes after, if it has no lines before. `None`
    /// where the diff does not say.
    pub old: Option<usize>,
    /// And after.
    pub new: Option<usize>,
    pub lines: Vec<Line>,
}

impl Hunk {
    /// The lines that are there before.
    pub fn before(&self) -> impl Iterator<Item = &[u8]> {
        self.side(Sign::Gone)
    }

    /// The lines that are there after.
    pub fn after(&self) -> impl Iterator<Item = &[u8]> {
        self.side(Sign::New)
    }

    fn side(&self, own: Sign) -> impl Iterator<Item = &[u8]> {
        let there =
            self.lines.iter().filter(move |line| line.sign == Sign::Same || line.sign == own);
        there.map(|line| line.text.as_slice())
    }
}

/// What two names in a diff mean, if they differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Relation {
    /// Two names of one file, of which one is meant: that it is moved was not said.
    #[default]
    Same,
    Moved,
    Copied,
}

/// What a diff says of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// It is the first of another diff, which is about what those before it leave: one of several mails, say.
    pub begins: bool,
    /// What it is called before; `None`: it is made.
    pub old: Option<Vec<u8>>,
    /// What it is called after; `None`: it is removed.
    pub new: Option<Vec<u8>>,
    pub relation: Relation,
    /// Permissions after, if the diff says so.
    pub mode: Option<u32>,
    pub hunks: Vec<Hunk>,
}

/// The lines of a content, each with its end.
pub(crate) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}
