//! Find and replace in a content: a text as it is or a regular expression, everywhere or in one place.

use super::super::fault::FileError;
use super::super::patience::Patience;
use proctor_core::content::{Endings, Observer};
use proctor_core::edit::{LARGEST, with_crlf};
use regex::bytes::{Regex, RegexBuilder};

/// A program of an expression beyond this is an attack, not a search.
const LARGEST_PROGRAM: usize = 1 << 20;

/// Lines that are told of places that were not what was expected.
const MOST_TOLD: usize = 20;

/// What to find and what to put there.
#[derive(Debug, Clone, Default)]
pub struct Replacement {
    pub find: String,
    /// With an expression, `$1` or `${name}` is what a group found, and `$$` a dollar sign.
    pub put: String,
    pub regex: bool,
    pub any_case: bool,
    /// Only the place of this number, from 1.
    pub nth: Option<usize>,
    /// So many places there have to be.
    pub expect: Option<usize>,
}

/// The content after it, and how many places were changed.
pub(crate) fn replace(
    content: &[u8],
    wanted: &Replacement,
    path: &str,
    patience: &Patience<'_>,
) -> Result<(Vec<u8>, usize), FileError> {
    let pattern = pattern(wanted)?;
    let crlf = Observer::look(content).endings == Endings::CrLf;
    let put = if crlf { with_crlf(wanted.put.as_bytes()) } else { wanted.put.clone().into_bytes() };
    check(content, wanted, &pattern, path, patience)?;
    let (mut edited, mut at, mut count) = (Vec::with_capacity(content.len()), 0, 0);
    // One after the other: there may be as many as there are bytes.
    for (number, captures) in pattern.captures_iter(content).enumerate() {
        patience.ask().map_err(|over| over.at(path))?;
        let Some(place) = captures.get(0) else { continue };
        if wanted.nth.is_some_and(|nth| nth != number + 1) {
            continue;
        }
        edited.extend_from_slice(&content[at..place.start()]);
        if wanted.regex {
            captures.expand(&put, &mut edited);
        } else {
            edited.extend_from_slice(&put);
        }
        (at, count) = (place.end(), count + 1);
        if edited.len() + content.len() - at > LARGEST {
            return Err(FileError::TooLarge { path: path.to_owned(), most: LARGEST as u64 });
        }
    }
    edited.extend_from_slice(&content[at..]);
    Ok((edited, count))
}

fn pattern(wanted: &Replacement) -> Result<Regex, FileError> {
    if wanted.find.is_empty() {
        return Err(FileError::BadInput("'find' is empty".into()));
    }
    // The ends of lines are the file's, whichever they are.
    let literal = || {
        let lines: Vec<String> =
            wanted.find.replace("\r\n", "\n").split('\n').map(regex::escape).collect();
        lines.join("\r?\n")
    };
    let text = if wanted.regex { wanted.find.clone() } else { literal() };
    RegexBuilder::new(&text)
        .case_insensitive(wanted.any_case)
        .multi_line(true)
        .crlf(true)
        .size_limit(LARGEST_PROGRAM)
        .build()
        .map_err(|error| FileError::BadPattern(error.to_string()))
}

fn check(
    content: &[u8],
    wanted: &Replacement,
    pattern: &Regex,
    path: &str,
    patience: &Patience<'_>,
) -> Result<(), FileError> {
    let count = |found: usize, _| patience.ask().map(|()| found + 1);
    let found = pattern.find_iter(content).try_fold(0, count).map_err(|over| over.at(path))?;
    let expected = wanted.expect.is_none_or(|count| count == found);
    let there = wanted.nth.is_none_or(|nth| (1..=found).contains(&nth));
    if expected && there && (found > 0 || wanted.expect == Some(0)) {
        return Ok(());
    }
    let (mut at, mut line, mut lines) = (0, 1, Vec::new());
    for place in pattern.find_iter(content).take(MOST_TOLD) {
        line += memchr::memchr_iter(b'\n', &content[at..place.start()]).count();
        at = place.start();
        lines.push(line);
    }
    Err(FileError::Counted { path: path.to_owned(), count: found, lines })
}
