//! A piece of a line: whether it is shown, how much of it, and its cost in JSON.

use super::Scan;
use super::cursor::Line;
use super::filter::{Filter, PieceVisibility};
use super::segment::WriteStamp;
use super::stream_reader::{NextItem, ScanStep, StreamReader};
use crate::api::{LogLine, LogWhat};
use crate::error::EngineError;

/// The end of a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceEnd {
    /// With its line.
    Here,
    /// At the maximum length of a piece; the line continues.
    Full,
    /// At the current end of the log.
    Open,
}

/// Decides how much of a piece is shown, and the new state of its line.
pub(super) fn judge(
    filter: &Filter,
    line: Line,
    stamp: WriteStamp,
    piece: &[u8],
    end: PieceEnd,
) -> (Line, Option<LogWhat>) {
    let (rest, shown) = filter.judge(line, stamp.wall, piece);
    let rest = if end == PieceEnd::Here { Line::Start } else { rest };
    let context = match shown {
        PieceVisibility::No => return (rest, None),
        PieceVisibility::Yes => false,
        PieceVisibility::Perhaps => true,
    };
    let fits = filter.clip.map_or(piece.len(), |most| fitting(piece, most));
    if fits == piece.len() && (end != PieceEnd::Full || filter.clip.is_none()) {
        let line = LogLine {
            bytes: piece.to_vec(),
            cut: end != PieceEnd::Here,
            context,
            ..LogLine::default()
        };
        return (rest, Some(LogWhat::Line(line)));
    }
    let left_out = (piece.len() - fits) as u64;
    let line = LogLine { bytes: piece[..fits].to_vec(), left_out, context, ..LogLine::default() };
    // A match was shown; otherwise the rest may still match.
    let rest = if rest == Line::Shown { Line::Skipped } else { rest };
    (rest, Some(LogWhat::Line(line)))
}

/// Cost of an invalid byte, shown as `U+FFFD`.
const REPLACEMENT: usize = 3;

/// Maximum cost of a byte: `\u001b`.
const DEAREST: usize = 6;

/// Size of this text in JSON.
pub(super) fn cost(text: &[u8]) -> usize {
    if text.is_ascii() {
        return plain(text);
    }
    let chunks = text.utf8_chunks();
    chunks.map(|chunk| plain(chunk.valid().as_bytes()) + replaced(chunk.invalid())).sum()
}

/// Length of the longest prefix of whole characters that costs at most `most`.
pub(super) fn fitting(text: &[u8], most: usize) -> usize {
    if text.len() <= most / DEAREST {
        return text.len();
    }
    let (mut spent, mut taken) = (0, 0);
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let length = character.len_utf8();
            spent += plain(&text[taken..taken + length]);
            if spent > most {
                return taken;
            }
            taken += length;
        }
        spent += replaced(chunk.invalid());
        if spent > most {
            return taken;
        }
        taken += chunk.invalid().len();
    }
    taken
}

fn plain(text: &[u8]) -> usize {
    let one = |byte: &u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        ..0x20 => DEAREST,
        _ => 1,
    };
    text.iter().map(one).sum()
}

fn replaced(invalid: &[u8]) -> usize {
    if invalid.is_empty() { 0 } else { REPLACEMENT }
}

impl StreamReader {
    /// Handles a line that is shown only in part, and skips its rest.
    pub(super) fn without_rest(
        &mut self,
        found: ScanStep,
        filter: &Filter,
        scan: &mut Scan,
    ) -> Result<ScanStep, EngineError> {
        Ok(match found {
            ScanStep::Item(NextItem { stamp, what: LogWhat::Line(mut line), after })
                if after.line == Line::Skipped =>
            {
                line.left_out += self.pass_rest(filter, scan)?;
                ScanStep::Item(NextItem { stamp, what: LogWhat::Line(line), after: self.at() })
            }
            found @ (ScanStep::Item(_) | ScanStep::Passed | ScanStep::End) => found,
        })
    }

    /// Skips the available rest of a shortened line; returns the number of bytes.
    fn pass_rest(&mut self, filter: &Filter, scan: &mut Scan) -> Result<u64, EngineError> {
        let before = self.passed;
        while self.at().line == Line::Skipped && !scan.spent() {
            match self.advance(filter, scan)? {
                ScanStep::Passed | ScanStep::Item(_) => {}
                ScanStep::End => break,
            }
        }
        Ok(self.passed - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_cost_is_what_json_takes(text in prop::collection::vec(any::<u8>(), 0..60), most in 0..80usize) {
            let json = |text: &[u8]| {
                let text = String::from_utf8_lossy(text).into_owned();
                serde_json::to_string(&text).unwrap().len() - 2
            };
            prop_assert_eq!(cost(&text), json(&text));
            let taken = fitting(&text, most);
            prop_assert!(json(&text[..taken]) <= most);
            let longer = |more: usize| &text[..(taken + more).min(text.len())];
            let most_of_it = taken == text.len() || (1..=4).any(|more| cost(longer(more)) > most);
            prop_assert!(most_of_it, "more would have fitted");
        }
    }

    #[test]
    fn a_character_is_not_torn() {
        for (text, most, expected) in
            [("äöü", 3, "ä"), ("äöü", 4, "äö"), ("a\"b", 2, "a"), ("a\u{1}", 6, "a"), ("", 0, "")]
        {
            assert_eq!(&text[..fitting(text.as_bytes(), most)], expected);
        }
    }
}
