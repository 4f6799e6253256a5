//! Exact-text edits of a content. Either all edits are made, or none, with a reason.
//!
//! Contents are bytes. Each edit works on the result of the one before it. If a file uses `\r\n`
//! and an edit uses `\n`, or the reverse, the edit matches anyway and the file's endings are kept.

mod nearest;

pub use nearest::Candidate;

use crate::content::{Endings, Observer};
use memchr::memmem;
use std::borrow::Cow;

/// Maximum number of lines reported for an ambiguous text: enough to see which one was meant.
const MOST_TOLD: usize = 20;

/// Maximum number of places whose lines are reported, for all edits together. There may be as many
/// places as bytes.
pub const MOST_PLACES: usize = 100;

/// Maximum size of a result in bytes. A larger one is a mistake or an attempt to exhaust memory.
pub const LARGEST: usize = 256 << 20;

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
pub struct Edited {
    pub content: Vec<u8>,
    pub places: Places,
}

/// The places of the edits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    pub count: usize,
    /// Line numbers (from 1) of the first places, counted when each edit was made.
    pub lines: Vec<usize>,
}

/// The reason an edit cannot be made. Edits are numbered from 0, lines from 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Misfit {
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
    /// The content would be larger than [`LARGEST`].
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
pub fn edit(content: &[u8], edits: &[Edit]) -> Result<Edited, Misfit> {
    let endings = Observer::look(content).endings;
    let (mut content, mut places) = (Cow::Borrowed(content), Places::default());
    for (number, edit) in edits.iter().enumerate() {
        content = Cow::Owned(one(&content, edit, endings, number, &mut places)?);
    }
    Ok(Edited { content: content.into_owned(), places })
}

fn one(
    content: &[u8],
    edit: &Edit,
    endings: Endings,
    number: usize,
    places: &mut Places,
) -> Result<Vec<u8>, Misfit> {
    if edit.old == edit.new {
        return Err(Misfit::Same { edit: number });
    }
    if edit.old.is_empty() {
        // An empty text has a clear position only in an empty content.
        if !content.is_empty() {
            return Err(Misfit::Empty { edit: number });
        }
        places.add(1, vec![1]);
        return Ok(edit.new.clone());
    }
    let (ends, old, found) = find(content, &edit.old);
    match found.count {
        0 => {
            let near = nearest::candidates(content, &edit.old);
            Err(Misfit::Missing { edit: number, near })
        }
        count if count > 1 && !edit.all => {
            let lines = lines_of(content, &found.first[..found.first.len().min(MOST_TOLD)]);
            Err(Misfit::Ambiguous { edit: number, count, lines })
        }
        count => {
            let new = if endings == Endings::CrLf { Ends::CrLf } else { ends }.of(&edit.new);
            let size = count.checked_mul(new.len()).and_then(|it| it.checked_add(content.len()));
            if size.is_none_or(|size| size > LARGEST) {
                return Err(Misfit::TooLarge { edit: number });
            }
            places.add(count, lines_of(content, &found.first));
            Ok(replaced(content, &old, &new, &found))
        }
    }
}

impl Places {
    fn add(&mut self, count: usize, lines: Vec<usize>) {
        self.count += count;
        let room = MOST_PLACES - self.lines.len();
        self.lines.extend(lines.into_iter().take(room));
    }
}

/// The treatment of line endings in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    AsGiven,
    CrLf,
    Lf,
}

impl Ends {
    fn of(self, text: &[u8]) -> Vec<u8> {
        match self {
            Ends::AsGiven => text.to_vec(),
            Ends::CrLf => with_crlf(text),
            Ends::Lf => with_lf(text),
        }
    }
}

/// The occurrences of a text: their number, and the first positions.
struct Found {
    count: usize,
    first: Vec<usize>,
}

impl Found {
    fn of(content: &[u8], text: &[u8]) -> Found {
        let mut found = Found { count: 0, first: Vec::new() };
        for place in memmem::find_iter(content, text) {
            found.count += 1;
            if found.first.len() < MOST_PLACES {
                found.first.push(place);
            }
        }
        found
    }
}

/// Returns the endings with which a text occurs, the text with these endings, and its occurrences.
fn find(content: &[u8], text: &[u8]) -> (Ends, Vec<u8>, Found) {
    let others = [Ends::CrLf, Ends::Lf].into_iter().filter(|_| text.contains(&b'\n'));
    let mut found = std::iter::once(Ends::AsGiven).chain(others).map(|ends| {
        let text = ends.of(text);
        let found = Found::of(content, &text);
        (ends, text, found)
    });
    let none = || (Ends::AsGiven, text.to_vec(), Found { count: 0, first: Vec::new() });
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

fn replaced(content: &[u8], old: &[u8], new: &[u8], found: &Found) -> Vec<u8> {
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
