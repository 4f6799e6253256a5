//! Repository selection and output types shared by the git operations.

mod repository;

pub(crate) use repository::Purpose;
pub use repository::{InRepository, RepositoryInput};

use crate::error::OpError;
use crate::text_output::{Page, Style};
use crate::timestamps::rfc3339;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_core::time::Wall;
use proctor_engine::git::{
    Change, Commit, ConflictKind, FileDiff, Name, SequencerKind, SequencerState,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default maximum text of a commit or a diff in one response.
pub(crate) const USUAL_TEXT: usize = 128 << 10;
const MIN_TEXT_BYTES: usize = 256;
const MAX_TEXT_BYTES: usize = 1 << 20;

pub(crate) fn text_size(asked: Option<usize>) -> usize {
    asked.unwrap_or(USUAL_TEXT).clamp(MIN_TEXT_BYTES, MAX_TEXT_BYTES)
}

/// Returns a count, checked against its limit.
pub(crate) fn count(
    field: &str,
    asked: Option<usize>,
    usual: usize,
    most: usize,
) -> Result<usize, OpError> {
    match asked {
        None => Ok(usual),
        Some(count @ 1..) if count <= most => Ok(count),
        Some(_) => Err(OpError::bad_input(format!("{field}: must be from 1 to {most}"))),
    }
}

/// Refuses a field that the action does not use, because it would have no effect.
pub(crate) fn only_for(actions: &str, given: &[(&str, bool)]) -> Result<(), OpError> {
    match given.iter().find(|(_, given)| *given) {
        Some((field, _)) => {
            Err(OpError::bad_input(format!("'{field}' can be used with {actions} only")))
        }
        None => Ok(()),
    }
}

pub(crate) fn at(seconds: i64) -> String {
    rfc3339(Wall(seconds.saturating_mul(1_000_000)))
}

/// Returns the short form of a hash.
pub(crate) fn brief(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

pub(crate) fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(|name| name.text().into_owned()).collect()
}

/// Returns the name as base64 if it is not UTF-8.
pub(crate) fn no_text(name: &Name) -> Option<String> {
    (!name.is_text()).then(|| STANDARD.encode(&name.0))
}

/// Remark after the name of a file that was compared without its filter.
pub(crate) const UNFILTERED: &str = "  its filter is not run: the file may be unchanged";

pub(crate) fn show_left_out(page: &mut Page, paths: &[String]) {
    for path in paths {
        page.line().add(Style::Warn, "skipped ").name(path).dim(" (a nested repository)");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeWord {
    Added,
    Modified,
    Deleted,
    Renamed,
    Copied,
    TypeChanged,
    Conflict,
}

impl ChangeWord {
    pub fn as_str(self) -> &'static str {
        match self {
            ChangeWord::Added => "added",
            ChangeWord::Modified => "modified",
            ChangeWord::Deleted => "deleted",
            ChangeWord::Renamed => "renamed",
            ChangeWord::Copied => "copied",
            ChangeWord::TypeChanged => "type changed",
            ChangeWord::Conflict => "conflict",
        }
    }
}

impl From<Change> for ChangeWord {
    fn from(change: Change) -> ChangeWord {
        match change {
            Change::Added => ChangeWord::Added,
            Change::Modified => ChangeWord::Modified,
            Change::Deleted => ChangeWord::Deleted,
            Change::Renamed => ChangeWord::Renamed,
            Change::Copied => ChangeWord::Copied,
            Change::TypeChanged => ChangeWord::TypeChanged,
            Change::Unmerged => ChangeWord::Conflict,
        }
    }
}

/// Kind of a conflict between two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConflictWord {
    BothModified,
    BothAdded,
    BothDeleted,
    AddedByUs,
    AddedByThem,
    DeletedByUs,
    DeletedByThem,
}

impl ConflictWord {
    pub fn as_str(self) -> &'static str {
        match self {
            ConflictWord::BothModified => "both modified",
            ConflictWord::BothAdded => "both added",
            ConflictWord::BothDeleted => "both deleted",
            ConflictWord::AddedByUs => "added by us",
            ConflictWord::AddedByThem => "added by them",
            ConflictWord::DeletedByUs => "deleted by us",
            ConflictWord::DeletedByThem => "deleted by them",
        }
    }
}

impl From<ConflictKind> for ConflictWord {
    fn from(clash: ConflictKind) -> ConflictWord {
        match clash {
            ConflictKind::BothModified => ConflictWord::BothModified,
            ConflictKind::BothAdded => ConflictWord::BothAdded,
            ConflictKind::BothDeleted => ConflictWord::BothDeleted,
            ConflictKind::AddedByUs => ConflictWord::AddedByUs,
            ConflictKind::AddedByThem => ConflictWord::AddedByThem,
            ConflictKind::DeletedByUs => ConflictWord::DeletedByUs,
            ConflictKind::DeletedByThem => ConflictWord::DeletedByThem,
        }
    }
}

/// A merge, rebase or similar operation in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SequencerInfo {
    pub kind: SequencerWord,
    /// Branch of a rebase
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Current step of a rebase
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SequencerWord {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    Apply,
    Bisect,
}

impl SequencerInfo {
    pub(crate) fn sentence(&self) -> String {
        let what = match self.kind {
            SequencerWord::Merge => "a merge",
            SequencerWord::Rebase => "a rebase",
            SequencerWord::CherryPick => "a cherry-pick",
            SequencerWord::Revert => "a revert",
            SequencerWord::Apply => "an application of patches",
            SequencerWord::Bisect => "a bisect",
        };
        let of = self.branch.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
        let far = Option::zip(self.step, self.steps);
        let far = far.map(|(step, steps)| format!(", step {step} of {steps}")).unwrap_or_default();
        format!("{what}{of} is in progress{far}")
    }
}

impl From<SequencerState> for SequencerInfo {
    fn from(state: SequencerState) -> SequencerInfo {
        let kind = match state.step {
            SequencerKind::Merge => SequencerWord::Merge,
            SequencerKind::Rebase => SequencerWord::Rebase,
            SequencerKind::CherryPick => SequencerWord::CherryPick,
            SequencerKind::Revert => SequencerWord::Revert,
            SequencerKind::Apply => SequencerWord::Apply,
            SequencerKind::Bisect => SequencerWord::Bisect,
        };
        let (step, steps) = (state.done.map(|done| done.0), state.done.map(|done| done.1));
        SequencerInfo { kind, branch: state.branch, step, steps }
    }
}

/// A file of a diff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Path relative to the top of the repository
    pub path: String,
    /// Name before a rename
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub change: ChangeWord,
    /// Lines added; omitted, like `deleted`, for a file that is not text or in conflict
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u64>,
    /// Compared without its filter, which is not run in an untrusted repository; the file may be unchanged
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filtered: bool,
    /// File name as base64, if it is not UTF-8
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
}

impl From<FileDiff> for FileChange {
    fn from(file: FileDiff) -> FileChange {
        FileChange {
            path: file.path.text().into_owned(),
            from: file.from.map(|name| name.text().into_owned()),
            change: file.change.into(),
            added: file.lines.map(|lines| lines.0),
            deleted: file.lines.map(|lines| lines.1),
            filtered: file.filtered,
            bytes: no_text(&file.path),
        }
    }
}

impl FileChange {
    pub(crate) fn show(&self, page: &mut Page) {
        let line = page.line();
        line.plain(format!("{:12}  ", self.change.as_str()));
        if let Some(from) = &self.from {
            line.name(from).plain(" -> ");
        }
        line.name(&self.path);
        if let (Some(added), Some(deleted)) = (self.added, self.deleted) {
            line.plain("  ").add(Style::Good, format!("+{added}"));
            line.plain(" ").add(Style::Bad, format!("-{deleted}"));
        }
        if self.filtered {
            line.dim(UNFILTERED);
        }
    }
}

/// Shows a diff with a style for each kind of line.
pub(crate) fn show_diff(page: &mut Page, text: &str) {
    page.code(text, |line| match line.as_bytes().first() {
        _ if line.starts_with("+++") || line.starts_with("---") => Style::Dim,
        Some(b'+') => Style::Good,
        Some(b'-') => Style::Bad,
        Some(b'@') => Style::Warn,
        _ if line.starts_with("diff ") => Style::Heading,
        _ => Style::Plain,
    });
}

/// Summary of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitInfo {
    pub hash: String,
    /// First line of the message
    pub subject: String,
    /// Rest of the message
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    pub author: String,
    pub email: String,
    /// Author time in RFC 3339
    pub at: String,
    /// Parent commits: none for the first commit, several for a merge
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// Branches and tags of the commit
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refs: Option<String>,
    /// The message was cut
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

impl From<Commit> for CommitInfo {
    fn from(commit: Commit) -> CommitInfo {
        let Commit { hash, subject, body, author, email, parents, refs, cut, .. } = commit;
        let (at, truncated) = (at(commit.authored), cut);
        CommitInfo { hash, subject, body, author, email, at, parents, refs, truncated }
    }
}

impl CommitInfo {
    pub(crate) fn show(&self, page: &mut Page) {
        let moment = page.moment(&self.at);
        let line = page.line();
        line.name(&self.hash);
        if let Some(refs) = &self.refs {
            line.plain(" ").add(Style::Good, format!("({refs})"));
        }
        page.line().plain(format!("{} <{}>", self.author, self.email)).dim(format!("  {moment}"));
        page.line().plain(format!("    {}", self.subject));
        for line in self.body.iter().flat_map(|body| body.lines()) {
            page.line().plain(format!("    {line}"));
        }
        if self.truncated {
            page.line().dim("    …");
        }
    }
}
