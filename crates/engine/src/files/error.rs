//! Errors about files: texts for people, stable codes for programs.

use proctor_core::diff::{BadDiff, HunkOutcome, RejectedHunk};
use proctor_core::edit::{Candidate, EditError};
use proctor_sys::beneath::{Kind, PathError};
use std::path::PathBuf;

/// Maximum number of generations listed in an error: the default number kept.
const MAX_KEPT_FAULTS: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("no folder is declared for file operations")]
    NoRoot,
    #[error("which root? {}name one of {}", unsaid(.path), .names.join(", "))]
    WhichRoot { path: String, names: Vec<String> },
    #[error("'{path}' is outside the roots {}", .names.join(", "))]
    Elsewhere { path: String, names: Vec<String> },
    #[error("cannot open the root '{name}': {}: {why}", .path.display())]
    RootGone { name: String, path: PathBuf, why: String },
    #[error("'{path}' does not exist")]
    Missing { path: String },
    #[error("'{path}' {fault}")]
    Refused { path: String, fault: PathError },
    #[error("file operations never touch '{path}': it is {whose}")]
    Guarded { path: String, whose: &'static str },
    #[error("'{path}' changed since the cursor was returned")]
    Moved { path: String },
    #[error("{}: {why}", .what.as_str())]
    BadPattern { what: Pattern, why: String },
    #[error("'replace' names the group '{name}', which 'find' does not have")]
    NoGroup { name: String },
    #[error(
        "the pattern is too slow for '{path}': it reads far ahead at each of very many matches"
    )]
    TooSlow { path: String },
    #[error("{0}")]
    BadInput(String),
    #[error("invalid cursor '{0}'")]
    BadCursor(String),
    #[error("the request was cancelled")]
    Cancelled,
    #[error("'{path}' is in the root '{root}', which is read only")]
    ReadOnly { path: String, root: String },
    #[error("'{path}' exists")]
    Occupied { path: String },
    #[error("'{path}' is larger than {most} bytes")]
    TooLarge { path: String, most: u64 },
    #[error("the files have more than {most} bytes in total")]
    TooMuch { most: u64 },
    #[error("'{path}' changed meanwhile and was not modified")]
    Changed { path: String },
    #[error("'{path}' changed since you read it: its sha256 is {}", .found.as_deref().unwrap_or("missing, because the file does not exist"))]
    Stale { path: String, found: Option<String> },
    #[error("cannot keep the owner or permissions of '{path}': {fault}")]
    NotAlike { path: String, fault: PathError },
    #[error("'{path}': {}", told(.misfit))]
    EditMismatch { path: String, misfit: EditError },
    #[error(
        "'{path}' is {encoding} and {what} bytes that are invalid in it, so it cannot be edited as text"
    )]
    NoText { path: String, encoding: &'static str, what: &'static str },
    #[error("'{path}': found {count} matches{}", on_lines(.lines))]
    Counted { path: String, count: usize, lines: Vec<usize> },
    #[error("'{path}': text not found{}", nearby(.near))]
    NotThere { path: String, near: Vec<Candidate> },
    #[error("{0}")]
    BadDiff(#[from] BadDiff),
    #[error("{}", conflicts(.0))]
    Conflicts(Vec<Conflict>),
    #[error("'{path}' is not a folder")]
    NotAFolder { path: String },
    #[error("'{path}' is a folder; use '{inside}' for a path in it")]
    FolderThere { path: String, inside: String },
    #[error("the folder '{path}' is not empty")]
    NotEmpty { path: String },
    #[error("'{path}' and '{to}' are on different file systems")]
    OtherDisk { path: String, to: String },
    #[error("'{path}' has no earlier generation{}{}", .number.map(|n| format!(" {n}")).unwrap_or_default(), of_those(.kept))]
    NoGeneration {
        path: String,
        number: Option<u64>,
        /// The existing generations, newest first.
        kept: Vec<u64>,
    },
    #[error("cannot read the earlier generation: {0}")]
    Lost(String),
    #[error("cannot back up the current content, so nothing was changed: {0}")]
    Unkept(String),
    #[error("cannot record the change, so nothing was changed: {0}")]
    Unrecorded(String),
}

/// The use of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Searches contents.
    Search,
    /// Replaces in contents.
    Find,
    /// Matches names.
    Glob,
    /// Selects types of files, by their names.
    Type,
}

impl Pattern {
    fn as_str(self) -> &'static str {
        match self {
            Pattern::Search | Pattern::Find => "invalid pattern",
            Pattern::Glob => "invalid glob",
            Pattern::Type => "invalid type",
        }
    }

    pub(crate) fn bad(self, why: impl ToString) -> FileError {
        FileError::BadPattern { what: self, why: why.to_string() }
    }
}

/// A part of a diff that does not apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    pub path: String,
    pub why: PatchMismatch,
}

#[derive(Debug, Clone, PartialEq)]
pub enum PatchMismatch {
    /// The outcome of each hunk.
    Hunks(Vec<HunkOutcome>),
    /// The file does not exist.
    Missing,
    /// The diff creates the file, but it exists.
    Exists,
    /// The diff deletes the file, but it contains more than the diff says.
    Remains,
    /// The moved file cannot keep its owner or permissions; the text says why.
    Unlike(String),
}

fn told(misfit: &EditError) -> String {
    match misfit {
        EditError::Empty { edit } => format!("edit {}: 'old' is empty", edit + 1),
        EditError::Same { edit } => format!("edit {}: 'old' and 'new' are the same", edit + 1),
        EditError::TooLarge { edit } => format!("edit {}: the file would be too large", edit + 1),
        EditError::Ambiguous { edit, count, lines } => {
            format!("edit {}: the text occurs {count} times{}", edit + 1, on_lines(lines))
        }
        EditError::Missing { edit, near } => {
            format!("edit {}: text not found{}", edit + 1, nearby(near))
        }
    }
}

/// The start of the error for a path that names no root.
fn unsaid(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("'{path}' names none; ") }
}

fn nearby(near: &[Candidate]) -> String {
    let mut text = String::new();
    for near in near {
        let how = if near.blanks { "with different whitespace" } else { "similar text" };
        text += &format!("\nline {}, {how}:\n{}", near.line, near.text.trim_end());
    }
    text
}

fn of_those(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().take(MAX_KEPT_FAULTS).map(u64::to_string).collect();
    if numbers.is_empty() { String::new() } else { format!("; existing: {}", numbers.join(", ")) }
}

fn on_lines(lines: &[usize]) -> String {
    let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
    if lines.is_empty() { String::new() } else { format!(", on line {}", lines.join(", ")) }
}

fn conflicts(conflicts: &[Conflict]) -> String {
    let mut text = String::from("the diff does not apply; nothing was changed");
    for Conflict { path, why } in conflicts {
        match why {
            PatchMismatch::Missing => text += &format!("\n{path}: the file does not exist"),
            PatchMismatch::Exists => {
                text += &format!("\n{path}: the diff creates it, but it exists")
            }
            PatchMismatch::Unlike(why) => text += &format!("\n{path}: {why}"),
            PatchMismatch::Remains => {
                text += &format!("\n{path}: the diff deletes it, but it contains more")
            }
            PatchMismatch::Hunks(outcomes) => {
                for (number, outcome) in outcomes.iter().enumerate() {
                    if let HunkOutcome::Misses(missed) = outcome {
                        text += &format!("\n{path}: hunk {}{}", number + 1, missing(missed));
                    }
                }
            }
        }
    }
    text
}

fn missing(missed: &RejectedHunk) -> String {
    let at = missed.line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let shown = |line: &[u8]| String::from_utf8_lossy(line).trim_end().to_owned();
    match &missed.nearest {
        _ if missed.spent => format!(
            "{at}: not found near its position and not searched for elsewhere: too many hunks of the diff are far from their positions"
        ),
        Some(near) if near.same == near.of => {
            format!("{at}: all its lines match at line {}, but it must not apply there", near.line)
        }
        None => format!("{at}: no similar text found"),
        Some(near) => format!(
            "{at}: {} of {} lines match at line {}; line {} should be '{}' but is {}",
            near.same,
            near.of,
            near.line,
            near.differs,
            shown(&near.expected),
            near.found.as_deref().map_or("missing".into(), |found| format!("'{}'", shown(found))),
        ),
    }
}

impl FileError {
    /// Converts a fault on this path into an error.
    pub(crate) fn at(path: &str) -> impl Fn(PathError) -> FileError {
        move |fault| match fault {
            fault if fault.is_missing() => FileError::Missing { path: path.to_owned() },
            fault => FileError::Refused { path: path.to_owned(), fault },
        }
    }

    /// Returns true if the path is a folder where a file was expected.
    pub fn is_folder(&self) -> bool {
        matches!(self, FileError::Refused { fault: PathError::NotAFile(Kind::Folder), .. })
    }
}
