//! Which lines and marks a query lets through.

use super::MAX_LINE;
use super::cursor::Line;
use crate::api::LogQuery;
use crate::error::EngineError;
use proctor_core::logindex::Stream;
use proctor_core::time::Wall;
use regex::bytes::{Regex, RegexBuilder};

/// Longest pattern: far more than a person writes, little enough to compile at once.
const MAX_PATTERN: usize = 16 * 1024;

/// Size of a compiled pattern, and of what it remembers while it searches.
const PATTERN_MEMORY: usize = 4 * 1024 * 1024;

#[derive(Clone)]
pub(super) struct Filter {
    pub(super) since: Option<Wall>,
    pub(super) until: Option<Wall>,
    pub(super) grep: Option<Regex>,
    invert: bool,
    /// Lines that do not match come, too, as what may be near one that does.
    pub(super) context: bool,
    /// Show the marks of runs and of dropped bytes.
    pub(super) marks: bool,
    /// Hold unfinished lines back, because the query goes on from a cursor.
    pub(super) following: bool,
    /// No line is shown in pieces: this much of it, and the rest is passed over.
    pub(super) clip: Option<usize>,
}

/// What is shown of a piece of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    /// If it is near one that matches.
    Perhaps,
    No,
}

impl Filter {
    pub(super) fn of(query: &LogQuery) -> Result<Filter, EngineError> {
        let grep = query.grep.as_deref().map(compile).transpose()?;
        let context = grep.is_some() && query.context > 0;
        let whole = context || query.fold;
        Ok(Filter {
            since: query.since,
            until: query.until,
            invert: query.invert && grep.is_some(),
            context,
            marks: grep.is_none() && query.stream != Some(Stream::Stderr),
            grep,
            following: query.cursor.is_some() && !query.eager,
            clip: query.max_line.or(whole.then_some(MAX_LINE)).map(|most| most.min(MAX_LINE)),
        })
    }

    /// The same, and what does not match is passed over.
    pub(super) fn without_context(&self) -> Filter {
        Filter { context: false, ..self.clone() }
    }

    /// The same, and everything matches.
    pub(super) fn without_search(&self) -> Filter {
        Filter { grep: None, invert: false, context: false, ..self.clone() }
    }

    pub(super) fn in_time(&self, wall: Wall) -> bool {
        self.since.is_none_or(|since| wall >= since) && self.until.is_none_or(|until| wall <= until)
    }

    /// Given what became of the line so far: is this piece of it shown, and what becomes of its rest?
    pub(super) fn judge(&self, line: Line, wall: Wall, piece: &[u8]) -> (Line, Shown) {
        match line {
            Line::Start if self.in_time(wall) => self.begin(piece),
            Line::Start | Line::Skipped => (Line::Skipped, Shown::No),
            Line::Searched if self.matches(piece) => (Line::Shown, Shown::Yes),
            Line::Searched => (Line::Searched, Shown::No),
            Line::Shown => (Line::Shown, Shown::Yes),
        }
    }

    fn begin(&self, piece: &[u8]) -> (Line, Shown) {
        if self.matches(piece) {
            return (Line::Shown, Shown::Yes);
        }
        // A line that must not match cannot any more; one that must, still can.
        let rest = if self.invert { Line::Skipped } else { Line::Searched };
        (rest, if self.context { Shown::Perhaps } else { Shown::No })
    }

    fn matches(&self, piece: &[u8]) -> bool {
        self.grep.as_ref().is_none_or(|pattern| pattern.is_match(piece) != self.invert)
    }
}

/// Is it one that can be looked for?
pub(crate) fn check_pattern(pattern: &str) -> Result<(), EngineError> {
    compile(pattern).map(drop)
}

fn compile(pattern: &str) -> Result<Regex, EngineError> {
    if pattern.len() > MAX_PATTERN {
        return Err(EngineError::BadPattern(format!("it is longer than {MAX_PATTERN} bytes")));
    }
    RegexBuilder::new(pattern)
        .size_limit(PATTERN_MEMORY)
        .dfa_size_limit(PATTERN_MEMORY)
        .build()
        .map_err(|error| EngineError::BadPattern(error.to_string()))
}
