//! `git.restore`: files brought back.

use crate::error::OpError;
use crate::git::{Where, texts};
use crate::operation::{Context, Effect, Meta, Operation, Role};
use crate::show::{Page, Show};
use proctor_engine::git::Restore;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitRestore;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Files and folders, from the top of the repository (in a shell, from where you are); . is everything there
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<String>,
    /// The index: take changes out of the next commit
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub staged: bool,
    /// The files themselves, which is what is meant without --staged; with it, both
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
    /// From this revision, instead of the index (or with --staged, of the last commit)
    #[arg(long, value_name = "REV")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: Where,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// What was different, and is not any more
    pub restored: Vec<String>,
}

impl Operation for GitRestore {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["git", "restore"],
        summary: "Bring files back as they were",
        details: "\
What was in the files and in no commit is lost then.

Examples:
  proctor git restore src/main.rs
  proctor git restore --staged .
  proctor git restore --from HEAD~1 src",
        role: Role::Admin,
        ..Meta::of("git.restore", Effect::Write).followed().attended().with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let Input { paths, staged, worktree, from, place } = input;
        let restore = Restore { paths, staged, worktree, from };
        let restored = place.open(context).await?.restore(&restore).await?;
        Ok(Output { restored: texts(&restored) })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.restored.is_empty() {
            page.line().dim("nothing was different");
        }
        for path in &self.restored {
            page.line().plain("restored ").name(path);
        }
    }
}
