//! Why a client's file was not touched: what is wrong in it, and where.

/// Something in a text that keeps us from changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    at: usize,
    what: String,
}

impl Fault {
    pub(super) fn at(at: usize, what: impl Into<String>) -> Fault {
        Fault { at, what: what.into() }
    }

    /// `line 3, column 7: a comma is missing before this key`
    pub(super) fn told(&self, text: &str) -> String {
        let before = &text[..text.floor_char_boundary(self.at)];
        let line = before.matches('\n').count() + 1;
        let column =
            before[before.rfind('\n').map_or(0, |newline| newline + 1)..].chars().count() + 1;
        format!("line {line}, column {column}: {}", self.what)
    }
}
