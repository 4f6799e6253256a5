//! `git.status`: shows the changes of a work tree, and a merge or rebase in progress.

use crate::error::OpError;
use crate::git::{
    ChangeWord, ConflictWord, InRepository, Purpose, RepositoryInput, SequencerInfo, UNFILTERED,
    brief, count, no_text,
};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style};
use proctor_engine::git::{CheckedPaths, Entry as Found, EntryState, Status, StatusQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const USUAL_ENTRIES: usize = 500;
const MAX_ENTRIES: usize = 10_000;

pub struct GitStatus;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Only changes below these paths, relative to the top of the repository
    #[arg(value_name = "PATH", help = "Only changes below these paths")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Omit untracked files
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_untracked: bool,
    /// Include ignored files
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    /// Maximum number of entries (default 500)
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Top folder of the repository
    pub root: String,
    /// Current branch
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Current commit
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// Number of commits that upstream does not have
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// Number of commits that only upstream has
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Merge or rebase in progress
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<SequencerInfo>,
    /// Number of stashes
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stashes: Option<u64>,
    /// There are no changes
    pub clean: bool,
    pub entries: Vec<Entry>,
    /// More entries exist
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A changed file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    pub path: String,
    /// Name before a rename
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Staged change
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<ChangeWord>,
    /// Unstaged change
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstaged: Option<ChangeWord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict: Option<ConflictWord>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untracked: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub submodule: bool,
    /// Compared without its filter, which is not run in an untrusted repository; the file may be unchanged
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filtered: bool,
    /// File name as base64, if it is not UTF-8
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
}

impl Operation for GitStatus {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "status"],
        summary: "Show the changes of a work tree",
        details: "\
Shows the branch, its distance from upstream, a merge or rebase in progress, and every file that is changed, new or in conflict.

Examples:
  proctor git status
  proctor git status src --no-untracked
  proctor git status --repo /srv/app --json",
        role: Role::Operator,
        ..Meta::of("git.status", Effect::Read, Target::Nothing).long().with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        let limit = count("limit", input.limit, USUAL_ENTRIES, MAX_ENTRIES)?;
        let (repository, told) = input.place.open(context, Purpose::Look).await?;
        let Input { paths, no_untracked, ignored, .. } = input;
        let query = StatusQuery { paths, no_untracked, ignored };
        let status = repository.status(&query).await?;
        if status.entries.is_empty() {
            let asked = CheckedPaths { paths: &query.paths, ..CheckedPaths::default() };
            repository.check_known(&asked).await?;
        }
        let root = repository.top().to_string_lossy().into_owned();
        Ok(told.with(output(root, status, limit)))
    }
}

fn output(root: String, status: Status, limit: usize) -> Output {
    let different = |entry: &Found| entry.what != EntryState::Ignored;
    Output {
        root,
        branch: status.branch,
        head: status.head,
        upstream: status.upstream,
        ahead: status.ahead_behind.map(|counts| counts.0),
        behind: status.ahead_behind.map(|counts| counts.1),
        state: status.state.map(SequencerInfo::from),
        stashes: Some(status.stashes).filter(|count| *count > 0),
        clean: !status.entries.iter().any(different),
        truncated: status.cut || status.entries.len() > limit,
        entries: status.entries.into_iter().take(limit).map(Entry::from).collect(),
    }
}

impl From<Found> for Entry {
    fn from(found: Found) -> Entry {
        let path = found.path;
        let entry = Entry {
            path: path.text().into_owned(),
            submodule: found.submodule,
            filtered: found.filtered,
            bytes: no_text(&path),
            ..Entry::default()
        };
        match found.what {
            EntryState::Changed { staged, unstaged, from } => Entry {
                staged: staged.map(ChangeWord::from),
                unstaged: unstaged.map(ChangeWord::from),
                from: from.map(|name| name.text().into_owned()),
                ..entry
            },
            EntryState::Conflict(clash) => Entry { conflict: Some(clash.into()), ..entry },
            EntryState::Untracked => Entry { untracked: true, ..entry },
            EntryState::Ignored => Entry { ignored: true, ..entry },
        }
    }
}

impl Entry {
    fn words(&self) -> [(Style, &'static str); 2] {
        let word = |change: Option<ChangeWord>| change.map_or("", ChangeWord::as_str);
        match self.conflict {
            Some(clash) => [(Style::Bad, clash.as_str()), (Style::Bad, "")],
            None if self.untracked => [(Style::Good, ""), (Style::Warn, "untracked")],
            None if self.ignored => [(Style::Good, ""), (Style::Dim, "ignored")],
            None => [(Style::Good, word(self.staged)), (Style::Warn, word(self.unstaged))],
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let line = page.line();
        match (&self.branch, &self.head) {
            (Some(branch), _) => line.plain("on ").name(branch),
            (None, Some(head)) => line.plain("on no branch, at ").name(brief(head)),
            (None, None) => line.plain("on no branch"),
        };
        if let Some(upstream) = &self.upstream {
            let (ahead, behind) = (self.ahead.unwrap_or(0), self.behind.unwrap_or(0));
            line.dim(format!("  {upstream}: {ahead} ahead, {behind} behind"));
        }
        if let Some(state) = &self.state {
            page.line().add(Style::Warn, state.sentence());
        }
        if let Some(stashes) = self.stashes {
            page.line().dim(format!("{stashes} in the stash"));
        }
        if self.clean {
            page.line().add(Style::Good, "no changes");
        }
        for entry in &self.entries {
            let [staged, unstaged] = entry.words();
            let line = page.line();
            line.add(staged.0, format!("{:15}  ", staged.1));
            line.add(unstaged.0, format!("{:12}  ", unstaged.1));
            if let Some(from) = &entry.from {
                line.name(from).plain(" -> ");
            }
            line.name(&entry.path);
            if entry.filtered {
                line.dim(UNFILTERED);
            }
        }
        if self.truncated {
            page.remark("… and more; raise `limit` to see them");
        }
    }
}
