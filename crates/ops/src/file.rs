//! What operations on files have in common: words, flags, and how they fail.

use crate::error::{Code, OpError};
use proctor_engine::files::{Fault, FileError, Kind, LeaveOut};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io;

/// What something with a name is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum KindWord {
    File,
    Folder,
    Link,
    Pipe,
    Socket,
    Device,
    Other,
}

impl From<Kind> for KindWord {
    fn from(kind: Kind) -> KindWord {
        match kind {
            Kind::File => KindWord::File,
            Kind::Folder => KindWord::Folder,
            Kind::Link => KindWord::Link,
            Kind::Pipe => KindWord::Pipe,
            Kind::Socket => KindWord::Socket,
            Kind::Device => KindWord::Device,
            Kind::Other => KindWord::Other,
        }
    }
}

impl From<KindWord> for Kind {
    fn from(word: KindWord) -> Kind {
        match word {
            KindWord::File => Kind::File,
            KindWord::Folder => Kind::Folder,
            KindWord::Link => Kind::Link,
            KindWord::Pipe => Kind::Pipe,
            KindWord::Socket => Kind::Socket,
            KindWord::Device => Kind::Device,
            KindWord::Other => Kind::Other,
        }
    }
}

/// What else is looked at.
#[derive(Debug, Clone, Copy, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Also {
    /// Also what begins with a dot
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Also what .gitignore and .ignore leave out
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_ignore: bool,
}

impl From<Also> for LeaveOut {
    fn from(also: Also) -> LeaveOut {
        LeaveOut { no_ignore: also.no_ignore, hidden: also.hidden }
    }
}

/// Why one of several files is not in the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trouble {
    /// As in an error of the whole
    pub code: String,
    pub message: String,
}

impl From<FileError> for Trouble {
    fn from(error: FileError) -> Trouble {
        let error = OpError::from(error);
        Trouble { code: error.code.as_str().to_owned(), message: error.message }
    }
}

/// One thing by the name of the input's field, or an error that asks for it.
pub(crate) fn wanted<T>(field: &str, value: Option<T>) -> Result<T, OpError> {
    value.ok_or_else(|| OpError::bad_input(format!("'{field}' is missing")))
}

impl From<FileError> for OpError {
    fn from(error: FileError) -> OpError {
        let message = error.to_string();
        let op = |code| OpError::new(code, message);
        match error {
            FileError::NoRoot => op(Code::NotFound).help(
                "the folder of a proctor.yaml is one, once `proctor up` runs it; `roots` in it declares others",
            ),
            FileError::WhichRoot { .. } => op(Code::BadInput).help("write NAME:path"),
            FileError::Elsewhere { .. } => op(Code::Forbidden)
                .help("`roots` in the configuration declares the folders for file operations"),
            FileError::RootGone { .. } => op(Code::Failed).help("make the folder, or declare another"),
            FileError::Missing { .. } => op(Code::NotFound).help("`proctor file find` finds names"),
            FileError::Guarded { .. } => op(Code::Forbidden),
            FileError::Moved { .. } => op(Code::Stale).help("begin again without the cursor"),
            FileError::BadPattern(_) => op(Code::BadInput)
                .help("with 'literal' a pattern is taken as it is; in a regular expression put \\ before ( [ * + ? ."),
            FileError::BadCursor(_) => {
                op(Code::BadInput).help("pass a cursor exactly as an earlier answer gave it")
            }
            FileError::BadInput(_) => op(Code::BadInput),
            FileError::Cancelled => op(Code::Cancelled),
            FileError::Refused { fault, .. } => refused(op, &fault),
        }
    }
}

fn refused(op: impl FnOnce(Code) -> OpError, fault: &Fault) -> OpError {
    match fault {
        Fault::Outside | Fault::OfTheKernel => op(Code::Forbidden),
        Fault::Link => op(Code::Forbidden).help("name the file itself, not a link to it"),
        Fault::Malformed(_) => op(Code::BadInput),
        Fault::NotAFile(Kind::Folder) => {
            op(Code::BadInput).help("`proctor file list` shows what is in a folder")
        }
        Fault::NotAFile(_) => op(Code::BadInput),
        Fault::Moved => op(Code::Conflict).help("try again"),
        Fault::Io(error) if error.kind() == io::ErrorKind::AlreadyExists => op(Code::AlreadyExists),
        Fault::Io(error) if error.kind() == io::ErrorKind::NotADirectory => op(Code::BadInput),
        Fault::Io(_) => op(Code::Failed),
    }
}
