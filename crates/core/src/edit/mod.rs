//! Exact-text edits of a content. Either all edits are made, or none, with a reason.
//!
//! Contents are bytes. Each edit works on the result of the one before it. If a file uses `\r\n`
//! and an edit uses `\n`, or the reverse, the edit matches anyway and the file's endings are kept.

mod nearest;

pub use nearest::Candidate;

use crate::content::{LineEndings, Observer};
use memchr::memmem;
use std::borrow::Cow;

/// Maximum number of lines reported for an ambiguous text: enough to see which one was meant.
const MAX_REPORTED: usize = 20;

/// Maximum number of places whose lines are reported, for all edits together. There may be as many
/// places as bytes.
pub const MAX_MATCHES: usize = 100;

/// Maximum size of a result in bytes. A larger one is a mistake or an attempt to exhaust memory.
pub const MAX_EDIT_BYTES: usize = 256 << 20;

/// A text and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    /// Replace every occurrence; otherwise the text must occur exactly once.
    pub all: bool,
}

/// A content after all edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditResult {
    pub content: Vec<u8>,
    pub places: EditPositions,
}

/// The places of the edits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EditPositions {
    pub count: usize,
    /// Line numbers (from 1) of the first places, counted when each edit was made.
    pub lines: Vec<usize>,
}

/// The reason an edit cannot be made. Edits are numbered from 0, lines from 1.
#[derive(Debug, Clone, PartialEq)]
pub enum EditError {
    /// The text to replace is empty.
    Empty {
        edit: usize,
    },
    /// The replacement equals the text.
    Same {
        edit: usize,
    },
    Missing {
        edit: usize,
        near: Vec<Candidate>,
    },
    /// The content would be larger than [`MAX_EDIT_BYTES`].
    TooLarge {
        edit: usize,
    },
    /// The text occurs more than once; lists the first few lines.
    Ambiguous {
        edit: usize,
        count: usize,
        lines: Vec<usize>,
    },
}

/// Makes all edits in order.
pub fn edit(content: &[u8], edits: &[Edit]) -> Result<EditResult, EditError> {
    let endings = Observer::look(content).endings;
    let (mut content, mut places) = (Cow::Borrowed(content), EditPositions::default());
    for (number, edit) in edits.iter().enumerate() {
        content = Cow::Owned(one(&content, edit, endings, number, &mut places)?);
    }
    Ok(EditResult { content: content.into_owned(), places })
}

fn one(
    content: &[u8],
    edit: &Edit,
    endings: LineEndings,
    number: usize,
    places: &mut EditPositions,
) -> Result<Vec<u8>, EditError> {
    if edit.old == edit.new {
        return Err(EditError::Same { edit: number });
    }
    if edit.old.is_empty() {
        // An empty text has a clear position only in an empty content.
        if !content.is_empty() {
            return Err(EditError::Empty { edit: number });
        }
        places.add(1, vec![1]);
        return Ok(edit.new.clone());
    }
    let (ends, old, found) = find(content, &edit.old);
    match found.count {
        0 => {
            let near = nearest::candidates(content, &edit.old);
            Err(EditError::Missing { edit: number, near })
        }
        count if count > 1 && !edit.all => {
            let lines = lines_of(content, &found.first[..found.first.len().min(MAX_REPORTED)]);
            Err(EditError::Ambiguous { edit: number, count, lines })
        }
        count => {
            let new =
                if endings == LineEndings::CrLf { EndingMode::CrLf } else { ends }.of(&edit.new);
            let size = count.checked_mul(new.len()).and_then(|it| it.checked_add(content.len()));
            if size.is_none_or(|size| size > MAX_EDIT_BYTES) {
                return Err(EditError::TooLarge { edit: number });
            }
            places.add(count, lines_of(content, &found.first));
            Ok(replaced(content, &old, &new, &found))
        }
    }
}

impl EditPositions {
    fn add(&mut self, count: usize, lines: Vec<usize>) {
        self.count += count;
        let room = MAX_MATCHES - self.lines.len();
        self.lines.extend(lines.into_iter().take(room));
    }
}

/// The treatment of line endings in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndingMode {
    AsGiven,
    CrLf,
    Lf,
}

impl EndingMode {
    fn of(self, text: &[u8]) -> Vec<u8> {
        match self {
            EndingMode::AsGiven => text.to_vec(),
            EndingMode::CrLf => with_crlf(text),
            EndingMode::Lf => with_lf(text),
        }
    }
}

/// The occurrences of a text: their number, and the first positions.
struct TextMatches {
    count: usize,
    first: Vec<usize>,
}

impl TextMatches {
    fn of(content: &[u8], text: &[u8]) -> TextMatches {
        let mut found = TextMatches { count: 0, first: Vec::new() };
        for place in memmem::find_iter(content, text) {
            found.count += 1;
            if found.first.len() < MAX_MATCHES {
                found.first.push(place);
            }
        }
        found
    }
}

/// Returns the endings with which a text occurs, the text with these endings, and its occurrences.
fn find(content: &[u8], text: &[u8]) -> (EndingMode, Vec<u8>, TextMatches) {
    let others = [EndingMode::CrLf, EndingMode::Lf].into_iter().filter(|_| text.contains(&b'\n'));
    let mut found = std::iter::once(EndingMode::AsGiven).chain(others).map(|ends| {
        let text = ends.of(text);
        let found = TextMatches::of(content, &text);
        (ends, text, found)
    });
    let none = || (EndingMode::AsGiven, text.to_vec(), TextMatches { count: 0, first: Vec::new() });
    found.find(|(_, _, found)| found.count > 0).unwrap_or_else(none)
}

/// Converts `\r\n` line endings to `\n`.
pub fn with_lf(text: &[u8]) -> Vec<u8> {
    let mut lf = Vec::with_capacity(text.len());
    for (at, byte) in text.iter().enumerate() {
        if *byte != b'\r' || text.get(at + 1) != Some(&b'\n') {
            lf.push(*byte);
        }
    }
    lf
}

/// Converts line endings to `\r\n`.
pub fn with_crlf(text: &[u8]) -> Vec<u8> {
    let mut crlf = Vec::with_capacity(text.len() + text.len() / 16);
    let mut before = 0;
    for byte in text {
        if *byte == b'\n' && before != b'\r' {
            crlf.push(b'\r');
        }
        crlf.push(*byte);
        before = *byte;
    }
    crlf
}

fn replaced(content: &[u8], old: &[u8], new: &[u8], found: &TextMatches) -> Vec<u8> {
    let gone = found.count * old.len();
    let mut edited = Vec::with_capacity(content.len() - gone + found.count * new.len());
    let mut at = 0;
    let mut put = |place: usize| {
        edited.extend_from_slice(&content[at..place]);
        edited.extend_from_slice(new);
        at = place + old.len();
    };
    // If there were more than the stored positions, search for the rest again.
    match found.count == found.first.len() {
        true => found.first.iter().copied().for_each(&mut put),
        false => memmem::find_iter(content, old).for_each(&mut put),
    }
    edited.extend_from_slice(&content[at..]);
    edited
}

/// Returns the line numbers of these positions, which are in ascending order.
fn lines_of(content: &[u8], places: &[usize]) -> Vec<usize> {
    let (mut at, mut line, mut lines) = (0, 1, Vec::with_capacity(places.len()));
    for place in places {
        line += memchr::memchr_iter(b'\n', &content[at..*place]).count();
        at = *place;
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests;
