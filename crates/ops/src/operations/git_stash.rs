//! `git.stash`: changes put aside and brought back.

use crate::error::{Code, OpError};
use crate::git::{Where, at, texts};
use crate::operation::{Context, Effect, Meta, Operation, Role};
use crate::show::{Column, Fit, Page, Show, Span, Style, Table};
use proctor_engine::git::{Popped, Stash as Found, StashRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitStash;

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The last one first
    #[default]
    List,
    /// Put changes aside
    Push,
    /// Bring them back
    Pop,
    /// Forget them
    Drop,
}

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// What is to be done
    #[arg(value_enum, default_value = "list", value_name = "ACTION")]
    pub action: Action,
    /// Push: only what is below these
    #[arg(value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Push: a message to know it by
    #[arg(long, short = 'm', value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Push: new files, too
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untracked: bool,
    /// Pop and drop: which one; 0, the last, if not given
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: Where,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Whether it was done; false where there was nothing to put aside, or where what came back does not fit
    pub done: bool,
    /// Files with conflicts; what was to come back is kept
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// What is put aside now
    pub stashes: Vec<Stash>,
    /// There are more
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stash {
    pub number: u32,
    pub message: String,
    /// RFC 3339
    pub at: String,
    pub hash: String,
}

impl Operation for GitStash {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["git", "stash"],
        summary: "Put changes aside, and bring them back",
        details: "\
Examples:
  proctor git stash
  proctor git stash push --untracked -m 'half done'
  proctor git stash pop --number 1",
        role: Role::Operator,
        ..Meta::of("git.stash", Effect::Write).followed().attended().with_folder()
    };

    fn role(input: &Input) -> Role {
        match input.action {
            Action::List => Role::Operator,
            Action::Push | Action::Pop | Action::Drop => Role::Admin,
        }
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let mut repository = input.place.open(context).await?;
        let number = input.number.unwrap_or(0);
        let (done, conflicts) = match input.action {
            Action::List => (true, Vec::new()),
            Action::Push => {
                let Input { message, paths, untracked, .. } = input;
                let request = StashRequest { message, paths, untracked };
                (repository.push_stash(&request).await?, Vec::new())
            }
            Action::Pop => match repository.pop_stash(number).await? {
                Popped::Done => (true, Vec::new()),
                Popped::Conflicts(paths) => (false, texts(&paths)),
            },
            Action::Drop => {
                repository.drop_stash(number).await?;
                (true, Vec::new())
            }
        };
        let (stashes, truncated) = repository.stashes().await?;
        let stashes = stashes.into_iter().map(Stash::from).collect();
        Ok(Output { done, conflicts, stashes, truncated })
    }
}

impl From<Found> for Stash {
    fn from(found: Found) -> Stash {
        let Found { number, hash, created, message } = found;
        Stash { number, message, at: at(created), hash }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        match (self.done, self.conflicts.is_empty()) {
            (true, _) => {}
            (false, true) => drop(page.line().dim("nothing to put aside")),
            (false, false) => {
                page.line().add(Style::Bad, "it does not fit, and is kept; conflicts in");
            }
        }
        for path in &self.conflicts {
            page.line().plain("  ").name(path);
        }
        if self.stashes.is_empty() {
            page.line().dim("nothing is put aside");
            return;
        }
        let mut table = Table::new(&[
            Column::number("NUMBER", Fit::Keep),
            Column::new("WHEN", Fit::Drop(1)),
            Column::new("MESSAGE", Fit::Shrink(12)),
        ]);
        for stash in &self.stashes {
            table.row([
                Span::new(Style::Name, stash.number.to_string()),
                Span::new(Style::Dim, page.moment(&stash.at)),
                Span::new(Style::Plain, &stash.message),
            ]);
        }
        page.table(table);
        if self.truncated {
            page.line().dim("… and more");
        }
    }

    fn verdict(&self) -> Option<Code> {
        (!self.conflicts.is_empty()).then_some(Code::Conflict)
    }
}
