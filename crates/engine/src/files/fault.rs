//! What can go wrong with a file, as a person and as a program need to hear it.

use proctor_sys::beneath::{Fault, Kind};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("no folder is declared for file operations")]
    NoRoot,
    #[error("which root? '{path}' does not say, and there are {}", .names.join(", "))]
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
    #[error("bad pattern: {0}")]
    BadPattern(String),
    #[error("{0}")]
    BadInput(String),
    #[error("bad cursor '{0}'")]
    BadCursor(String),
    #[error("it was cancelled")]
    Cancelled,
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
