//! Types, flags and errors shared by the operations on files.

use crate::error::{Code, OpError};
use crate::operation::{Context, Principal};
use proctor_core::diff::HunkOutcome;
use proctor_core::edit::{Candidate, EditError};
use proctor_engine::files::{
    Conflict, FileError, Files, Kind, MAX_FOLDERS, MAX_PAGE_BYTES, PatchMismatch, PathError,
    Pattern, SkipRules,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};

/// Kind of a folder entry.
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

/// Entries that are included on request.
#[derive(Debug, Clone, Copy, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct IncludeFlags {
    /// Include names that start with a dot
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Include files that .gitignore and .ignore exclude
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_ignore: bool,
}

impl From<IncludeFlags> for SkipRules {
    fn from(also: IncludeFlags) -> SkipRules {
        SkipRules { no_ignore: also.no_ignore, hidden: also.hidden }
    }
}

/// Folder of the caller.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CurrentFolder {
    /// Absolute folder of the caller
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_dir: Option<String>,
    /// Paths are relative to that folder if it is in a root; otherwise to the root
    #[arg(skip)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_base: bool,
    /// Absolute folders of the caller's conversation; each, or its repository, is a root of this request. Unix socket only
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

/// Returns the files a request may name, with the folders of its conversation, which only the owner may pass.
pub(crate) async fn files_of(context: &Context, folders: &[String]) -> Result<Files, OpError> {
    let files = context.engine.files();
    if folders.is_empty() {
        return Ok(files.clone());
    }
    if !matches!(context.caller.principal, Principal::Local { .. }) {
        let error = OpError::new(Code::Forbidden, "'folders' can be used at the unix socket only");
        return Err(
            error.help("declare the folders for file operations in `roots` of the configuration")
        );
    }
    if folders.len() > MAX_FOLDERS {
        return Err(OpError::bad_input(format!(
            "'folders' has too many entries: the maximum is {MAX_FOLDERS}"
        )));
    }
    if let Some(folder) = folders.iter().find(|folder| !Path::new(folder).is_absolute()) {
        return Err(OpError::bad_input(format!("'folders': '{folder}' is not an absolute path")));
    }
    Ok(files.in_conversation(folders.iter().map(PathBuf::from).collect()).await?)
}

impl CurrentFolder {
    /// Returns the files as seen from the caller's folder.
    pub(crate) async fn files(&self, context: &Context) -> Result<Files, OpError> {
        let files = files_of(context, &self.folders).await?;
        match self.base_dir.as_deref().map(Path::new).filter(|_| self.from_base) {
            Some(folder) if !folder.is_absolute() => {
                Err(OpError::bad_input("'base_dir' is not an absolute path"))
            }
            here => Ok(files.seen_from(here)),
        }
    }
}

/// Minimum size of a page.
const MIN_PAGE_BYTES: usize = 1 << 10;

/// Returns the maximum bytes of names or matches in one response.
pub(crate) fn page_bytes(asked: Option<usize>) -> usize {
    asked.unwrap_or(MAX_PAGE_BYTES).clamp(MIN_PAGE_BYTES, MAX_PAGE_BYTES)
}

/// Error of one file among several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileProblem {
    /// Error code, as in an error of the whole request
    pub code: String,
    pub message: String,
}

impl From<FileError> for FileProblem {
    fn from(error: FileError) -> FileProblem {
        let error = OpError::from(error);
        FileProblem { code: error.code.as_str().to_owned(), message: error.message }
    }
}

/// Remedy for a diff that does not apply.
pub(crate) const MAKE_ANEW: &str = "read the files again and create a new diff";

/// Returns the value of a field, or an error that it is missing.
pub(crate) fn wanted<T>(field: &str, value: Option<T>) -> Result<T, OpError> {
    value.ok_or_else(|| OpError::bad_input(format!("'{field}' is missing")))
}

impl From<FileError> for OpError {
    fn from(error: FileError) -> OpError {
        let message = error.to_string();
        let op = |code| OpError::new(code, message);
        match error {
            FileError::NoRoot => op(Code::NotFound).help(
                "start the client in the folder of a project, or run `proctor up`: the folder of its proctor.yaml becomes a root",
            ),
            FileError::WhichRoot { .. } => op(Code::BadInput).help("write NAME:path"),
            FileError::Elsewhere { .. } => op(Code::Forbidden)
                .help("declare the folders for file operations in `roots` of the configuration"),
            FileError::RootGone { .. } => op(Code::Failed).help("create the folder, or declare another"),
            FileError::Missing { .. } => op(Code::NotFound).help("find the name with `proctor file find`"),
            FileError::Guarded { .. } => op(Code::Forbidden),
            FileError::Moved { .. } => op(Code::Stale).help("start again without the cursor"),
            FileError::BadPattern { what, .. } => op(Code::BadInput).help(bad_pattern(what)),
            FileError::TooSlow { .. } => op(Code::Failed)
                .help("simplify the pattern, for example remove `.*` in an alternative, or exclude the file"),
            FileError::BadCursor(_) => {
                op(Code::BadInput).help("pass a cursor exactly as an earlier response returned it")
            }
            FileError::NoGroup { name } => op(Code::BadInput).help(no_group(&name)),
            FileError::BadInput(_) => op(Code::BadInput),
            FileError::Cancelled => op(Code::Cancelled),
            FileError::Refused { fault, .. } => refused(op, &fault),
            FileError::ReadOnly { .. } => op(Code::Forbidden)
                .help("set `write: true` for this root in the configuration"),
            FileError::Occupied { .. } => op(Code::AlreadyExists),
            FileError::TooLarge { .. } => op(Code::TooLarge),
            FileError::TooMuch { .. } => op(Code::TooLarge).help("change fewer files in one request"),
            FileError::Changed { .. } => op(Code::Stale).help("read the file again and retry"),
            FileError::Stale { path, found } => op(Code::Stale)
                .help("read the file again before you decide")
                .details(json!({ "path": path, "sha256": found })),
            FileError::NotAlike { .. } => op(Code::Failed)
                .help("the file belongs to another user; change it as that user"),
            FileError::EditMismatch { path, misfit } => misfits(op, &path, &misfit),
            FileError::NotThere { path, near } => op(Code::Failed)
                .help("nothing was changed; 'ignore_case' or 'regex' may find it")
                .details(json!({ "path": path, "count": 0, "nearest": nearest(&near) })),
            FileError::NoText { .. } => {
                op(Code::Failed).help("read the file with 'bytes' and write it with 'base64'")
            }
            FileError::Counted { path, count, lines } => op(Code::Failed)
                .help("nothing was changed; choose one match with 'nth', or set 'expect' to the number of matches")
                .details(json!({ "path": path, "count": count, "lines": lines })),
            FileError::BadDiff(bad) => op(Code::BadInput).details(json!({ "line": bad.line })),
            FileError::Conflicts(conflicts) => op(Code::Failed)
                .help(MAKE_ANEW)
                .details(conflicts.iter().map(conflict).collect()),
            FileError::NotAFolder { .. } => {
                op(Code::BadInput).help("read a file with `proctor file read`")
            }
            FileError::FolderThere { .. } => op(Code::AlreadyExists)
                .help("end 'to' with a slash to move it into the folder"),
            FileError::NotEmpty { .. } => op(Code::Failed).help("delete its entries first"),
            FileError::OtherDisk { .. } => op(Code::Failed).help("write the file there and delete it here"),
            FileError::NoGeneration { .. } => op(Code::NotFound),
            FileError::Lost(_) | FileError::Unkept(_) | FileError::Unrecorded(_) => op(Code::Failed),
        }
    }
}

/// Suggests what a missing regex group may have meant.
fn no_group(name: &str) -> String {
    let letters = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    match name.split_at(letters) {
        ("", _) => "write $$ for a dollar sign".to_owned(),
        (number, rest) => {
            format!(
                "write ${{{number}}}{rest} for group {number} followed by '{rest}', or $$ for a dollar sign"
            )
        }
    }
}

fn bad_pattern(what: Pattern) -> &'static str {
    match what {
        Pattern::Search => {
            "set 'literal' for plain text; in a regular expression put \\ before ( [ * + ? ."
        }
        Pattern::Find => {
            "omit 'regex' for plain text; in a regular expression put \\ before ( [ * + ? ."
        }
        Pattern::Glob => "put \\ before a literal [ { * ?",
        Pattern::Type => "use ripgrep's type names: rust, py, js, md, …; or 'globs' such as *.rs",
    }
}

fn nearest(near: &[Candidate]) -> Vec<Value> {
    let shown = |near: &Candidate| json!({ "line": near.line, "text": near.text, "only_blanks_differ": near.blanks });
    near.iter().map(shown).collect()
}

fn misfits(op: impl FnOnce(Code) -> OpError, path: &str, misfit: &EditError) -> OpError {
    let (edit, details) = match misfit {
        EditError::Empty { edit } | EditError::Same { edit } | EditError::TooLarge { edit } => {
            (edit, json!({}))
        }
        EditError::Ambiguous { edit, count, lines } => {
            (edit, json!({ "count": count, "lines": lines }))
        }
        EditError::Missing { edit, near } => (edit, json!({ "nearest": nearest(near) })),
    };
    let help = match misfit {
        EditError::Empty { .. } | EditError::Same { .. } | EditError::TooLarge { .. } => {
            "nothing was changed"
        }
        EditError::Ambiguous { .. } => {
            "nothing was changed; give more of the text around it, or set 'all'"
        }
        EditError::Missing { .. } => "nothing was changed; 'old' must match the file exactly",
    };
    let mut told = json!({ "path": path, "edit": edit + 1 });
    if let (Some(told), Some(details)) = (told.as_object_mut(), details.as_object()) {
        told.extend(details.clone());
    }
    op(Code::Failed).help(help).details(told)
}

/// A file of a diff that does not apply.
fn conflict(conflict: &Conflict) -> Value {
    let why = match &conflict.why {
        PatchMismatch::Missing => json!("missing"),
        PatchMismatch::Exists => json!("exists"),
        PatchMismatch::Remains => json!("remains"),
        PatchMismatch::Unlike(_) => json!("unlike"),
        PatchMismatch::Hunks(outcomes) => outcomes.iter().map(hunk).collect(),
    };
    json!({ "path": conflict.path, "why": why })
}

fn hunk(outcome: &HunkOutcome) -> Value {
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    match outcome {
        HunkOutcome::Fits(fitted) => json!({ "fits": true, "line": fitted.line }),
        HunkOutcome::Misses(missed) => {
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
                // Not every place was searched.
                told["spent"] = json!(true);
            }
            told
        }
    }
}

fn refused(op: impl FnOnce(Code) -> OpError, fault: &PathError) -> OpError {
    match fault {
        PathError::Outside | PathError::OfTheKernel => op(Code::Forbidden),
        PathError::Link => {
            op(Code::Forbidden).help("give the path of the file itself, not of a link")
        }
        PathError::Malformed(_) => op(Code::BadInput),
        PathError::NotAFile(Kind::Folder) => {
            op(Code::BadInput).help("list a folder with `proctor file list`")
        }
        PathError::NotAFile(_) => op(Code::BadInput),
        PathError::Moved => op(Code::Conflict).help("retry"),
        PathError::Io(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            op(Code::AlreadyExists)
        }
        PathError::Io(error) if error.kind() == io::ErrorKind::NotADirectory => op(Code::BadInput),
        PathError::Io(_) => op(Code::Failed),
    }
}
