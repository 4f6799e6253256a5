//! An error in a configuration, and the display of untrusted text in it.

use std::fmt;

/// An error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// From 1; 0 if the problem has no place in the text.
    pub line: u32,
    pub column: u32,
    pub message: String,
    /// Advice: "did you mean 'command'?"
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message)?,
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message)?,
        }
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

/// A place in the text: line and column from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextPosition {
    pub line: u32,
    pub column: u32,
}

impl TextPosition {
    pub(super) const START: TextPosition = TextPosition { line: 1, column: 1 };

    pub(super) fn problem(self, file: &str, message: String, help: Option<String>) -> Problem {
        let message = harmless(&message);
        Problem { file: file.into(), line: self.line, column: self.column, message, help }
    }
}

/// Sorts problems: the file itself first, from top to bottom, then its env files. Removes
/// duplicates.
pub(super) fn sort(problems: &mut Vec<Problem>, file: &str) {
    problems.sort_by_cached_key(|it| (it.file != file, it.file.clone(), it.line, it.column));
    problems.dedup();
}

/// Maximum number of problems; a file with more is not a configuration.
pub(super) const MAX_PROBLEMS: usize = 1000;
/// Maximum characters of a wrong value in a message: enough to recognise it.
const SHOWN: usize = 60;
/// Maximum length of a message; names of keys and files can be long too.
const MAX_QUOTED_BYTES: usize = 1000;

/// Quotes and truncates untrusted text for a message.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() == text.len() { format!("'{text}'") } else { format!("'{short}…'") }
}

/// Makes untrusted text safe for a terminal: no escapes, no line breaks, bounded length.
fn harmless(message: &str) -> String {
    let mut shown = String::new();
    for c in message.chars().take(MAX_QUOTED_BYTES) {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}
