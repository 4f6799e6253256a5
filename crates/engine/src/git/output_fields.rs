//! Parsers for git's output: names as bytes, numbers, records that end with a zero byte.

use std::borrow::Cow;

/// Maximum length of a name or a first line in a list: it may have megabytes.
const WORDS: usize = 200;

/// A name in git: bytes, mostly UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Name(pub Vec<u8>);

impl Name {
    /// Invalid UTF-8 is replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    pub fn is_text(&self) -> bool {
        std::str::from_utf8(&self.0).is_ok()
    }
}

impl From<&[u8]> for Name {
    fn from(bytes: &[u8]) -> Name {
        Name(bytes.to_vec())
    }
}

/// Records of an output; a truncated last one is left out.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = bytes.iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
    bytes[..end].split_inclusive(|byte| *byte == 0).map(|record| &record[..record.len() - 1])
}

/// Like [`records`], but returns the truncated first record if there is no whole one.
pub(super) fn records_or_half(bytes: &[u8]) -> Vec<&[u8]> {
    let whole: Vec<&[u8]> = records(bytes).collect();
    if whole.is_empty() && !bytes.is_empty() { vec![bytes] } else { whole }
}

/// Records in groups of `FIELDS`; an incomplete group is left out.
pub(super) fn groups<const FIELDS: usize>(bytes: &[u8]) -> Vec<[&[u8]; FIELDS]> {
    let fields: Vec<&[u8]> = records(bytes).collect();
    let (whole, _) = fields.as_chunks::<FIELDS>();
    whole.to_vec()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The text, shortened for a list.
pub(super) fn brief(bytes: &[u8]) -> String {
    proctor_core::text::beginning(&text(bytes), WORDS).into_owned()
}

/// `None` if it is empty.
pub(super) fn some_text(bytes: &[u8]) -> Option<String> {
    (!bytes.is_empty()).then(|| text(bytes))
}

pub(super) fn number<N: std::str::FromStr>(bytes: &[u8]) -> Option<N> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

/// The name of an object, in either hash format.
pub(super) fn hash(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.trim_ascii_end();
    let plain = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let whole = matches!(bytes.len(), 40 | 64) && bytes.iter().all(plain);
    whole.then(|| text(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_with_a_zero_byte_and_a_half_one_is_none() {
        let check = |bytes: &[u8], expected: &[&[u8]]| {
            assert_eq!(records(bytes).collect::<Vec<_>>(), expected, "{bytes:?}");
        };
        check(b"", &[]);
        check(b"half", &[]);
        check(b"a\0", &[b"a"]);
        check(b"a\0\0b\nc\0half", &[b"a", b"", b"b\nc"]);
        for (bytes, expected) in
            [(&b""[..], &[][..]), (b"half", &[&b"half"[..]]), (b"a\0half", &[b"a"])]
        {
            assert_eq!(records_or_half(bytes), expected, "{bytes:?}");
        }
        assert_eq!(groups::<2>(b"a\0b\0c\0"), [[b"a", b"b"]]);
    }

    #[test]
    fn hashes_are_whole() {
        let sha1 = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(hash(format!("{sha1}\n").as_bytes()).as_deref(), Some(sha1));
        for bad in ["", "HEAD", &sha1[1..], &sha1.to_uppercase(), &format!("^{}", &sha1[1..])] {
            assert_eq!(hash(bad.as_bytes()), None, "{bad}");
        }
    }
}
