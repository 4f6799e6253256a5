//! Looks for disabled filters before git continues or aborts an operation: without them it would write wrong
//! contents to the work tree or the repository.

use super::Repository;
use super::call::GitCall;
use super::error::GitError;
use super::in_progress::{LINE, STEPS, SequencerKind, if_there};
use super::output_fields::{self, Name, records};
use super::repository_location::small;
use std::path::Path;

/// Maximum number of commits whose attributes are read; each is a call.
const MAX_FILTERS: usize = 64;

/// Stashed changes that are restored at the end of the operation.
const PUT_ASIDE: [&str; 3] =
    ["rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH"];

/// Files with the commit where the operation began.
const BEGAN: [&str; 3] = ["rebase-merge/orig-head", "rebase-apply/orig-head", "sequencer/head"];

const TODOS: [&str; 2] = ["rebase-merge/git-rebase-todo", "sequencer/todo"];

/// Steps that name a commit, short and long.
const WITH_COMMIT: [&str; 15] = [
    "pick", "p", "reword", "r", "edit", "e", "squash", "s", "fixup", "f", "reset", "t", "merge",
    "m", "revert",
];

/// The direction of an operation in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterDirection {
    On,
    Back,
}

impl Repository {
    /// Fails if a file that differs from now, in any commit on the way, has a disabled filter.
    pub(super) async fn check_way(
        &self,
        step: SequencerKind,
        way: FilterDirection,
    ) -> Result<(), GitError> {
        let head = if self.is_unfiltered() { None } else { self.head().await? };
        let Some(head) = head else { return Ok(()) };
        if way == FilterDirection::Back {
            self.check_filters_between(std::slice::from_ref(&head), &[]).await?;
        }
        // The files that patches change are not known before they are applied, so all files are checked.
        if way == FilterDirection::On && self.applies_patches(step) {
            let all = GitCall::reading(&["ls-tree", "-r", "-z", "--name-only", "--full-tree"]);
            return self.check_filters_named(all.arg(&head), &[], &[head]).await;
        }
        let commits = self.commits_on_the_way(step, way).await?;
        let pairs: String = commits.iter().map(|commit| format!("{commit} {head}\n")).collect();
        if pairs.is_empty() {
            return Ok(());
        }
        let differ = ["diff-tree", "--stdin", "-z", "-r", "--no-commit-id", "--name-only"];
        let call = GitCall::reading(&differ).args(["--no-renames", "--ignore-submodules=all"]);
        let said = self.ask(call.input(pairs.into())).await?.whole()?;
        let mut files: Vec<Name> = records(&said.out).map(Name::from).collect();
        files.sort();
        files.dedup();
        let asked = files.iter().any(|name| name.0.ends_with(b".gitattributes"));
        let asked = if asked { commits } else { vec![head] };
        if asked.len() > MAX_FILTERS {
            let message =
                "'.gitattributes' differs in too many commits to check them all for filters";
            return Err(GitError::Conflict(message.into()));
        }
        self.check_filters_in(&files, &asked).await
    }

    fn applies_patches(&self, step: SequencerKind) -> bool {
        let patches = self.place.inside().join("rebase-apply");
        step == SequencerKind::Apply
            || (step == SequencerKind::Rebase && patches.symlink_metadata().is_ok())
    }

    /// The commits that the operation visits, and their parents.
    async fn commits_on_the_way(
        &self,
        step: SequencerKind,
        way: FilterDirection,
    ) -> Result<Vec<String>, GitError> {
        let git_dir = self.place.inside();
        let named = crate::blocking(move || named(&git_dir, way)).await;
        let named = named.map_err(|error| GitError::Conflict(error.to_string()))?;
        let mut named = named.map_err(|why| self.unsafe_(&why))?;
        match step {
            SequencerKind::Bisect => {
                let from = small(&self.place.inside().join("BISECT_START"), LINE);
                let from = from.map_err(|why| self.unsafe_(&why))?;
                named.push(self.commit_of(&output_fields::text(from.trim_ascii())).await?);
            }
            SequencerKind::Apply if way == FilterDirection::Back => {
                named.extend(self.commit_of("ORIG_HEAD").await)
            }
            SequencerKind::Apply
            | SequencerKind::Merge
            | SequencerKind::Rebase
            | SequencerKind::CherryPick
            | SequencerKind::Revert => {}
        }
        // Commits that a rebase has labelled on its way.
        let format = "--format=%(objectname)";
        let labels = GitCall::reading(&["for-each-ref", format, "refs/rewritten/"]);
        let labels = self.ask(labels).await?.whole()?;
        named.extend(labels.out.split(|byte| *byte == b'\n').filter_map(output_fields::hash));
        if named.is_empty() {
            return Ok(named);
        }
        let call = GitCall::reading(&["rev-list", "--no-walk=unsorted", "--parents", "--stdin"]);
        let said = self.ask(call.input(named.join("\n").into())).await?.whole()?;
        let words = said.out.split(u8::is_ascii_whitespace).filter_map(output_fields::hash);
        let mut commits: Vec<String> = words.collect();
        commits.sort();
        commits.dedup();
        Ok(commits)
    }
}

/// The commits named in the files of the operation. Blocks.
fn named(git_dir: &Path, way: FilterDirection) -> Result<Vec<String>, String> {
    let mut commits = Vec::new();
    let mut hashes = |names: &[&str]| -> Result<(), String> {
        for name in names {
            commits.extend(if_there(git_dir, name, LINE)?.as_deref().and_then(output_fields::hash));
        }
        Ok(())
    };
    hashes(&PUT_ASIDE)?;
    match way {
        FilterDirection::Back => hashes(&BEGAN)?,
        FilterDirection::On => {
            for name in TODOS {
                let bytes = if_there(git_dir, name, STEPS)?.unwrap_or_default();
                commits.extend(bytes.split(|byte| *byte == b'\n').filter_map(of_step));
            }
        }
    }
    Ok(commits)
}

/// `pick HASH text`, `merge -C HASH label`
fn of_step(line: &[u8]) -> Option<String> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let command = words.next()?;
    WITH_COMMIT.iter().any(|known| known.as_bytes() == command).then_some(())?;
    let commit = words.find(|word| !matches!(*word, b"-C" | b"-c"))?;
    let plain = matches!(commit.len(), 7..=64) && commit.iter().all(u8::is_ascii_hexdigit);
    plain.then(|| output_fields::text(commit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn commits_on_the_way_are_read_from_the_files_of_git() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        assert_eq!(named(folder.path(), FilterDirection::On).unwrap(), [""; 0]);
        let todo = "pick 1234567 added it\n\nmerge -C 89abcde label # x\nreset onto\n# pick 1111111\nexec f00dbad\n";
        for (file, text) in [
            ("rebase-merge/git-rebase-todo", todo),
            ("rebase-merge/autostash", &format!("{a}\n")),
            ("rebase-merge/orig-head", &b),
            ("sequencer/todo", "pick 2222222 x"),
            ("sequencer/head", "nonsense\n"),
        ] {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let on = [&a, "1234567", "89abcde", "2222222"];
        assert_eq!(named(folder.path(), FilterDirection::On).unwrap(), on);
        assert_eq!(named(folder.path(), FilterDirection::Back).unwrap(), [a, b]);
    }
}
