//! Makes a caller's input safe for git: revisions become hashes, names become full references, paths become
//! literal.

use super::Repository;
use super::call::GitCall;
use super::error::GitError;
use super::output_fields::{self, Name};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Maximum length of a name: far longer than people write.
const MAX_NAME_BYTES: usize = 1000;

/// Maximum length of a path.
const MAX_PATH_BYTES: usize = 4096;

/// Maximum length of a message or a pattern: as long as one command line argument may safely be.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Maximum number of paths in one request.
const MAX_PATHS: usize = 10_000;

impl Repository {
    /// The commit that a revision names. Only this result is ever passed to git.
    pub(super) async fn commit_of(&self, revision: &str) -> Result<String, GitError> {
        self.object(revision, "^{commit}").await
    }

    /// The object that a revision names.
    pub(super) async fn object(&self, revision: &str, kind: &str) -> Result<String, GitError> {
        short("rev", revision, MAX_NAME_BYTES)?;
        let call = GitCall::reading(&["rev-parse", "--verify", "--quiet", "--end-of-options"]);
        let said = self.run(call.arg(format!("{revision}{kind}"))).await?;
        let hash = output_fields::hash(&said.out).filter(|_| said.code == 0);
        hash.ok_or_else(|| GitError::NoRevision(revision.to_owned()))
    }

    /// The current commit; `None` before the first commit.
    pub(super) async fn head(&self) -> Result<Option<String>, GitError> {
        match self.commit_of("HEAD").await {
            Ok(hash) => Ok(Some(hash)),
            Err(GitError::NoRevision(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The full name of a branch or a tag: `refs/heads/` or `refs/tags/` before the given name.
    pub(super) async fn reference(&self, folder: &str, name: &str) -> Result<String, GitError> {
        short("name", name, MAX_NAME_BYTES)?;
        let bad = || GitError::bad("name", format!("'{name}' is not a valid name"));
        // Git accepts these in some places and not in others.
        if name.starts_with('-') || name == "HEAD" || name.starts_with("refs/") {
            return Err(bad());
        }
        let full = format!("{folder}{name}");
        let said = self.run(GitCall::reading(&["check-ref-format"]).arg(&full)).await?;
        if said.code == 0 { Ok(full) } else { Err(bad()) }
    }

    /// Paths of a request, relative to the top of the work tree or to the folder of the request.
    pub(super) fn paths(&self, given: &[String]) -> Result<Vec<Name>, GitError> {
        if given.len() > MAX_PATHS {
            return Err(GitError::bad("paths", format!("at most {MAX_PATHS} paths")));
        }
        given.iter().map(|path| self.path("paths", path)).collect()
    }

    /// Arguments for a look at the work tree with these paths, without Proctor's own files.
    pub(super) async fn in_sight(&self, given: &[String]) -> Result<Vec<OsString>, GitError> {
        let mut words: Vec<OsString> = self.paths(given)?.iter().map(literal).collect();
        if self.own.iter().any(|own| own.starts_with(&self.place.top)) {
            let own = self.in_worktree(|tree| tree.own_paths()).await?;
            if words.is_empty() {
                words.push(literal(&Name(b".".into())));
            }
            words.extend(own.iter().map(left_out));
        }
        Ok(words)
    }

    /// One path, relative to the top; the top itself is `.`.
    pub(super) fn path(
        &self,
        field: &'static str,
        given: impl AsRef<Path>,
    ) -> Result<Name, GitError> {
        let shown = given.as_ref().to_string_lossy();
        short(field, &shown, MAX_PATH_BYTES)?;
        let (top, full) = (&self.place.top, self.below.join(&given));
        inside(top, &full)
            .or_else(|| inside(top, &without_links(&full)?))
            .map(|path| Name(path.into_os_string().into_vec()))
            .ok_or_else(|| {
                GitError::bad(field, format!("'{shown}' is outside {}", self.place.top.display()))
            })
    }
}

/// A range of two revisions, as git writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range<'a> {
    pub(super) from: &'a str,
    pub(super) to: &'a str,
    /// From the merge base of the two: `A...B`.
    pub(super) parting: bool,
}

impl<'a> Range<'a> {
    /// Parses `A..B`; a missing side means the current commit.
    pub(super) fn parse(text: &'a str) -> Option<Range<'a>> {
        let (from, to) = text.split_once("..")?;
        let (to, parting) = to.strip_prefix('.').map_or((to, false), |to| (to, true));
        let or_head = |side: &'a str| if side.is_empty() { "HEAD" } else { side };
        Some(Range { from: or_head(from), to: or_head(to), parting })
    }
}

/// A normalised path relative to `top`; `None` if it leads out.
fn inside(top: &Path, given: &Path) -> Option<PathBuf> {
    let given = if given.is_absolute() { given.strip_prefix(top).ok()? } else { given };
    let mut path = PathBuf::new();
    for part in given.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => path.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    if path.as_os_str().is_empty() {
        path.push(".");
    }
    Some(path)
}

/// An absolute path without links: the root may be known by another name. It is only resolved, not opened.
fn without_links(path: &Path) -> Option<PathBuf> {
    let (above, name) = (path.parent()?, path.file_name()?);
    path.is_absolute().then(|| above.canonicalize().ok()).flatten().map(|above| above.join(name))
}

/// An argument that git reads as a literal path.
pub(super) fn literal(path: &Name) -> OsString {
    magic(":(literal)", path)
}

/// An argument that excludes a path, also on a case-insensitive file system.
fn left_out(path: &Name) -> OsString {
    magic(":(exclude,icase,literal)", path)
}

fn magic(word: &str, path: &Name) -> OsString {
    let mut word = OsString::from(word);
    word.push(std::ffi::OsStr::from_bytes(&path.0));
    word
}

/// Literal paths as the input of `--pathspec-from-file=- --pathspec-file-nul`.
pub(super) fn literals(paths: &[Name]) -> Vec<u8> {
    paths.iter().flat_map(|path| [b":(literal)", path.0.as_slice(), b"\0"].concat()).collect()
}

/// Names as the input of a `-z --stdin`.
pub(super) fn listed<'a>(paths: impl IntoIterator<Item = &'a Name>) -> Vec<u8> {
    paths.into_iter().flat_map(|path| [path.0.as_slice(), b"\0"].concat()).collect()
}

/// Checks that a text is not empty, not too long, and has no zero byte.
pub(super) fn short(field: &'static str, text: &str, most: usize) -> Result<(), GitError> {
    match text {
        "" => Err(GitError::bad(field, "must not be empty")),
        text if text.contains('\0') => Err(GitError::bad(field, "must not contain a zero byte")),
        text if text.len() > most => {
            Err(GitError::bad(field, format!("must have at most {most} bytes")))
        }
        _ => Ok(()),
    }
}

/// Checks a message or a pattern.
pub(super) fn prose(field: &'static str, text: &str) -> Result<(), GitError> {
    short(field, text, MAX_TEXT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside_whatever_they_say() {
        let check = |given: &str, expected: Option<&str>| {
            let found = inside(Path::new("/srv/app"), Path::new(given));
            assert_eq!(found, expected.map(PathBuf::from), "{given}");
        };
        check("a/b", Some("a/b"));
        check("./a//b/.", Some("a/b"));
        check("a/../b", Some("b"));
        check(".", Some("."));
        check("a/..", Some("."));
        check("/srv/app/a", Some("a"));
        check("/srv/app", Some("."));
        check("-c", Some("-c"));
        check(":(top)x", Some(":(top)x"));
        for outside in
            ["..", "a/../../b", "/srv/application", "/srv", "/etc/passwd", "/srv/app/../x"]
        {
            check(outside, None);
        }
    }

    #[test]
    fn a_range_is_two_revisions() {
        let check = |text: &str, expected: Option<(&str, &str, bool)>| {
            let found = Range::parse(text).map(|it| (it.from, it.to, it.parting));
            assert_eq!(found, expected, "{text}");
        };
        check("main", None);
        check("v1.0", None);
        check("a..b", Some(("a", "b", false)));
        check("a...b", Some(("a", "b", true)));
        check("a..", Some(("a", "HEAD", false)));
        check("...@{u}", Some(("HEAD", "@{u}", true)));
        check("a..b..c", Some(("a", "b..c", false)));
    }

    #[test]
    fn texts_are_whole_words() {
        assert!(prose("message", "-m\n--amend").is_ok());
        for bad in ["", "a\0b", &"x".repeat(MAX_TEXT_BYTES + 1)] {
            assert!(prose("message", bad).is_err());
        }
        assert_eq!(
            literals(&[Name(b"a".into()), Name(b"\xff".into())]),
            b":(literal)a\0:(literal)\xff\0"
        );
    }
}
