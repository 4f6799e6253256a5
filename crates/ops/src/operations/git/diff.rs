//! `git.diff`: shows changes by file and by line.

use crate::error::OpError;
use crate::git::{
    FileChange, InRepository, Purpose, RepositoryInput, UNFILTERED, show_diff, text_size,
};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use proctor_engine::git::{CheckedPaths, Diff, DiffQuery, DiffTarget};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitDiff;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Only changes below these paths
    #[arg(value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Compare the index with the last commit, instead of the work tree with the index
    #[arg(long, conflicts_with_all = ["from", "to"])]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
    /// Compare this revision with the work tree or with `to`. `A..B` compares A with B, `A...B` their merge base with B
    #[arg(long, value_name = "REV")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Revision to compare with `from`
    #[arg(long, value_name = "REV", requires = "from")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Context lines around each change (default 3)
    #[arg(long, value_name = "LINES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// Only file names and line counts
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stat: bool,
    /// Maximum response size in bytes
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Cursor from an earlier response
    #[arg(long, value_name = "CURSOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub files: Vec<FileChange>,
    /// Unified diff; invalid UTF-8 is replaced
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Cursor for the next request
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// More of the diff follows
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl Operation for GitDiff {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "diff"],
        summary: "Show changes as a diff",
        details: "\
Without options, shows changes that are not staged.

Examples:
  proctor git diff
  proctor git diff --staged src
  proctor git diff --from main --stat
  proctor git diff --from v1.0 --to v1.1
  proctor git diff --from main...topic",
        role: Role::Operator,
        ..Meta::of("git.diff", Effect::Read, Target::Nothing).long().with_folder().whole()
    };

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        let compared = match (input.staged, input.from, input.to) {
            (false, None, None) => DiffTarget::Unstaged,
            (true, None, None) => DiffTarget::Staged,
            (false, Some(from), None) => DiffTarget::Since(from),
            (false, Some(from), Some(to)) => DiffTarget::Between(from, to),
            (true, _, _) => {
                return Err(OpError::bad_input("give 'staged' or revisions, not both"));
            }
            (false, None, Some(_)) => return Err(OpError::bad_input("'to' needs 'from'")),
        };
        let (repository, told) = input.place.open(context, Purpose::Look).await?;
        let query = DiffQuery {
            compared,
            paths: input.paths,
            context: input.context,
            stat: input.stat,
            max_bytes: text_size(input.max_bytes),
            cursor: input.cursor,
        };
        let diff = repository.diff(&query).await?;
        if diff.files.is_empty() {
            let revisions = match &query.compared {
                DiffTarget::Unstaged | DiffTarget::Staged => Vec::new(),
                DiffTarget::Since(from) => vec![from.as_str()],
                DiffTarget::Between(from, to) => vec![from.as_str(), to],
            };
            let asked = CheckedPaths { paths: &query.paths, revisions, ..CheckedPaths::default() };
            let asked = CheckedPaths { takes_revisions: Some("from"), ..asked };
            repository.check_known(&asked).await?;
        }
        Ok(told.with(output(diff, input.stat)))
    }
}

pub(super) fn output(diff: Diff, stat: bool) -> Output {
    let text = String::from_utf8_lossy(&diff.text).into_owned();
    Output {
        files: diff.files.into_iter().map(FileChange::from).collect(),
        diff: (!stat).then_some(text),
        more: diff.cursor.is_some(),
        cursor: diff.cursor,
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.files.is_empty() {
            page.remark("no changes");
        }
        match &self.diff {
            Some(text) => {
                for file in self.files.iter().filter(|file| file.filtered) {
                    page.line().name(&file.path).dim(UNFILTERED);
                }
                show_diff(page, text);
            }
            None => self.files.iter().for_each(|file| file.show(page)),
        }
        page.goes_on(self.cursor.as_deref());
    }
}
