//! Shows and restores the contents of revisions.

use super::Repository;
use super::arguments::{listed, literal, literals};
use super::call::{GitCall, GitOutput};
use super::diff::{Diff, DiffQuery, Page, empty_tree};
use super::error::GitError;
use super::index::AttributesIndex;
use super::log::Commit;
use super::output_fields::{self, Name, number};
use std::collections::BTreeSet;

/// The first version that reads attributes from a commit.
const TELLS_OTHER_ATTRIBUTES: (u32, u32) = (2, 40);

/// Maximum size of paths passed as arguments; for more, all files are checked for filters.
const MAX_ARGUMENT_BYTES: usize = 256 << 10;

/// The index instead of the work tree.
const CACHED: &str = "--cached";

/// A revision, or its content at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtRevision {
    /// A commit, and its difference from its first parent.
    Commit(Box<Commit>, Diff),
    /// A file of a revision.
    File {
        commit: String,
        path: Name,
        blob: String,
        size: u64,
        /// Offset of the requested part.
        offset: u64,
        bytes: Vec<u8>,
        /// Position to continue at, if there is more.
        cursor: Option<String>,
    },
}

#[derive(Debug, Clone, Default)]
pub struct Restore {
    pub paths: Vec<String>,
    /// Restore the index, from the last commit.
    pub staged: bool,
    /// Restore the work tree, from the index.
    pub worktree: bool,
    /// Restore from this revision instead.
    pub from: Option<String>,
}

impl Repository {
    /// A commit with its changes; `query` selects a part of them.
    pub async fn show(&self, revision: &str, query: &DiffQuery) -> Result<AtRevision, GitError> {
        let hash = self.commit_of(revision).await?;
        let commit = self.commit(&hash).await?;
        let before = commit.parents.first().cloned().unwrap_or_else(|| empty_tree(&hash));
        let diff = self.compare(&[before, hash], query).await?;
        Ok(AtRevision::Commit(Box::new(commit), diff))
    }

    /// A file of a revision; `query` selects a part of it.
    pub async fn show_file(
        &self,
        revision: &str,
        path: &str,
        query: &DiffQuery,
    ) -> Result<AtRevision, GitError> {
        let page = Page::new(query.max_bytes, query.cursor.as_deref())?;
        let path = self.path("path", path)?;
        let Some(name) = path.is_text().then(|| path.text().into_owned()) else {
            return Err(GitError::bad("path", "must be UTF-8"));
        };
        let commit = self.commit_of(revision).await?;
        let none = || GitError::Nothing(format!("'{name}' in {revision}"));
        let blob = self.object(&format!("{commit}:{name}"), "").await.map_err(|_| none())?;
        let call = GitCall::reading(&["cat-file", "--batch"]).input(format!("{blob}\n").into());
        let said = self.ask(call.most(HEADER + page.skip + page.most)).await?;
        let (kind, size, bytes) = object(&said.out).ok_or_else(none)?;
        match kind.as_str() {
            "blob" => {
                let end = bytes.len().min(usize::try_from(size).unwrap_or(usize::MAX));
                let (bytes, cursor) = page.of(&bytes[..end], (end as u64) < size)?;
                let offset = page.skip as u64;
                Ok(AtRevision::File { commit, path, blob, size, offset, bytes, cursor })
            }
            "tree" => Err(GitError::bad("path", format!("'{name}' is a folder in {revision}"))),
            kind => Err(GitError::bad("path", format!("'{name}' is a {kind} in {revision}"))),
        }
    }

    /// Restores files; returns those that were different.
    pub async fn restore(&mut self, restore: &Restore) -> Result<Vec<Name>, GitError> {
        let paths = self.paths(&restore.paths)?;
        if paths.is_empty() {
            return Err(GitError::bad("paths", "name paths to restore; '.' restores everything"));
        }
        self.write_files().await?;
        let from = match &restore.from {
            Some(revision) => Some(self.commit_of(revision).await?),
            None => None,
        };
        let worktree = restore.worktree || !restore.staged;
        let compared = self.compared(restore, from.as_deref()).await?;
        if worktree {
            let commit = compared.last().filter(|word| *word != CACHED).cloned();
            let files = self.names_between(&compared, &paths).await?;
            self.check_filters_in(&files, commit.as_slice()).await?;
        }
        let before = self.differing(restore, &compared).await?;
        let mut call = GitCall::writing(&["restore", "--quiet", "--no-recurse-submodules"]).args([
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
            "--no-progress",
        ]);
        call = call.args(restore.staged.then_some("--staged"));
        call = call.args(worktree.then_some("--worktree"));
        call = call.args(from.map(|hash| format!("--source={hash}")));
        self.ask(call.input(literals(&paths))).await?;
        Ok(before)
    }

    /// The source and the target of a restore, as arguments for a difference.
    async fn compared(
        &self,
        restore: &Restore,
        from: Option<&str>,
    ) -> Result<Vec<String>, GitError> {
        let against = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Ok(match (from, restore.staged) {
            (Some(hash), true) if !restore.worktree => against(&[CACHED, hash]),
            (Some(hash), _) => against(&[hash]),
            (None, true) if !restore.worktree => against(&[CACHED]),
            (None, true) => match self.head().await? {
                Some(head) => vec![head],
                None => against(&[CACHED]),
            },
            (None, false) => Vec::new(),
        })
    }

    /// The files that a restore changes: those that differ from its source.
    async fn differing(
        &self,
        restore: &Restore,
        compared: &[String],
    ) -> Result<Vec<Name>, GitError> {
        let query = DiffQuery { paths: restore.paths.clone(), stat: true, ..DiffQuery::default() };
        let diff = self.compare(compared, &query).await?;
        if diff.cut {
            return Err(GitError::bad("paths", "too many changes; name some paths"));
        }
        let mut paths: Vec<Name> = diff
            .files
            .into_iter()
            .flat_map(|file| [Some(file.path), file.from])
            .flatten()
            .collect();
        paths.sort();
        paths.dedup();
        Ok(paths)
    }

    /// Fails if a file has a disabled filter: without it, wrong contents would be written to the repository or
    /// the work tree.
    pub(super) async fn check_filters(&self, files: &[Name]) -> Result<(), GitError> {
        self.check_filters_of(files, None).await
    }

    /// Checks the filters of all files below these paths that differ between two commits, or between one and
    /// the work tree.
    pub(super) async fn check_filters_between(
        &self,
        sides: &[String],
        paths: &[Name],
    ) -> Result<(), GitError> {
        let files = self.names_between(sides, paths).await?;
        self.check_filters_in(&files, sides.last().map(std::slice::from_ref).unwrap_or_default())
            .await
    }

    async fn names_between(&self, sides: &[String], paths: &[Name]) -> Result<Vec<Name>, GitError> {
        let call =
            GitCall::reading(&["diff", "--name-only", "-z", "--no-ext-diff", "--no-textconv"])
                .args(["--no-renames", "--ignore-submodules=all"]);
        self.named(call.args(sides), paths).await
    }

    /// Checks by the attributes of the work tree, of the index, and of these commits: the filters may
    /// themselves be one of the differences.
    pub(super) async fn check_filters_in(
        &self,
        files: &[Name],
        commits: &[String],
    ) -> Result<(), GitError> {
        self.check_filters_of(files, None).await?;
        self.check_filters_of(files, Some(CACHED)).await?;
        for commit in commits {
            match self.tool.version >= TELLS_OTHER_ATTRIBUTES {
                true => self.check_filters_of(files, Some(&format!("--source={commit}"))).await?,
                false => self.check_filters_by_index(files, commit).await?,
            }
        }
        Ok(())
    }

    /// Checks by the attributes of a commit with an older git, which reads attributes of an index only: the
    /// commit is read into a temporary index.
    async fn check_filters_by_index(&self, files: &[Name], commit: &str) -> Result<(), GitError> {
        if self.is_unfiltered() || files.is_empty() {
            return Ok(());
        }
        let aside = AttributesIndex::new(&self.place);
        let read = GitCall::writing(&["read-tree"]).in_index(Some(&aside.path)).arg(commit);
        self.ask(read).await?;
        let call = attributes_call(listed(files), Some(CACHED)).in_index(Some(&aside.path));
        let said = self.ask(call).await?.whole()?;
        self.refuse_unrun(&said)
    }

    /// Checks the files that a call of git lists, if any could be filtered.
    pub(super) async fn check_filters_named(
        &self,
        call: GitCall,
        paths: &[Name],
        commits: &[String],
    ) -> Result<(), GitError> {
        let files = self.named(call, paths).await?;
        self.check_filters_in(&files, commits).await
    }

    async fn named(&self, call: GitCall, paths: &[Name]) -> Result<Vec<Name>, GitError> {
        if self.is_unfiltered() {
            return Ok(Vec::new());
        }
        let few = paths.iter().map(|path| path.0.len()).sum::<usize>() <= MAX_ARGUMENT_BYTES;
        let words = paths.iter().filter(|_| few).map(literal);
        let said = self.ask(call.arg("--").args(words)).await?.whole()?;
        let names = said.out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| Name(name.to_vec())).collect())
    }

    pub(super) fn is_unfiltered(&self) -> bool {
        self.place.trusted || self.settings.filters.is_empty()
    }

    /// Checks by the attributes of the work tree, or of the source in this argument.
    async fn check_filters_of(&self, files: &[Name], place: Option<&str>) -> Result<(), GitError> {
        if self.is_unfiltered() || files.is_empty() {
            return Ok(());
        }
        let said = self.ask(attributes_call(listed(files), place)).await?.whole()?;
        self.refuse_unrun(&said)
    }

    fn refuse_unrun(&self, said: &GitOutput) -> Result<(), GitError> {
        match self.unrun(said).next() {
            Some((path, driver)) => {
                Err(GitError::Filtered { path: output_fields::text(path), driver })
            }
            None => Ok(()),
        }
    }

    /// Those of these files that have a disabled filter; of very many, only the first ones are checked.
    pub(super) async fn filtered<'a>(
        &self,
        files: impl Iterator<Item = &'a Name>,
    ) -> Result<BTreeSet<Name>, GitError> {
        let files = if self.is_unfiltered() { Vec::new() } else { listed(files) };
        if files.is_empty() {
            return Ok(BTreeSet::new());
        }
        let said = self.ask(attributes_call(files, None)).await?;
        Ok(self.unrun(&said).map(|(path, _)| path.into()).collect())
    }

    /// Files with a disabled filter, and its name.
    fn unrun<'a>(&self, said: &'a GitOutput) -> impl Iterator<Item = (&'a [u8], String)> {
        let groups = output_fields::groups::<3>(&said.out).into_iter();
        let named = groups.map(|[path, _, driver]| (path, output_fields::text(driver)));
        named.filter(|(_, driver)| self.settings.filters.contains(driver))
    }
}

/// The call that lists the filter of each file.
fn attributes_call(files: Vec<u8>, place: Option<&str>) -> GitCall {
    let call = GitCall::reading(&["check-attr", "-z", "--stdin"]).args(place);
    call.arg("filter").input(files)
}

impl GitOutput {
    /// Fails if the output was truncated.
    pub(super) fn whole(self) -> Result<GitOutput, GitError> {
        let message = "too many files differ to check them all for filters";
        if self.cut { Err(GitError::Conflict(message.into())) } else { Ok(self) }
    }
}

/// Maximum size of `hash kind size` and a line end, before the content.
const HEADER: usize = 256;

/// The kind of an object, its size, and the part of its content that was read.
pub fn object(bytes: &[u8]) -> Option<(String, u64, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let mut words = bytes[..end].split(|byte| *byte == b' ');
    let _hash = words.next()?;
    Some((output_fields::text(words.next()?), number(words.next()?)?, &bytes[end + 1..]))
}
