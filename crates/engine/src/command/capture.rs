//! Captures the beginning and the end of a stream of any length.

use std::collections::VecDeque;

/// Bytes kept of the beginning, and as many of the end: enough for the output of a build, and small for many
/// commands at once.
const HALF: usize = 64 << 10;

/// The captured output of one stream.
#[derive(Debug)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
    /// Maximum size of the beginning and of the end.
    most: (usize, usize),
}

impl Default for Capture {
    fn default() -> Capture {
        Capture::new(HALF, HALF)
    }
}

impl Capture {
    fn new(head: usize, tail: usize) -> Capture {
        Capture { head: Vec::new(), tail: VecDeque::new(), dropped: 0, most: (head, tail) }
    }

    /// Captures only the beginning.
    pub(super) fn beginning(most: usize) -> Capture {
        Capture::new(most, 0)
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let (head, tail) = self.most;
        let (first, rest) = bytes.split_at(bytes.len().min(head - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(rest);
        let surplus = self.tail.len().saturating_sub(tail);
        self.tail.drain(..surplus);
        self.dropped += surplus as u64;
    }

    /// Returns true if bytes were dropped and no later ones would be kept.
    pub(super) fn is_over(&self) -> bool {
        self.most.1 == 0 && self.dropped > 0
    }

    /// The raw bytes; the flag says that there was more.
    pub(super) fn bytes(self) -> (Vec<u8>, bool) {
        let mut bytes = self.head;
        bytes.extend(self.tail);
        (bytes, self.dropped > 0)
    }

    /// As text: invalid UTF-8 is replaced, and a note marks the missing bytes.
    pub(super) fn text(self) -> (String, bool) {
        let mut bytes = self.head;
        if self.dropped > 0 {
            bytes
                .extend_from_slice(format!("\n[… {} bytes left out …]\n", self.dropped).as_bytes());
        }
        bytes.extend(self.tail);
        (String::from_utf8_lossy(&bytes).into_owned(), self.dropped > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], expected: &str, truncated: bool) {
        let mut capture = Capture::default();
        pieces.iter().for_each(|piece| capture.push(piece));
        assert_eq!(capture.text(), (expected.to_owned(), truncated));
    }

    #[test]
    fn beginning_and_end_are_kept_and_the_gap_is_said() {
        check(&[], "", false);
        check(&[b"a", b"b\n"], "ab\n", false);
        check(&[b"\xffx"], "\u{fffd}x", false);
        let (a, b) = ("a".repeat(HALF), "b".repeat(HALF));
        check(&[a.as_bytes(), b.as_bytes()], &format!("{a}{b}"), false);
        let middle = format!("{a}\n[… 5 bytes left out …]\n{b}");
        check(&[a.as_bytes(), b"12345", b.as_bytes()], &middle, true);
        check(&[format!("{a}12345{b}").as_bytes()], &middle, true);
    }

    #[test]
    fn of_a_beginning_nothing_else_is_kept() {
        let mut capture = Capture::beginning(3);
        capture.push(b"ab");
        assert!(!capture.is_over());
        capture.push(b"c");
        assert!(!capture.is_over(), "it may end here");
        capture.push(b"d");
        assert!(capture.is_over());
        assert_eq!(capture.bytes(), (b"abc".to_vec(), true));
    }
}
