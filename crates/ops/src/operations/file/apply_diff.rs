//! `file.apply_diff`: applies a unified diff to all its files or to none.

use crate::error::OpError;
use crate::file::{CurrentFolder, MAKE_ANEW};
use crate::file_change::{ChangeGuards, Changes, DIFF, WITH_CONTENT, given_diff};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use proctor_engine::files::DiffQuery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum `fuzz`. Diffs have fewer lines of context.
const MAX_FUZZ: usize = 10;

pub struct FileApplyDiff;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Unified diff, as from `git diff` or `diff -u`
    #[arg(value_name = "DIFF", allow_hyphen_values = true)]
    #[arg(help = "Unified diff, as from `git diff` or `diff -u`; - reads standard input")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Flag of the same name as `change` has, for the command line only
    #[arg(
        long = "diff",
        value_name = "DIFF",
        allow_hyphen_values = true,
        hide = true,
        conflicts_with = "diff"
    )]
    #[serde(
        rename(serialize = "diff"),
        skip_deserializing,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(skip)]
    pub as_option: Option<String>,
    /// Diff that is not UTF-8, in base64
    #[arg(long, value_name = "BASE64", conflicts_with_all = ["diff", "as_option"])]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_base64: Option<String>,
    /// Folder the names in the diff are relative to; the root if omitted
    #[arg(long, value_name = "PATH")]
    #[arg(help = "Folder the names in the diff are relative to; the current root if omitted")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Context lines of each change that may differ (default 0)
    #[arg(long, value_name = "LINES")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuzz: Option<usize>,
    /// Line counts and line endings must also match exactly
    #[arg(long, conflicts_with = "fuzz")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: ChangeGuards,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

impl Operation for FileApplyDiff {
    type Input = Input;
    type Output = Changes;
    const META: Meta = Meta {
        cli: &["file", "apply-diff"],
        summary: "Apply a unified diff, to all its files or to none",
        details: "\
Files are changed, created, moved and deleted as the diff says. A hunk may apply at another line if it fits there. Hunks that do not apply \
are reported one by one. 'if_hash' is only for a diff of one file.

Examples:
  proctor file apply-diff - < fix.diff
  proctor file apply-diff - --fuzz 2 --dry-run < fix.diff",
        max_input: WITH_CONTENT,
        launches: false,
        ..Meta::of("file.apply_diff", Effect::Write, Target::Files).needing(Role::Admin).with_stdin(DIFF[0], DIFF[1]).with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Changes, OpError> {
        let fuzz = input.fuzz.unwrap_or(0).min(MAX_FUZZ);
        if input.strict && fuzz > 0 {
            return Err(OpError::bad_input("'strict' and 'fuzz' cannot be combined"));
        }
        let text = given_diff(input.diff, input.diff_base64)?.ok_or_else(|| {
            OpError::bad_input("'diff' is missing")
                .help("give a unified diff; in a shell, `-` reads standard input")
        })?;
        let query = DiffQuery { text, folder: input.path, strict: input.strict, fuzz };
        let dry_run = input.guarded.dry_run;
        let wish = input.guarded.wish(Self::META.name)?;
        let changed = input.here.files(context).await?.apply_diff(query, wish).await;
        let changed = changed.map_err(|error| with_fuzz(error.into()))?;
        // Names that were only looked up are not files of the diff.
        let changed = changed.into_iter().filter(|it| it.before.is_some() || it.after.is_some());
        Ok(Changes::of(changed.collect(), dry_run))
    }
}

/// Adds 'fuzz' to the remedies of an error.
fn with_fuzz(error: OpError) -> OpError {
    match error.help.as_deref() {
        Some(MAKE_ANEW) => {
            error.help(format!("{MAKE_ANEW}; 'fuzz' ignores differing lines around a change"))
        }
        Some(_) | None => error,
    }
}
