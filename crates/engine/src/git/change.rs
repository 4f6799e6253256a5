//! Changes of the work tree put into the index.

use super::Repository;
use super::call::Call;
use super::error::GitError;
use super::fields::{Name, records, text};
use super::given::listed;
use super::status::{Change, StatusQuery, What};

/// What is put into the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Add {
    /// What is different below these paths, new files too.
    Paths(Vec<String>),
    /// Everything that is different.
    All,
    /// Everything that is different and known to git.
    Known,
}

/// What was put there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Added {
    pub paths: Vec<Name>,
    /// Repositories inside of this one that git does not know: they are left out.
    pub nested: Vec<Name>,
}

impl Repository {
    /// Put changes into the index. The list is made first, by a look that enters no submodule; then exactly that list is
    /// put there.
    pub async fn add(&mut self, add: &Add) -> Result<Added, GitError> {
        self.write().await?;
        let given = match add {
            Add::Paths(paths) if paths.is_empty() => {
                return Err(GitError::bad("paths", "name what to add; or say 'all' or 'update'"));
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
            return Err(GitError::bad("paths", "there are too many changes; name some"));
        }
        let mut added = Added::default();
        for entry in status.entries {
            match entry.what {
                What::Ignored | What::Changed { unstaged: None, .. } => {}
                What::Untracked if entry.path.0.ends_with(b"/") => added.nested.push(entry.path),
                What::Changed { unstaged: Some(Change::Renamed), from, .. } => {
                    added.paths.extend(from);
                    added.paths.push(entry.path);
                }
                What::Untracked | What::Conflict(_) | What::Changed { unstaged: Some(_), .. } => {
                    added.paths.push(entry.path);
                }
            }
        }
        self.refuse_unknown(&given, &added).await?;
        self.check_filters(&added.paths).await?;
        if !added.paths.is_empty() {
            let call = Call::writing(&["update-index", "--add", "--remove", "-z", "--stdin"]);
            self.ask(call.input(listed(&added.paths))).await?;
        }
        Ok(added)
    }

    /// A path that stands for nothing is a mistake of who wrote it: nothing is there, or it is ignored.
    async fn refuse_unknown(&self, given: &[String], added: &Added) -> Result<(), GitError> {
        for (path, shown) in self.paths(given)?.iter().zip(given) {
            let below = |name: &Name| {
                let inner = name.0.strip_prefix(path.0.as_slice());
                path.0 == b"." || inner.is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
            };
            if added.paths.iter().chain(&added.nested).any(below) {
                continue;
            }
            let word = super::given::literal(path);
            let known = Call::reading(&["ls-files", "-z", "--"]).arg(word.clone()).most(4096);
            let known = self.ask(known).await?;
            if known.cut || !known.out.is_empty() || path.0 == b"." {
                continue;
            }
            let query = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"];
            let ignored = self.ask(Call::reading(&query).arg(word).most(4096)).await?;
            return Err(match records(&ignored.out).next() {
                Some(_) => GitError::bad("paths", format!("'{shown}' is ignored")),
                None => GitError::Nothing(format!("'{shown}'")),
            });
        }
        Ok(())
    }

    /// Names of submodules, wherever git would read them from.
    pub(super) async fn submodules(&self) -> Result<Vec<String>, GitError> {
        let file = self.place.top.join(".gitmodules");
        let places: &[&[&str]] = match file.symlink_metadata().is_ok() {
            true => &[&["--file", ".gitmodules"]],
            false => &[&["--blob", ":.gitmodules"], &["--blob", "HEAD:.gitmodules"]],
        };
        for place in places {
            let call = Call::reading(&["config", "--no-includes", "--list", "--name-only", "-z"]);
            let said = self.run(call.args(place.iter())).await?;
            if said.code == 0 && !said.cut {
                return Ok(names(&said.out));
            }
        }
        Ok(Vec::new())
    }
}

/// `submodule.NAME.path` → `NAME`
fn names(bytes: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = records(bytes)
        .filter_map(|record| {
            let name = text(record.strip_prefix(b"submodule.")?);
            name.rsplit_once('.').map(|(name, _)| name.to_owned())
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_are_named_whatever_is_in_their_names() {
        let text = b"submodule.a.b.path\0submodule.a.b.url\0submodule.x y.ignore\0core.bare\0submodule.recurse\0";
        assert_eq!(names(text), ["a.b", "x y"]);
    }
}
