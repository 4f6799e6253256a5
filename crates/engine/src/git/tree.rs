//! What revisions hold, looked at and brought back.

use super::Repository;
use super::call::Call;
use super::diff::{Diff, DiffQuery, empty_tree};
use super::error::GitError;
use super::fields::{self, Name, number};
use super::given::{listed, literals};
use super::log::Commit;

/// What a revision is, or what it has at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtRevision {
    /// A commit, and how it differs from its first parent.
    Commit(Box<Commit>, Diff),
    /// A file as it was.
    File {
        commit: String,
        path: Name,
        blob: String,
        size: u64,
        /// Its beginning, as much as was asked for.
        bytes: Vec<u8>,
    },
}

#[derive(Debug, Clone, Default)]
pub struct Restore {
    pub paths: Vec<String>,
    /// The index, from the commit that is checked out.
    pub staged: bool,
    /// The work tree, from the index.
    pub worktree: bool,
    /// From this revision instead.
    pub from: Option<String>,
}

impl Repository {
    /// A commit with its changes; `query` says which part of them.
    pub async fn show(&self, revision: &str, query: &DiffQuery) -> Result<AtRevision, GitError> {
        let hash = self.commit_of(revision).await?;
        let commit = self.commit(&hash).await?;
        let before = commit.parents.first().cloned().unwrap_or_else(|| empty_tree(&hash));
        let diff = self.compare(&[before, hash], query).await?;
        Ok(AtRevision::Commit(Box::new(commit), diff))
    }

    /// A file as it was in a revision, `most` bytes of it.
    pub async fn show_file(
        &self,
        revision: &str,
        path: &str,
        most: usize,
    ) -> Result<AtRevision, GitError> {
        let path = self.path("path", path)?;
        let Some(name) = path.is_text().then(|| path.text().into_owned()) else {
            return Err(GitError::bad("path", "it is not UTF-8"));
        };
        let commit = self.commit_of(revision).await?;
        let none = || GitError::Nothing(format!("'{name}' in {revision}"));
        let blob = self.object(&format!("{commit}:{name}"), "").await.map_err(|_| none())?;
        let call = Call::reading(&["cat-file", "--batch"]).input(format!("{blob}\n").into());
        let said = self.ask(call.most(HEADER + most)).await?;
        let (kind, size, bytes) = object(&said.out).ok_or_else(none)?;
        match kind.as_str() {
            "blob" => {
                let end = most.min(bytes.len()).min(usize::try_from(size).unwrap_or(usize::MAX));
                let bytes = bytes[..end].to_vec();
                Ok(AtRevision::File { commit, path, blob, size, bytes })
            }
            "tree" => Err(GitError::bad("path", format!("'{name}' is a folder in {revision}"))),
            kind => Err(GitError::bad("path", format!("'{name}' is a {kind} in {revision}"))),
        }
    }

    /// Bring files back; which ones were different.
    pub async fn restore(&mut self, restore: &Restore) -> Result<Vec<Name>, GitError> {
        let paths = self.paths(&restore.paths)?;
        if paths.is_empty() {
            return Err(GitError::bad("paths", "name what to restore; '.' is everything"));
        }
        self.write().await?;
        let from = match &restore.from {
            Some(revision) => Some(self.commit_of(revision).await?),
            None => None,
        };
        let worktree = restore.worktree || !restore.staged;
        let before = self.differing(restore, from.as_deref()).await?;
        self.check_filters(&before).await?;
        let mut call = Call::writing(&["restore", "--quiet", "--no-recurse-submodules"]).args([
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

    /// What a restore is about to change: what differs now from where it comes from.
    async fn differing(
        &self,
        restore: &Restore,
        from: Option<&str>,
    ) -> Result<Vec<Name>, GitError> {
        let query = DiffQuery { paths: restore.paths.clone(), stat: true, ..DiffQuery::default() };
        let against = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let compared: Vec<String> = match (from, restore.staged) {
            (Some(hash), true) if !restore.worktree => against(&["--cached", hash]),
            (Some(hash), _) => against(&[hash]),
            (None, true) if !restore.worktree => against(&["--cached"]),
            (None, true) => match self.head().await? {
                Some(head) => vec![head],
                None => against(&["--cached"]),
            },
            (None, false) => Vec::new(),
        };
        let diff = self.compare(&compared, &query).await?;
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

    /// The same for all files that differ between two commits, or between one and the work tree.
    pub(super) async fn check_filters_between(&self, sides: &[String]) -> Result<(), GitError> {
        if self.place.trusted || self.settings.filters.is_empty() {
            return Ok(());
        }
        let call = Call::reading(&["diff", "--name-only", "-z", "--no-ext-diff", "--no-textconv"])
            .args(["--no-renames", "--ignore-submodules=all"]);
        let said = self.ask(call.args(sides).arg("--")).await?;
        if said.cut {
            let message = "too many files differ to look for filters in all of them";
            return Err(GitError::Conflict(message.into()));
        }
        let names = said.out.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        self.check_filters(&names.map(|name| Name(name.to_vec())).collect::<Vec<_>>()).await
    }

    /// A filter that is not run would put something else into the repository, or bring something else out of it: then
    /// nothing is done.
    pub(super) async fn check_filters(&self, files: &[Name]) -> Result<(), GitError> {
        if self.place.trusted || self.settings.filters.is_empty() || files.is_empty() {
            return Ok(());
        }
        let call = Call::reading(&["check-attr", "-z", "--stdin", "filter"]).input(listed(files));
        let said = self.ask(call).await?;
        for [path, _, driver] in fields::groups::<3>(&said.out) {
            let driver = fields::text(driver);
            if self.settings.filters.contains(&driver) {
                return Err(GitError::Filtered { path: fields::text(path), driver });
            }
        }
        Ok(())
    }
}

/// `hash kind size` and a line end before the content.
const HEADER: usize = 256;

/// The kind of an object, its size, and what is there of its content.
pub fn object(bytes: &[u8]) -> Option<(String, u64, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let mut words = bytes[..end].split(|byte| *byte == b' ');
    let _hash = words.next()?;
    Some((fields::text(words.next()?), number(words.next()?)?, &bytes[end + 1..]))
}
