//! `file.edit`: replaces exact texts, all of them or none.

use crate::error::OpError;
use crate::file::CurrentFolder;
use crate::file_change::{ChangeGuards, Changes, WITH_CONTENT};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use proctor_core::edit::Edit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum edits of one file in a request; enough for a refactoring.
const MAX_EDITS: usize = 1000;

pub struct FileEdit;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File below a root
    #[arg(
        value_name = "PATH",
        help = "File below a root, relative to the current folder or as ROOT:path"
    )]
    pub path: String,
    /// Edits, made in order, all or none
    #[arg(skip)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<OneEdit>,
    /// For a single edit: exact text to replace
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// For a single edit: replacement text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
    /// For a single edit: replace every occurrence
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: ChangeGuards,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct OneEdit {
    /// Exact text to replace, with enough context to occur once
    pub old: String,
    /// Replacement text
    pub new: String,
    /// Replace every occurrence
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

impl From<OneEdit> for Edit {
    fn from(one: OneEdit) -> Edit {
        Edit { old: one.old.into_bytes(), new: one.new.into_bytes(), all: one.all }
    }
}

/// Returns the edits of a request, at least one.
fn edits(input: &mut Input) -> Result<Vec<Edit>, OpError> {
    let mut edits = std::mem::take(&mut input.edits);
    match (input.old.take(), input.new.take()) {
        (Some(old), Some(new)) => edits.push(OneEdit { old, new, all: input.all }),
        (Some(_), None) => {
            return Err(OpError::bad_input("'new' is missing").help("an empty 'new' deletes 'old'"));
        }
        (None, Some(_)) => return Err(OpError::bad_input("'old' is missing")),
        (None, None) => {}
    }
    match edits.len() {
        0 => {
            Err(OpError::bad_input("'edits' is missing").help("give 'old' and 'new' for each edit"))
        }
        count if count > MAX_EDITS => {
            Err(OpError::bad_input(format!("too many edits: the maximum is {MAX_EDITS}")))
        }
        _ => Ok(edits.into_iter().map(Edit::from).collect()),
    }
}

impl Operation for FileEdit {
    type Input = Input;
    type Output = Changes;
    const META: Meta = Meta {
        cli: &["file", "edit"],
        summary: "Edit a file by replacing exact texts",
        details: "\
A text that is missing, or occurs more than once, is an error that shows the nearest match. The file is then unchanged.

Examples:
  proctor file edit src/main.rs --old 'let x = 1;' --new 'let x = 2;'
  proctor file edit src/main.rs --old foo --new bar --all --dry-run",
        max_input: WITH_CONTENT,
        launches: false,
        ..Meta::of("file.edit", Effect::Write, Target::Files).needing(Role::Admin).with_folder()
    };

    async fn run(context: &Context, mut input: Input) -> Result<Changes, OpError> {
        let edits = edits(&mut input)?;
        let dry_run = input.guarded.dry_run;
        let wish = input.guarded.wish(Self::META.name)?;
        let changed = input.here.files(context).await?.edit(input.path, edits, wish).await?;
        Ok(Changes::of(vec![changed], dry_run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_stand_there_has_to_be_said() {
        let some = |text: &str| Some(text.to_owned());
        for (old, new, expected) in [
            (some("a"), some("b"), Ok(1)),
            (some("a"), some(""), Ok(1)),
            (some("a"), None, Err("'new' is missing")),
            (None, some("b"), Err("'old' is missing")),
            (None, None, Err("'edits' is missing")),
        ] {
            let found = edits(&mut Input { old, new, ..Input::default() });
            let found = found.map(|edits| edits.len()).map_err(|error| error.message);
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }
}
