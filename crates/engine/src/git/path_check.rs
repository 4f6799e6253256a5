//! Rejects paths that match nothing, instead of returning an empty response.
//!
//! Called only if a response is empty; the cheapest checks come first.

use super::Repository;
use super::arguments::{Range, literal};
use super::call::GitCall;
use super::error::GitError;
use super::output_fields::Name;

/// Maximum number of paths checked for typing errors; longer lists come from programs.
const MAX_REPORTED_PATHS: usize = 20;

/// The request behind an empty response.
#[derive(Debug, Clone, Default)]
pub struct CheckedPaths<'a> {
    pub paths: &'a [String],
    /// The revisions that were read.
    pub revisions: Vec<&'a str>,
    /// Their history was read, too.
    pub history: bool,
    /// The field for revisions, if there is one.
    pub takes_revisions: Option<&'static str>,
}

impl Repository {
    /// Fails for a path that does not exist now and did not exist in the revisions.
    pub async fn check_known(&self, asked: &CheckedPaths<'_>) -> Result<(), GitError> {
        if asked.paths.len() > MAX_REPORTED_PATHS {
            return Ok(());
        }
        for (path, shown) in self.paths(asked.paths)?.into_iter().zip(asked.paths) {
            if path.0 == b"." || self.is_there(&path).await? || self.was_there(&path, asked).await?
            {
                continue;
            }
            return Err(match (self.is_revision(shown).await?, asked.takes_revisions) {
                (false, _) => GitError::Nothing(format!("'{shown}'")),
                (true, None) => {
                    GitError::bad("paths", format!("'{shown}' is a revision, not a path"))
                }
                (true, Some(field)) => {
                    let why = format!("'{shown}' is a revision, not a path: use '{field}' for it");
                    GitError::bad("paths", why)
                }
            });
        }
        Ok(())
    }

    /// Returns true if the path is in the work tree or in the index.
    async fn is_there(&self, path: &Name) -> Result<bool, GitError> {
        let looked = path.clone();
        let absent = self.in_worktree(move |tree| tree.absent(vec![looked])).await;
        // A path that may not be read exists.
        if absent.map_or(true, |absent| absent.is_empty()) {
            return Ok(true);
        }
        let call = GitCall::reading(&["ls-files", "-z", "--"]).arg(literal(path));
        let known = self.ask(call.most(1)).await?;
        Ok(!known.out.is_empty())
    }

    /// Returns true if the path is in the current commit or in the revisions of the request.
    async fn was_there<'a>(&self, path: &Name, asked: &CheckedPaths<'a>) -> Result<bool, GitError> {
        let ends = |revision: &&'a str| match Range::parse(revision) {
            Some(range) => [range.from, range.to],
            None => [*revision; 2],
        };
        for revision in asked.revisions.iter().flat_map(ends).chain(["HEAD"]) {
            let Some(commit) = found(self.commit_of(revision).await)? else { continue };
            let call =
                GitCall::reading(&["ls-tree", "-z", "--full-tree", "--name-only", &commit, "--"]);
            if !self.ask(call.arg(literal(path)).most(1)).await?.out.is_empty() {
                return Ok(true);
            }
            if !asked.history {
                continue;
            }
            let call =
                GitCall::reading(&["log", "--max-count=1", "--format=%H", "--no-show-signature"]);
            let call = call.args([commit.as_str(), "--"]).arg(literal(path));
            if !self.ask(call).await?.out.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if the text is a revision or a range.
    async fn is_revision(&self, text: &str) -> Result<bool, GitError> {
        let ends = Range::parse(text).map_or([text; 2], |range| [range.from, range.to]);
        for revision in ends {
            if found(self.commit_of(revision).await)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// A missing revision is not an error here.
fn found(commit: Result<String, GitError>) -> Result<Option<String>, GitError> {
    match commit {
        Ok(hash) => Ok(Some(hash)),
        Err(GitError::NoRevision(_) | GitError::Bad { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
