//! A commit of some files only, made in an index of its own as git does it: where it fails, nothing is staged. What goes into
//! it is read once. `git commit --only` would look at the work tree again, through whatever links are there.

use super::Repository;
use super::call::Call;
use super::change::{Add, Planned};
use super::commit::{CommitRequest, Committed, Prepared};
use super::error::GitError;
use super::fields::{self, Name, records};
use super::given::{listed, literal};
use super::index::Index;
use std::path::Path;

/// A list of what one commit changes.
const MOST: usize = 16 << 20;

/// Before the name of a file that git was told to take for unchanged.
const ASSUMED: &[u8] = b"h ";

impl Repository {
    /// Commit what is below the paths of a request, as it is in the work tree.
    pub(super) async fn commit_only(
        self,
        request: &CommitRequest,
        author: Option<(String, String)>,
    ) -> Result<Committed, GitError> {
        let paths = self.paths(&request.paths)?;
        let mut planned = self.plan(&Add::Paths(request.paths.clone())).await?;
        let unseen = self.plan_unseen(&paths, &mut planned).await?;
        let index = self.hold_index().await?;
        let (aside, next) = (index.aside(), index.next());
        let mut output = std::ffi::OsString::from("--index-output=");
        output.push(&aside);
        // What is known of the times of files is kept.
        let begin = Call::writing(&["read-tree"]).in_index(Some(&next)).arg(output);
        let head = self.head().await?;
        let begin = match &head {
            Some(head) => begin.arg("--reset").arg(head),
            None => begin.arg("--empty"),
        };
        self.ask(begin).await?;
        self.enter(self.staged_below(&[], &paths, None).await?, &aside).await?;
        if !unseen.is_empty() {
            // Else git would take its word for it once more.
            let call = Call::writing(&["update-index", "--no-assume-unchanged", "-z", "--stdin"]);
            self.ask(call.in_index(Some(&aside)).input(listed(&unseen))).await?;
        }
        self.stage(&planned, Some(&aside)).await?;
        let nested = planned.added.nested;
        if !request.amend && !self.has_staged(Some(&aside)).await? {
            return Ok(Committed { nested, ..Committed::default() });
        }
        let tree = self.tree_in(&aside).await?;
        // Other than in the commit may also be what is in it as it was before.
        let changes = self.staged_below(&["-R", &tree], &paths, Some(&next)).await?;
        self.enter(changes, &next).await?;
        // It fails where files differ, which is no matter here.
        let refresh = ["update-index", "-q", "--unmerged", "--ignore-submodules", "--refresh"];
        self.run(Call::writing(&refresh).in_index(Some(&next))).await?;
        let call = self.commit_call(request, author).in_index(Some(&aside));
        let made = self.make(call, head, Some(Prepared { index, tree: Some(tree) })).await?;
        Ok(Committed { made: Some(made), nested, unstaged: 0 })
    }

    /// Files that are named, and of which git was told not to look whether they are different: who names one means it.
    async fn plan_unseen(
        &self,
        paths: &[Name],
        planned: &mut Planned,
    ) -> Result<Vec<Name>, GitError> {
        let call = Call::reading(&["ls-files", "-z", "-v", "--"]).args(paths.iter().map(literal));
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

    /// What an index has that a commit or tree does not, the last one if none is named; with `-R` the other way round.
    async fn staged_below(
        &self,
        from: &[&str],
        paths: &[Name],
        index: Option<&Path>,
    ) -> Result<Vec<u8>, GitError> {
        let call = Call::reading(&["diff", "--cached", "--raw", "-z", "--no-abbrev"])
            .args(["--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"])
            .args(from);
        self.entries(call.in_index(index).arg("--").args(paths.iter().map(literal))).await
    }

    /// What hooks have put into the index of a commit belongs into the next one, too.
    pub(super) async fn take_over(&self, before: &str, index: &Index) -> Result<(), GitError> {
        if !self.place.trusted {
            return Ok(());
        }
        let after = self.tree_in(&index.aside()).await?;
        let call = Call::reading(&["diff-tree", "-r", "--raw", "-z", "--no-abbrev"]).args([
            "--no-renames",
            before,
            &after,
        ]);
        self.enter(self.entries(call).await?, &index.next()).await
    }

    async fn tree_in(&self, index: &Path) -> Result<String, GitError> {
        let said = self.ask(Call::writing(&["write-tree"]).in_index(Some(index))).await?;
        fields::hash(&said.out).ok_or_else(|| not_understood("write-tree"))
    }

    /// Raw differences, as `update-index --index-info` reads them.
    async fn entries(&self, call: Call) -> Result<Vec<u8>, GitError> {
        let said = self.ask(call.most(MOST)).await?;
        if said.cut {
            return Err(GitError::bad("paths", "there are too many changes; name some"));
        }
        let mut entries = Vec::new();
        for [about, path] in fields::groups::<2>(&said.out) {
            entries.extend(entry(about, path).ok_or_else(|| not_understood("diff"))??);
        }
        Ok(entries)
    }

    async fn enter(&self, entries: Vec<u8>, index: &Path) -> Result<(), GitError> {
        if entries.is_empty() {
            return Ok(());
        }
        let call = Call::writing(&["update-index", "-z", "--index-info"]).in_index(Some(index));
        self.ask(call.input(entries)).await.map(drop)
    }
}

fn not_understood(what: &str) -> GitError {
    GitError::Failed { what: what.into(), said: "its answer cannot be understood".into() }
}

/// `:mode mode hash hash letter`: what it has become, which for a deleted one is nothing but zeros.
fn entry(about: &[u8], path: &[u8]) -> Option<Result<Vec<u8>, GitError>> {
    let mut words = about.strip_prefix(b":")?.split(|byte| *byte == b' ');
    let (mode, hash) = (words.nth(1)?, words.nth(1)?);
    match words.next()? {
        b"U" => {
            let message = format!("'{}' has conflicts", fields::text(path));
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
