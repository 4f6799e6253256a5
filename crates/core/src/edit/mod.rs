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
    Empty { edit: usize },
    /// It would change nothing.
    Same { edit: usize },
    Missing { edit: usize, near: Vec<Candidate> },
    /// It is there more than once; the first few lines.
    Ambiguous { edit: usize, count: usize, lines: Vec<usize> },
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
    let (old, places) = find(content, &edit.old);
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
            let new = if endings == Endings::CrLf { with_crlf(&edit.new) } else { edit.new.clone() };
            let new = if old.contains(&b'\r') || endings == Endings::CrLf { new } else { as_found(&edit.old, &old, new) };
            Ok((replaced(content, old.len(), &new, places), lines_of(content, places)))
        }
    }
}

/// A text as it stands in the content, and where.
fn find(content: &[u8], text: &[u8]) -> (Vec<u8>, Vec<usize>) {
    let places = |text: &[u8]| -> Vec<usize> { memmem::find_iter(content, text).collect() };
    let found = places(text);
    if !found.is_empty() || !text.contains(&b'\n') {
        return (text.to_vec(), found);
    }
    for other in [with_crlf(text), with_lf(text)] {
        let found = places(&other);
        if !found.is_empty() {
            return (other, found);
        }
    }
    (text.to_vec(), Vec::new())
}

/// A new text for a place whose old text was found with other ends than it was given with.
fn as_found(given: &[u8], found: &[u8], new: Vec<u8>) -> Vec<u8> {
    if given.contains(&b'\r') && !found.contains(&b'\r') { with_lf(&new) } else { new }
}

fn with_lf(text: &[u8]) -> Vec<u8> {
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
