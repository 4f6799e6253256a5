//! DiffLine-by-line differences between two contents: computed, written as a unified diff, parsed, and
//! applied.
//!
//! Contents are bytes, and a line includes its ending. Lines that are not UTF-8, end with `\r\n` or
//! have no ending stay exactly as they are. The caller decides which files are meant and whether
//! they may be changed.

mod apply;
mod compare;
mod index;
mod make;
mod parse;

#[cfg(test)]
mod tests;

pub use apply::{
    Applied, AppliedHunk, ComparisonBudget, HunkOutcome, MatchMode, NearestMatch, RejectedHunk,
    apply, apply_with,
};
pub use compare::{Block, compare};
pub use make::{FileNames, unified, unified_of, write};
pub use parse::{BadDiff, Reading, parse};

/// The role of a line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Context: present before and after.
    Same,
    Gone,
    New,
}

/// A line of a hunk, with its ending if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    pub sign: Sign,
    pub text: Vec<u8>,
}

/// Lines that change together, with context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Number of the first old line, as the diff states it; the line before the hunk if it has no
    /// old lines. `None` if the diff does not state it.
    pub old: Option<usize>,
    /// Number of the first new line, with the same rules.
    pub new: Option<usize>,
    pub lines: Vec<DiffLine>,
}

impl Hunk {
    /// The old lines, including context.
    pub fn before(&self) -> impl Iterator<Item = &[u8]> {
        self.side(Sign::Gone)
    }

    /// The new lines, including context.
    pub fn after(&self) -> impl Iterator<Item = &[u8]> {
        self.side(Sign::New)
    }

    fn side(&self, own: Sign) -> impl Iterator<Item = &[u8]> {
        let there =
            self.lines.iter().filter(move |line| line.sign == Sign::Same || line.sign == own);
        there.map(|line| line.text.as_slice())
    }
}

/// The meaning of two different names in a diff.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Relation {
    /// Two names for one file; the diff states no rename.
    #[default]
    Same,
    Moved,
    Copied,
}

/// The changes of a diff to one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Patch {
    /// Starts a new diff that builds on the ones before it, for example the next mail of a series.
    pub begins: bool,
    /// Old name; `None` if the file is created.
    pub old: Option<Vec<u8>>,
    /// New name; `None` if the file is removed.
    pub new: Option<Vec<u8>>,
    pub relation: Relation,
    /// New permissions, if the diff states them.
    pub mode: Option<u32>,
    pub hunks: Vec<Hunk>,
}

/// Splits a content into lines, each with its ending.
pub(crate) fn lines(content: &[u8]) -> Vec<&[u8]> {
    content.split_inclusive(|byte| *byte == b'\n').collect()
}
