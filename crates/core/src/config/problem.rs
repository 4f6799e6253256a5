//! One thing wrong with a configuration, and how foreign text is shown in it.

use std::fmt;

/// One thing wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// From 1; 0 when the problem has no place in the text.
    pub line: u32,
    pub column: u32,
    pub message: String,
    /// What to do: "did you mean 'command'?"
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
pub(super) struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    pub(super) const START: Place = Place { line: 1, column: 1 };

    pub(super) fn problem(self, file: &str, message: String, help: Option<String>) -> Problem {
        let message = harmless(&message);
        Problem { file: file.into(), line: self.line, column: self.column, message, help }
    }
}

/// The file itself first, from top to bottom, then the env files it names; the same thing once.
pub(super) fn sort(problems: &mut Vec<Problem>, file: &str) {
    problems.sort_by_cached_key(|it| (it.file != file, it.file.clone(), it.line, it.column));
    problems.dedup();
}

/// A file with more mistakes than this is not a configuration; nobody reads further.
pub(super) const MAX_PROBLEMS: usize = 1000;
/// More of a wrong value than this helps nobody to recognise it.
const SHOWN: usize = 60;
/// Names of keys and files can be long, too.
const LONGEST: usize = 1000;

/// Foreign text as a message shows it: in quotes and short.
pub(super) fn quoted(text: &str) -> String {
    let short: String = text.chars().take(SHOWN).collect();
    if short.len() == text.len() { format!("'{text}'") } else { format!("'{short}…'") }
}

/// Foreign text comes to a terminal: no escapes, no line ends, no end in sight.
fn harmless(message: &str) -> String {
    let mut shown = String::new();
    for c in message.chars().take(LONGEST) {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}
