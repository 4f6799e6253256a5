//! `file.change`: finds and replaces text in a file.

use crate::error::OpError;
use crate::file::CurrentFolder;
use crate::file_change::{ChangeGuards, Changes};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use proctor_engine::files::Replacement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct FileChange;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File below a root
    #[arg(
        value_name = "PATH",
        help = "File below a root, relative to the current folder or as ROOT:path"
    )]
    pub path: String,
    /// Text to find; with 'regex', a regular expression
    #[arg(value_name = "FIND", allow_hyphen_values = true)]
    pub find: String,
    /// Replacement text; with 'regex', $1 or ${name} inserts a group
    #[arg(value_name = "REPLACE", allow_hyphen_values = true)]
    pub replace: String,
    /// Treat 'find' as a regular expression; ^ and $ match at lines
    #[arg(long, short = 'e')]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regex: bool,
    /// Ignore case
    #[arg(long, short = 'i')]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Replace only this match, counted from 1
    #[arg(long, value_name = "NUMBER")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<usize>,
    /// Fail unless there are exactly this many matches
    #[arg(long, value_name = "COUNT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: ChangeGuards,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

impl Operation for FileChange {
    type Input = Input;
    type Output = Changes;
    const META: Meta = Meta {
        cli: &["file", "change"],
        summary: "Find and replace in a file",
        details: "\
Examples:
  proctor file change src/main.rs old_name new_name
  proctor file change package.json '\"version\": \"(\\d+)' '\"version\": \"$1' --regex --expect 1",
        launches: false,
        ..Meta::of("file.change", Effect::Write, Target::Files).needing(Role::Admin).with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Changes, OpError> {
        let dry_run = input.guarded.dry_run;
        let wish = input.guarded.wish(Self::META.name)?;
        let wanted = Replacement {
            find: input.find,
            put: input.replace,
            regex: input.regex,
            any_case: input.ignore_case,
            nth: input.nth,
            expect: input.expect,
        };
        let changed = input.here.files(context).await?.replace(input.path, wanted, wish).await?;
        Ok(Changes::of(vec![changed], dry_run))
    }
}
