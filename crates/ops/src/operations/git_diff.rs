//! `git.diff`: what is different, file by file and line by line.

use crate::error::OpError;
use crate::git::{FileChange, In, Purpose, UNFILTERED, Where, show_diff, text_size};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::show::{Page, Show};
use proctor_engine::git::{Asked, Compared, Diff, DiffQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitDiff;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Only below these
    #[arg(value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// What is in the index for the next commit, instead of what is not
    #[arg(long, conflicts_with_all = ["from", "to"])]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
    /// From this revision to the work tree, or to another one. `A..B` is from A to B, `A...B` from where they part
    #[arg(long, value_name = "REV")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// To this revision
    #[arg(long, value_name = "REV", requires = "from")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Lines around each change; 3 if not given
    #[arg(long, value_name = "LINES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<u32>,
    /// Only which files, and how many lines of each
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stat: bool,
    /// How large the text of one answer may be
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Go on where an earlier answer ended: its `cursor`
    #[arg(long, value_name = "CURSOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: Where,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub files: Vec<FileChange>,
    /// As a unified diff; bytes that are no text are replaced
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Pass it back to go on from here
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// More of the text is there
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl Operation for GitDiff {
    type Input = Input;
    type Output = In<Output>;
    const META: Meta = Meta {
        cli: &["git", "diff"],
        summary: "Show what is different",
        details: "\
Without options, what is changed and not in the index yet.

Examples:
  proctor git diff
  proctor git diff --staged src
  proctor git diff --from main --stat
  proctor git diff --from v1.0 --to v1.1
  proctor git diff --from main...topic",
        role: Role::Operator,
        ..Meta::of("git.diff", Effect::Read, Target::Nothing).long().with_folder().whole()
    };

    async fn run(context: &Context, input: Input) -> Result<In<Output>, OpError> {
        let compared = match (input.staged, input.from, input.to) {
            (false, None, None) => Compared::Unstaged,
            (true, None, None) => Compared::Staged,
            (false, Some(from), None) => Compared::Since(from),
            (false, Some(from), Some(to)) => Compared::Between(from, to),
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
                Compared::Unstaged | Compared::Staged => Vec::new(),
                Compared::Since(from) => vec![from.as_str()],
                Compared::Between(from, to) => vec![from.as_str(), to],
            };
            let asked = Asked { paths: &query.paths, revisions, ..Asked::default() };
            let asked = Asked { takes_revisions: Some("from"), ..asked };
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
            page.remark("nothing is different");
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
