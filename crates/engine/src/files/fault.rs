//! What can go wrong with a file, as a person and as a program need to hear it.

use proctor_core::diff::{BadDiff, Missed, Outcome};
use proctor_core::edit::{Candidate, Misfit};
use proctor_sys::beneath::{Fault, Kind};
use std::path::PathBuf;

/// Generations that are named where one is not there: as many as are kept if nobody says otherwise.
const MOST_KEPT: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("no folder is declared for file operations")]
    NoRoot,
    #[error("which root? {}there are {}", unsaid(.path), .names.join(", "))]
    WhichRoot { path: String, names: Vec<String> },
    #[error("'{path}' is below none of the roots {}", .names.join(", "))]
    Elsewhere { path: String, names: Vec<String> },
    #[error("the root '{name}' cannot be opened: {}: {why}", .path.display())]
    RootGone { name: String, path: PathBuf, why: String },
    #[error("'{path}' does not exist")]
    Missing { path: String },
    #[error("'{path}' {fault}")]
    Refused { path: String, fault: Fault },
    #[error("'{path}' is {whose}, which file operations never touch")]
    Guarded { path: String, whose: &'static str },
    #[error("'{path}' has changed since that cursor was given")]
    Moved { path: String },
    #[error("{}: {why}", .what.as_str())]
    BadPattern { what: Pattern, why: String },
    #[error("'replace' names the group '{name}', which 'find' does not have")]
    NoGroup { name: String },
    #[error("the pattern is too slow for '{path}': it reads far ahead at each of very many places")]
    TooSlow { path: String },
    #[error("{0}")]
    BadInput(String),
    #[error("bad cursor '{0}'")]
    BadCursor(String),
    #[error("it was cancelled")]
    Cancelled,
    #[error("'{path}' is in the root '{root}', which is read only")]
    ReadOnly { path: String, root: String },
    #[error("'{path}' exists")]
    Occupied { path: String },
    #[error("'{path}' is larger than {most} bytes")]
    TooLarge { path: String, most: u64 },
    #[error("the files have more than {most} bytes together")]
    TooMuch { most: u64 },
    #[error("'{path}' has changed meanwhile, and was left as it is")]
    Changed { path: String },
    #[error("'{path}' is not what you saw: its sha256 is {}", .found.as_deref().unwrap_or("that of no file"))]
    Stale { path: String, found: Option<String> },
    #[error("'{path}': its owner or permissions cannot be kept: {fault}")]
    NotAlike { path: String, fault: Fault },
    #[error("'{path}': {}", told(.misfit))]
    Misfit { path: String, misfit: Misfit },
    #[error(
        "'{path}' is {encoding} and {what} bytes that are no letters, so it is not changed as a text"
    )]
    NoText { path: String, encoding: &'static str, what: &'static str },
    #[error("'{path}': {count} places were found{}", on_lines(.lines))]
    Counted { path: String, count: usize, lines: Vec<usize> },
    #[error("'{path}': the text is not there{}", nearby(.near))]
    NotThere { path: String, near: Vec<Candidate> },
    #[error("{0}")]
    BadDiff(#[from] BadDiff),
    #[error("{}", conflicts(.0))]
    Conflicts(Vec<Conflict>),
    #[error("'{path}' is no folder")]
    NotAFolder { path: String },
    #[error("'{path}' is a folder; '{inside}' would be in it")]
    FolderThere { path: String, inside: String },
    #[error("the folder '{path}' is not empty")]
    NotEmpty { path: String },
    #[error("'{path}' and '{to}' are on different file systems")]
    OtherDisk { path: String, to: String },
    #[error("'{path}' has no earlier generation{}{}", .number.map(|n| format!(" {n}")).unwrap_or_default(), of_those(.kept))]
    NoGeneration {
        path: String,
        number: Option<u64>,
        /// Those that there are, the newest first.
        kept: Vec<u64>,
    },
    #[error("the earlier generation cannot be read: {0}")]
    Lost(String),
    #[error("what is there cannot be kept, so nothing is changed: {0}")]
    Unkept(String),
    #[error("the change cannot be recorded, so nothing is changed: {0}")]
    Unrecorded(String),
}

/// What a pattern is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// Contents that are searched.
    Search,
    /// Contents that are replaced.
    Find,
    /// Names.
    Glob,
    /// Types of files, by their names.
    Type,
}

impl Pattern {
    fn as_str(self) -> &'static str {
        match self {
            Pattern::Search | Pattern::Find => "bad pattern",
            Pattern::Glob => "bad glob",
            Pattern::Type => "bad type",
        }
    }

    pub(crate) fn bad(self, why: impl ToString) -> FileError {
        FileError::BadPattern { what: self, why: why.to_string() }
    }
}

/// A part of a diff that does not fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflict {
    pub path: String,
    pub why: Unfit,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Unfit {
    /// What became of each hunk.
    Hunks(Vec<Outcome>),
    /// There is no such file.
    Missing,
    /// It is to be made, and is there.
    Exists,
    /// It is to be removed, and holds more than the diff says.
    Remains,
    /// It cannot be moved as what it is, and why.
    Unlike(String),
}

fn told(misfit: &Misfit) -> String {
    match misfit {
        Misfit::Empty { edit } => format!("edit {}: 'old' is empty", edit + 1),
        Misfit::Same { edit } => format!("edit {}: 'old' and 'new' are the same", edit + 1),
        Misfit::TooLarge { edit } => format!("edit {}: the file would be too large", edit + 1),
        Misfit::Ambiguous { edit, count, lines } => {
            format!("edit {}: the text is there {count} times{}", edit + 1, on_lines(lines))
        }
        Misfit::Missing { edit, near } => {
            format!("edit {}: the text was not found{}", edit + 1, nearby(near))
        }
    }
}

/// Of a path that does not say in which root it is.
fn unsaid(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("'{path}' does not say, and ") }
}

fn nearby(near: &[Candidate]) -> String {
    let mut text = String::new();
    for near in near {
        let how = if near.blanks { "with other blanks" } else { "something like it" };
        text += &format!("\nline {}, {how}:\n{}", near.line, near.text.trim_end());
    }
    text
}

fn of_those(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().take(MOST_KEPT).map(u64::to_string).collect();
    if numbers.is_empty() { String::new() } else { format!("; there is {}", numbers.join(", ")) }
}

fn on_lines(lines: &[usize]) -> String {
    let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
    if lines.is_empty() { String::new() } else { format!(", on line {}", lines.join(", ")) }
}

fn conflicts(conflicts: &[Conflict]) -> String {
    let mut text = String::from("the diff does not fit, and nothing is changed");
    for Conflict { path, why } in conflicts {
        match why {
            Unfit::Missing => text += &format!("\n{path}: there is no such file"),
            Unfit::Exists => text += &format!("\n{path}: it is to be made, and is there"),
            Unfit::Unlike(why) => text += &format!("\n{path}: {why}"),
            Unfit::Remains => text += &format!("\n{path}: it is to be removed, and holds more"),
            Unfit::Hunks(outcomes) => {
                for (number, outcome) in outcomes.iter().enumerate() {
                    if let Outcome::Misses(missed) = outcome {
                        text += &format!("\n{path}: hunk {}{}", number + 1, missing(missed));
                    }
                }
            }
        }
    }
    text
}

fn missing(missed: &Missed) -> String {
    let at = missed.line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let shown = |line: &[u8]| String::from_utf8_lossy(line).trim_end().to_owned();
    match &missed.nearest {
        _ if missed.spent => format!(
            "{at}: it is not there, and was not looked for everywhere else: too many hunks of the diff are far from where they say"
        ),
        Some(near) if near.same == near.of => {
            format!("{at}: all its lines are at line {}, where it may not be", near.line)
        }
        None => format!("{at}: nothing like it is there"),
        Some(near) => format!(
            "{at}: {} of {} lines are at line {}; line {} should be '{}' and is {}",
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
    /// For what failed on a path.
    pub(crate) fn at(path: &str) -> impl Fn(Fault) -> FileError {
        move |fault| match fault {
            fault if fault.is_missing() => FileError::Missing { path: path.to_owned() },
            fault => FileError::Refused { path: path.to_owned(), fault },
        }
    }

    /// Is it a folder where a file was asked for?
    pub fn is_folder(&self) -> bool {
        matches!(self, FileError::Refused { fault: Fault::NotAFile(Kind::Folder), .. })
    }
}
