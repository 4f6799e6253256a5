//! `git.add`: changes for the next commit.

use crate::error::OpError;
use crate::git::{In, Purpose, Where, show_left_out, texts};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::show::{Page, Show};
use proctor_engine::git::{Add, Added};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitAdd;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Files and folders, from the top of the repository; deleted ones, too
    #[arg(value_name = "PATH", required_unless_present_any = ["all", "update"])]
    #[arg(help = "Files and folders; deleted ones, too")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Everything that is different
    #[arg(long, short = 'A', conflicts_with_all = ["paths", "update"])]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// Everything that is different and known to git already
    #[arg(long, short = 'u', conflicts_with = "paths")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub update: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: Where,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// What was put into the index now
    pub added: Vec<String>,
    /// Repositories inside of this one: they are left out
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl Operation for GitAdd {
    type Input = Input;
    type Output = In<Output>;
    const META: Meta = Meta {
        cli: &["git", "add"],
        summary: "Put changes into the index for the next commit",
        details: "\
Examples:
  proctor git add src/main.rs docs
  proctor git add --update
  proctor git add --all",
        role: Role::Admin,
        ..Meta::of("git.add", Effect::Write, Target::Files).followed().with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<In<Output>, OpError> {
        let add = match (input.paths.is_empty(), input.all, input.update) {
            (false, false, false) => Add::Paths(input.paths),
            (true, true, false) => Add::All,
            (true, false, true) => Add::Known,
            (true, false, false) => {
                return Err(OpError::bad_input("what? give 'paths', 'all' or 'update'"));
            }
            (_, _, _) => return Err(OpError::bad_input("give one of 'paths', 'all', 'update'")),
        };
        let (mut repository, told) = input.place.open(context, Purpose::Change).await?;
        let Added { paths, nested } = repository.add(&add).await?;
        Ok(told.with(Output { added: texts(&paths), left_out: texts(&nested) }))
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.added.is_empty() {
            page.remark("nothing to add");
        }
        for path in &self.added {
            page.line().plain("added ").name(path);
        }
        show_left_out(page, &self.left_out);
    }
}
