//! Texts from outside: told in a bounded length, and what in them is not only text.

use std::borrow::Cow;

/// A text, or as many characters of its beginning.
pub fn beginning(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

/// Controls, and the invisible characters that change the direction or the lines of what follows.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_between_characters() {
        for (text, expected) in [("", ""), ("äöü", "äöü"), ("äöüß", "äöü…")] {
            assert_eq!(beginning(text, 3), expected);
        }
    }
}
