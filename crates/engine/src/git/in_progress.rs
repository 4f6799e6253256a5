//! The operation in progress in a repository, recognised by files that git leaves.

use super::Repository;
use super::call::GitCall;
use super::error::GitError;
use super::repository_location::small;
use std::path::Path;

/// Maximum size of a file with one line or a few options.
pub(super) const LINE: u64 = 4096;

/// Maximum size of a list of steps.
pub(super) const STEPS: u64 = 4 << 20;

/// References that exist while an operation is in progress.
const HEADS: [(&str, SequencerKind); 3] = [
    ("MERGE_HEAD", SequencerKind::Merge),
    ("CHERRY_PICK_HEAD", SequencerKind::CherryPick),
    ("REVERT_HEAD", SequencerKind::Revert),
];

/// A merge, rebase or the like that has to be finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SequencerState {
    pub step: SequencerKind,
    /// The branch that is rebased.
    pub branch: Option<String>,
    /// Number of steps done, and of all steps.
    pub done: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequencerKind {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    /// Patches from mails.
    Apply,
    Bisect,
}

impl Repository {
    /// The operation in progress, if any.
    pub(super) async fn state(&self) -> Result<Option<SequencerState>, GitError> {
        let heads = self.stored_heads().await?;
        let folder = self.place.inside();
        let looked = crate::blocking(move || look(&folder, &heads)).await;
        looked.map_err(|error| GitError::Conflict(error.to_string()))
    }

    /// References that are not files, because they are stored in tables.
    async fn stored_heads(&self) -> Result<String, GitError> {
        if !self.place.common_dir.join("reftable").is_dir() {
            return Ok(String::new());
        }
        let call =
            GitCall::reading(&["for-each-ref", "--include-root-refs", "--format=%(refname)"]);
        let said = self.ask(call.args(HEADS.map(|(name, _)| name))).await?;
        Ok(String::from_utf8_lossy(&said.out).into_owned())
    }
}

/// Reads the state from files. Blocks.
fn look(folder: &Path, stored: &str) -> Option<SequencerState> {
    let there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let plain = |step| Some(SequencerState { step, branch: None, done: None });
    if there("rebase-merge") {
        return Some(rebase(&folder.join("rebase-merge"), ["msgnum", "end"]));
    }
    match there("rebase-apply") {
        true if there("rebase-apply/applying") => return plain(SequencerKind::Apply),
        true => return Some(rebase(&folder.join("rebase-apply"), ["next", "last"])),
        false => {}
    }
    let known = |name: &str| there(name) || stored.lines().any(|line| line == name);
    let head = HEADS.into_iter().find(|(name, _)| known(name)).map(|(_, step)| step);
    let step = head.or_else(|| left_over(folder));
    plain(step.or_else(|| there("BISECT_LOG").then_some(SequencerKind::Bisect))?)
}

/// The rest of several commits to pick: the one with conflicts may have been committed by hand.
fn left_over(folder: &Path) -> Option<SequencerKind> {
    let steps = small(&folder.join("sequencer/todo"), STEPS).ok()?;
    match first_word(&steps) {
        b"pick" | b"p" => Some(SequencerKind::CherryPick),
        b"revert" => Some(SequencerKind::Revert),
        _ => None,
    }
}

fn rebase(folder: &Path, [at, all]: [&str; 2]) -> SequencerState {
    let line = |name: &str| {
        let bytes = small(&folder.join(name), LINE).ok()?;
        Some(String::from_utf8_lossy(bytes.trim_ascii()).into_owned())
    };
    let number = |name: &str| line(name)?.parse().ok();
    let branch = line("head-name");
    let branch = branch.and_then(|name| Some(name.strip_prefix("refs/heads/")?.to_owned()));
    let done = Option::zip(number(at), number(all));
    SequencerState { step: SequencerKind::Rebase, branch, done }
}

/// Returns true if a rebase has programs among its steps. Blocks.
pub(super) fn runs_programs(git_dir: &Path) -> Result<bool, String> {
    let steps = if_there(git_dir, "rebase-merge/git-rebase-todo", STEPS)?.unwrap_or_default();
    let mut steps = steps.split(|byte| *byte == b'\n');
    Ok(steps.any(|step| matches!(first_word(step), b"exec" | b"x")))
}

fn first_word(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii_start();
    let ends = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    &line[..line.iter().position(ends).unwrap_or(line.len())]
}

/// The content of a file in the git directory, if it exists. Blocks.
pub(super) fn if_there(git_dir: &Path, name: &str, most: u64) -> Result<Option<Vec<u8>>, String> {
    let path = git_dir.join(name);
    path.symlink_metadata().is_ok().then(|| small(&path, most)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_of_git_say_what_is_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let step = || look(path, "").map(|state| state.step);
        assert_eq!(step(), None);
        fs::create_dir(path.join("sequencer")).unwrap();
        for (todo, expected) in [
            ("pick 1234567 x\npick 89abcde y\n", Some(SequencerKind::CherryPick)),
            (" revert 1234567 x", Some(SequencerKind::Revert)),
            ("picked 1", None),
            ("", None),
        ] {
            fs::write(path.join("sequencer/todo"), todo).unwrap();
            assert_eq!(step(), expected, "{todo}");
        }
        let stored = look(path, "REVERT_HEAD\n").map(|state| state.step);
        assert_eq!(stored, Some(SequencerKind::Revert), "it is in a table");
        for (name, expected) in [
            ("BISECT_LOG", SequencerKind::Bisect),
            ("REVERT_HEAD", SequencerKind::Revert),
            ("CHERRY_PICK_HEAD", SequencerKind::CherryPick),
            ("MERGE_HEAD", SequencerKind::Merge),
        ] {
            fs::write(path.join(name), "").unwrap();
            assert_eq!(step(), Some(expected), "{name}");
        }
        fs::create_dir(path.join("rebase-apply")).unwrap();
        assert_eq!(step(), Some(SequencerKind::Rebase));
        fs::write(path.join("rebase-apply/applying"), "").unwrap();
        assert_eq!(step(), Some(SequencerKind::Apply));
        fs::create_dir(path.join("rebase-merge")).unwrap();
        for (name, text) in [("head-name", "refs/heads/topic\n"), ("msgnum", "2\n"), ("end", "5")] {
            fs::write(path.join("rebase-merge").join(name), text).unwrap();
        }
        let expected = SequencerState {
            step: SequencerKind::Rebase,
            branch: Some("topic".into()),
            done: Some((2, 5)),
        };
        assert_eq!(look(path, ""), Some(expected));
    }

    #[test]
    fn programs_among_the_steps_of_a_rebase_are_seen() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(runs_programs(folder.path()), Ok(false));
        fs::create_dir(folder.path().join("rebase-merge")).unwrap();
        let todo = folder.path().join("rebase-merge/git-rebase-todo");
        for (text, expected) in [
            ("pick 123 exec\n# exec x\n", false),
            ("pick 1\nexec touch x\n", true),
            ("pick 1\n  x\ttouch x", true),
            ("x\n", true),
            ("exec\0", true),
            ("executor", false),
        ] {
            fs::write(&todo, text).unwrap();
            assert_eq!(runs_programs(folder.path()), Ok(expected), "{text}");
        }
        fs::remove_file(&todo).unwrap();
        fs::create_dir(&todo).unwrap();
        assert!(runs_programs(folder.path()).is_err());
    }
}
