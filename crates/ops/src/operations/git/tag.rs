//! `git.tag`: lists, creates and deletes tags.

use crate::error::OpError;
use crate::git::{InRepository, Purpose, RepositoryInput, at, brief, count, only_for};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Column, Fit, Page, Show, Span, Style, Table};
use proctor_engine::git::{Tag as Found, TagRequest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const USUAL_TAGS: usize = 50;
const MAX_TAGS: usize = 2000;

pub struct GitTag;

#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// List tags, newest first
    #[default]
    List,
    /// Create a tag
    Create,
    /// Delete a tag
    Delete,
}

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Action to perform
    #[arg(value_enum, default_value = "list", value_name = "ACTION")]
    pub action: Action,
    /// Tag to create or delete
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Create: revision to tag; the current commit if omitted
    #[arg(long, value_name = "REV")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rev: Option<String>,
    /// Create: message of an annotated tag
    #[arg(long, short = 'm', value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// List: maximum number of tags (default 50)
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Tag that was created or deleted
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Object of the tag, also of a deleted one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The tag was deleted
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// More tags exist
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tag {
    pub name: String,
    pub hash: String,
    pub subject: String,
    /// Time in RFC 3339
    pub at: String,
    /// The tag has its own message
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub annotated: bool,
}

impl Operation for GitTag {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "tag"],
        summary: "List, create and delete tags",
        details: "\
Examples:
  proctor git tag
  proctor git tag create v1.0 -m 'First release'
  proctor git tag delete v1.0",
        role: Role::Operator,
        ..Meta::of("git.tag", Effect::Write, Target::Files).followed().with_folder()
    };

    fn role(input: &Input) -> Role {
        match input.action {
            Action::List => Role::Operator,
            Action::Create | Action::Delete => Role::Admin,
        }
    }

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        input.check()?;
        let purpose = if input.action == Action::List { Purpose::Look } else { Purpose::Change };
        let (mut repository, told) = input.place.open(context, purpose).await?;
        let missing = || OpError::bad_input("'name' of the tag is missing");
        let name = input.name.clone();
        Ok(told.with(match input.action {
            Action::List => {
                let limit = count("limit", input.limit, USUAL_TAGS, MAX_TAGS)?;
                let (tags, truncated) = repository.tags(limit).await?;
                let tags = tags.into_iter().map(Tag::from).collect();
                Output { tags, truncated, ..Output::default() }
            }
            Action::Create => {
                let Input { rev: revision, message, .. } = input;
                let request = TagRequest { name: name.ok_or_else(missing)?, revision, message };
                let hash = repository.create_tag(&request).await?;
                Output { name: Some(request.name), hash: Some(hash), ..Output::default() }
            }
            Action::Delete => {
                let name = name.ok_or_else(missing)?;
                let hash = repository.delete_tag(&name).await?;
                let (name, hash) = (Some(name), Some(hash));
                Output { name, hash, deleted: true, ..Output::default() }
            }
        }))
    }
}

impl Input {
    fn check(&self) -> Result<(), OpError> {
        let create = [("rev", self.rev.is_some()), ("message", self.message.is_some())];
        let (name, limit) = (("name", self.name.is_some()), ("limit", self.limit.is_some()));
        match self.action {
            Action::List => {
                only_for("'create' and 'delete'", &[name])?;
                only_for("'create'", &create)
            }
            Action::Create => only_for("'list'", &[limit]),
            Action::Delete => {
                only_for("'create'", &create)?;
                only_for("'list'", &[limit])
            }
        }
    }
}

impl From<Found> for Tag {
    fn from(found: Found) -> Tag {
        let Found { name, hash, annotated, created, subject } = found;
        Tag { name, hash, subject, at: at(created), annotated }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if let (Some(name), Some(hash)) = (&self.name, &self.hash) {
            let line = page.line();
            match self.deleted {
                true => line.plain("deleted tag ").name(name).plain(", which was "),
                false => line.plain("tag ").name(name).plain(" of "),
            };
            line.plain(brief(hash));
            return;
        }
        if self.tags.is_empty() {
            page.remark("no tags");
            return;
        }
        let mut table = Table::new(&[
            Column::new("TAG", Fit::Keep),
            Column::new("COMMIT", Fit::Keep),
            Column::new("WHEN", Fit::Drop(1)),
            Column::new("SUBJECT", Fit::Shrink(12)),
        ]);
        for tag in &self.tags {
            table.row([
                Span::new(Style::Name, &tag.name),
                Span::new(Style::Plain, brief(&tag.hash)),
                Span::new(Style::Dim, page.moment(&tag.at)),
                Span::new(Style::Plain, &tag.subject),
            ]);
        }
        page.table(table);
        if self.truncated {
            page.remark("… and more; raise `limit` to see them");
        }
    }
}
