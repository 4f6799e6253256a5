//! Commits some paths only, in an index of its own, as git does. A failed commit leaves nothing staged. The
//! work tree is read once: `git commit --only` would read it again, following any links.
//!
//! ```text
//! index ─── copy ──► proctor-next ─── read-tree HEAD ──► proctor-index ◄── changes below the paths
//!   ▲                 │   ▲   ▲                             │     │
//!   │                 │   │   └─ changes below the paths ── write-tree
//!   │                 │   └───── changes made by hooks ──────── git commit ──► new commit
//!   └──── rename ─────┘
//! ```
//!
//! `proctor-index` is HEAD plus the changes of the commit. `proctor-next` is the current index plus the same
//! changes, so it keeps what is staged elsewhere; it becomes the index after the commit.

use super::Repository;
use super::arguments::{listed, literal};
use super::call::GitCall;
use super::commit::{CommitRequest, CommitResult, PreparedIndex};
use super::error::GitError;
use super::index::Index;
use super::output_fields::{self, Name, records};
use super::stage::{Add, PlannedStage};
use std::path::Path;

/// Maximum size of the list of changes of one commit.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Prefix of a file marked as `assume-unchanged` in `ls-files -v`.
const ASSUMED: &[u8] = b"h ";

impl Repository {
    /// Commits the paths of a request as they are in the work tree.
    pub(super) async fn commit_only(
        self,
        request: &CommitRequest,
        author: Option<(String, String)>,
    ) -> Result<CommitResult, GitError> {
        let paths = self.paths(&request.paths)?;
        let mut planned = self.plan(&Add::Paths(request.paths.clone())).await?;
        let unseen = self.plan_unseen(&paths, &mut planned).await?;
        let index = self.hold_index().await?;
        let (aside, next) = (index.aside(), index.next());
        let mut output = std::ffi::OsString::from("--index-output=");
        output.push(&aside);
        // Uses the cached file times of the current index.
        let begin = GitCall::writing(&["read-tree"]).in_index(Some(&next)).arg(output);
        let head = self.head().await?;
        let begin = match &head {
            Some(head) => begin.arg("--reset").arg(head),
            None => begin.arg("--empty"),
        };
        self.ask(begin).await?;
        self.enter(self.staged_below(&[], &paths, None).await?, &aside).await?;
        if !unseen.is_empty() {
            // Otherwise git would skip these files again.
            let call =
                GitCall::writing(&["update-index", "--no-assume-unchanged", "-z", "--stdin"]);
            self.ask(call.in_index(Some(&aside)).input(listed(&unseen))).await?;
        }
        self.stage(&planned, Some(&aside)).await?;
        let nested = planned.added.nested;
        if !request.amend && !self.has_staged(Some(&aside)).await? {
            return Ok(CommitResult { nested, ..CommitResult::default() });
        }
        let tree = self.tree_in(&aside).await?;
        // A file may also differ because the commit reverts it to its state in HEAD.
        let changes = self.staged_below(&["-R", &tree], &paths, Some(&next)).await?;
        self.enter(changes, &next).await?;
        // It fails if files differ, which does not matter here.
        let refresh = ["update-index", "-q", "--unmerged", "--ignore-submodules", "--refresh"];
        self.run(GitCall::writing(&refresh).in_index(Some(&next))).await?;
        let call = self.commit_call(request, author).in_index(Some(&aside));
        let made = self.make(call, head, Some(PreparedIndex { index, tree: Some(tree) })).await?;
        Ok(CommitResult { made: Some(made), nested, unstaged: 0 })
    }

    /// Adds named files that are marked `assume-unchanged`: naming a file means to commit it.
    async fn plan_unseen(
        &self,
        paths: &[Name],
        planned: &mut PlannedStage,
    ) -> Result<Vec<Name>, GitError> {
        let call =
            GitCall::reading(&["ls-files", "-z", "-v", "--"]).args(paths.iter().map(literal));
        let said = self.ask(call).await?;
        let unseen =
            records(&said.out).filter_map(|line| line.strip_prefix(ASSUMED)).map(Name::from);
        let unseen: Vec<Name> = unseen.filter(|name| paths.contains(name)).collect();
        self.check_filters(&unseen).await?;
        let looked = unseen.clone();
        let gone = self.in_worktree(move |tree| tree.absent(looked)).await?;
        planned.gone.extend(gone);
        planned.added.paths.extend(unseen.iter().cloned());
        Ok(unseen)
    }

    /// Entries of an index that differ from a commit or tree, by default the last commit; with `-R` the
    /// reverse.
    async fn staged_below(
        &self,
        from: &[&str],
        paths: &[Name],
        index: Option<&Path>,
    ) -> Result<Vec<u8>, GitError> {
        let call = GitCall::reading(&["diff", "--cached", "--raw", "-z", "--no-abbrev"])
            .args(["--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"])
            .args(from);
        self.entries(call.in_index(index).arg("--").args(paths.iter().map(literal))).await
    }

    /// Adds to the next index the changes that hooks made in the index of the commit.
    pub(super) async fn take_over(&self, before: &str, index: &Index) -> Result<(), GitError> {
        if !self.place.trusted {
            return Ok(());
        }
        let after = self.tree_in(&index.aside()).await?;
        let call = GitCall::reading(&["diff-tree", "-r", "--raw", "-z", "--no-abbrev"]).args([
            "--no-renames",
            before,
            &after,
        ]);
        self.enter(self.entries(call).await?, &index.next()).await
    }

    async fn tree_in(&self, index: &Path) -> Result<String, GitError> {
        let said = self.ask(GitCall::writing(&["write-tree"]).in_index(Some(index))).await?;
        output_fields::hash(&said.out).ok_or_else(|| not_understood("write-tree"))
    }

    /// Raw differences in the input format of `update-index --index-info`.
    async fn entries(&self, call: GitCall) -> Result<Vec<u8>, GitError> {
        let said = self.ask(call.most(MAX_OUTPUT_BYTES)).await?;
        if said.cut {
            return Err(GitError::bad("paths", "too many changes; name some paths"));
        }
        let mut entries = Vec::new();
        for [about, path] in output_fields::groups::<2>(&said.out) {
            entries.extend(entry(about, path).ok_or_else(|| not_understood("diff"))??);
        }
        Ok(entries)
    }

    async fn enter(&self, entries: Vec<u8>, index: &Path) -> Result<(), GitError> {
        if entries.is_empty() {
            return Ok(());
        }
        let call = GitCall::writing(&["update-index", "-z", "--index-info"]).in_index(Some(index));
        self.ask(call.input(entries)).await.map(drop)
    }
}

fn not_understood(what: &str) -> GitError {
    GitError::Failed { what: what.into(), said: "its output cannot be parsed".into() }
}

/// Parses `:mode mode hash hash letter` into the new entry, which is all zeros for a deleted file.
fn entry(about: &[u8], path: &[u8]) -> Option<Result<Vec<u8>, GitError>> {
    let mut words = about.strip_prefix(b":")?.split(|byte| *byte == b' ');
    let (mode, hash) = (words.nth(1)?, words.nth(1)?);
    match words.next()? {
        b"U" => {
            let message = format!("'{}' has conflicts", output_fields::text(path));
            Some(Err(GitError::Conflict(message)))
        }
        _ => Some(Ok([mode, b" ", hash, b"\t", path, b"\0"].concat())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_becomes_an_entry_of_the_index() {
        let (a, b, none) = ("a".repeat(40), "b".repeat(40), "0".repeat(40));
        let check = |about: String, expected: &str| {
            let found = entry(about.as_bytes(), b"x y").unwrap().unwrap();
            assert_eq!(String::from_utf8(found).unwrap(), expected, "{about}");
        };
        check(format!(":100644 100755 {a} {b} M"), &format!("100755 {b}\tx y\0"));
        check(format!(":000000 120000 {none} {b} A"), &format!("120000 {b}\tx y\0"));
        check(format!(":100644 000000 {a} {none} D"), &format!("000000 {none}\tx y\0"));
        let unmerged = format!(":100644 000000 {none} {none} U");
        assert!(entry(unmerged.as_bytes(), b"x").unwrap().is_err());
        assert!(entry(b"nonsense", b"x").is_none());
    }
}
