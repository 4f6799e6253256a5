//! A commit of some files only, made in an index of its own as git does it: where it fails, nothing is staged. What goes into
//! it is read once. `git commit --only` would look at the work tree again, through whatever links are there.

use super::Repository;
use super::call::{Call, Said};
use super::change::Add;
use super::commit::{CommitRequest, Committed};
use super::error::GitError;
use super::fields::{self, Name};
use super::given::literal;
use std::path::{Path, PathBuf};

/// In the folder of git. Who writes in a repository is alone in it, as far as Proctor is concerned.
const INDEX: &str = "proctor-index";

/// A list of what one commit changes.
const MOST: usize = 16 << 20;

/// The index of one commit, and its lock; gone when this is dropped.
struct Index(PathBuf);

impl Index {
    /// What somebody left who was killed is removed.
    fn new(git_dir: &Path) -> Index {
        let index = Index(git_dir.join(INDEX));
        index.remove();
        index
    }

    fn remove(&self) {
        for file in [self.0.clone(), self.0.with_extension("lock")] {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.remove();
    }
}

impl Repository {
    /// Commit what is below the paths of a request, as it is in the work tree.
    pub(super) async fn commit_only(
        &self,
        request: &CommitRequest,
        author: Option<(String, String)>,
    ) -> Result<Committed, GitError> {
        let paths = self.paths(&request.paths)?;
        let planned = self.plan(&Add::Paths(request.paths.clone())).await?;
        let index = Index::new(&self.place.git_dir);
        let mut output = std::ffi::OsString::from("--index-output=");
        output.push(&index.0);
        // What is known of the times of files is kept.
        let begin = Call::writing(&["read-tree"]).arg(output);
        let begin = match self.head().await? {
            Some(head) => begin.arg("--reset").arg(head),
            None => begin.arg("--empty"),
        };
        self.ask(begin).await?;
        self.enter(self.staged_below(&paths, None).await?, Some(&index.0)).await?;
        self.stage(&planned, Some(&index.0)).await?;
        let changes = self.staged_below(&paths, Some(&index.0)).await?;
        if changes.is_empty() && !request.amend {
            return Ok(Committed::Nothing);
        }
        let call = self.commit_call(request, author).env("GIT_INDEX_FILE", &index.0);
        self.run(call).await.and_then(Said::taken)?;
        self.enter(changes, None).await?;
        // It fails where files differ, which is no matter here.
        let refresh = ["update-index", "-q", "--unmerged", "--ignore-submodules", "--refresh"];
        self.run(Call::writing(&refresh)).await?;
        self.committed().await
    }

    /// What an index has that the last commit does not, below these paths, as `update-index --index-info` reads it.
    async fn staged_below(
        &self,
        paths: &[Name],
        index: Option<&Path>,
    ) -> Result<Vec<u8>, GitError> {
        let call = Call::reading(&["diff", "--cached", "--raw", "-z", "--no-abbrev"])
            .args(["--no-renames", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"])
            .most(MOST);
        let call = call.in_index(index).arg("--").args(paths.iter().map(literal));
        let said = self.ask(call).await?;
        if said.cut {
            return Err(GitError::bad("paths", "there are too many changes; name some"));
        }
        let mut entries = Vec::new();
        for [about, path] in fields::groups::<2>(&said.out) {
            let entry = entry(about, path).ok_or_else(|| GitError::Failed {
                what: "diff".into(),
                said: "its answer cannot be understood".into(),
            })?;
            entries.extend(entry?);
        }
        Ok(entries)
    }

    async fn enter(&self, entries: Vec<u8>, index: Option<&Path>) -> Result<(), GitError> {
        if entries.is_empty() {
            return Ok(());
        }
        let call = Call::writing(&["update-index", "-z", "--index-info"]).in_index(index);
        self.ask(call.input(entries)).await.map(drop)
    }
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
