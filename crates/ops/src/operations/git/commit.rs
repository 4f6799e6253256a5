//! `git.commit`: commits the staged changes. Having nothing to commit is a result, not an error.

use crate::error::OpError;
use crate::git::{CommitInfo, InRepository, Purpose, RepositoryInput, brief, show_left_out, texts};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style};
use proctor_engine::git::{CommitRequest, CommitResult, NewCommit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitCommit;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Commit message; optional with 'amend'
    #[arg(long, short = 'm', value_name = "TEXT", required_unless_present = "amend")]
    #[arg(help = "Commit message; optional with --amend")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Commit only these files with their work tree content, new files too; relative to the top of the repository
    #[arg(
        value_name = "PATH",
        help = "Commit only these files with their work tree content, new files too"
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Commit every change of tracked files
    #[arg(long, short = 'a', conflicts_with = "paths")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Replace the last commit
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub amend: bool,
    /// Author as `Name <address>`; the one configured in git if omitted
    #[arg(long, value_name = "WHO")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// False if there was nothing to commit
    pub committed: bool,
    /// Number of changed tracked files, if nothing was staged
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstaged: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Number of files changed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<usize>,
    /// Lines added
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<u64>,
    /// Nested repositories that were skipped
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl Operation for GitCommit {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "commit"],
        summary: "Commit the staged changes",
        details: "\
Hooks and signing are disabled unless `supervisor.git.trusted` lists the repository.

Examples:
  proctor git commit -m 'Fix the header'
  proctor git commit -m 'Fix the header' src/header.rs
  proctor git commit --all --amend",
        role: Role::Admin,
        ..Meta::of("git.commit", Effect::Write, Target::Files).followed().attended().with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        let Input { message, paths, all, amend, author, place } = input;
        let request = CommitRequest { message, paths, all, amend, author };
        let (mut repository, told) = place.open(context, Purpose::Change).await?;
        if let Some(call) = context.call.clone() {
            let unsettled = context.underway.unsettled(&call);
            repository.tell(move |made| {
                if call.is_cancelled() {
                    let hash = brief(&made.commit.hash);
                    call.leave(&[format!("the commit {hash} was already made and is kept")]);
                }
                drop(unsettled);
            });
        }
        Ok(told.with(repository.commit_changes(&request).await?.into()))
    }
}

impl From<CommitResult> for Output {
    fn from(CommitResult { made, nested, unstaged }: CommitResult) -> Output {
        let left_out = texts(&nested);
        let Some(NewCommit { commit, branch, changed }) = made else {
            let unstaged = Some(unstaged).filter(|count| *count > 0);
            return Output { left_out, unstaged, ..Output::default() };
        };
        Output {
            committed: true,
            commit: Some(commit.into()),
            branch,
            files: changed.map(|changed| changed.0),
            added: changed.map(|changed| changed.1.0),
            deleted: changed.map(|changed| changed.1.1),
            left_out,
            unstaged: None,
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        show_left_out(page, &self.left_out);
        let Some(commit) = &self.commit else {
            match self.unstaged {
                None => page.line().dim("nothing to commit"),
                Some(count) => {
                    let (files, them) =
                        if count == 1 { ("file is", "it") } else { ("files are", "them") };
                    let message = format!("nothing is staged; {count} {files} changed");
                    let remedy = format!(": `all` or `paths` commits {them}");
                    page.line().add(Style::Warn, message).dim(remedy)
                }
            };
            return;
        };
        let line = page.line();
        line.plain("committed ").name(brief(&commit.hash));
        if let Some(branch) = &self.branch {
            line.plain(" on ").name(branch);
        }
        line.plain(format!(": {}", commit.subject));
        if let (Some(files), Some(added), Some(deleted)) = (self.files, self.added, self.deleted) {
            let line = page.line();
            line.plain(format!("{files} {}  ", if files == 1 { "file" } else { "files" }));
            line.add(Style::Good, format!("+{added}"));
            line.plain(" ").add(Style::Bad, format!("-{deleted}"));
        }
    }
}
