//! `file.history`: lists earlier generations of a file.

use crate::error::OpError;
use crate::file::CurrentFolder;
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use crate::timestamps::{bytes, rfc3339};
use proctor_engine::files::{Generation, MovedPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct FileHistory;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// File below a root; it may be deleted
    #[arg(
        value_name = "PATH",
        help = "File below a root, relative to the current folder or as ROOT:path; it may be deleted"
    )]
    pub path: String,
    #[command(flatten)]
    #[serde(flatten)]
    pub here: CurrentFolder,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Generations, newest first
    pub generations: Vec<GenerationView>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GenerationView {
    pub generation: u64,
    /// Time at which this content was replaced, in RFC 3339
    pub until: String,
    /// Operation that replaced it
    pub by: String,
    /// Hash of the content; null if there was no file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Path the file was moved to
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// Path the file was moved from
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<String>,
}

impl From<Generation> for GenerationView {
    fn from(known: Generation) -> GenerationView {
        let (moved_to, moved_from) = match known.moved {
            Some(MovedPath::To(path)) => (Some(path), None),
            Some(MovedPath::From(path)) => (None, Some(path)),
            None => (None, None),
        };
        GenerationView {
            moved_to,
            moved_from,
            generation: known.number,
            until: rfc3339(known.at),
            by: known.by,
            size: known.file.as_ref().map(|file| file.size),
            sha256: known.file.map(|file| file.sha256),
        }
    }
}

impl Operation for FileHistory {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["file", "history"],
        summary: "Show earlier generations of a file",
        details: "\
Examples:
  proctor file history src/main.rs",
        ..Meta::of("file.history", Effect::Read, Target::Nothing)
            .needing(Role::Operator)
            .with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let history = input.here.files(context).await?.history(input.path).await?;
        Ok(Output { generations: history.into_iter().map(GenerationView::from).collect() })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        for known in &self.generations {
            let until = page.moment(&known.until);
            let was = known.size.map_or_else(|| "no file".to_owned(), bytes);
            let line = page.line().name(known.generation.to_string());
            line.plain(format!("  {was}")).dim(format!("  until {until}, by {}", known.by));
            for (word, path) in [("to", &known.moved_to), ("from", &known.moved_from)] {
                if let Some(path) = path {
                    line.dim(format!(" {word} {path}"));
                }
            }
        }
        if self.generations.is_empty() {
            page.line().dim("nothing");
        }
    }
}
