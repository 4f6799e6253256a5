//! `git.show`: shows a commit with its changes, or a file of a revision.

use super::diff;
use crate::error::OpError;
use crate::git::{
    CommitInfo, FileChange, InRepository, Purpose, RepositoryInput, brief, show_diff, text_size,
};
use crate::operation::{Context, Effect, Meta, Operation, Role, Target};
use crate::text_output::{Page, Show, Style};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proctor_engine::git::{AtRevision, DiffQuery, GitError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct GitShow;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Branch, tag or hash; the current commit if omitted. `REV:path` is a file, relative to the top of the repository
    #[arg(value_name = "REV")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rev: Option<String>,
    /// File of that revision to show, instead of the changes; relative to the top of the repository
    #[arg(
        long,
        value_name = "PATH",
        help = "File of that revision to show, instead of the changes"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Only file names and line counts of the changes
    #[arg(long, conflicts_with = "path")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stat: bool,
    /// Maximum response size in bytes
    #[arg(long, value_name = "BYTES")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
    /// Cursor from an earlier response
    #[arg(long, value_name = "CURSOR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub place: RepositoryInput,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitInfo>,
    /// Changes relative to the first parent
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// With `path`: the file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<File>,
    /// Cursor for the next request
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// More of the changes or of the file follows
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

/// A file of a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct File {
    pub path: String,
    /// Hash of the commit
    pub commit: String,
    /// Hash of the blob
    pub blob: String,
    pub size: u64,
    /// Offset of this part in bytes
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Content of this part, if it is UTF-8
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Content of this part as base64, if it is not UTF-8
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<String>,
}

fn is_zero(offset: &u64) -> bool {
    *offset == 0
}

impl Operation for GitShow {
    type Input = Input;
    type Output = InRepository<Output>;
    const META: Meta = Meta {
        cli: &["git", "show"],
        summary: "Show a commit with its changes, or a file of a revision",
        details: "\
Examples:
  proctor git show
  proctor git show v1.0 --stat
  proctor git show HEAD~3 --path src/main.rs
  proctor git show HEAD~3:src/main.rs",
        role: Role::Operator,
        ..Meta::of("git.show", Effect::Read, Target::Nothing).long().with_folder().whole()
    };

    async fn run(context: &Context, input: Input) -> Result<InRepository<Output>, OpError> {
        if input.path.is_some() && input.stat {
            return Err(OpError::bad_input("'stat' and 'path' cannot be combined"));
        }
        let (repository, told) = input.place.open(context, Purpose::Look).await?;
        let Input { rev, path, stat, max_bytes, cursor, .. } = input;
        let rev = rev.as_deref().unwrap_or("HEAD");
        let (max_bytes, begins) = (text_size(max_bytes), cursor.is_none());
        let query = DiffQuery { stat, cursor, max_bytes, ..DiffQuery::default() };
        let found = match &path {
            Some(path) => repository.show_file(rev, path, &query).await?,
            None => match (repository.show(rev, &query).await, of_tree(rev)) {
                (Err(GitError::NoRevision(_)), Some((rev, path))) if !stat => {
                    let path = repository.top().join(path);
                    repository.show_file(rev, &path.to_string_lossy(), &query).await?
                }
                (found, _) => found?,
            },
        };
        let output = output(found, stat);
        // The first page has the commit already.
        Ok(told.with(Output { commit: output.commit.filter(|_| begins), ..output }))
    }
}

/// Splits `REV:path`, as git writes it. The path is relative to the top.
fn of_tree(text: &str) -> Option<(&str, &str)> {
    text.split_once(':').filter(|(rev, path)| !rev.is_empty() && !path.is_empty())
}

fn output(found: AtRevision, stat: bool) -> Output {
    match found {
        AtRevision::Commit(commit, diff) => {
            let diff::Output { files, diff, cursor, more } = diff::output(diff, stat);
            Output { commit: Some((*commit).into()), files, diff, file: None, cursor, more }
        }
        AtRevision::File { commit, path, blob, size, offset, bytes, cursor } => {
            let (text, bytes) = content(bytes);
            let path = path.text().into_owned();
            let file = Some(File { path, commit, blob, size, offset, text, bytes });
            let more = cursor.is_some();
            Output { commit: None, files: Vec::new(), diff: None, file, cursor, more }
        }
    }
}

/// Returns text if the bytes are UTF-8, otherwise base64.
fn content(bytes: Vec<u8>) -> (Option<String>, Option<String>) {
    match String::from_utf8(bytes) {
        Ok(text) => (Some(text), None),
        Err(error) => (None, Some(STANDARD.encode(error.into_bytes()))),
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if let Some(commit) = &self.commit {
            commit.show(page);
            page.line();
        }
        match &self.diff {
            Some(text) => show_diff(page, text),
            None => self.files.iter().for_each(|file| file.show(page)),
        }
        page.goes_on(self.cursor.as_deref());
        let Some(file) = &self.file else { return };
        match &file.text {
            Some(text) => page.code(text, |_| Style::Plain),
            None => {
                let size = crate::timestamps::bytes(file.size);
                let at = brief(&file.commit);
                let from = match file.offset {
                    0 => String::new(),
                    offset => format!(" from byte {offset} on"),
                };
                page.line().dim(format!("{} at {at} is not text{from}: {size}", file.path));
                // The rest would not be shown either.
                page.goes_on(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_text_where_it_is_some() {
        let check = |bytes: &[u8], text: Option<&str>, base64: Option<&str>| {
            let expected = (text.map(str::to_owned), base64.map(str::to_owned));
            assert_eq!(content(bytes.to_vec()), expected, "{bytes:?}");
        };
        check(b"a\r\n", Some("a\r\n"), None);
        check(b"a\xc3", None, Some("YcM="));
        check(b"\xff\0a", None, Some("/wBh"));
    }
}
