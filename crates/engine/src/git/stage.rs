//! Adds changes of the work tree to the index.

use super::Repository;
use super::arguments::listed;
use super::call::GitCall;
use super::error::GitError;
use super::output_fields::{Name, records};
use super::repository_location::small;
use super::status::{Change, EntryState, StatusQuery};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Maximum size of the list of submodules: many times a real one.
const MAX_GITMODULES_BYTES: u64 = 1 << 20;

/// A selection of changes to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Add {
    /// Changes below these paths, including new files.
    Paths(Vec<String>),
    /// All changes, including new files.
    All,
    /// All changes of tracked files.
    Known,
}

/// The added changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StagedFiles {
    pub paths: Vec<Name>,
    /// Untracked repositories inside this one, which are skipped.
    pub nested: Vec<Name>,
}

/// The changes to add.
#[derive(Debug, Default)]
pub(super) struct PlannedStage {
    pub(super) added: StagedFiles,
    /// Paths without a file in the work tree. A path through a link counts as gone: its target is another file.
    pub(super) gone: BTreeSet<Name>,
}

impl Repository {
    /// Adds changes to the index. First it lists the changes without entering submodules; then it adds exactly
    /// that list.
    pub async fn add(&mut self, add: &Add) -> Result<StagedFiles, GitError> {
        self.write_files().await?;
        let planned = self.plan(add).await?;
        self.stage(&planned, None).await?;
        Ok(planned.added)
    }

    pub(super) async fn plan(&self, add: &Add) -> Result<PlannedStage, GitError> {
        let given = match add {
            Add::Paths(paths) if paths.is_empty() => {
                return Err(GitError::bad("paths", "name paths to add, or set 'all' or 'update'"));
            }
            Add::Paths(paths) => paths.clone(),
            Add::All | Add::Known => Vec::new(),
        };
        let query = StatusQuery {
            paths: given.clone(),
            no_untracked: *add == Add::Known,
            ..StatusQuery::default()
        };
        let status = self.status(&query).await?;
        if status.cut {
            return Err(GitError::bad("paths", "too many changes; name some paths"));
        }
        let mut planned = PlannedStage::default();
        let PlannedStage { added, gone } = &mut planned;
        let (mut clashes, mut staged) = (Vec::new(), Vec::new());
        for entry in status.entries {
            match entry.what {
                EntryState::Ignored => {}
                EntryState::Changed { unstaged: None, from, .. } => {
                    staged.extend(from);
                    staged.push(entry.path);
                }
                EntryState::Untracked if entry.path.0.ends_with(b"/") => {
                    added.nested.push(entry.path)
                }
                EntryState::Changed { unstaged: Some(Change::Renamed), from, .. } => {
                    gone.extend(from.clone());
                    added.paths.extend(from);
                    added.paths.push(entry.path);
                }
                EntryState::Changed { unstaged: Some(Change::Deleted), .. } => {
                    gone.insert(entry.path.clone());
                    added.paths.push(entry.path);
                }
                EntryState::Conflict(_) => {
                    clashes.push(entry.path.clone());
                    added.paths.push(entry.path);
                }
                EntryState::Untracked | EntryState::Changed { unstaged: Some(_), .. } => {
                    added.paths.push(entry.path);
                }
            }
        }
        if !clashes.is_empty() {
            gone.extend(self.in_worktree(move |tree| tree.absent(clashes)).await?);
        }
        let known = added.paths.iter().chain(&added.nested).chain(&staged);
        self.refuse_unknown(&given, &known.collect::<Vec<_>>()).await?;
        self.check_filters(&added.paths).await?;
        Ok(planned)
    }

    /// Adds the list to the index, or to the given index.
    pub(super) async fn stage(
        &self,
        planned: &PlannedStage,
        index: Option<&Path>,
    ) -> Result<(), GitError> {
        let PlannedStage { added, gone } = planned;
        let (gone, there): (Vec<&Name>, Vec<&Name>) =
            added.paths.iter().partition(|path| gone.contains(*path));
        // A former file may be a folder by now.
        let words: [(&[&str], _); 2] =
            [(&["--force-remove"], gone), (&["--add", "--remove", "--replace"], there)];
        for (words, paths) in words.into_iter().filter(|(_, paths)| !paths.is_empty()) {
            let call = GitCall::writing(&["update-index"]).args(words).args(["-z", "--stdin"]);
            self.ask(call.in_index(index).input(listed(paths))).await?;
        }
        Ok(())
    }

    /// Fails for a path that matches nothing, or only ignored files: it is a mistake of the caller.
    async fn refuse_unknown(&self, given: &[String], known: &[&Name]) -> Result<(), GitError> {
        for (path, shown) in self.paths(given)?.iter().zip(given) {
            let below = |name: &&Name| {
                let inner = name.0.strip_prefix(path.0.as_slice());
                path.0 == b"." || inner.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
            };
            if known.iter().any(below) {
                continue;
            }
            let word = super::arguments::literal(path);
            let known = GitCall::reading(&["ls-files", "-z", "--"]).arg(word.clone()).most(4096);
            let known = self.ask(known).await?;
            if known.cut || !known.out.is_empty() || path.0 == b"." {
                continue;
            }
            let query = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"];
            let ignored = self.ask(GitCall::reading(&query).arg(word).most(4096)).await?;
            return Err(match records(&ignored.out).next() {
                Some(_) => GitError::bad("paths", format!("'{shown}' is ignored")),
                None => GitError::Nothing(format!("'{shown}'")),
            });
        }
        Ok(())
    }

    /// Names of submodules, from every place where git reads them. Git would enter a submodule that is missing
    /// here, so it fails if they cannot all be listed.
    pub(super) async fn submodules(&self) -> Result<Vec<String>, GitError> {
        let call = GitCall::reading(&["config", "--no-includes", "--list", "--name-only", "-z"]);
        let file = self.place.top.join(".gitmodules");
        let call = if file.symlink_metadata().is_ok() {
            self.check_modules(file).await?;
            call.args(["--file", ".gitmodules"])
        } else if let Some(blob) = self.stored_modules().await? {
            call.args(["--blob", &blob])
        } else {
            return Ok(Vec::new());
        };
        let said = self.run(call).await?;
        let names = match said.code {
            0 if !said.cut => names(&said.out),
            0 => Err("it names too many submodules".into()),
            _ => Err(format!("cannot read its .gitmodules: {}", said.failed())),
        };
        match names {
            Ok(names) => Ok(names),
            Err(_) if self.place.trusted => Ok(Vec::new()),
            Err(why) => Err(self.unsafe_(&why)),
        }
    }

    /// Git would read any kind of file, and follow links.
    async fn check_modules(&self, file: PathBuf) -> Result<(), GitError> {
        if self.place.trusted {
            return Ok(());
        }
        let read = crate::blocking(move || small(&file, MAX_GITMODULES_BYTES)).await;
        let read = read.map_err(|error| GitError::Conflict(error.to_string()))?;
        read.map(drop).map_err(|why| self.unsafe_(&why))
    }

    /// The object of `.gitmodules` in the index, or in the last commit.
    async fn stored_modules(&self) -> Result<Option<String>, GitError> {
        for place in [":.gitmodules", "HEAD:.gitmodules"] {
            match self.object(place, "").await {
                Ok(blob) => return Ok(Some(blob)),
                Err(GitError::NoRevision(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// `submodule.NAME.path` → `NAME`
fn names(bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for record in records(bytes).filter_map(|record| record.strip_prefix(b"submodule.")) {
        let Ok(name) = std::str::from_utf8(record) else {
            return Err("the name of a submodule in it is not UTF-8".into());
        };
        names.extend(name.rsplit_once('.').map(|(name, _)| name.to_owned()));
    }
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_are_named_whatever_is_in_their_names() {
        let text = b"submodule.a.b.path\0submodule.a.b.url\0submodule.x y.ignore\0core.bare\0submodule.recurse\0";
        assert_eq!(names(text).unwrap(), ["a.b", "x y"]);
        assert!(names(b"submodule.e\xff.ignore\0").is_err(), "it could not be told to git");
    }
}
