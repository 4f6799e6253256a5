//! Which lines and marks a query lets through.

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

pub(super) struct Filter {
    pub(super) since: Option<Wall>,
    pub(super) until: Option<Wall>,
    pub(super) grep: Option<Regex>,
    /// Show the marks of runs and of dropped bytes.
    pub(super) marks: bool,
    /// The query goes on from a cursor: hold unfinished lines back.
    pub(super) following: bool,
}

impl Filter {
    pub(super) fn of(query: &LogQuery) -> Result<Filter, EngineError> {
        let grep = query.grep.as_deref().map(compile).transpose()?;
        Ok(Filter {
            since: query.since,
            until: query.until,
            marks: grep.is_none() && query.stream != Some(Stream::Stderr),
            grep,
            following: query.cursor.is_some(),
        })
    }

    pub(super) fn in_time(&self, wall: Wall) -> bool {
        self.since.is_none_or(|since| wall >= since) && self.until.is_none_or(|until| wall <= until)
    }

    /// Given what became of the line so far: is this piece of it shown, and what becomes of its rest?
    pub(super) fn judge(&self, line: Line, wall: Wall, piece: &[u8]) -> Line {
        let searched = || match &self.grep {
            Some(pattern) if !pattern.is_match(piece) => Line::Searched,
            Some(_) | None => Line::Shown,
        };
        match line {
            Line::Start if self.in_time(wall) => searched(),
            Line::Start | Line::Skipped => Line::Skipped,
            Line::Searched => searched(),
            Line::Shown => Line::Shown,
        }
    }
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
