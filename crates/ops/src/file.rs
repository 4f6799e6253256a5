//! What operations on files have in common: words, flags, and how they fail.

use crate::error::{Code, OpError};
use crate::operation::{Context, Principal};
use proctor_core::diff::Outcome;
use proctor_core::edit::{Candidate, Misfit};
use proctor_engine::files::{
    Conflict, Fault, FileError, Files, Kind, LARGEST_PAGE, LeaveOut, MAX_FOLDERS, Pattern, Unfit,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

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

/// Where the caller stands.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Here {
    /// Absolute folder of the caller
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_dir: Option<String>,
    /// Paths begin there if it is in a root; otherwise at the top of the root
    #[arg(skip)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_base: bool,
    /// Folders of the caller's conversation, absolute: each, or its repository, is a root of this request. At the unix socket
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

/// The files that a request may name: with the folders of its conversation, which the owner alone may bring along.
pub(crate) async fn files_of(context: &Context, folders: &[String]) -> Result<Files, OpError> {
    let files = context.engine.files();
    if folders.is_empty() {
        return Ok(files.clone());
    }
    if !matches!(context.caller.principal, Principal::Local { .. }) {
        let error = OpError::new(Code::Forbidden, "'folders' is for the unix socket alone");
        return Err(
            error.help("`roots` in the configuration declares the folders for file operations")
        );
    }
    if folders.len() > MAX_FOLDERS {
        return Err(OpError::bad_input(format!("'folders' holds more than {MAX_FOLDERS}")));
    }
    if let Some(folder) = folders.iter().find(|folder| !Path::new(folder).is_absolute()) {
        return Err(OpError::bad_input(format!("'folders': '{folder}' is not absolute")));
    }
    Ok(files.in_conversation(folders.iter().map(PathBuf::from).collect()).await?)
}

impl Here {
    /// The files as they are seen from there.
    pub(crate) async fn files(&self, context: &Context) -> Result<Files, OpError> {
        let files = files_of(context, &self.folders).await?;
        match self.base_dir.as_deref().map(Path::new).filter(|_| self.from_base) {
            Some(folder) if !folder.is_absolute() => {
                Err(OpError::bad_input("'base_dir' is no absolute path"))
            }
            here => Ok(files.seen_from(here)),
        }
    }
}

/// A page is no smaller than this, whatever is asked for.
const LEAST_PAGE: usize = 1 << 10;

/// What names or matches take in one answer; the rest comes by cursor.
pub(crate) fn page_bytes(asked: Option<usize>) -> usize {
    asked.unwrap_or(LARGEST_PAGE).clamp(LEAST_PAGE, LARGEST_PAGE)
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

/// What to do with a diff that does not fit.
pub(crate) const MAKE_ANEW: &str = "read the files and make the diff anew";

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
                "start the client in the folder of a project; the folder of a proctor.yaml is one, too, once `proctor up` runs it",
            ),
            FileError::WhichRoot { .. } => op(Code::BadInput).help("write NAME:path"),
            FileError::Elsewhere { .. } => op(Code::Forbidden)
                .help("`roots` in the configuration declares the folders for file operations"),
            FileError::RootGone { .. } => op(Code::Failed).help("make the folder, or declare another"),
            FileError::Missing { .. } => op(Code::NotFound).help("`proctor file find` finds names"),
            FileError::Guarded { .. } => op(Code::Forbidden),
            FileError::Moved { .. } => op(Code::Stale).help("begin again without the cursor"),
            FileError::BadPattern { what, .. } => op(Code::BadInput).help(bad_pattern(what)),
            FileError::TooSlow { .. } => op(Code::Failed)
                .help("take what reads far ahead out of it, as `.*` in an alternative, or leave the file out"),
            FileError::BadCursor(_) => {
                op(Code::BadInput).help("pass a cursor exactly as an earlier answer gave it")
            }
            FileError::NoGroup { name } => op(Code::BadInput).help(no_group(&name)),
            FileError::BadInput(_) => op(Code::BadInput),
            FileError::Cancelled => op(Code::Cancelled),
            FileError::Refused { fault, .. } => refused(op, &fault),
            FileError::ReadOnly { .. } => op(Code::Forbidden)
                .help("`write: true` for this root in the configuration allows it"),
            FileError::Occupied { .. } => op(Code::AlreadyExists),
            FileError::TooLarge { .. } => op(Code::TooLarge),
            FileError::TooMuch { .. } => op(Code::TooLarge).help("change fewer of them at once"),
            FileError::Changed { .. } => op(Code::Stale).help("read it again, and try again"),
            FileError::Stale { path, found } => op(Code::Stale)
                .help("read it again, and decide anew")
                .details(json!({ "path": path, "sha256": found })),
            FileError::NotAlike { .. } => op(Code::Failed)
                .help("the file belongs to somebody else; change it as that user"),
            FileError::Misfit { path, misfit } => misfits(op, &path, &misfit),
            FileError::NotThere { path, near } => op(Code::Failed)
                .help("nothing was changed; 'ignore_case' or 'regex' find more")
                .details(json!({ "path": path, "count": 0, "nearest": nearest(&near) })),
            FileError::NoText { .. } => {
                op(Code::Failed).help("read it as bytes, and write it as 'base64'")
            }
            FileError::Counted { path, count, lines } => op(Code::Failed)
                .help("nothing was changed; 'nth' names one place, 'expect' says how many there are")
                .details(json!({ "path": path, "count": count, "lines": lines })),
            FileError::BadDiff(bad) => op(Code::BadInput).details(json!({ "line": bad.line })),
            FileError::Conflicts(conflicts) => op(Code::Failed)
                .help(MAKE_ANEW)
                .details(conflicts.iter().map(conflict).collect()),
            FileError::NotAFolder { .. } => {
                op(Code::BadInput).help("`proctor file read` shows what is in a file")
            }
            FileError::FolderThere { .. } => op(Code::AlreadyExists)
                .help("a slash at the end of 'to' moves it into the folder"),
            FileError::NotEmpty { .. } => op(Code::Failed).help("delete what is in it first"),
            FileError::OtherDisk { .. } => op(Code::Failed).help("write it there, and delete it here"),
            FileError::NoGeneration { .. } => op(Code::NotFound),
            FileError::Lost(_) | FileError::Unkept(_) | FileError::Unrecorded(_) => op(Code::Failed),
        }
    }
}

/// What may have been meant by a group that is not there.
fn no_group(name: &str) -> String {
    let letters = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    match name.split_at(letters) {
        ("", _) => "$$ is a dollar sign, and nothing else".to_owned(),
        (number, rest) => {
            format!("${{{number}}}{rest} is group {number} and then '{rest}'; $$ is a dollar sign")
        }
    }
}

fn bad_pattern(what: Pattern) -> &'static str {
    match what {
        Pattern::Search => {
            "with 'literal' it is taken as a text; in a regular expression put \\ before ( [ * + ? ."
        }
        Pattern::Find => {
            "without 'regex' it is taken as a text; in a regular expression put \\ before ( [ * + ? ."
        }
        Pattern::Glob => "put \\ before [ { * ? to mean the letter itself",
        Pattern::Type => "types are called as in ripgrep: rust, py, js, md, …; 'globs' takes *.rs",
    }
}

fn nearest(near: &[Candidate]) -> Vec<Value> {
    let shown = |near: &Candidate| json!({ "line": near.line, "text": near.text, "only_blanks_differ": near.blanks });
    near.iter().map(shown).collect()
}

fn misfits(op: impl FnOnce(Code) -> OpError, path: &str, misfit: &Misfit) -> OpError {
    let (edit, details) = match misfit {
        Misfit::Empty { edit } | Misfit::Same { edit } | Misfit::TooLarge { edit } => {
            (edit, json!({}))
        }
        Misfit::Ambiguous { edit, count, lines } => {
            (edit, json!({ "count": count, "lines": lines }))
        }
        Misfit::Missing { edit, near } => (edit, json!({ "nearest": nearest(near) })),
    };
    let help = match misfit {
        Misfit::Empty { .. } | Misfit::Same { .. } | Misfit::TooLarge { .. } => {
            "nothing was changed"
        }
        Misfit::Ambiguous { .. } => {
            "nothing was changed; give more of the text around it, or set 'all'"
        }
        Misfit::Missing { .. } => "nothing was changed; 'old' has to be exactly as in the file",
    };
    let mut told = json!({ "path": path, "edit": edit + 1 });
    if let (Some(told), Some(details)) = (told.as_object_mut(), details.as_object()) {
        told.extend(details.clone());
    }
    op(Code::Failed).help(help).details(told)
}

/// One file of a diff that does not fit.
fn conflict(conflict: &Conflict) -> Value {
    let why = match &conflict.why {
        Unfit::Missing => json!("missing"),
        Unfit::Exists => json!("exists"),
        Unfit::Remains => json!("remains"),
        Unfit::Unlike(_) => json!("unlike"),
        Unfit::Hunks(outcomes) => outcomes.iter().map(hunk).collect(),
    };
    json!({ "path": conflict.path, "why": why })
}

fn hunk(outcome: &Outcome) -> Value {
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    match outcome {
        Outcome::Fits(fitted) => json!({ "fits": true, "line": fitted.line }),
        Outcome::Misses(missed) => {
            let near = missed.nearest.as_ref().map(|near| {
                json!({
                    "line": near.line,
                    "same": near.same,
                    "of": near.of,
                    "differs": near.differs,
                    "expected": text(&near.expected),
                    "found": near.found.as_deref().map(text),
                })
            });
            let mut told = json!({ "fits": false, "line": missed.line, "nearest": near });
            if missed.spent {
                // It was not looked for everywhere.
                told["spent"] = json!(true);
            }
            told
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
