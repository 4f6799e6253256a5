//! Texts of any length, told in a bounded one.

use std::borrow::Cow;

/// A text, or as many characters of its beginning.
pub fn beginning(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
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
