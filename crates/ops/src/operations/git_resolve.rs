//! `git.resolve`: conflicts of a merge or a rebase, file by file, and its end.

use crate::error::OpError;
use crate::git::{UnderWay, Where, brief, no_text};
use crate::operation::{Context, Effect, Meta, Operation, Role};
use crate::show::{Page, Show, Style};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_engine::git::{Repository, Side as FoundSide, Sides, Take};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Files with conflicts in one answer.
const MOST_FILES: usize = 500;

pub struct GitResolve;

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// What is under way, and the files with conflicts
    #[default]
    List,
    /// The file as our side has it
    Ours,
    /// The file as the other side has it
    Theirs,
    /// The file as it is in the work tree, or as 'content' says
    Done,
    /// Go on with the merge or rebase
    Continue,
    /// Go back to before it
    Abort,
}

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// What is to be done
    #[arg(value_enum, default_value = "list", value_name = "ACTION")]
    pub action: Action,
    /// The file, from the top of the repository (in a shell, from where you are)
    #[arg(value_name = "PATH")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The file by its name as base64, as it is listed where that is no UTF-8
    #[arg(long, value_name = "BASE64", conflicts_with = "path")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Done: the whole text that the file is to have
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: Where,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// What is under way now
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<UnderWay>,
    /// Files that have conflicts now
    pub conflicts: Vec<Conflict>,
    /// There are more
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A file that two sides changed differently; a side that deleted it is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conflict {
    pub path: String,
    /// The name as base64 where it is no UTF-8
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
    /// Git's name of the content before both
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<String>,
}

impl Operation for GitResolve {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["git", "resolve"],
        summary: "Settle the conflicts of a merge or rebase, and finish it",
        details: "\
In a rebase, ours is what the commits are put upon, and theirs the commit itself.

Examples:
  proctor git resolve
  proctor git resolve theirs src/main.rs
  proctor git resolve done src/main.rs
  proctor git resolve continue",
        role: Role::Operator,
        ..Meta::of("git.resolve", Effect::Write).followed().attended().with_folder()
    };

    fn role(input: &Input) -> Role {
        match input.action {
            Action::List => Role::Operator,
            Action::Ours | Action::Theirs | Action::Done | Action::Continue | Action::Abort => {
                Role::Admin
            }
        }
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let Input { action, path, bytes, content, place } = input;
        if content.is_some() && action != Action::Done {
            return Err(OpError::bad_input("'content' is for the action 'done'"));
        }
        let take = match action {
            Action::List | Action::Continue | Action::Abort => None,
            Action::Ours => Some(Take::Ours),
            Action::Theirs => Some(Take::Theirs),
            Action::Done => Some(content.map_or(Take::AsItIs, |text| Take::Content(text.into()))),
        };
        let mut repository = place.open(context).await?;
        match (take, file(&repository, path, bytes)?) {
            (Some(take), Some(path)) => repository.resolve(&path, &take).await?,
            (Some(_), None) => return Err(OpError::bad_input("which file? give 'path'")),
            (None, Some(_)) => {
                return Err(OpError::bad_input("'path' is for 'ours', 'theirs' and 'done'"));
            }
            (None, None) if action == Action::Continue => drop(repository.go_on().await?),
            (None, None) if action == Action::Abort => repository.abort().await?,
            (None, None) => {}
        }
        list(&repository).await
    }
}

/// What is listed is named from the top.
fn file(
    repository: &Repository,
    path: Option<String>,
    bytes: Option<String>,
) -> Result<Option<PathBuf>, OpError> {
    let decode = |text: String| STANDARD.decode(text).map(OsString::from_vec);
    let bad = |error| OpError::bad_input(format!("bytes: {error}"));
    match (path, bytes.map(decode).transpose().map_err(bad)?) {
        (Some(_), Some(_)) => Err(OpError::bad_input("give 'path' or 'bytes'")),
        (None, Some(name)) => Ok(Some(repository.top().join(name))),
        (path, None) => Ok(path.map(PathBuf::from)),
    }
}

async fn list(repository: &Repository) -> Result<Output, OpError> {
    let (state, found) = repository.conflicts().await?;
    let truncated = found.len() > MOST_FILES;
    let conflicts = found.into_iter().take(MOST_FILES).map(Conflict::from).collect();
    Ok(Output { state: state.map(UnderWay::from), conflicts, truncated })
}

impl From<Sides> for Conflict {
    fn from(sides: Sides) -> Conflict {
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
            None => page.line().add(Style::Good, "no merge or rebase is under way"),
        };
        for conflict in &self.conflicts {
            let side = |name: &str, blob: &Option<String>| match blob {
                Some(blob) => format!("  {name} {}", brief(blob)),
                None => format!("  {name} deleted"),
            };
            let line = page.line();
            line.add(Style::Bad, "conflict ").name(&conflict.path);
            line.dim(side("ours", &conflict.ours)).dim(side("theirs", &conflict.theirs));
            if let Some(bytes) = &conflict.bytes {
                line.dim(format!("  --bytes {bytes}"));
            }
        }
        if self.truncated {
            page.line().dim("… and more");
        }
        if self.state.is_some() && self.conflicts.is_empty() {
            page.line().dim("no conflicts are left: `proctor git resolve continue` goes on");
        }
    }
}
