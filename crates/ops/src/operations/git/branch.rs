//! `git.branch`: lists, creates, switches and deletes branches; lists work trees.

use crate::error::OpError;
use crate::git::{InRepository, Purpose, RepositoryInput, at, brief, count, only_for};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Column, Fit, Page, Show, Span, Style, Table};
use proctor_engine::git::{Branch as Found, Repository, Worktree as Tree};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const USUAL_BRANCHES: usize = 50;
const MAX_BRANCHES: usize = 2000;

pub struct GitBranch;

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// List branches, most recently used first, and work trees
    #[default]
    List,
    /// Create a branch
    Create,
    /// Switch to a branch
    Switch,
    /// Delete a branch
    Delete,
}

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Action to perform
    #[arg(value_enum, default_value = "list", value_name = "ACTION")]
    pub action: Action,
    /// Branch to create, switch to or delete
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Create: revision to start at; the current commit if omitted
    #[arg(long, value_name = "REV")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Create: also switch to it
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub switch: bool,
    /// Delete: even if it has commits that are on no other branch
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// List: maximum number of branches (default 50)
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Branch that was created, switched to or deleted
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Commit of the branch, also of a deleted one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The branch was deleted
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub branches: Vec<Branch>,
    /// More branches or work trees exist
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worktrees: Vec<Worktree>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Branch {
    pub name: String,
    /// The branch is checked out here
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub current: bool,
    pub hash: String,
    pub subject: String,
    /// Commit time in RFC 3339
    pub at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<u64>,
    /// Work tree in which the branch is checked out
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worktree {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub locked: bool,
    /// The folder of the work tree is missing
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl Operation for GitBranch {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "branch"],
        summary: "List, create, switch and delete branches; list work trees",
        details: "\
Examples:
  proctor git branch
  proctor git branch create topic --from main --switch
  proctor git branch switch main
  proctor git branch delete topic",
        role: Role::Operator,
        ..Meta::of("git.branch", Effect::Write, Target::Files).followed().attended().with_folder()
    };

    fn role(input: &Input) -> Role {
        match input.action {
            Action::List => Role::Operator,
            Action::Create | Action::Switch | Action::Delete => Role::Admin,
        }
    }

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        input.check()?;
        let purpose = if input.action == Action::List { Purpose::Look } else { Purpose::Change };
        let (mut repository, told) = input.place.open(context, purpose).await?;
        let named = || {
            let missing = || OpError::bad_input("'name' of the branch is missing");
            input.name.as_deref().ok_or_else(missing)
        };
        Ok(told.with(match input.action {
            Action::List => {
                let limit = count("limit", input.limit, USUAL_BRANCHES, MAX_BRANCHES)?;
                list(&repository, limit).await?
            }
            Action::Create => {
                let name = named()?;
                let from = input.from.as_deref().unwrap_or("HEAD");
                let hash = repository.create_branch(name, from).await?;
                if input.switch {
                    repository.switch(name).await?;
                }
                Output::at(name, hash)
            }
            Action::Switch => {
                let name = named()?;
                let hash = repository.switch(name).await?;
                Output::at(name, hash)
            }
            Action::Delete => {
                let name = named()?;
                let hash = repository.delete_branch(name, input.force).await?;
                Output { deleted: true, ..Output::at(name, hash) }
            }
        }))
    }
}

impl Input {
    fn check(&self) -> Result<(), OpError> {
        let create = [("from", self.from.is_some()), ("switch", self.switch)];
        let (name, limit) = (("name", self.name.is_some()), ("limit", self.limit.is_some()));
        if self.action != Action::Delete {
            only_for("'delete'", &[("force", self.force)])?;
        }
        match self.action {
            Action::List => {
                only_for("'create', 'switch' and 'delete'", &[name])?;
                only_for("'create'", &create)
            }
            Action::Create => only_for("'list'", &[limit]),
            Action::Switch | Action::Delete => {
                only_for("'create'", &create)?;
                only_for("'list'", &[limit])
            }
        }
    }
}

impl Output {
    fn at(name: &str, hash: String) -> Output {
        Output { name: Some(name.to_owned()), hash: Some(hash), ..Output::default() }
    }
}

async fn list(repository: &Repository, limit: usize) -> Result<Output, OpError> {
    let (branches, more) = repository.branches(limit).await?;
    let (worktrees, more_trees) = repository.worktrees().await?;
    Ok(Output {
        branches: branches.into_iter().map(Branch::from).collect(),
        truncated: more || more_trees,
        worktrees: worktrees.into_iter().map(Worktree::from).collect(),
        ..Output::default()
    })
}

impl From<Found> for Branch {
    fn from(found: Found) -> Branch {
        Branch {
            name: found.name,
            current: found.current,
            hash: found.hash,
            subject: found.subject,
            at: at(found.committed),
            upstream: found.upstream,
            ahead: found.ahead_behind.map(|counts| counts.0),
            behind: found.ahead_behind.map(|counts| counts.1),
            worktree: found.worktree,
        }
    }
}

impl From<Tree> for Worktree {
    fn from(tree: Tree) -> Worktree {
        Worktree {
            path: tree.path.to_string_lossy().into_owned(),
            branch: tree.branch,
            head: tree.head,
            locked: tree.locked,
            gone: tree.prunable,
        }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if let (Some(name), Some(hash)) = (&self.name, &self.hash) {
            let line = page.line();
            match self.deleted {
                true => line.plain("deleted branch ").name(name).plain(", which was at "),
                false => line.plain("branch ").name(name).plain(" at "),
            };
            line.plain(brief(hash));
            return;
        }
        let mut table = Table::new(&[
            Column::new("", Fit::Keep),
            Column::new("BRANCH", Fit::Keep),
            Column::new("COMMIT", Fit::Keep),
            Column::new("WHEN", Fit::Drop(1)),
            Column::new("UPSTREAM", Fit::Drop(2)),
            Column::new("SUBJECT", Fit::Shrink(12)),
        ]);
        for branch in &self.branches {
            let far = match (&branch.upstream, branch.ahead, branch.behind) {
                (Some(name), Some(ahead), Some(behind)) => format!("{name} +{ahead} -{behind}"),
                (Some(name), _, _) => format!("{name} (deleted)"),
                (None, _, _) => String::new(),
            };
            table.row([
                Span::new(Style::Good, if branch.current { "*" } else { "" }),
                Span::new(Style::Name, &branch.name),
                Span::new(Style::Plain, brief(&branch.hash)),
                Span::new(Style::Dim, page.moment(&branch.at)),
                Span::new(Style::Dim, far),
                Span::new(Style::Plain, &branch.subject),
            ]);
        }
        page.table(table);
        if self.truncated {
            page.line().dim("… and more; raise `limit` to see them");
        }
        for tree in self.worktrees.iter().filter(|_| self.worktrees.len() > 1) {
            let line = page.line();
            line.plain("work tree ").name(&tree.path);
            line.dim(format!("  {}", tree.branch.as_deref().unwrap_or("on no branch")));
            if tree.gone {
                line.add(Style::Warn, "  folder is missing");
            }
        }
    }
}
