//! `file.write`: writes the whole content of a file.

use crate::error::OpError;
use crate::file::CurrentFolder;
use crate::file_change::{ChangeGuards, Changes, WITH_CONTENT, given};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use proctor_engine::files::WriteRequest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The fields that hold the content.
const GIVEN: [&str; 2] = ["content", "base64"];

pub struct FileWrite;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File below a root; missing folders are created
    #[arg(
        value_name = "PATH",
        help = "File below a root, relative to the current folder or as ROOT:path; missing folders are created"
    )]
    pub path: String,
    /// New content as text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[arg(help = "New content as text; - reads standard input")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// New content as base64, instead of text
    #[arg(long, value_name = "BASE64", conflicts_with = "content")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Fail if the file exists
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_new: bool,
    /// Keep the given line endings instead of those of the file
    #[arg(long)]
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub guarded: ChangeGuards,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

impl Operation for FileWrite {
    type Input = Input;
    type Output = Changes;
    const META: Meta = Meta {
        cli: &["file", "write"],
        summary: "Write the whole content of a file",
        details: "\
An existing file keeps its mode, owner and line endings. Its old content is kept for `proctor file undo`.

Examples:
  proctor file write notes.txt --content 'one line'
  proctor file write notes.txt --content '' --only-new
  date | proctor file write now.txt --content -",
        max_input: WITH_CONTENT,
        launches: false,
        ..Meta::of("file.write", Effect::Write, Target::Files).needing(Role::Admin).with_stdin(GIVEN[0], GIVEN[1]).with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Changes, OpError> {
        let dry_run = input.guarded.dry_run;
        let wish = input.guarded.wish(Self::META.name)?;
        let exact = input.exact || input.base64.is_some();
        let content = given(GIVEN, input.content, input.base64)?.ok_or_else(|| {
            OpError::bad_input("'content' is missing")
                .help("give a text; in a shell, `--content -` reads standard input")
        })?;
        let written = WriteRequest { content, exact, only_new: input.only_new };
        let changed = input.here.files(context).await?.write(input.path, written, wish).await?;
        Ok(Changes::of(vec![changed], dry_run))
    }
}
