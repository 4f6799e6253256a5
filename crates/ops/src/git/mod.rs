//! What the operations on git share: which repository, and pieces of their answers.

mod place;

pub(crate) use place::Purpose;
pub use place::{In, Where};

use crate::error::OpError;
use crate::moment::rfc3339;
use crate::show::{Page, Style};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_core::time::Wall;
use proctor_engine::git::{Change, Clash, Commit, FileDiff, Name, State, Step};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Of a commit, a diff and the like: how much of a text one answer has.
pub(crate) const USUAL_TEXT: usize = 128 << 10;
const LEAST_TEXT: usize = 256;
const LARGEST_TEXT: usize = 1 << 20;

pub(crate) fn text_size(asked: Option<usize>) -> usize {
    asked.unwrap_or(USUAL_TEXT).clamp(LEAST_TEXT, LARGEST_TEXT)
}

/// How many of a list, within what is allowed.
pub(crate) fn count(
    field: &str,
    asked: Option<usize>,
    usual: usize,
    most: usize,
) -> Result<usize, OpError> {
    match asked {
        None => Ok(usual),
        Some(count @ 1..) if count <= most => Ok(count),
        Some(_) => Err(OpError::bad_input(format!("{field}: 1 to {most}"))),
    }
}

/// A field that only some actions have a use for is refused with the others: what was meant by it would not happen.
pub(crate) fn only_for(actions: &str, given: &[(&str, bool)]) -> Result<(), OpError> {
    match given.iter().find(|(_, given)| *given) {
        Some((field, _)) => Err(OpError::bad_input(format!("'{field}' is for {actions}"))),
        None => Ok(()),
    }
}

pub(crate) fn at(seconds: i64) -> String {
    rfc3339(Wall(seconds.saturating_mul(1_000_000)))
}

/// The beginning of a hash that people copy.
pub(crate) fn brief(hash: &str) -> &str {
    hash.get(..10).unwrap_or(hash)
}

pub(crate) fn texts(names: &[Name]) -> Vec<String> {
    names.iter().map(|name| name.text().into_owned()).collect()
}

/// A name as base64 where it is no UTF-8.
pub(crate) fn no_text(name: &Name) -> Option<String> {
    (!name.is_text()).then(|| STANDARD.encode(&name.0))
}

/// Behind the name of a file that was compared without its filter.
pub(crate) const UNFILTERED: &str = "  its filter is not run: it may not be different";

pub(crate) fn show_left_out(page: &mut Page, paths: &[String]) {
    for path in paths {
        page.line().add(Style::Warn, "left out ").name(path).dim(" (a repository of its own)");
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

/// How two sides do not fit together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClashWord {
    BothModified,
    BothAdded,
    BothDeleted,
    AddedByUs,
    AddedByThem,
    DeletedByUs,
    DeletedByThem,
}

impl ClashWord {
    pub fn as_str(self) -> &'static str {
        match self {
            ClashWord::BothModified => "both modified",
            ClashWord::BothAdded => "both added",
            ClashWord::BothDeleted => "both deleted",
            ClashWord::AddedByUs => "added by us",
            ClashWord::AddedByThem => "added by them",
            ClashWord::DeletedByUs => "deleted by us",
            ClashWord::DeletedByThem => "deleted by them",
        }
    }
}

impl From<Clash> for ClashWord {
    fn from(clash: Clash) -> ClashWord {
        match clash {
            Clash::BothModified => ClashWord::BothModified,
            Clash::BothAdded => ClashWord::BothAdded,
            Clash::BothDeleted => ClashWord::BothDeleted,
            Clash::AddedByUs => ClashWord::AddedByUs,
            Clash::AddedByThem => ClashWord::AddedByThem,
            Clash::DeletedByUs => ClashWord::DeletedByUs,
            Clash::DeletedByThem => ClashWord::DeletedByThem,
        }
    }
}

/// A merge, rebase or the like that somebody has to finish.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnderWay {
    pub kind: StepWord,
    /// Of a rebase: the branch
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Of a rebase: at which step of how many
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepWord {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    Apply,
    Bisect,
}

impl UnderWay {
    pub(crate) fn sentence(&self) -> String {
        let what = match self.kind {
            StepWord::Merge => "a merge",
            StepWord::Rebase => "a rebase",
            StepWord::CherryPick => "a cherry-pick",
            StepWord::Revert => "a revert",
            StepWord::Apply => "an application of patches",
            StepWord::Bisect => "a bisect",
        };
        let of = self.branch.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
        let far = Option::zip(self.step, self.steps);
        let far = far.map(|(step, steps)| format!(", step {step} of {steps}")).unwrap_or_default();
        format!("{what}{of} is under way{far}")
    }
}

impl From<State> for UnderWay {
    fn from(state: State) -> UnderWay {
        let kind = match state.step {
            Step::Merge => StepWord::Merge,
            Step::Rebase => StepWord::Rebase,
            Step::CherryPick => StepWord::CherryPick,
            Step::Revert => StepWord::Revert,
            Step::Apply => StepWord::Apply,
            Step::Bisect => StepWord::Bisect,
        };
        let (step, steps) = (state.done.map(|done| done.0), state.done.map(|done| done.1));
        UnderWay { kind, branch: state.branch, step, steps }
    }
}

/// One file of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// From the top of the repository
    pub path: String,
    /// What it was called before
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub change: ChangeWord,
    /// Lines; neither is there for what is no text, or in conflict
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u64>,
    /// It was compared without its filter, which is not run in a repository that is not trusted: it may not be different
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filtered: bool,
    /// The name as base64 where it is no UTF-8
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

/// The text of a difference, with its lines as what they are.
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

/// A commit in brief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitInfo {
    pub hash: String,
    /// First line of its message
    pub subject: String,
    /// The rest of it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    pub author: String,
    pub email: String,
    /// When it was written (RFC 3339)
    pub at: String,
    /// None of the first, several of a merge
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// Branches and tags that name it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refs: Option<String>,
    /// Only the beginning of its message is here
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
