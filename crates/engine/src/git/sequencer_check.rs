//! Checks the state of an interrupted rebase or merge before git resumes it: its files came with the
//! repository, and may name programs.

use super::Repository;
use super::call::GitCall;
use super::error::GitError;
use super::in_progress::{LINE, SequencerKind, if_there, runs_programs};
use super::output_fields::{records, text};
use super::repository_location::small;
use std::path::Path;

/// Built-in merge strategies. Any other is a command `git merge-NAME`.
const STRATEGIES: [&str; 2] = ["ort", "recursive"];

/// Accepted options for patches. Other options of `git apply` write elsewhere.
const PATCH_OPTIONS: [&str; 8] = [
    "--whitespace=",
    "--ignore-space-change",
    "--ignore-whitespace",
    "--directory=",
    "--exclude=",
    "--include=",
    "-C",
    "-p",
];

impl Repository {
    /// Fails if the operation in progress names a program and the repository may not run any.
    pub(super) async fn check_steps(&self) -> Result<(), GitError> {
        if self.place.trusted {
            return Ok(());
        }
        let git_dir = self.place.inside();
        let looked = crate::blocking(move || look(&git_dir)).await;
        let looked = looked.map_err(|error| GitError::Conflict(error.to_string()))?;
        let mut strategies = looked.map_err(|why| self.unsafe_(&why))?;
        let file = self.place.git_dir.join("sequencer/opts");
        if file.symlink_metadata().is_ok() {
            let call = GitCall::reading(&["config", "--no-includes", "-z", "--file"]).arg(file);
            strategies.extend(self.values(call, "options.strategy").await?);
        }
        if self.settings.has_strategy {
            strategies
                .extend(self.values(GitCall::reading(&["config", "-z"]), "pull.twohead").await?);
        }
        match strategies.iter().find(|name| !STRATEGIES.contains(&name.as_str())) {
            Some(name) => {
                let why = format!(
                    "the operation in progress uses the merge strategy '{name}', which git would run as a command"
                );
                Err(self.unsafe_(&why))
            }
            None => Ok(()),
        }
    }

    /// A bisect returns to a branch or a commit, whose name git passes as a command line argument.
    pub(super) async fn check_beginning(&self, step: SequencerKind) -> Result<(), GitError> {
        if step != SequencerKind::Bisect || self.place.trusted {
            return Ok(());
        }
        let git_dir = self.place.inside();
        let began = crate::blocking(move || small(&git_dir.join("BISECT_START"), LINE)).await;
        let began = began.map_err(|error| GitError::Conflict(error.to_string()))?;
        let began = began.map_err(|why| self.unsafe_(&why))?;
        match began.first() {
            Some(b'-') => {
                Err(self.unsafe_("the bisect goes back to something that is not a branch name"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// All values of a setting; empty if it is missing.
    async fn values(&self, call: GitCall, name: &str) -> Result<Vec<String>, GitError> {
        const NOT_THERE: i32 = 1;
        let said = self.run(call.args(["--get-all", name])).await?;
        match said.code {
            0 if said.cut => {
                Err(self.unsafe_("the state of the operation in progress is too large"))
            }
            0 => Ok(records(&said.out).map(text).collect()),
            NOT_THERE => Ok(Vec::new()),
            _ => Err(said.failed()),
        }
    }
}

/// The merge strategy of a rebase. Fails for a step or option that would run or write something else. Blocks.
fn look(git_dir: &Path) -> Result<Vec<String>, String> {
    if runs_programs(git_dir)? {
        return Err("the rebase has programs among its steps".into());
    }
    let options = if_there(git_dir, "rebase-apply/apply-opt", LINE)?.unwrap_or_default();
    let known = |word: &[u8]| {
        let word = word.strip_prefix(b"'").unwrap_or(word);
        PATCH_OPTIONS.iter().any(|option| word.starts_with(option.as_bytes()))
    };
    let mut words = options.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if let Some(odd) = words.find(|word| !known(word)) {
        return Err(format!("the patches use the option {}", text(odd)));
    }
    let strategy = if_there(git_dir, "rebase-merge/strategy", LINE)?;
    Ok(strategy.map(|name| text(name.trim_ascii_end())).into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn check(file: &str, content: &str, expected: Result<&[&str], &str>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        match (look(folder.path()), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{content}"),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{content}: {why}"),
            (found, _) => panic!("{content}: {found:?}"),
        }
    }

    #[test]
    fn files_of_what_is_under_way_name_strategies_and_options() {
        check("rebase-merge/msgnum", "1\n", Ok(&[]));
        check("rebase-merge/strategy", "evil\n", Ok(&["evil"]));
        check("rebase-merge/strategy", "ort", Ok(&["ort"]));
        check("rebase-merge/git-rebase-todo", "exec x\n", Err("programs among its steps"));
        let options = "rebase-apply/apply-opt";
        for good in ["", "\n", " '-C1' '--whitespace=fix'\n", " '-p2' '--directory=a/b'"] {
            check(options, good, Ok(&[]));
        }
        for bad in ["'--build-fake-ancestor=/x'", " '-p1' '--bu=/x'", "'-p1 '--unsafe", "x"] {
            check(options, bad, Err("the patches use the option"));
        }
        check("rebase-merge/strategy", &"x".repeat(5000), Err("it is too large"));
    }
}
