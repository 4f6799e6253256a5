//! Branches, and the work trees that have them checked out.

use super::Repository;
use super::call::{GitCall, GitOutput};
use super::diff::empty_tree;
use super::error::GitError;
use super::output_fields::{self, brief, groups, number, records, some_text, text};
use std::path::PathBuf;

/// The name of a reference, its object and details: seven fields.
const FORMAT: &str = "%(refname)%00%(objectname)%00%(upstream:short)%00%(upstream:track,nobracket)%00\
    %(committerdate:unix)%00%(worktreepath)%00%(HEAD)";

/// The first version that lists work trees with any name (`-z`).
const LISTS_ANY_NAME: (u32, u32) = (2, 36);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub name: String,
    pub hash: String,
    pub upstream: Option<String>,
    /// Commits only in the branch, and only in its upstream; `None` without an upstream, or if that is gone.
    pub ahead_behind: Option<(u64, u64)>,
    /// Seconds since 1970.
    pub committed: i64,
    /// The work tree that has it checked out.
    pub worktree: Option<String>,
    /// It is checked out here.
    pub current: bool,
    pub subject: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Worktree {
    pub path: PathBuf,
    pub head: Option<String>,
    /// `None`: no branch is checked out there.
    pub branch: Option<String>,
    pub bare: bool,
    pub locked: bool,
    /// Its folder is gone.
    pub prunable: bool,
}

impl Repository {
    /// The branches, most recently used first, at most `most`; and whether there are more.
    pub async fn branches(&self, most: usize) -> Result<(Vec<Branch>, bool), GitError> {
        let said = self.references("refs/heads/", "committerdate", FORMAT, most).await?;
        Ok(first(branches(&said.out), most, said.cut))
    }

    /// References below a folder, with these fields of each and a first line: at most `most`, and one more if
    /// there are more. If the first lines are too long, they are left out.
    pub(super) async fn references(
        &self,
        folder: &str,
        newest: &str,
        fields: &str,
        most: usize,
    ) -> Result<GitOutput, GitError> {
        let call = |subject: &str| {
            GitCall::reading(&["for-each-ref"]).args([
                format!("--sort=-{newest}"),
                format!("--count={}", most.saturating_add(1)),
                format!("--format={fields}%00{subject}%00"),
                folder.to_owned(),
            ])
        };
        let said = self.ask(call("%(contents:subject)")).await?;
        if said.cut { self.ask(call("")).await } else { Ok(said) }
    }

    /// Creates a branch at a revision; returns its commit.
    pub async fn create_branch(&mut self, name: &str, from: &str) -> Result<String, GitError> {
        self.write().await?;
        let full = self.reference("refs/heads/", name).await?;
        let hash = self.commit_of(from).await?;
        let reason = "branch: Created by Proctor";
        self.create_reference(&full, &hash, reason, name).await?;
        Ok(hash)
    }

    /// Creates a reference that must not exist yet.
    pub(super) async fn create_reference(
        &self,
        full: &str,
        hash: &str,
        reason: &str,
        name: &str,
    ) -> Result<(), GitError> {
        let nothing = "0".repeat(hash.len());
        let call = GitCall::writing(&["update-ref", "--create-reflog", "--no-deref", "-m", reason]);
        let said = self.run(call.args([full, hash, &nothing])).await?;
        if said.code != 0 && said.err.contains("already exists") {
            return Err(GitError::Exists(name.to_owned()));
        }
        said.good().map(drop)
    }

    /// Checks out a branch; returns its commit.
    pub async fn switch(&mut self, name: &str) -> Result<String, GitError> {
        self.write_files().await?;
        let full = self.reference("refs/heads/", name).await?;
        let hash = self
            .commit_of(&full)
            .await
            .map_err(|_| GitError::Nothing(format!("branch '{name}'")))?;
        let head = self.head().await?.unwrap_or_else(|| empty_tree(&hash));
        self.check_filters_between(&[head, hash.clone()], &[]).await?;
        let call = GitCall::writing(&["switch", "--quiet", "--no-guess", "--no-progress"]);
        let call = call.args(["--no-recurse-submodules", "--no-overwrite-ignore", name]);
        let said = self.run(call).await?;
        let lost = [
            "would be overwritten",
            "is already used by",
            "is already checked out at",
            "cannot switch branch while",
        ];
        if said.code != 0 && lost.iter().any(|text| said.err.contains(text)) {
            return Err(said.failed().in_the_way());
        }
        said.good()?;
        Ok(hash)
    }

    /// Deletes a branch; returns the commit it was at. An unmerged one needs `force`; one that is checked out
    /// is rejected.
    pub async fn delete_branch(&mut self, name: &str, force: bool) -> Result<String, GitError> {
        self.write().await?;
        let full = self.reference("refs/heads/", name).await?;
        let none = |_| GitError::Nothing(format!("branch '{name}'"));
        let hash = self.commit_of(&full).await.map_err(none)?;
        let call = GitCall::writing(&["branch", "--delete", "--quiet"]);
        let said = self.run(call.args(force.then_some("--force")).arg(name)).await?;
        if said.code != 0 && said.err.contains("not fully merged") {
            let why = format!(
                "'{name}' has commits that are in no other branch; use 'force' to delete it anyway"
            );
            return Err(GitError::Conflict(why));
        }
        let held = ["used by worktree", "checked out at"];
        if said.code != 0 && held.iter().any(|text| said.err.contains(text)) {
            return Err(said.failed().in_the_way());
        }
        said.good()?;
        Ok(hash)
    }

    /// The work trees, and whether there are more.
    pub async fn worktrees(&self) -> Result<(Vec<Worktree>, bool), GitError> {
        let any = self.tool.version >= LISTS_ANY_NAME;
        let call = GitCall::reading(&["worktree", "list", "--porcelain"]);
        let mut said = self.ask(call.args(any.then_some("-z"))).await?;
        if !any {
            for byte in said.out.iter_mut().filter(|byte| **byte == b'\n') {
                *byte = 0;
            }
        }
        Ok((worktrees(&said.out), said.cut))
    }
}

/// The first `most` entries of a list, and whether there are more.
pub(super) fn first<T>(mut all: Vec<T>, most: usize, cut: bool) -> (Vec<T>, bool) {
    let more = cut || all.len() > most;
    all.truncate(most);
    (all, more)
}

pub fn branches(bytes: &[u8]) -> Vec<Branch> {
    let branch = |[name, hash, upstream, track, date, worktree, head, subject]: [&[u8]; 8]| {
        // The separator of records precedes the next one.
        let name = name.strip_prefix(b"\n").unwrap_or(name);
        let upstream = some_text(upstream);
        Some(Branch {
            name: text(name.strip_prefix(b"refs/heads/")?),
            hash: output_fields::hash(hash)?,
            ahead_behind: upstream.as_ref().and_then(|_| ahead_behind(&text(track))),
            upstream,
            committed: number(date).unwrap_or(0),
            worktree: some_text(worktree),
            current: head == b"*",
            subject: brief(subject),
        })
    };
    groups::<8>(bytes).into_iter().filter_map(branch).collect()
}

/// Parses `ahead 1, behind 2`, either of them, nothing, or `gone`.
fn ahead_behind(track: &str) -> Option<(u64, u64)> {
    if track == "gone" {
        return None;
    }
    let count = |word: &str| {
        let part = track.split(", ").find_map(|part| part.strip_prefix(word));
        part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    Some((count("ahead"), count("behind")))
}

pub fn worktrees(bytes: &[u8]) -> Vec<Worktree> {
    let mut all: Vec<Worktree> = Vec::new();
    for record in records(bytes) {
        let at = record.iter().position(|byte| *byte == b' ').unwrap_or(record.len());
        let (key, value) = (&record[..at], record.get(at + 1..).unwrap_or(b""));
        if key == b"worktree" {
            let path =
                PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(value));
            all.push(Worktree { path, ..Worktree::default() });
            continue;
        }
        let Some(last) = all.last_mut() else { continue };
        match key {
            b"HEAD" => last.head = output_fields::hash(value),
            b"branch" => last.branch = value.strip_prefix(b"refs/heads/").map(text),
            b"bare" => last.bare = true,
            b"locked" => last.locked = true,
            b"prunable" => last.prunable = true,
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn branches_are_read_from_their_fields() {
        let text = format!(
            "refs/heads/main\0{A}\0o/main\0ahead 2, behind 1\x00100\0/srv/a\nb\0*\0Fix it\0\n\
             refs/heads/x/y\0{A}\0\0\x005\0\0 \0\0\nrefs/heads/z\0{A}\0o/z\0gone\x005\0\0 \0s\0\nrefs/heads/cut\0"
        );
        let found = branches(text.as_bytes());
        let names: Vec<&str> = found.iter().map(|branch| branch.name.as_str()).collect();
        assert_eq!(names, ["main", "x/y", "z"]);
        let tracks: Vec<_> = found.iter().map(|branch| branch.ahead_behind).collect();
        assert_eq!(tracks, [Some((2, 1)), None, None]);
        assert!(found[0].current && !found[1].current);
        assert_eq!(found[0].worktree.as_deref(), Some("/srv/a\nb"));
        assert_eq!(ahead_behind(""), Some((0, 0)));
        assert_eq!(ahead_behind("behind 7"), Some((0, 7)));
    }

    #[test]
    fn work_trees_are_read_from_their_lines() {
        let text = format!(
            "worktree /a\0HEAD {A}\0branch refs/heads/main\0\0worktree /b c\n\0HEAD {A}\0detached\0locked why\0prunable gone\0\0worktree /d\0bare\0\0"
        );
        let found = worktrees(text.as_bytes());
        let main = Worktree {
            path: "/a".into(),
            head: Some(A.into()),
            branch: Some("main".into()),
            ..Worktree::default()
        };
        let other = Worktree {
            path: "/b c\n".into(),
            head: Some(A.into()),
            locked: true,
            prunable: true,
            ..Worktree::default()
        };
        let bare = Worktree { path: "/d".into(), bare: true, ..Worktree::default() };
        assert_eq!(found, [main, other, bare]);
    }
}
