//! `git.restore`: restores files in the work tree or the index.

use crate::error::OpError;
use crate::git::{InRepository, Purpose, RepositoryInput, texts};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use proctor_engine::git::Restore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitRestore;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Files and folders to restore, relative to the top of the repository; . is everything
    #[arg(
        value_name = "PATH",
        required = true,
        help = "Files and folders to restore; . is everything here"
    )]
    pub paths: Vec<String>,
    /// Restore the index: unstage changes
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
    /// Restore the work tree; the default without 'staged', with it both
    #[arg(long, help = "Restore the work tree; the default without --staged, with it both")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
    /// Revision to restore from, instead of the index (with 'staged': of the last commit)
    #[arg(long, value_name = "REV")]
    #[arg(
        help = "Revision to restore from, instead of the index (with --staged: of the last commit)"
    )]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Files that were restored
    pub restored: Vec<String>,
}

impl Operation for GitRestore {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "restore"],
        summary: "Restore files from a commit or the index",
        details: "\
Uncommitted changes of these files are lost.

Examples:
  proctor git restore src/main.rs
  proctor git restore --staged .
  proctor git restore --from HEAD~1 src",
        role: Role::Admin,
        ..Meta::of("git.restore", Effect::Write, Target::Files).followed().attended().with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        let Input { paths, staged, worktree, from, place } = input;
        let restore = Restore { paths, staged, worktree, from };
        let (mut repository, told) = place.open(context, Purpose::Change).await?;
        let restored = repository.restore(&restore).await?;
        Ok(told.with(Output { restored: texts(&restored) }))
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.restored.is_empty() {
            page.remark("no changes to restore");
        }
        for path in &self.restored {
            page.line().plain("restored ").name(path);
        }
    }
}
