//! Selects the lines and marks of a query.

use super::MAX_LINE;
use super::cursor::Line;
use crate::api::LogQuery;
use crate::error::EngineError;
use proctor_core::log_index::Stream;
use proctor_core::time::Wall;
use regex::bytes::{Regex, RegexBuilder};

/// Maximum length of a pattern: far more than a person writes, little enough to compile at once.
const MAX_PATTERN: usize = 16 * 1024;

/// Maximum size of a compiled pattern, and of its cache while it searches.
const PATTERN_MEMORY: usize = 4 * 1024 * 1024;

#[derive(Clone)]
pub(super) struct Filter {
    pub(super) since: Option<Wall>,
    pub(super) until: Option<Wall>,
    pub(super) grep: Option<Regex>,
    invert: bool,
    /// Lines that do not match are kept as possible context.
    pub(super) context: bool,
    /// Show the marks of runs and of dropped bytes.
    pub(super) marks: bool,
    /// Hold unfinished lines back, because the query continues from a cursor.
    pub(super) following: bool,
    /// Maximum length of a line; the rest is skipped, and no line is shown in pieces.
    pub(super) clip: Option<usize>,
}

/// Whether a piece of a line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceVisibility {
    Yes,
    /// If it is near a match.
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

    /// This filter without context: lines that do not match are skipped.
    pub(super) fn without_context(&self) -> Filter {
        Filter { context: false, ..self.clone() }
    }

    /// This filter without a search: every line matches.
    pub(super) fn without_search(&self) -> Filter {
        Filter { grep: None, invert: false, context: false, ..self.clone() }
    }

    pub(super) fn in_time(&self, wall: Wall) -> bool {
        self.since.is_none_or(|since| wall >= since) && self.until.is_none_or(|until| wall <= until)
    }

    /// Decides whether this piece is shown, and the new state of its line.
    pub(super) fn judge(&self, line: Line, wall: Wall, piece: &[u8]) -> (Line, PieceVisibility) {
        match line {
            Line::Start if self.in_time(wall) => self.begin(piece),
            Line::Start | Line::Skipped => (Line::Skipped, PieceVisibility::No),
            Line::Searched if self.matches(piece) => (Line::Shown, PieceVisibility::Yes),
            Line::Searched => (Line::Searched, PieceVisibility::No),
            Line::Shown => (Line::Shown, PieceVisibility::Yes),
        }
    }

    fn begin(&self, piece: &[u8]) -> (Line, PieceVisibility) {
        if self.matches(piece) {
            return (Line::Shown, PieceVisibility::Yes);
        }
        // With `invert` the rest cannot be shown any more; otherwise it may still match.
        let rest = if self.invert { Line::Skipped } else { Line::Searched };
        (rest, if self.context { PieceVisibility::Perhaps } else { PieceVisibility::No })
    }

    fn matches(&self, piece: &[u8]) -> bool {
        self.grep.as_ref().is_none_or(|pattern| pattern.is_match(piece) != self.invert)
    }
}

/// Checks that a pattern is valid.
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
