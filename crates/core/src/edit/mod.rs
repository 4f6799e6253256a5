//! Exact-text edits of a content: every one is made, or none is and it is said why.
//!
//! Contents are bytes. An edit is made on what the one before it left. Where a file ends its lines with `\r\n` and an edit with
//! `\n`, or the other way round, the file's ends are meant, and kept.

mod nearest;

pub use nearest::Candidate;

use crate::content::{Endings, Observer};
use memchr::memmem;

/// Lines that are told of an ambiguous text: enough to see which one was meant.
const MOST_TOLD: usize = 20;

/// A content that grows beyond this is a mistake, or was meant to take all memory.
pub const LARGEST: usize = 256 << 20;

/// A text, and what stands in its place afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub old: Vec<u8>,
    pub new: Vec<u8>,
    /// Wherever it stands; otherwise it may stand in one place only.
    pub all: bool,
}

/// A content after all edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edited {
    pub content: Vec<u8>,
    /// For each edit, the first lines of the places it was made at, from 1, counted when it was made.
    pub lines: Vec<Vec<usize>>,
}

/// Why an edit cannot be made. Numbers of edits are from 0, those of lines from 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Misfit {
    /// There is nothing to look for.
    Empty {
        edit: usize,
    },
    /// It would change nothing.
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
    /// It is there more than once; the first few lines.
    Ambiguous {
        edit: usize,
        count: usize,
        lines: Vec<usize>,
    },
}

/// Make all of them, one after the other.
pub fn edit(content: &[u8], edits: &[Edit]) -> Result<Edited, Misfit> {
    let endings = Observer::look(content).endings;
    let (mut content, mut lines) = (content.to_vec(), Vec::with_capacity(edits.len()));
    for (number, edit) in edits.iter().enumerate() {
        let (edited, places) = one(&content, edit, endings, number)?;
        content = edited;
        lines.push(places);
    }
    Ok(Edited { content, lines })
}

fn one(
    content: &[u8],
    edit: &Edit,
    endings: Endings,
    number: usize,
) -> Result<(Vec<u8>, Vec<usize>), Misfit> {
    if edit.old == edit.new {
        return Err(Misfit::Same { edit: number });
    }
    if edit.old.is_empty() {
        // Only in an empty content it is clear where that is.
        return match content.is_empty() {
            true => Ok((edit.new.clone(), vec![1])),
            false => Err(Misfit::Empty { edit: number }),
        };
    }
    let (ends, places) = find(content, &edit.old);
    match places.as_slice() {
        [] => {
            let near = nearest::candidates(content, &edit.old);
            Err(Misfit::Missing { edit: number, near })
        }
        [_, _, ..] if !edit.all => {
            let lines = lines_of(content, &places[..places.len().min(MOST_TOLD)]);
            Err(Misfit::Ambiguous { edit: number, count: places.len(), lines })
        }
        places => {
            let old = ends.of(&edit.old);
            let new = if endings == Endings::CrLf { Ends::CrLf } else { ends }.of(&edit.new);
            let size =
                places.len().checked_mul(new.len()).and_then(|it| it.checked_add(content.len()));
            if size.is_none_or(|size| size > LARGEST) {
                return Err(Misfit::TooLarge { edit: number });
            }
            Ok((replaced(content, old.len(), &new, places), lines_of(content, places)))
        }
    }
}

/// How the ends of lines in a text are read.
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

/// With which ends a text stands in the content, and where.
fn find(content: &[u8], text: &[u8]) -> (Ends, Vec<usize>) {
    let others = [Ends::CrLf, Ends::Lf].into_iter().filter(|_| text.contains(&b'\n'));
    let mut found = std::iter::once(Ends::AsGiven)
        .chain(others)
        .map(|ends| (ends, memmem::find_iter(content, &ends.of(text)).collect::<Vec<usize>>()));
    found.find(|(_, places)| !places.is_empty()).unwrap_or((Ends::AsGiven, Vec::new()))
}

/// The same text with `\n` wherever a line ends with `\r\n`.
pub fn with_lf(text: &[u8]) -> Vec<u8> {
    let mut lf = Vec::with_capacity(text.len());
    for (at, byte) in text.iter().enumerate() {
        if *byte != b'\r' || text.get(at + 1) != Some(&b'\n') {
            lf.push(*byte);
        }
    }
    lf
}

/// The same text with `\r\n` wherever a line ends.
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

fn replaced(content: &[u8], length: usize, new: &[u8], places: &[usize]) -> Vec<u8> {
    let mut edited = Vec::with_capacity(content.len() + places.len() * new.len());
    let mut at = 0;
    for place in places {
        edited.extend_from_slice(&content[at..*place]);
        edited.extend_from_slice(new);
        at = place + length;
    }
    edited.extend_from_slice(&content[at..]);
    edited
}

/// The numbers of the lines that these places, in their order, are in.
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
