//! `file.make_folder`: creates a folder and its missing parents.

use crate::error::OpError;
use crate::file::CurrentFolder;
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct FileMakeFolder;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Folder below a root; missing parents are also created
    #[arg(
        value_name = "PATH",
        help = "Folder below a root, relative to the current folder or as ROOT:path; missing parents are also created"
    )]
    pub path: String,
    /// Report whether the folder would be created, without creating it
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub path: String,
    /// The folder did not exist before
    pub made: bool,
    /// Nothing was changed
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl Operation for FileMakeFolder {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["file", "make-folder"],
        aliases: &["mkdir"],
        summary: "Create a folder",
        details: "\
Examples:
  proctor file make-folder src/parts",
        launches: false,
        ..Meta::of("file.make_folder", Effect::Write, Target::Files)
            .needing(Role::Admin)
            .with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let Input { path, dry_run, here } = input;
        let files = here.files(context).await?;
        let (path, made) = match dry_run {
            true => files.look_for_folder(path).await?,
            false => files.make_folder(path).await?,
        };
        Ok(Output { path, made, dry_run })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let word = match (self.made, self.dry_run) {
            (true, true) => ": would be created",
            (true, false) => ": created",
            (false, _) => ": exists already",
        };
        page.line().name(&self.path).plain(word);
    }
}
