//! `file.undo`: an earlier generation of a file.

use crate::change::{Changes, Guarded};
use crate::error::OpError;
use crate::file::Here;
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct FileUndo;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// A file below a root, also one that is gone
    #[arg(
        value_name = "PATH",
        help = "A file below a root, from where you are or as ROOT:path, also one that is gone"
    )]
    pub path: String,
    /// Which generation; the newest if not given
    #[arg(value_name = "GENERATION")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: Guarded,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: Here,
}

impl Operation for FileUndo {
    type Input = Input;
    type Output = Changes;
    const META: Meta = Meta {
        cli: &["file", "undo"],
        summary: "Bring an earlier generation of a file back",
        details: "\
What is there now becomes a generation itself, so that a second undo takes back the first. Of a file that was moved, it brings the old name back, whichever of the two is given. `proctor file history` shows all.

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
