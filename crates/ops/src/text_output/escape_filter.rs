//! Makes foreign text harmless for a terminal: it cannot move the cursor, ring, rename the window or reorder text. Escapes stay
//! visible as `\x1b`.
//!
//! Only views do this. Stored logs and JSON responses keep the original text.

use proctor_core::text::acts;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Replaces every control character with its visible escape.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| matches!(byte, b' '..=b'~');
    if text.bytes().all(plain) || !text.chars().any(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        push_harmless(c, &mut out);
    }
    Cow::Owned(out)
}

/// Does this for a line of a file, and keeps its tabs.
pub fn harmless_but_tabs(text: &str) -> Cow<'_, str> {
    if !text.contains('\t') {
        return harmless(text);
    }
    Cow::Owned(text.split('\t').map(harmless).collect::<Vec<_>>().join("\t"))
}

/// Whether the colours of a log line are kept. Other escapes never are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colours {
    Keep,
    Strip,
}

/// Makes a line of a service harmless: tabs stay, a final carriage return is removed, colours are kept (and reset at the end of
/// the line) or removed, everything else becomes visible.
pub fn harmless_line(text: &str, colours: Colours) -> Cow<'_, str> {
    let text = text.strip_suffix('\r').unwrap_or(text);
    let plain = |byte: u8| matches!(byte, b' '..=b'~' | b'\t');
    if text.bytes().all(plain) || !text.chars().any(|c| c != '\t' && acts(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut coloured = false;
    while let Some(c) = rest.chars().next() {
        if let Some(length) = colour_length(rest) {
            if colours == Colours::Keep {
                out.push_str(&rest[..length]);
                coloured = true;
            }
            rest = &rest[length..];
            continue;
        }
        match c {
            '\t' => out.push('\t'),
            c => push_harmless(c, &mut out),
        }
        rest = &rest[c.len_utf8()..];
    }
    if coloured {
        out.push_str("\x1b[0m");
    }
    Cow::Owned(out)
}

fn push_harmless(c: char, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = match c {
        '\n' => write!(out, "\\n"),
        '\r' => write!(out, "\\r"),
        '\t' => write!(out, "\\t"),
        c if !acts(c) => write!(out, "{c}"),
        c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
        c => write!(out, "\\u{{{:x}}}", u32::from(c)),
    };
}

/// Length of a colour sequence (`ESC [ digits ; … m`) at the start of `text`.
fn colour_length(text: &str) -> Option<usize> {
    /// Maximum length of a sequence: 24-bit colour fits three times.
    const MAX_ESCAPE_BYTES: usize = 64;
    let body = text.strip_prefix("\x1b[")?;
    let digits = body
        .bytes()
        .take(MAX_ESCAPE_BYTES)
        .take_while(|b| b.is_ascii_digit() || matches!(b, b';' | b':'));
    let length = digits.count();
    (body.as_bytes().get(length) == Some(&b'm')).then_some(2 + length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_terminal_would_obey_becomes_visible() {
        for (given, expected) in [
            ("plain ünïcode", "plain ünïcode"),
            ("\x1b[2Jgone", "\\x1b[2Jgone"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("abc\u{202e}fdp.exe", "abc\\u{202e}fdp.exe"),
            ("\0\x7f", "\\x00\\x7f"),
        ] {
            assert_eq!(harmless(given), expected);
        }
    }

    #[test]
    fn a_line_of_a_file_keeps_its_tabs() {
        for (given, expected) in
            [("a b", "a b"), ("\tx\t\t\x1b[2J", "\tx\t\t\\x1b[2J"), ("a\r", "a\\r")]
        {
            assert_eq!(harmless_but_tabs(given), expected);
        }
    }

    #[test]
    fn a_log_line_keeps_its_colours_and_nothing_else() {
        for (given, kept, stripped) in [
            ("plain", "plain", "plain"),
            ("\x1b[32mok\x1b[0m", "\x1b[32mok\x1b[0m\x1b[0m", "ok"),
            ("a\tb\r", "a\tb", "a\tb"),
            ("10%\r20%", "10%\\r20%", "10%\\r20%"),
            ("\x1b[1;38;5;7mx", "\x1b[1;38;5;7mx\x1b[0m", "x"),
            ("\x1b[2Jx\x1b[", "\\x1b[2Jx\\x1b[", "\\x1b[2Jx\\x1b["),
            ("\x1b[31", "\\x1b[31", "\\x1b[31"),
        ] {
            assert_eq!(harmless_line(given, Colours::Keep), kept);
            assert_eq!(harmless_line(given, Colours::Strip), stripped);
        }
    }
}
