//! `file.move`: moves or renames a file or a folder.

use crate::error::OpError;
use crate::file::CurrentFolder;
use crate::file_change::ChangeGuards;
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct FileMove;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File or folder below a root
    #[arg(
        value_name = "PATH",
        help = "File or folder below a root, relative to the current folder or as ROOT:path"
    )]
    pub path: String,
    /// New path; with a trailing slash, the folder to move into
    #[arg(value_name = "TO")]
    pub to: String,
    /// Replace an existing file; its content is kept for undo
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replace: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: ChangeGuards,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub path: String,
    /// Nothing was changed
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl Operation for FileMove {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["file", "move"],
        aliases: &["mv"],
        summary: "Move or rename a file or a folder",
        details: "\
Missing parent folders are created.

Examples:
  proctor file move src/a.rs src/b.rs
  proctor file move src/a.rs src/old/
  proctor file move draft.txt final.txt --replace",
        launches: false,
        ..Meta::of("file.move", Effect::Write, Target::Files).needing(Role::Admin).with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let dry_run = input.guarded.dry_run;
        let wish = input.guarded.wish(Self::META.name)?;
        let files = input.here.files(context).await?;
        let moved = files.rename(input.path, input.to, input.replace, wish).await?;
        Ok(Output { path: moved.path, dry_run })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let word = if self.dry_run { "it would be " } else { "it is " };
        page.line().plain(word).name(&self.path);
    }
}
