//! `git.resolve`: resolves the conflicts of a merge or rebase, then continues or aborts it.

use crate::error::{Code, OpError};
use crate::file_change::{WITH_CONTENT, given};
use crate::git::{InRepository, Purpose, RepositoryInput, SequencerInfo, brief, no_text, only_for};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_engine::git::{ConflictSide as FoundSide, ConflictedFile, Repository, Resolution};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Fields with the content of a file.
const GIVEN: [&str; 2] = ["content", "base64"];

/// Maximum files with conflicts in one response.
const MAX_FILES: usize = 500;

pub struct GitResolve;

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Show the merge or rebase in progress and the files with conflicts
    #[default]
    List,
    /// Resolution our version of the file
    Ours,
    /// Resolution their version of the file
    Theirs,
    /// Resolution the file from the work tree, or from 'content'
    Done,
    /// Continue the merge or rebase
    Continue,
    /// Abort the merge or rebase
    Abort,
}

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Action to perform
    #[arg(value_enum, default_value = "list", value_name = "ACTION")]
    pub action: Action,
    /// File with the conflict, relative to the top of the repository
    #[arg(value_name = "PATH", help = "File with the conflict")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// File name as base64, as listed if the name is not UTF-8
    #[arg(long, value_name = "BASE64", conflicts_with = "path")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Done: resolved content of the whole file
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[arg(help = "Done: resolved content of the whole file; - reads standard input")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Done: resolved content as base64, instead of text
    #[arg(long, value_name = "BASE64", conflicts_with = "content")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Merge or rebase in progress
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<SequencerInfo>,
    /// Files with conflicts
    pub conflicts: Vec<Conflict>,
    /// More files have conflicts
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Continuing stopped because of these conflicts
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// A file that both sides changed. A side that deleted it is omitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conflict {
    pub path: String,
    /// File name as base64, if it is not UTF-8
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Blob hash of the common ancestor
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<String>,
}

impl Operation for GitResolve {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "resolve"],
        summary: "Resolve the conflicts of a merge or rebase, and finish it",
        details: "\
In a rebase, 'ours' is the new base and 'theirs' is the commit being applied.

Examples:
  proctor git resolve
  proctor git resolve theirs src/main.rs
  proctor git resolve done src/main.rs
  merge-tool src/main.rs | proctor git resolve done src/main.rs --content -
  proctor git resolve continue",
        role: Role::Operator,
        max_input: WITH_CONTENT,
        ..Meta::of("git.resolve", Effect::Write, Target::Files)
            .followed()
            .attended()
            .with_folder()
            .with_stdin(GIVEN[0], GIVEN[1])
    };

    fn role(input: &Input) -> Role {
        match input.action {
            Action::List => Role::Operator,
            Action::Ours | Action::Theirs | Action::Done | Action::Continue | Action::Abort => {
                Role::Admin
            }
        }
    }

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        let Input { action, path, bytes, content, base64, place } = input;
        let content = given(GIVEN, content, base64)?;
        if action != Action::Done {
            only_for("'done'", &[("content", content.is_some())])?;
        }
        let take = match action {
            Action::List | Action::Continue | Action::Abort => None,
            Action::Ours => Some(Resolution::Ours),
            Action::Theirs => Some(Resolution::Theirs),
            Action::Done => Some(content.map_or(Resolution::AsItIs, Resolution::Content)),
        };
        let purpose = if action == Action::List { Purpose::Look } else { Purpose::Change };
        let (mut repository, told) = place.open(context, purpose).await?;
        match (take, file(&repository, path, bytes)?) {
            (Some(take), Some(path)) => repository.resolve(&path, &take).await?,
            (Some(_), None) => return Err(OpError::bad_input("'path' of the file is missing")),
            (None, Some(_)) => {
                return Err(OpError::bad_input(
                    "'path' can be used with 'ours', 'theirs' and 'done' only",
                ));
            }
            (None, None) if action == Action::Continue => drop(repository.go_on().await?),
            (None, None) if action == Action::Abort => repository.abort().await?,
            (None, None) => {}
        }
        let mut output = list(&repository).await?;
        output.stopped = action == Action::Continue && !output.conflicts.is_empty();
        Ok(told.with(output))
    }
}

/// Files are listed relative to the top of the repository.
fn file(
    repository: &Repository,
    path: Option<String>,
    bytes: Option<String>,
) -> Result<Option<PathBuf>, OpError> {
    let decode = |text: String| STANDARD.decode(text).map(OsString::from_vec);
    let bad = |error| OpError::bad_input(format!("bytes: {error}"));
    match (path, bytes.map(decode).transpose().map_err(bad)?) {
        (Some(_), Some(_)) => Err(OpError::bad_input("give 'path' or 'bytes', not both")),
        (None, Some(name)) => Ok(Some(repository.top().join(name))),
        (path, None) => Ok(path.map(PathBuf::from)),
    }
}

async fn list(repository: &Repository) -> Result<Output, OpError> {
    let (state, found) = repository.conflicts().await?;
    let truncated = found.len() > MAX_FILES;
    let conflicts = found.into_iter().take(MAX_FILES).map(Conflict::from).collect();
    Ok(Output { state: state.map(SequencerInfo::from), conflicts, truncated, stopped: false })
}

impl From<ConflictedFile> for Conflict {
    fn from(sides: ConflictedFile) -> Conflict {
        let blob = |side: Option<FoundSide>| side.map(|side| side.blob);
        Conflict {
            bytes: no_text(&sides.path),
            path: sides.path.text().into_owned(),
            base: blob(sides.base),
            ours: blob(sides.ours),
            theirs: blob(sides.theirs),
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        match &self.state {
            Some(state) => page.line().add(Style::Warn, state.sentence()),
            None => page.line().add(Style::Good, "no merge or rebase is in progress"),
        };
        if self.stopped {
            page.line().add(Style::Bad, "cannot continue: resolve these conflicts first");
        }
        for conflict in &self.conflicts {
            let side = |name: &str, blob: &Option<String>| match blob {
                Some(blob) => format!("  {name} {}", brief(blob)),
                None => format!("  {name} deleted"),
            };
            let line = page.line();
            line.add(Style::Bad, "conflict ").name(&conflict.path);
            line.dim(side("ours", &conflict.ours)).dim(side("theirs", &conflict.theirs));
            if let Some(bytes) = &conflict.bytes {
                line.dim(format!("  bytes {bytes}"));
            }
        }
        if self.truncated {
            page.line().dim("… and more");
        }
        if self.state.is_some() && self.conflicts.is_empty() {
            page.line().dim("no conflicts are left: continue with `proctor git resolve continue`");
        }
    }

    fn verdict(&self) -> Option<Code> {
        self.stopped.then_some(Code::Conflict)
    }
}
