//! What is under way in a repository: git leaves files that say so.

use super::error::GitError;
use super::place::{Place, small};
use std::path::Path;

/// Of one line that git wrote.
const LINE: u64 = 4096;

/// Of a list of steps.
const STEPS: u64 = 4 << 20;

/// A merge, rebase or the like that somebody has to finish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub step: Step,
    /// The branch that is rebased.
    pub branch: Option<String>,
    /// How many steps of how many are done.
    pub done: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    /// Patches from mails.
    Apply,
    Bisect,
}

/// What is under way, if anything is.
pub(super) async fn of(place: &Place) -> Result<Option<State>, GitError> {
    let folder = place.git_dir.clone();
    let looked = crate::blocking(move || look(&folder)).await;
    looked.map_err(|error| GitError::Conflict(error.to_string()))
}

fn look(folder: &Path) -> Option<State> {
    let there = |name: &str| folder.join(name).symlink_metadata().is_ok();
    let plain = |step| Some(State { step, branch: None, done: None });
    if there("rebase-merge") {
        return Some(rebase(&folder.join("rebase-merge"), ["msgnum", "end"]));
    }
    match there("rebase-apply") {
        true if there("rebase-apply/applying") => return plain(Step::Apply),
        true => return Some(rebase(&folder.join("rebase-apply"), ["next", "last"])),
        false => {}
    }
    let steps = [
        ("MERGE_HEAD", Step::Merge),
        ("CHERRY_PICK_HEAD", Step::CherryPick),
        ("REVERT_HEAD", Step::Revert),
        ("BISECT_LOG", Step::Bisect),
    ];
    steps.into_iter().find(|(name, _)| there(name)).and_then(|(_, step)| plain(step))
}

fn rebase(folder: &Path, [at, all]: [&str; 2]) -> State {
    let line = |name: &str| {
        let bytes = small(&folder.join(name), LINE).ok()?;
        Some(String::from_utf8_lossy(bytes.trim_ascii()).into_owned())
    };
    let number = |name: &str| line(name)?.parse().ok();
    let branch = line("head-name");
    let branch = branch.and_then(|name| Some(name.strip_prefix("refs/heads/")?.to_owned()));
    let done = Option::zip(number(at), number(all));
    State { step: Step::Rebase, branch, done }
}

/// A rebase may have programs among its steps. Blocks.
pub(super) fn runs_programs(git_dir: &Path) -> Result<bool, String> {
    let todo = git_dir.join("rebase-merge/git-rebase-todo");
    if todo.symlink_metadata().is_err() {
        return Ok(false);
    }
    let steps = small(&todo, STEPS)?;
    let first = |line: &[u8]| {
        let line = line.trim_ascii_start();
        let ends = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
        let end = line.iter().position(ends).unwrap_or(line.len());
        matches!(&line[..end], b"exec" | b"x")
    };
    Ok(steps.split(|byte| *byte == b'\n').any(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_of_git_say_what_is_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let step = || look(path).map(|state| state.step);
        assert_eq!(step(), None);
        for (name, expected) in [
            ("BISECT_LOG", Step::Bisect),
            ("REVERT_HEAD", Step::Revert),
            ("CHERRY_PICK_HEAD", Step::CherryPick),
            ("MERGE_HEAD", Step::Merge),
        ] {
            fs::write(path.join(name), "").unwrap();
            assert_eq!(step(), Some(expected), "{name}");
        }
        fs::create_dir(path.join("rebase-apply")).unwrap();
        assert_eq!(step(), Some(Step::Rebase));
        fs::write(path.join("rebase-apply/applying"), "").unwrap();
        assert_eq!(step(), Some(Step::Apply));
        fs::create_dir(path.join("rebase-merge")).unwrap();
        for (name, text) in [("head-name", "refs/heads/topic\n"), ("msgnum", "2\n"), ("end", "5")] {
            fs::write(path.join("rebase-merge").join(name), text).unwrap();
        }
        let expected =
            State { step: Step::Rebase, branch: Some("topic".into()), done: Some((2, 5)) };
        assert_eq!(look(path), Some(expected));
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
