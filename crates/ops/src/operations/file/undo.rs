//! `file.undo`: restores an earlier generation of a file.

use crate::error::OpError;
use crate::file::CurrentFolder;
use crate::file_change::{ChangeGuards, Changes};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct FileUndo;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File below a root; it may be deleted
    #[arg(
        value_name = "PATH",
        help = "File below a root, relative to the current folder or as ROOT:path; it may be deleted"
    )]
    pub path: String,
    /// Generation to restore; the newest if omitted
    #[arg(value_name = "GENERATION")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: ChangeGuards,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

impl Operation for FileUndo {
    type Input = Input;
    type Output = Changes;
    const META: Meta = Meta {
        cli: &["file", "undo"],
        summary: "Restore an earlier generation of a file",
        details: "\
The current content becomes a generation itself, so a second undo reverts the first. For a moved file, the old name is restored, whichever of the two names is given. `proctor file history` shows all generations.

Examples:
  proctor file undo src/main.rs
  proctor file undo src/main.rs 3 --dry-run",
        launches: false,
        ..Meta::of("file.undo", Effect::Write, Target::Files).needing(Role::Admin).with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Changes, OpError> {
        let dry_run = input.guarded.dry_run;
        let wish = input.guarded.wish(Self::META.name)?;
        let changed =
            input.here.files(context).await?.undo(input.path, input.generation, wish).await?;
        Ok(Changes::of(changed, dry_run))
    }
}
