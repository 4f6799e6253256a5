//! `file.apply_diff`: a unified diff, on all its files or on none.

use crate::change::{Changes, DIFF, Guarded, WITH_CONTENT, given_diff};
use crate::error::OpError;
use crate::file::{Here, MAKE_ANEW};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use proctor_engine::files::DiffQuery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More lines around a change than diffs have.
const MOST_FUZZ: usize = 10;

pub struct FileApplyDiff;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// A unified diff, as of `git diff` or `diff -u`
    #[arg(value_name = "DIFF", allow_hyphen_values = true)]
    #[arg(help = "A unified diff, as of `git diff` or `diff -u`; - is standard input")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The same as `change` has it, for a command line only
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
    /// A diff that is not UTF-8, in base64
    #[arg(long, value_name = "BASE64", conflicts_with_all = ["diff", "as_option"])]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_base64: Option<String>,
    /// The folder that its names are below of; the root if not given
    #[arg(long, value_name = "PATH")]
    #[arg(help = "The folder that its names are below of; the root that you are in if not given")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// So many lines around each change may be others (0 if not given)
    #[arg(long, value_name = "LINES")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuzz: Option<usize>,
    /// Counts of lines and line ends have to be exact, too
    #[arg(long, conflicts_with = "fuzz")]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: Guarded,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: Here,
}

impl Operation for FileApplyDiff {
    type Input = Input;
    type Output = Changes;
    const META: Meta = Meta {
        cli: &["file", "apply-diff"],
        summary: "Apply a unified diff, to all its files or to none",
        details: "\
Files are changed, made, moved and deleted as it says. A hunk may be elsewhere than it says, if it fits there. Those that do not fit \
are told one by one. 'if_hash' is for a diff of one file.

Examples:
  proctor file apply-diff - < fix.diff
  proctor file apply-diff - --fuzz 2 --dry-run < fix.diff",
        max_input: WITH_CONTENT,
        launches: false,
        ..Meta::of("file.apply_diff", Effect::Write, Target::Files).needing(Role::Admin).with_stdin(DIFF[0], DIFF[1]).with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Changes, OpError> {
        let fuzz = input.fuzz.unwrap_or(0).min(MOST_FUZZ);
        if input.strict && fuzz > 0 {
            return Err(OpError::bad_input("'strict' allows no 'fuzz'"));
        }
        let text = given_diff(input.diff, input.diff_base64)?.ok_or_else(|| {
            OpError::bad_input("'diff' is missing")
                .help("give a unified diff; in a shell, `-` is standard input")
        })?;
        let query = DiffQuery { text, folder: input.path, strict: input.strict, fuzz };
        let dry_run = input.guarded.dry_run;
        let wish = input.guarded.wish(Self::META.name)?;
        let changed = input.here.files(context).await?.apply_diff(query, wish).await;
        let changed = changed.map_err(|error| with_fuzz(error.into()))?;
        // Names that were only looked for are no files of the diff.
        let changed = changed.into_iter().filter(|it| it.before.is_some() || it.after.is_some());
        Ok(Changes::of(changed.collect(), dry_run))
    }
}

/// What else there is to try here.
fn with_fuzz(error: OpError) -> OpError {
    match error.help.as_deref() {
        Some(MAKE_ANEW) => {
            error.help(format!("{MAKE_ANEW}; 'fuzz' overlooks lines around a change"))
        }
        Some(_) | None => error,
    }
}
