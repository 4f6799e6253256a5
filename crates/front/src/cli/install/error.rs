//! Reason why a client's file was not changed: the problem and its position.

/// A problem in a text that prevents a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstallError {
    at: usize,
    what: String,
}

impl InstallError {
    pub(super) fn at(at: usize, what: impl Into<String>) -> InstallError {
        InstallError { at, what: what.into() }
    }

    /// Formats as `line 3, column 7: a comma is missing before this key`.
    pub(super) fn told(&self, text: &str) -> String {
        let before = &text[..text.floor_char_boundary(self.at)];
        let line = before.matches('\n').count() + 1;
        let column =
            before[before.rfind('\n').map_or(0, |newline| newline + 1)..].chars().count() + 1;
        format!("line {line}, column {column}: {}", self.what)
    }
}
