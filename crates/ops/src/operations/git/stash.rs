//! `git.stash`: stashes changes and restores them.

use crate::error::{Code, OpError};
use crate::git::{InRepository, Purpose, RepositoryInput, at, brief, only_for, texts};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Column, Fit, Page, Show, Span, Style, Table};
use proctor_engine::git::{PopResult, Stash as Found, StashRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitStash;

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// List the stashes, newest first
    #[default]
    List,
    /// Stash changes
    Push,
    /// Restore a stash and remove it
    Pop,
    /// Remove a stash
    Drop,
}

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Action to perform
    #[arg(value_enum, default_value = "list", value_name = "ACTION")]
    pub action: Action,
    /// Push: only changes below these paths. Pop and drop: the number, as in git: 1 or stash@{1}
    #[arg(value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Push: message of the stash
    #[arg(long, short = 'm', value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Push: include new files
    #[arg(long, short = 'u')]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub untracked: bool,
    /// Pop and drop: number of the stash (default 0, the newest)
    #[arg(long, value_name = "NUMBER")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// True if the action was performed; false if there was nothing to stash, or a stash has conflicts
    pub done: bool,
    /// Files with conflicts; the stash is kept
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// Stash that was removed; git keeps its hash for some weeks
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Stash>,
    /// Stashes that exist now
    pub stashes: Vec<Stash>,
    /// More stashes exist
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stash {
    pub number: u32,
    pub message: String,
    /// Time in RFC 3339
    pub at: String,
    pub hash: String,
}

impl Operation for GitStash {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "stash"],
        summary: "Stash changes, and restore them",
        details: "\
Examples:
  proctor git stash
  proctor git stash push --untracked -m 'half done'
  proctor git stash pop 1
  proctor git stash drop 2",
        role: Role::Operator,
        ..Meta::of("git.stash", Effect::Write, Target::Files).followed().attended().with_folder()
    };

    fn role(input: &Input) -> Role {
        match input.action {
            Action::List => Role::Operator,
            Action::Push | Action::Pop | Action::Drop => Role::Admin,
        }
    }

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        input.check()?;
        let purpose = if input.action == Action::List { Purpose::Look } else { Purpose::Change };
        let (mut repository, told) = input.place.open(context, purpose).await?;
        let (mut done, mut conflicts, mut dropped) = (true, Vec::new(), None);
        match input.action {
            Action::List => {}
            Action::Push => {
                let Input { message, paths, untracked, .. } = input;
                done = repository.push_stash(&StashRequest { message, paths, untracked }).await?;
            }
            Action::Pop => match repository.pop_stash(input.chosen()?).await? {
                PopResult::Done => {}
                PopResult::Conflicts(paths) => (done, conflicts) = (false, texts(&paths)),
            },
            Action::Drop => {
                dropped = repository.drop_stash(input.chosen()?).await?.map(Stash::from);
            }
        }
        let (stashes, truncated) = repository.stashes().await?;
        let stashes = stashes.into_iter().map(Stash::from).collect();
        Ok(told.with(Output { done, conflicts, dropped, stashes, truncated }))
    }
}

impl Input {
    fn check(&self) -> Result<(), OpError> {
        let push = [("message", self.message.is_some()), ("untracked", self.untracked)];
        let (number, paths) = (("number", self.number.is_some()), !self.paths.is_empty());
        match self.action {
            Action::List => {
                only_for("'pop' and 'drop'", &[number])?;
                only_for("'push'", &push)?;
                only_for("'push', 'pop' and 'drop'", &[("paths", paths)])
            }
            Action::Push => only_for("'pop' and 'drop'", &[number]),
            Action::Pop | Action::Drop => {
                only_for("'push'", &push)?;
                self.chosen().map(drop)
            }
        }
    }

    /// Returns the number, also if it is given in place of a path, as in git.
    fn chosen(&self) -> Result<u32, OpError> {
        let word = match (self.number, &self.paths[..]) {
            (number, []) => return Ok(number.unwrap_or(0)),
            (None, [word]) => word,
            (Some(_), [..]) | (None, [_, _, ..]) => {
                return Err(
                    OpError::bad_input("only one stash can be chosen").help("give one 'number'")
                );
            }
        };
        let bare = word.strip_prefix("stash@{").and_then(|word| word.strip_suffix('}'));
        bare.unwrap_or(word).parse().map_err(|_| {
            OpError::bad_input(format!("'{word}' is not the number of a stash"))
                .help("the action 'list' shows the numbers")
        })
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
            (false, true) => drop(page.line().dim("nothing to stash")),
            (false, false) => {
                page.line().add(Style::Bad, "the stash has conflicts and is kept; conflicts in");
            }
        }
        if let Some(stash) = &self.dropped {
            let line = page.line();
            line.plain("dropped ").name(stash.number.to_string()).plain(", ");
            line.plain(&stash.message).dim(format!("  {}", brief(&stash.hash)));
        }
        for path in &self.conflicts {
            page.line().plain("  ").name(path);
        }
        if self.stashes.is_empty() {
            page.remark("no stashes");
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
            page.remark("… and more");
        }
    }

    fn verdict(&self) -> Option<Code> {
        (!self.conflicts.is_empty()).then_some(Code::Conflict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_chosen_by_its_number_and_by_nothing_else() {
        let check = |number: Option<u32>, paths: &[&str], expected: Option<u32>| {
            let paths = paths.iter().map(|path| (*path).to_owned()).collect();
            let input = Input { action: Action::Drop, number, paths, ..Input::default() };
            assert_eq!(input.check().and_then(|()| input.chosen()).ok(), expected, "{input:?}");
        };
        check(None, &[], Some(0));
        check(Some(3), &[], Some(3));
        check(None, &["2"], Some(2));
        check(None, &["stash@{1}"], Some(1));
        check(Some(1), &["1"], None);
        for bad in ["nosuch", "stash@{}", "stash@{1", "-1", "1.0", "stash"] {
            check(None, &[bad], None);
        }
        check(None, &["1", "2"], None);
    }

    #[test]
    fn fields_of_other_actions_are_refused() {
        let field = |input: Input| input.check().map_err(|error| error.message);
        for (action, allowed) in [
            (Action::List, [false, false, false, false]),
            (Action::Push, [true, true, true, false]),
            (Action::Pop, [true, false, false, true]),
            (Action::Drop, [true, false, false, true]),
        ] {
            let inputs = [
                Input { paths: vec!["1".into()], ..Input::default() },
                Input { message: Some("m".into()), ..Input::default() },
                Input { untracked: true, ..Input::default() },
                Input { number: Some(1), ..Input::default() },
            ];
            let taken = inputs.map(|input| field(Input { action, ..input }).is_ok());
            assert_eq!(taken, allowed, "{action:?}");
        }
        let number = Input { action: Action::Push, number: Some(1), ..Input::default() };
        assert_eq!(field(number), Err("'number' can be used with 'pop' and 'drop' only".into()));
    }
}
