//! `git.add`: stages changes for the next commit.

use crate::error::OpError;
use crate::git::{InRepository, Purpose, RepositoryInput, show_left_out, texts};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use proctor_engine::git::{Add, StagedFiles};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitAdd;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Files and folders to stage, relative to the top of the repository; deleted ones too
    #[arg(value_name = "PATH", required_unless_present_any = ["all", "update"])]
    #[arg(help = "Files and folders to stage; deleted ones too")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Stage every change, new files too
    #[arg(long, short = 'A', conflicts_with_all = ["paths", "update"])]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Stage every change of tracked files
    #[arg(long, short = 'u', conflicts_with = "paths")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Files staged by this request
    pub added: Vec<String>,
    /// Nested repositories that were skipped
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl Operation for GitAdd {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "add"],
        summary: "Stage changes for the next commit",
        details: "\
Examples:
  proctor git add src/main.rs docs
  proctor git add --update
  proctor git add --all",
        role: Role::Admin,
        ..Meta::of("git.add", Effect::Write, Target::Files).followed().with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        let add = match (input.paths.is_empty(), input.all, input.update) {
            (false, false, false) => Add::Paths(input.paths),
            (true, true, false) => Add::All,
            (true, false, true) => Add::Known,
            (true, false, false) => {
                return Err(OpError::bad_input(
                    "nothing selected: give 'paths', 'all' or 'update'",
                ));
            }
            (_, _, _) => {
                return Err(OpError::bad_input("give only one of 'paths', 'all' and 'update'"));
            }
        };
        let (mut repository, told) = input.place.open(context, Purpose::Change).await?;
        let StagedFiles { paths, nested } = repository.add(&add).await?;
        Ok(told.with(Output { added: texts(&paths), left_out: texts(&nested) }))
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.added.is_empty() {
            page.remark("nothing to add");
        }
        for path in &self.added {
            page.line().plain("staged ").name(path);
        }
        show_left_out(page, &self.left_out);
    }
}
