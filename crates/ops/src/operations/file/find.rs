//! `file.find`: finds files by name.

use super::list::{Item, rest};
use crate::error::OpError;
use crate::file::{CurrentFolder, IncludeFlags, KindWord, page_bytes};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use proctor_engine::files::ListQuery;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default maximum of names in one response.
const USUAL: usize = 200;
const MAX_PATHS: usize = 10_000;

pub struct FileFind;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Patterns: `*.rs` matches names anywhere, `src/**/*.rs` paths, `{a,b}` either
    #[arg(value_name = "GLOB", required = true)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    /// Folder to look in; every root if omitted
    #[arg(
        long = "in",
        value_name = "PATH",
        help = "Folder to look in; the current folder or every root if omitted"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only entries of this kind
    #[arg(long, value_enum, value_name = "KIND")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<KindWord>,
    /// Ignore case
    #[arg(long, short = 'i')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub also: IncludeFlags,
    /// Maximum number of names
    #[arg(long, value_name = "COUNT", help = "Maximum number of names (default 200)")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
    /// Maximum response size in bytes; continue with the cursor
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Cursor from an earlier response
    #[arg(long, value_name = "CURSOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Entries, sorted by name
    pub found: Vec<Item>,
    /// More entries follow; continue with the cursor
    pub more: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl Operation for FileFind {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["file", "find"],
        summary: "Find files by name",
        details: "\
Examples:
  proctor file find '*.rs'
  proctor file find 'src/**/test_*.py' --most 20
  proctor file find Makefile --in tools --ignore-case",
        ..Meta::of("file.find", Effect::Read, Target::Nothing)
            .needing(Role::Operator)
            .with_folder()
            .whole()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        if input.globs.is_empty() {
            return Err(OpError::bad_input("'globs' is missing")
                .help("give patterns, for example [\"*.rs\"]"));
        }
        let query = ListQuery {
            depth: None,
            leave_out: input.also.into(),
            patterns: input.globs,
            any_case: input.ignore_case,
            kind: input.kind.map(Into::into),
            most: input.most.unwrap_or(USUAL).clamp(1, MAX_PATHS),
            max_bytes: Some(page_bytes(input.max_bytes)),
            cursor: input.cursor,
        };
        let listing =
            input.here.files(context).await?.list(Vec::from_iter(input.path), query).await?;
        Ok(Output {
            found: listing.entries.into_iter().map(Item::from).collect(),
            more: listing.cursor.is_some(),
            cursor: listing.cursor,
        })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for item in &self.found {
            let end = if item.kind == KindWord::Folder { "/" } else { "" };
            page.line().plain(format!("{}{end}", item.path));
        }
        rest(page, self.found.is_empty(), self.cursor.as_deref());
    }
}
