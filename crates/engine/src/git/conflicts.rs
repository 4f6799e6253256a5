//! Files with conflicts: the three sides of each, choosing one of them, and finishing or aborting the
//! operation.

use super::Repository;
use super::arguments::{listed, literal};
use super::call::GitCall;
use super::diff::staged;
use super::error::GitError;
use super::filters::FilterDirection;
use super::in_progress::{SequencerKind, SequencerState};
use super::installed_git::Version;
use super::output_fields::{self, Name, records};
use super::repository_location::RepositoryLocation;
use super::stage::{PlannedStage, StagedFiles};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum size of the list of conflicts: with the longest names, more files than one response has.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// The first version whose `bisect` is built in. Before that it is a shell script around a helper, and no shell
/// runs for an untrusted repository.
const HAS_BISECT: Version = (2, 40);

/// The first version whose helper takes `reset` as a word instead of an option.
const HAS_BISECT_WORDS: Version = (2, 39);

/// The three sides of a file with conflicts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConflictedFile {
    pub path: Name,
    pub base: Option<ConflictSide>,
    pub ours: Option<ConflictSide>,
    pub theirs: Option<ConflictSide>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictSide {
    pub mode: String,
    pub blob: String,
}

/// The side to choose for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    Ours,
    Theirs,
    /// The content of the work tree.
    AsItIs,
    Content(Vec<u8>),
}

impl Repository {
    /// Files with conflicts, `most` of them and one more if there are more; and the operation in progress.
    pub async fn conflicts(
        &self,
    ) -> Result<(Option<SequencerState>, Vec<ConflictedFile>), GitError> {
        self.need_worktree().await?;
        let call = GitCall::reading(&["ls-files", "--unmerged", "-z"]).most(MAX_OUTPUT_BYTES);
        let found = sides(&self.ask(call).await?.out);
        Ok((self.state().await?, found))
    }

    /// Resolves one file.
    pub async fn resolve(&mut self, path: &Path, take: &Resolution) -> Result<(), GitError> {
        let path = self.path("path", path)?;
        self.write_files().await?;
        let call = GitCall::reading(&["ls-files", "--unmerged", "-z", "--"]).arg(literal(&path));
        let found = sides(&self.ask(call).await?.out);
        let Some(sides) = found.into_iter().find(|sides| sides.path == path) else {
            return Err(GitError::Nothing(format!("conflict in '{}'", path.text())));
        };
        self.check_filters(std::slice::from_ref(&path)).await?;
        match take {
            Resolution::Ours => self.take_side(&path, sides.ours).await,
            Resolution::Theirs => self.take_side(&path, sides.theirs).await,
            Resolution::AsItIs => self.take_file(&path).await,
            Resolution::Content(bytes) => self.take_content(&path, &sides, bytes.clone()).await,
        }
    }

    /// Uses one side; a missing side deletes the file.
    async fn take_side(&self, path: &Name, side: Option<ConflictSide>) -> Result<(), GitError> {
        if let Some(side) = side {
            return self.settle(path, &side).await;
        }
        let call = GitCall::writing(&["update-index", "--force-remove", "-z", "--stdin"]);
        self.ask(call.input(listed([path]))).await?;
        // `git rm` would follow a link on the way to the file.
        let path = path.clone();
        self.in_worktree(move |tree| tree.remove(&path)).await
    }

    async fn take_file(&self, path: &Name) -> Result<(), GitError> {
        let paths = vec![path.clone()];
        let added = StagedFiles { paths: paths.clone(), ..StagedFiles::default() };
        let gone = self.in_worktree(move |tree| tree.absent(paths)).await?;
        let planned = PlannedStage { added, gone: gone.into_iter().collect() };
        self.stage(&planned, None).await
    }

    async fn take_content(
        &self,
        path: &Name,
        sides: &ConflictedFile,
        bytes: Vec<u8>,
    ) -> Result<(), GitError> {
        let any = [&sides.ours, &sides.theirs, &sides.base].into_iter().flatten().next();
        let mode = any.map(|side| side.mode.as_str()).filter(|mode| mode.starts_with("100"));
        let mode = mode.unwrap_or("100644");
        let mut word = OsString::from("--path=");
        word.push(OsStr::from_bytes(&path.0));
        // Read from a pipe, even if it is empty.
        let mut call = GitCall::writing(&["hash-object", "-w", "--stdin"]).arg(word);
        if !bytes.is_empty() {
            call = call.input(bytes);
        }
        let said = self.ask(call).await?;
        let blob = output_fields::hash(&said.out).ok_or_else(|| GitError::Failed {
            what: "hash-object".into(),
            said: "it printed no object name".into(),
        })?;
        self.settle(path, &ConflictSide { mode: mode.to_owned(), blob }).await
    }

    /// Writes the index first, and from there the work tree: git ensures that no link leads elsewhere. The
    /// files of a submodule are its own.
    async fn settle(
        &self,
        path: &Name,
        ConflictSide { mode, blob }: &ConflictSide,
    ) -> Result<(), GitError> {
        let nothing = "0".repeat(blob.len());
        let mut entries = format!("0 {nothing}\t").into_bytes();
        entries.extend_from_slice(&path.0);
        entries.extend_from_slice(format!("\0{mode} {blob} 0\t").as_bytes());
        entries.extend_from_slice(&path.0);
        entries.push(0);
        let call = GitCall::writing(&["update-index", "-z", "--index-info"]).input(entries);
        self.ask(call).await?;
        let call = GitCall::writing(&["checkout-index", "--index", "--force", "--quiet"]);
        self.ask(call.args(["-z", "--stdin"]).input(listed([path]))).await.map(drop)
    }

    /// Continues the operation in progress; returns the operation in progress after that.
    pub async fn go_on(&mut self) -> Result<Option<SequencerState>, GitError> {
        let step = self.under_way().await?;
        self.require_identity()?;
        self.check_steps().await?;
        self.check_way(step, FilterDirection::On).await?;
        let call = match step {
            SequencerKind::Merge => self.finish_merge(),
            SequencerKind::Rebase => GitCall::writing(&["rebase", "--continue"]),
            SequencerKind::CherryPick => GitCall::writing(&["cherry-pick", "--continue"]),
            SequencerKind::Revert => GitCall::writing(&["revert", "--continue"]),
            SequencerKind::Apply => GitCall::writing(&["am", "--continue"]),
            SequencerKind::Bisect => {
                return Err(GitError::Conflict("a bisect has no next step".into()));
            }
        };
        let said = self.run(call).await?;
        let state = self.state().await?;
        if said.code == 0 {
            return Ok(state);
        }
        let (_, clashing) = self.conflicts().await?;
        match (clashing.is_empty(), said.failed()) {
            (false, _) => Ok(state),
            (true, error) => Err(error),
        }
    }

    /// Git's prepared message contains comment lines for an editor.
    fn finish_merge(&self) -> GitCall {
        let call = GitCall::writing(&["commit", "--quiet", "--no-edit", "--no-status"]);
        let call = call.arg("--cleanup=strip");
        match self.place.trusted {
            true => call,
            false => call.args(["--no-verify", "--no-post-rewrite", "--no-gpg-sign"]),
        }
    }

    /// Aborts the operation in progress.
    pub async fn abort(&mut self) -> Result<(), GitError> {
        let step = self.under_way().await?;
        self.check_beginning(step).await?;
        self.check_way(step, FilterDirection::Back).await?;
        let word = match step {
            SequencerKind::Merge => "merge",
            SequencerKind::Rebase => "rebase",
            SequencerKind::CherryPick => "cherry-pick",
            SequencerKind::Revert => "revert",
            SequencerKind::Apply => "am",
            SequencerKind::Bisect => {
                return self.ask(bisect_reset(self.tool.version)).await.map(drop);
            }
        };
        self.ask(GitCall::writing(&[word, "--abort"])).await.map(drop)
    }

    async fn under_way(&mut self) -> Result<SequencerKind, GitError> {
        self.write_files().await?;
        let names = self.submodules().await?;
        self.settings.ignore_submodules(names.into_iter());
        let state = self.state().await?;
        let none = || GitError::Nothing("merge or rebase in progress".into());
        state.map(|state| state.step).ok_or_else(none)
    }

    pub(super) fn unsafe_(&self, why: &str) -> GitError {
        let RepositoryLocation { top, git_dir, .. } = &self.place;
        let inside = self.place.inside().display().to_string();
        let why = why.replace(&inside, &git_dir.display().to_string());
        GitError::Unsafe { top: top.clone(), why }
    }
}

/// The call that ends a bisect.
fn bisect_reset(version: Version) -> GitCall {
    if version >= HAS_BISECT {
        GitCall::writing(&["bisect", "reset"])
    } else if version >= HAS_BISECT_WORDS {
        GitCall::writing(&["bisect--helper", "reset"])
    } else {
        GitCall::writing(&["bisect--helper", "--bisect-reset"])
    }
}

/// The sides of each file, in order of names.
pub fn sides(bytes: &[u8]) -> Vec<ConflictedFile> {
    let mut files: BTreeMap<Name, ConflictedFile> = BTreeMap::new();
    for (mode, blob, stage, path) in records(bytes).filter_map(staged) {
        let file = files.entry(path.clone()).or_default();
        file.path = path;
        let side = Some(ConflictSide { mode, blob });
        match stage {
            1 => file.base = side,
            2 => file.ours = side,
            3 => file.theirs = side,
            _ => {}
        }
    }
    files.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sides_of_a_file_are_its_stages() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let text = format!(
            "100644 {a} 1\tx y\x00100755 {b} 2\tx y\x00100644 {a} 3\t\"q\n\0nonsense\x00100644 {a} 2\tcut"
        );
        let side =
            |mode: &str, blob: &str| Some(ConflictSide { mode: mode.into(), blob: blob.into() });
        let quoted = ConflictedFile {
            path: b"\"q\n"[..].into(),
            theirs: side("100644", &a),
            ..ConflictedFile::default()
        };
        let both = ConflictedFile {
            path: b"x y"[..].into(),
            base: side("100644", &a),
            ours: side("100755", &b),
            theirs: None,
        };
        assert_eq!(sides(text.as_bytes()), [quoted, both]);
    }
}
