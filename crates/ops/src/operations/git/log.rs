//! `git.log`: lists commits, newest first.

use crate::error::OpError;
use crate::git::{CommitInfo, InRepository, Purpose, RepositoryInput, count};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show};
use crate::timestamps;
use proctor_engine::git::{CheckedPaths, LogFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const USUAL_COMMITS: usize = 20;
const MAX_COMMITS: usize = 500;

pub struct GitLog;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Only commits that changed these paths
    #[arg(value_name = "PATH")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Branch, tag or hash to start at; the current commit if omitted. `A..B` selects commits in B that are not in A
    #[arg(long, value_name = "REV")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rev: Option<String>,
    /// Follow a single path through renames
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub follow: bool,
    /// Only commits whose author matches this regular expression
    #[arg(long, value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Only commits whose message matches this regular expression
    #[arg(long, value_name = "PATTERN")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grep: Option<String>,
    /// Only commits after this time: 2d, 2026-03-01, or RFC 3339
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only commits before this time
    #[arg(long, value_name = "TIME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Maximum number of commits (default 20)
    #[arg(long, short = 'n', value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Cursor from an earlier response
    #[arg(long, value_name = "CURSOR", conflicts_with = "rev")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub commits: Vec<CommitInfo>,
    /// Cursor for the next request, with the same filters
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// More commits follow
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl Operation for GitLog {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "log"],
        summary: "Show commits, newest first",
        details: "\
Examples:
  proctor git log
  proctor git log src/main.rs --follow
  proctor git log --author jane --since 14d
  proctor git log --rev main..topic
  proctor git log --rev v1.0 --grep 'fix|bug' -n 50",
        role: Role::Operator,
        ..Meta::of("git.log", Effect::Read, Target::Nothing).long().with_folder()
    };

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        let limit = count("limit", input.limit, USUAL_COMMITS, MAX_COMMITS)?;
        if input.cursor.is_some() && input.rev.is_some() {
            return Err(OpError::bad_input(
                "'rev' and 'cursor' cannot be combined: the cursor contains the revision",
            ));
        }
        let now = proctor_sys::clock::now().wall;
        let time = |field: &str, text: &Option<String>| {
            let parsed = text
                .as_ref()
                .map(|text| timestamps::parse(text, now, &timestamps::machines_zone()))
                .transpose();
            let parsed = parsed.map(|wall| wall.map(|wall| wall.0.div_euclid(1_000_000)));
            parsed.map_err(|why| OpError::bad_input(format!("{field}: {why}")))
        };
        let filter = LogFilter {
            since: time("since", &input.since)?,
            until: time("until", &input.until)?,
            revision: input.rev,
            paths: input.paths,
            follow: input.follow,
            author: input.author,
            grep: input.grep,
            limit,
            cursor: input.cursor,
        };
        let (repository, told) = input.place.open(context, Purpose::Look).await?;
        let log = repository.log(&filter).await?;
        if log.commits.is_empty() && filter.cursor.is_none() {
            let revisions = filter.revision.as_deref().into_iter().collect();
            let takes_revisions = Some("rev");
            let asked =
                CheckedPaths { paths: &filter.paths, revisions, history: true, takes_revisions };
            repository.check_known(&asked).await?;
        }
        let commits = log.commits.into_iter().map(CommitInfo::from).collect();
        Ok(told.with(Output { commits, more: log.cursor.is_some(), cursor: log.cursor }))
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.commits.is_empty() {
            page.remark("no matching commits");
        }
        for (at, commit) in self.commits.iter().enumerate() {
            if at > 0 {
                page.line();
            }
            commit.show(page);
        }
        page.goes_on(self.cursor.as_deref());
    }
}
