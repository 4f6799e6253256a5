//! Detects the kind of a file's content: text with its encoding and line endings, or binary.

use std::borrow::Cow;
use std::fmt;

/// Number of leading bytes searched for a zero byte, as git does. Text has none; binary data has
/// one early.
const LOOKED_AT: usize = 8000;

/// The character encoding of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Utf8,
    /// UTF-8 with a byte order mark, which some programs require.
    Utf8Bom,
    Utf16Le,
    Utf16Be,
    /// An 8-bit text that is not UTF-8; its non-ASCII characters are unknown.
    Unknown,
}

impl Encoding {
    pub const fn as_str(self) -> &'static str {
        match self {
            Encoding::Utf8 => "utf-8",
            Encoding::Utf8Bom => "utf-8-bom",
            Encoding::Utf16Le => "utf-16le",
            Encoding::Utf16Be => "utf-16be",
            Encoding::Unknown => "unknown-8bit",
        }
    }

    /// Detects UTF-16 by its byte order mark.
    pub fn wide(bytes: &[u8]) -> Option<Encoding> {
        let is = |encoding: &Encoding| bytes.starts_with(encoding.mark());
        [Encoding::Utf16Le, Encoding::Utf16Be].into_iter().find(is)
    }

    /// The byte order mark of this encoding.
    pub const fn mark(self) -> &'static [u8] {
        match self {
            Encoding::Utf8 | Encoding::Unknown => b"",
            Encoding::Utf8Bom => b"\xef\xbb\xbf",
            Encoding::Utf16Le => b"\xff\xfe",
            Encoding::Utf16Be => b"\xfe\xff",
        }
    }
}

/// The line endings of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEndings {
    /// There is no line ending.
    None,
    Lf,
    CrLf,
    Cr,
    Mixed,
}

impl LineEndings {
    pub const fn as_str(self) -> &'static str {
        match self {
            LineEndings::None => "none",
            LineEndings::Lf => "lf",
            LineEndings::CrLf => "crlf",
            LineEndings::Cr => "cr",
            LineEndings::Mixed => "mixed",
        }
    }

    fn of(crlf: u64, lf: u64, cr: u64) -> LineEndings {
        match (crlf > 0, lf > 0, cr > 0) {
            (false, false, false) => LineEndings::None,
            (true, false, false) => LineEndings::CrLf,
            (false, true, false) => LineEndings::Lf,
            (false, false, true) => LineEndings::Cr,
            _ => LineEndings::Mixed,
        }
    }
}

impl fmt::Display for LineEndings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Properties of a complete content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentKind {
    /// `None` for binary content.
    pub encoding: Option<Encoding>,
    pub endings: LineEndings,
    /// Whether the last line has a line ending.
    pub final_newline: bool,
    /// Lines that end with a line feed, plus an unterminated last line.
    pub lines: u64,
}

/// Detects the properties of a content that arrives in pieces.
#[derive(Debug, Clone, Default)]
pub struct Observer {
    seen: u64,
    first: Vec<u8>,
    zero: bool,
    /// Leading bytes of a character that continues in the next piece.
    pending: Vec<u8>,
    broken: bool,
    feeds: u64,
    returns: u64,
    both: u64,
    last: u8,
}

impl Observer {
    /// Examines a whole content at once.
    pub fn look(bytes: &[u8]) -> ContentKind {
        let mut observer = Observer::default();
        observer.feed(bytes);
        observer.finish()
    }

    pub fn feed(&mut self, piece: &[u8]) {
        if piece.is_empty() {
            return;
        }
        let left = LOOKED_AT.saturating_sub(usize::try_from(self.seen).unwrap_or(LOOKED_AT));
        self.zero |= piece.iter().take(left).any(|byte| *byte == 0);
        self.first.extend(piece.iter().take(3 - self.first.len().min(3)));
        self.count(piece);
        self.check_letters(piece);
        self.seen += piece.len() as u64;
        self.last = piece[piece.len() - 1];
    }

    fn count(&mut self, piece: &[u8]) {
        let many = |wanted: u8| piece.iter().filter(|byte| **byte == wanted).count() as u64;
        self.feeds += many(b'\n');
        let returns = many(b'\r');
        if returns > 0 || self.last == b'\r' {
            self.returns += returns;
            let split = self.last == b'\r' && piece[0] == b'\n';
            let within = piece.windows(2).filter(|pair| *pair == b"\r\n").count() as u64;
            self.both += within + u64::from(split);
        }
    }

    fn check_letters(&mut self, piece: &[u8]) {
        if self.broken || (self.pending.is_empty() && piece.is_ascii()) {
            return;
        }
        let mut bytes = std::mem::take(&mut self.pending);
        bytes.extend_from_slice(piece);
        match std::str::from_utf8(&bytes) {
            Ok(_) => {}
            Err(error) if error.error_len().is_none() => {
                self.pending = bytes.split_off(error.valid_up_to());
            }
            Err(_) => self.broken = true,
        }
    }

    pub fn finish(&self) -> ContentKind {
        let encoding = match self.first.as_slice() {
            [0xff, 0xfe, ..] => Some(Encoding::Utf16Le),
            [0xfe, 0xff, ..] => Some(Encoding::Utf16Be),
            _ if self.zero => None,
            _ if self.broken || !self.pending.is_empty() => Some(Encoding::Unknown),
            [0xef, 0xbb, 0xbf] => Some(Encoding::Utf8Bom),
            _ => Some(Encoding::Utf8),
        };
        let unfinished = self.seen > 0 && self.last != b'\n';
        ContentKind {
            encoding,
            endings: LineEndings::of(self.both, self.feeds - self.both, self.returns - self.both),
            final_newline: self.seen > 0 && matches!(self.last, b'\n' | b'\r'),
            lines: self.feeds + u64::from(unfinished),
        }
    }
}

/// Decodes UTF-16 without its byte order mark. Invalid units become U+FFFD.
pub fn decode_utf16(bytes: &[u8], encoding: Encoding) -> String {
    let body = bytes.strip_prefix(encoding.mark()).unwrap_or(bytes);
    let unit = |pair: &[u8]| match (encoding, pair) {
        (Encoding::Utf16Be, [high, low]) => u16::from_be_bytes([*high, *low]),
        (_, [low, high]) => u16::from_le_bytes([*low, *high]),
        (_, _) => char::REPLACEMENT_CHARACTER as u16,
    };
    let units = body.chunks(2).map(unit);
    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
}

/// Converts UTF-16 content to UTF-8; returns other content unchanged.
pub fn readable(bytes: &[u8]) -> Cow<'_, [u8]> {
    let decoded = |encoding| Cow::Owned(decode_utf16(bytes, encoding).into_bytes());
    Encoding::wide(bytes).map_or(Cow::Borrowed(bytes), decoded)
}

/// Encodes a text as UTF-16 with its byte order mark.
pub fn encode_utf16(text: &str, encoding: Encoding) -> Vec<u8> {
    let unit = |unit: u16| match encoding {
        Encoding::Utf16Be => unit.to_be_bytes(),
        Encoding::Utf16Le | Encoding::Utf8 | Encoding::Utf8Bom | Encoding::Unknown => {
            unit.to_le_bytes()
        }
    };
    let mark = encoding.mark().iter().copied();
    mark.chain(text.encode_utf16().flat_map(unit)).collect()
}

/// Detects the type of an image from its first bytes.
pub fn picture(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(
        bytes: &[u8],
        encoding: Option<Encoding>,
        endings: LineEndings,
        last: bool,
        lines: u64,
    ) {
        let expected = ContentKind { encoding, endings, final_newline: last, lines };
        assert_eq!(Observer::look(bytes), expected, "{bytes:?}");
    }

    #[test]
    fn contents_are_told_apart() {
        use Encoding::{Unknown, Utf8, Utf8Bom, Utf16Be, Utf16Le};
        check(b"", Some(Utf8), LineEndings::None, false, 0);
        check(b"a", Some(Utf8), LineEndings::None, false, 1);
        check(b"a\n", Some(Utf8), LineEndings::Lf, true, 1);
        check(b"a\nb", Some(Utf8), LineEndings::Lf, false, 2);
        check(b"a\r\nb\r\n", Some(Utf8), LineEndings::CrLf, true, 2);
        check(b"a\r\nb\n", Some(Utf8), LineEndings::Mixed, true, 2);
        check(b"a\rb\r", Some(Utf8), LineEndings::Cr, true, 1);
        check(b"a\r\r\n", Some(Utf8), LineEndings::Mixed, true, 1);
        check("ä\n".as_bytes(), Some(Utf8), LineEndings::Lf, true, 1);
        check(b"\xef\xbb\xbfa\n", Some(Utf8Bom), LineEndings::Lf, true, 1);
        check(b"\xe4\n", Some(Unknown), LineEndings::Lf, true, 1);
        check(b"abc\xc3", Some(Unknown), LineEndings::None, false, 1);
        check(b"\x7fELF\0\0", None, LineEndings::None, false, 1);
        assert_eq!(Observer::look(b"\xff\xfea\0\n\0").encoding, Some(Utf16Le));
        assert_eq!(Observer::look(b"\xfe\xff\0a\0\n").encoding, Some(Utf16Be));
        let late = [vec![b'a'; LOOKED_AT], vec![0]].concat();
        assert_eq!(Observer::look(&late).encoding, Some(Utf8));
    }

    #[test]
    fn two_bytes_a_unit_become_text() {
        assert_eq!(decode_utf16(b"\xff\xfea\0\xac\x20", Encoding::Utf16Le), "a€");
        assert_eq!(decode_utf16(b"\xfe\xff\0a\x20\xac", Encoding::Utf16Be), "a€");
        assert_eq!(decode_utf16(b"\xff\xfea\0b", Encoding::Utf16Le), "a\u{fffd}");
        assert_eq!(decode_utf16(b"\xff\xfe\x00\xd8", Encoding::Utf16Le), "\u{fffd}");
    }

    #[test]
    fn pictures_are_known_by_their_beginning() {
        assert_eq!(picture(b"\x89PNG\r\n\x1a\nrest"), Some("image/png"));
        assert_eq!(picture(b"\xff\xd8\xff\xe0"), Some("image/jpeg"));
        assert_eq!(picture(b"GIF89a"), Some("image/gif"));
        assert_eq!(picture(b"RIFF\x10\0\0\0WEBPVP8 "), Some("image/webp"));
        assert_eq!(picture(b"RIFF\x10\0\0\0WAVE"), None);
        assert_eq!(picture(b""), None);
    }

    proptest! {
        #[test]
        fn a_text_of_two_bytes_a_unit_is_written_as_it_was_read(text in any::<String>()) {
            for encoding in [Encoding::Utf16Le, Encoding::Utf16Be] {
                let bytes = encode_utf16(&text, encoding);
                prop_assert_eq!(Encoding::wide(&bytes), Some(encoding));
                prop_assert_eq!(&decode_utf16(&bytes, encoding), &text);
            }
        }

        #[test]
        fn pieces_tell_the_same_as_the_whole(
            bytes in prop::collection::vec(prop::sample::select(b"a\r\n\xc3\xa4\xef\xbb\xbf\xff\0".to_vec()), 0..40),
            size in 1usize..7,
        ) {
            let mut observer = Observer::default();
            bytes.chunks(size).for_each(|piece| observer.feed(piece));
            prop_assert_eq!(observer.finish(), Observer::look(&bytes));
        }

        #[test]
        fn text_is_utf8_exactly_if_it_is(bytes in prop::collection::vec(1u8.., 3..30)) {
            prop_assume!(!matches!(bytes[..], [0xff, 0xfe, ..] | [0xfe, 0xff, ..]));
            let good = std::str::from_utf8(&bytes).is_ok();
            let found = Observer::look(&bytes).encoding;
            prop_assert_eq!(good, matches!(found, Some(Encoding::Utf8 | Encoding::Utf8Bom)));
        }
    }
}
