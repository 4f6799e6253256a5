//! Stashes changes and restores them.

use super::Repository;
use super::arguments::{literals, prose};
use super::call::GitCall;
use super::error::GitError;
use super::output_fields::{self, Name, brief, number, records_or_half};
use super::status::{EntryState, StatusQuery};

/// The reference of the stash.
const REFERENCE: &str = "refs/stash";

/// Hash, time and description.
const FORMAT: &str = "--format=%H%n%ct%n%gs";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stash {
    /// 0 is the newest.
    pub number: u32,
    pub hash: String,
    /// Seconds since 1970.
    pub created: i64,
    pub message: String,
}

#[derive(Debug, Clone, Default)]
pub struct StashRequest {
    pub message: Option<String>,
    /// Only changes below these paths.
    pub paths: Vec<String>,
    /// Include new files.
    pub untracked: bool,
}

/// The result of restoring stashed changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PopResult {
    Done,
    /// They are in the work tree with conflicts in these files, and still stashed.
    Conflicts(Vec<Name>),
}

impl Repository {
    /// The stashes, and whether there are more.
    pub async fn stashes(&self) -> Result<(Vec<Stash>, bool), GitError> {
        let call = GitCall::reading(&["stash", "list", "-z", "--no-show-signature", FORMAT]);
        let said = self.ask(call).await?;
        Ok((stashes(&said.out), said.cut))
    }

    /// Stashes changes; `false` if there are none.
    pub async fn push_stash(&mut self, request: &StashRequest) -> Result<bool, GitError> {
        let paths = self.paths(&request.paths)?;
        if let Some(message) = &request.message {
            prose("message", message)?;
        }
        self.require_identity()?;
        self.write_files().await?;
        let names = self.submodules().await?;
        self.settings.ignore_submodules(names.into_iter());
        let Some(head) = self.head().await? else {
            return Err(GitError::Conflict("cannot stash changes before the first commit".into()));
        };
        self.check_filters_between(&[head], &paths).await?;
        if request.untracked {
            let others = GitCall::reading(&["ls-files", "-z", "--others", "--exclude-standard"]);
            self.check_filters_named(others, &paths, &[]).await?;
        }
        let before = self.object(REFERENCE, "").await.ok();
        let mut call = GitCall::writing(&["stash", "push", "--quiet"]);
        call = call.args(request.untracked.then_some("--include-untracked"));
        if let Some(message) = &request.message {
            call = call.arg("-m").arg(message);
        }
        if !paths.is_empty() {
            let words = ["--pathspec-from-file=-", "--pathspec-file-nul"];
            call = call.args(words).input(literals(&paths));
        }
        self.ask(call).await?;
        let after = self.object(REFERENCE, "").await.ok();
        Ok(before != after)
    }

    /// Restores changes and drops the stash, unless there are conflicts.
    pub async fn pop_stash(&mut self, number: u32) -> Result<PopResult, GitError> {
        self.require_identity()?;
        let name = self.stash(number).await?;
        self.check_filters_between(&[format!("{name}^1"), name.clone()], &[]).await?;
        let untracked = format!("{name}^3");
        if self.object(&untracked, "").await.is_ok() {
            let others = GitCall::reading(&["ls-tree", "-r", "-z", "--name-only", "--full-tree"]);
            self.check_filters_named(others.arg(&untracked), &[], &[untracked]).await?;
        }
        let said = self.run(GitCall::writing(&["stash", "pop", "--quiet", &name])).await?;
        if said.code == 0 {
            return Ok(PopResult::Done);
        }
        let query = StatusQuery { no_untracked: true, ..StatusQuery::default() };
        let clashing = self.status(&query).await?.entries.into_iter();
        let clashing = clashing.filter(|entry| matches!(entry.what, EntryState::Conflict(_)));
        let paths: Vec<Name> = clashing.map(|entry| entry.path).collect();
        match (paths.is_empty(), said.failed()) {
            (false, _) => Ok(PopResult::Conflicts(paths)),
            (true, GitError::Failed { said, .. }) if said.contains("would be overwritten") => {
                Err(GitError::Conflict(said))
            }
            (true, error) => Err(error),
        }
    }

    /// Drops a stash; returns it, unless there are too many to list.
    pub async fn drop_stash(&mut self, number: u32) -> Result<Option<Stash>, GitError> {
        let name = self.stash(number).await?;
        let (all, _) = self.stashes().await?;
        self.ask(GitCall::writing(&["stash", "drop", "--quiet", &name])).await?;
        Ok(all.into_iter().find(|stash| stash.number == number))
    }

    /// The name of an existing stash.
    async fn stash(&mut self, number: u32) -> Result<String, GitError> {
        self.write_files().await?;
        let names = self.submodules().await?;
        self.settings.ignore_submodules(names.into_iter());
        let name = format!("stash@{{{number}}}");
        match self.object(&name, "").await {
            Ok(_) => Ok(name),
            Err(GitError::NoRevision(_)) => Err(GitError::Nothing(format!("stash {number}"))),
            Err(error) => Err(error),
        }
    }

    /// Stashes are commits, which need a name and an address.
    pub(super) fn require_identity(&self) -> Result<(), GitError> {
        if self.settings.has_identity { Ok(()) } else { Err(GitError::Nobody) }
    }
}

pub fn stashes(bytes: &[u8]) -> Vec<Stash> {
    let stash = |(at, record): (usize, &[u8])| {
        let mut lines = record.splitn(3, |byte| *byte == b'\n');
        Some(Stash {
            number: u32::try_from(at).ok()?,
            hash: output_fields::hash(lines.next()?)?,
            created: number(lines.next()?).unwrap_or(0),
            message: brief(lines.next()?),
        })
    };
    records_or_half(bytes).into_iter().enumerate().filter_map(stash).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stashes_are_counted_from_the_last() {
        let a = "a".repeat(40);
        let text = format!("{a}\n5\nWIP on main: x\n\0{a}\n4\nOn main: y\0{a}\ncut");
        let found = stashes(text.as_bytes());
        assert_eq!(found.iter().map(|stash| stash.number).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((found[1].created, found[1].message.as_str()), (4, "On main: y"));
        let long = stashes(format!("{a}\n5\nOn main: {}", "y".repeat(1000)).as_bytes());
        assert_eq!((long.len(), long[0].message.chars().count()), (1, 201), "its beginning");
    }
}
