//! Commits the index.

use super::Repository;
use super::arguments::{listed, prose};
use super::call::{GitCall, GitOutput};
use super::diff::{DiffQuery, empty_tree, total};
use super::error::GitError;
use super::in_progress::SequencerKind;
use super::index::Index;
use super::log::Commit;
use super::output_fields::{self, Name, records};
use super::stage::Add;
use super::status::{Entry, EntryState, StatusQuery};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::oneshot;

#[derive(Debug, Clone, Default)]
pub struct CommitRequest {
    /// Optional with `amend`.
    pub message: Option<String>,
    /// Only these paths, as they are in the work tree.
    pub paths: Vec<String>,
    /// First add all changes of tracked files.
    pub all: bool,
    /// Replace the last commit.
    pub amend: bool,
    /// `Name <address>`
    pub author: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitResult {
    /// `None`: there was nothing to commit.
    pub made: Option<NewCommit>,
    /// Untracked repositories inside this one, which are skipped.
    pub nested: Vec<Name>,
    /// Number of changed files if nothing was staged.
    pub unstaged: usize,
}

/// A new commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCommit {
    pub commit: Commit,
    /// `None`: no branch is checked out.
    pub branch: Option<String>,
    /// Number of changed files, and of added and deleted lines. `None` if they could not be counted.
    pub changed: Option<(usize, (u64, u64))>,
}

/// The index to install after a commit.
pub(super) struct PreparedIndex {
    pub(super) index: Arc<Index>,
    /// The committed tree, if the commit uses an index of its own.
    pub(super) tree: Option<String>,
}

impl Repository {
    /// Checks that a commit of these files would be accepted, for a caller that changes something first.
    pub async fn check_commit(&mut self, message: &str, paths: &[String]) -> Result<(), GitError> {
        prose("message", message)?;
        let paths = self.paths(paths)?;
        if !self.settings.has_identity {
            return Err(GitError::Nobody);
        }
        if self.state().await?.is_some() {
            return Err(in_the_middle());
        }
        self.check_filters(&paths).await?;
        self.refuse_ignored(&paths).await?;
        self.write_files().await
    }

    /// Fails for untracked files that are ignored.
    async fn refuse_ignored(&self, paths: &[Name]) -> Result<(), GitError> {
        if paths.is_empty() {
            return Ok(());
        }
        let call = GitCall::reading(&["check-ignore", "-z", "--stdin"]).input(listed(paths));
        let said = self.run(call).await?;
        let ignored = records(&said.out).next().map(output_fields::text);
        match (said.code, ignored) {
            (0, Some(path)) => Err(GitError::bad("paths", format!("'{path}' is ignored"))),
            (0 | 1, _) => Ok(()),
            _ => Err(said.failed()),
        }
    }

    pub async fn commit_changes(
        mut self,
        request: &CommitRequest,
    ) -> Result<CommitResult, GitError> {
        let author = request.author.as_deref().map(author).transpose()?;
        match &request.message {
            Some(message) => prose("message", message)?,
            None if request.amend => {}
            None => return Err(GitError::bad("message", "a commit needs a message")),
        }
        if !self.settings.has_identity && author.is_none() {
            return Err(GitError::Nobody);
        }
        self.write_files().await?;
        let under_way = self.state().await?;
        match (request.paths.is_empty(), request.all, &under_way) {
            (false, true, _) => {
                return Err(GitError::bad("paths", "give 'paths' or 'all', not both"));
            }
            (false, false, Some(_)) => return Err(in_the_middle()),
            (false, false, None) => return self.commit_only(request, author).await,
            (true, _, _) => {}
        }
        let merges = under_way.is_some_and(|state| state.step == SequencerKind::Merge);
        let may_be_empty = request.amend || merges;
        let call = self.commit_call(request, author);
        let made = match request.all {
            true => self.commit_known(call, may_be_empty).await?,
            false if may_be_empty || self.has_staged(None).await? => {
                self.commit_staged(call, true, None).await?
            }
            false => {
                let unstaged = self.unstaged().await?;
                return Ok(CommitResult { unstaged, ..CommitResult::default() });
            }
        };
        Ok(CommitResult { made, ..CommitResult::default() })
    }

    /// Number of tracked files with unstaged changes.
    async fn unstaged(&self) -> Result<usize, GitError> {
        let query = StatusQuery { no_untracked: true, ..StatusQuery::default() };
        let entries = self.status(&query).await?.entries.into_iter();
        let unstaged =
            |entry: &Entry| matches!(entry.what, EntryState::Changed { unstaged: Some(_), .. });
        Ok(entries.filter(unstaged).count())
    }

    /// Commits all tracked files as they are in the work tree. The usual index changes only after the commit.
    async fn commit_known(
        self,
        call: GitCall,
        may_be_empty: bool,
    ) -> Result<Option<NewCommit>, GitError> {
        let planned = self.plan(&Add::Known).await?;
        let index = self.hold_index().await?;
        self.stage(&planned, Some(&index.next())).await?;
        self.commit_staged(call, may_be_empty, Some(index)).await
    }

    /// Commits the index, or the next one. `None`: there is nothing to commit.
    async fn commit_staged(
        self,
        call: GitCall,
        may_be_empty: bool,
        index: Option<Arc<Index>>,
    ) -> Result<Option<NewCommit>, GitError> {
        let next = index.as_ref().map(|index| index.next());
        // Checked here, because git itself would enter submodules to list other changes.
        if !may_be_empty && !self.has_staged(next.as_deref()).await? {
            return Ok(None);
        }
        let before = self.head().await?;
        let prepared = index.map(|index| PreparedIndex { index, tree: None });
        self.make(call.in_index(next.as_deref()), before, prepared).await.map(Some)
    }

    /// Makes a commit, then installs the prepared index. A caller that stops waiting ends git; if the commit
    /// exists by then, its index is still installed.
    pub(super) async fn make(
        mut self,
        call: GitCall,
        before: Option<String>,
        prepared: Option<PreparedIndex>,
    ) -> Result<NewCommit, GitError> {
        let (waiting, wanted) = oneshot::channel();
        let git = Arc::clone(&self.git);
        let going = git.makings.begin().await;
        let mut making = tokio::spawn(async move {
            let mut call = call.wanted(wanted);
            if let Some(PreparedIndex { index, .. }) = &prepared {
                call = call.keeping(self.begin_commit(index).await?);
            }
            let said = self.run(call).await.and_then(GitOutput::taken);
            if let Some(PreparedIndex { index, .. }) = &prepared {
                index.ended();
            }
            // A commit exists even if git failed or was killed after it, in a hook. Without the lock of the
            // index, others may commit meanwhile: then a failure means that the new commit is theirs.
            if let Err(error) = said {
                let alone = prepared.is_some() || matches!(error, GitError::Late { .. });
                if !alone || self.head().await? == before {
                    return Err(error);
                }
            }
            if let Some(prepared) = prepared {
                self.conclude(prepared).await?;
            }
            drop(going);
            let made = self.made().await?;
            if let Some(told) = self.told.take() {
                told(&made);
            }
            Ok(made)
        });
        let made = tokio::select! {
            made = &mut making => made,
            () = git.makings.ending() => {
                drop(waiting);
                making.await
            }
        };
        made.unwrap_or_else(|error| Err(GitError::Conflict(error.to_string())))
    }

    async fn conclude(&self, PreparedIndex { index, tree }: PreparedIndex) -> Result<(), GitError> {
        if let Some(tree) = tree
            && let Err(error) = self.take_over(&tree, &index).await
        {
            tracing::warn!(%error, "cannot add to the index what hooks of a commit staged");
        }
        self.install(index).await
    }

    /// The call that commits the index.
    pub(super) fn commit_call(
        &self,
        request: &CommitRequest,
        author: Option<(String, String)>,
    ) -> GitCall {
        let mut call = GitCall::writing(&["commit", "--quiet", "--no-status", "--allow-empty"])
            .args(["--cleanup=whitespace", "--untracked-files=no"]);
        if !self.place.trusted {
            call = call.args(["--no-verify", "--no-post-rewrite", "--no-gpg-sign"]);
        }
        if request.amend {
            call = call.arg("--amend");
        }
        call = match &request.message {
            Some(message) => call.arg("-m").arg(message),
            None => call.arg("--no-edit"),
        };
        if let Some((name, address)) = author {
            call = call.arg(format!("--author={name} <{address}>"));
            if !self.settings.has_identity {
                call = call.env("GIT_COMMITTER_NAME", name).env("GIT_COMMITTER_EMAIL", address);
            }
        }
        call
    }

    /// Returns true if the index differs from the last commit.
    pub(super) async fn has_staged(&self, index: Option<&Path>) -> Result<bool, GitError> {
        let call =
            GitCall::reading(&["diff", "--cached", "--quiet", "--no-ext-diff"]).in_index(index);
        let said = self.run(call.args(["--no-textconv", "--ignore-submodules=dirty"])).await?;
        match said.code {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(said.failed()),
        }
    }

    /// The details of the new commit.
    pub(super) async fn made(&self) -> Result<NewCommit, GitError> {
        let commit = self.commit("HEAD").await?;
        let hash = commit.hash.clone();
        let before = commit.parents.first().cloned().unwrap_or_else(|| empty_tree(&hash));
        let query = DiffQuery { stat: true, ..DiffQuery::default() };
        // The commit exists, even if this fails.
        let diff = self.compare(&[before, hash], &query).await.ok();
        let changed = diff.map(|diff| (diff.files.len(), total(&diff.files)));
        let branch = self.branch().await?;
        Ok(NewCommit { commit, branch, changed })
    }

    /// The current branch.
    pub(super) async fn branch(&self) -> Result<Option<String>, GitError> {
        let said = self.run(GitCall::reading(&["symbolic-ref", "--quiet", "HEAD"])).await?;
        let name = said.out.trim_ascii_end().strip_prefix(b"refs/heads/").map(output_fields::text);
        Ok(name.filter(|_| said.code == 0))
    }
}

impl GitOutput {
    /// The output of a commit, if it succeeded.
    pub(super) fn taken(self) -> Result<GitOutput, GitError> {
        let silent = self.err.trim().is_empty() && self.out.trim_ascii().is_empty();
        match self.code {
            0 => Ok(self),
            _ if self.err.contains("unmerged files") => {
                let message = "files have conflicts; `proctor git resolve` lists them";
                Err(GitError::Conflict(message.into()))
            }
            code if silent => {
                let said = format!(
                    "exit code {code} without a message; a hook may have rejected the commit"
                );
                Err(GitError::Failed { what: "commit".into(), said })
            }
            _ => Err(self.failed()),
        }
    }
}

/// Parses `Name <address>`; git would read anything else as a pattern.
fn author(text: &str) -> Result<(String, String), GitError> {
    prose("author", text)?;
    let bad = || GitError::bad("author", "write it as 'Name <address>'");
    let inner = text.strip_suffix('>').ok_or_else(bad)?;
    let (name, address) = inner.split_once(" <").ok_or_else(bad)?;
    let plain = |part: &str| {
        let odd = |c: char| c.is_control() || matches!(c, '<' | '>');
        !part.trim().is_empty() && !part.contains(odd)
    };
    let fits = plain(name) && plain(address) && !address.contains(' ');
    if fits { Ok((name.trim().to_owned(), address.to_owned())) } else { Err(bad()) }
}

fn in_the_middle() -> GitError {
    GitError::Conflict(
        "a merge or the like is in progress, and can only be committed as a whole".into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_is_a_name_and_an_address() {
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let expected = expected.map(|(name, address)| (name.to_owned(), address.to_owned()));
            assert_eq!(author(text).ok(), expected, "{text}");
        };
        check("J. Doe <j@x>", Some(("J. Doe", "j@x")));
        check("--amend <x>", Some(("--amend", "x")));
        for bad in
            ["", "J", "J <>", " <j@x>", "J <j@x> ", "J <a> <b>", "J\n <j@x>", "J <j\n>", "<j>"]
        {
            check(bad, None);
        }
    }
}
