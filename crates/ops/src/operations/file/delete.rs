//! `file.delete`: deletes a file, a link itself, or an empty folder.

use crate::error::OpError;
use crate::file::CurrentFolder;
use crate::file_change::{ChangeGuards, Changes};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct FileDelete;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File or empty folder below a root
    #[arg(
        value_name = "PATH",
        help = "File or empty folder below a root, relative to the current folder or as ROOT:path"
    )]
    pub path: String,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: ChangeGuards,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

impl Operation for FileDelete {
    type Input = Input;
    type Output = Changes;
    const META: Meta = Meta {
        cli: &["file", "delete"],
        summary: "Delete a file or an empty folder",
        details: "\
The old content is kept for `proctor file undo`.

Examples:
  proctor file delete old.txt",
        launches: false,
        ..Meta::of("file.delete", Effect::Write, Target::Files).needing(Role::Admin).with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Changes, OpError> {
        let dry_run = input.guarded.dry_run;
        let wish = input.guarded.wish(Self::META.name)?;
        let changed = input.here.files(context).await?.delete(input.path, wish).await?;
        let mut changes = Changes::of(vec![changed], dry_run);
        changes.files.iter_mut().for_each(|file| file.changed = true);
        Ok(changes)
    }
}
