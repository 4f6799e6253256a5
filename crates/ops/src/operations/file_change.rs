//! `file.change`: find and replace in a file.

use crate::change::{Changes, Guarded};
use crate::error::OpError;
use crate::file::Here;
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use proctor_engine::files::Replacement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct FileChange;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// A file below a root
    #[arg(value_name = "PATH", help = "A file below a root, from where you are or as ROOT:path")]
    pub path: String,
    /// The text to find, or with 'regex' an expression
    #[arg(value_name = "FIND", allow_hyphen_values = true)]
    pub find: String,
    /// What stands there afterwards; with 'regex', $1 or ${name} is what a group found
    #[arg(value_name = "REPLACE", allow_hyphen_values = true)]
    pub replace: String,
    /// 'find' is a regular expression; ^ and $ are ends of lines
    #[arg(long, short = 'e')]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub regex: bool,
    /// Take upper and lower case for the same
    #[arg(long, short = 'i')]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Only the place of this number, from 1
    #[arg(long, value_name = "NUMBER")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nth: Option<usize>,
    /// Refuse unless there are so many places
    #[arg(long, value_name = "COUNT")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: Guarded,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: Here,
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
