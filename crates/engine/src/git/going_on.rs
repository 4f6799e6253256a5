//! What is under way, looked at before git goes on with it: its files came with the repository, and name more than commits.

use super::Repository;
use super::call::Call;
use super::error::GitError;
use super::fields::{records, text};
use super::place::small;
use super::state::{LINE, Step, if_there, runs_programs};
use std::path::Path;

/// Ways to merge that git has in itself. Any other is a command `git merge-NAME`.
const STRATEGIES: [&str; 2] = ["ort", "recursive"];

/// What patches may be applied with. Other options of `git apply` write elsewhere.
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
    /// Nothing that is under way names a program, in a repository that may not run any.
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
            let call = Call::reading(&["config", "--no-includes", "-z", "--file"]).arg(file);
            strategies.extend(self.values(call, "options.strategy").await?);
        }
        if self.settings.has_strategy {
            strategies.extend(self.values(Call::reading(&["config", "-z"]), "pull.twohead").await?);
        }
        match strategies.iter().find(|name| !STRATEGIES.contains(&name.as_str())) {
            Some(name) => {
                let why = format!(
                    "what is under way is to be merged by '{name}', which git would look for among commands"
                );
                Err(self.unsafe_(&why))
            }
            None => Ok(()),
        }
    }

    /// Where a bisect goes back to is the name of a branch or a commit. Git takes it as a word of a command line.
    pub(super) async fn check_beginning(&self, step: Step) -> Result<(), GitError> {
        if step != Step::Bisect || self.place.trusted {
            return Ok(());
        }
        let git_dir = self.place.inside();
        let began = crate::blocking(move || small(&git_dir.join("BISECT_START"), LINE)).await;
        let began = began.map_err(|error| GitError::Conflict(error.to_string()))?;
        let began = began.map_err(|why| self.unsafe_(&why))?;
        match began.first() {
            Some(b'-') => Err(self.unsafe_("the bisect goes back to what is no name of a branch")),
            Some(_) | None => Ok(()),
        }
    }

    /// All values of a setting; none if it is not there.
    async fn values(&self, call: Call, name: &str) -> Result<Vec<String>, GitError> {
        const NOT_THERE: i32 = 1;
        let said = self.run(call.args(["--get-all", name])).await?;
        match said.code {
            0 if said.cut => Err(self.unsafe_("the state of what is under way is too large")),
            0 => Ok(records(&said.out).map(text).collect()),
            NOT_THERE => Ok(Vec::new()),
            _ => Err(said.failed()),
        }
    }
}

/// The strategy that a rebase names; an error for whatever would run or write something else. Blocks.
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
        return Err(format!("patches are to be applied with {}", text(odd)));
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
            check(options, bad, Err("patches are to be applied with"));
        }
        check("rebase-merge/strategy", &"x".repeat(5000), Err("it is too large"));
    }
}
