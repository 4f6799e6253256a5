//! Resolves the path of a request to a root and a path below it, by its text alone.
//!
//! One rule for every file operation, so that a path means the same file for reading and for
//! writing:
//!
//! 1. An absolute path belongs to the innermost root that contains it.
//! 2. `NAME:path`, with the name of a root, is below that root.
//! 3. Any other path is relative to the caller's folder, if the caller has one inside a root.
//! 4. Otherwise it is relative to the only root.
//!
//! This does not make a path safe: the kernel resolves the result beneath its root.

use std::path::{Component, Path, PathBuf};

/// A folder that paths may be in.
#[derive(Debug, Clone)]
pub struct Root<'a> {
    pub name: &'a str,
    /// The declared path.
    pub path: &'a Path,
    /// The path with links resolved.
    pub real: PathBuf,
}

impl Root<'_> {
    /// Returns the part of an absolute path below this folder.
    fn rest<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.strip_prefix(self.path).or_else(|_| path.strip_prefix(&self.real)).ok()
    }
}

/// The root and relative path of a resolved path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootedPath {
    /// Index of the root.
    pub root: usize,
    /// Path below the root. Normalized (no `.` or `..`) if relative paths start at the caller's
    /// folder, otherwise as written.
    pub path: PathBuf,
}

/// The reason a path has no root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootError {
    NoRoot,
    /// There are several roots, and the path names none of them.
    Which,
    /// The path is outside all roots.
    Elsewhere,
    /// The path leaves the root that it names.
    Outside,
}

/// Resolves a path. `here` is the caller's folder, if relative paths start there; then `..` is
/// resolved by names too.
pub fn locate(
    text: &str,
    here: Option<&Path>,
    roots: &[Root<'_>],
) -> Result<RootedPath, RootError> {
    if roots.is_empty() {
        return Err(RootError::NoRoot);
    }
    let path = Path::new(text);
    if path.is_absolute() {
        let path = if here.is_some() { plain(path) } else { unclimbing(path) };
        return path.and_then(|path| innermost(&path, roots)).ok_or(RootError::Elsewhere);
    }
    if let Some((root, path)) = named(text, roots) {
        return within(root, path, here);
    }
    if let Some(here) = here.filter(|here| innermost(here, roots).is_some()) {
        let path = plain(&here.join(path));
        return path.and_then(|path| innermost(&path, roots)).ok_or(RootError::Elsewhere);
    }
    match roots {
        [_] => within(0, text, here),
        _ => Err(RootError::Which),
    }
}

/// Returns the deepest root that contains an absolute path, and the path below it.
pub fn innermost(path: &Path, roots: &[Root<'_>]) -> Option<RootedPath> {
    let found = roots.iter().enumerate().filter_map(|(at, root)| Some((at, root.rest(path)?)));
    let (root, rest) = found.min_by_key(|(_, rest)| rest.as_os_str().len())?;
    Some(RootedPath { root, path: rest.to_owned() })
}

/// Splits off the root name of a path: returns the root and the rest of the text.
fn named<'t>(text: &'t str, roots: &[Root<'_>]) -> Option<(usize, &'t str)> {
    let (name, path) = text.split_once(':')?;
    Some((roots.iter().position(|root| root.name == name)?, path))
}

fn within(root: usize, path: &str, here: Option<&Path>) -> Result<RootedPath, RootError> {
    let path = match here {
        Some(_) if !path.starts_with('/') => plain(Path::new(path)).ok_or(RootError::Outside)?,
        Some(_) | None => PathBuf::from(path),
    };
    Ok(RootedPath { root, path })
}

/// Resolves `.` and `..` by names; returns `None` if the path climbs above its start.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            Component::ParentDir => return None,
            Component::CurDir => {}
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => plain.push(part),
        }
    }
    Some(plain)
}

fn unclimbing(path: &Path) -> Option<PathBuf> {
    let climbs = path.components().any(|part| part == Component::ParentDir);
    (!climbs).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &[[&str; 3]] = &[["shop", "/srv/shop", "/srv/shop"]];
    const TWO: &[[&str; 3]] =
        &[["shop", "/srv/shop", "/srv/shop"], ["manual", "/srv/manual", "/srv/manual"]];
    /// Two roots, one inside the other, one of them declared by a link.
    const NESTED: &[[&str; 3]] = &[
        ["shop", "/srv/shop", "/srv/shop"],
        ["docs", "/srv/shop/docs", "/srv/shop/docs"],
        ["live", "/srv/current", "/releases/5"],
    ];

    /// `NAME|path`, or the error.
    fn found(roots: &[[&str; 3]], here: Option<&str>, text: &str) -> String {
        let known: Vec<Root<'_>> = roots
            .iter()
            .map(|[name, path, real]| Root { name, path: Path::new(path), real: real.into() })
            .collect();
        match locate(text, here.map(Path::new), &known) {
            Ok(at) => format!("{}|{}", known[at.root].name, at.path.display()),
            Err(lost) => format!("{lost:?}"),
        }
    }

    #[test]
    fn a_path_begins_where_the_caller_stands_if_that_is_in_a_root() {
        let docs = Some("/srv/shop/docs");
        for (roots, here, text, expected) in [
            (ONE, docs, "readme.md", "shop|docs/readme.md"),
            (ONE, docs, "./readme.md", "shop|docs/readme.md"),
            (ONE, docs, "../src/a.py", "shop|src/a.py"),
            (ONE, docs, "a/../../b/", "shop|b"),
            (ONE, docs, "", "shop|docs"),
            (ONE, docs, ".", "shop|docs"),
            (ONE, docs, "..", "shop|"),
            (ONE, docs, "shop:readme.md", "shop|readme.md"),
            (ONE, docs, "shop:", "shop|"),
            (ONE, docs, "shop:a/../b", "shop|b"),
            (ONE, docs, "shop:..", "Outside"),
            (ONE, docs, "./shop:x", "shop|docs/shop:x"),
            (ONE, docs, "other:x", "shop|docs/other:x"),
            (ONE, docs, "/srv/shop/x/../y", "shop|y"),
            (ONE, docs, "../../else/x", "Elsewhere"),
            (ONE, docs, "../../../../../x", "Elsewhere"),
            (ONE, docs, "/etc/passwd", "Elsewhere"),
            (ONE, docs, "/srv/shop/../x", "Elsewhere"),
            (ONE, Some("/srv/shop"), "a", "shop|a"),
            (ONE, Some("/srv/shop"), "../shop/a", "shop|a"),
            (TWO, docs, "a", "shop|docs/a"),
            (TWO, docs, "manual:a", "manual|a"),
            (TWO, docs, "../../manual/a", "manual|a"),
            (TWO, Some("/srv/manual"), "a", "manual|a"),
            (NESTED, docs, "a", "docs|a"),
            (NESTED, docs, "../a", "shop|a"),
            (NESTED, Some("/srv/shop"), "docs/a", "docs|a"),
            (NESTED, Some("/releases/5/src"), "a", "live|src/a"),
            (NESTED, Some("/srv/current/src"), "../a", "live|a"),
        ] {
            assert_eq!(found(roots, here, text), expected, "{here:?} {text:?}");
        }
    }

    #[test]
    fn who_stands_elsewhere_begins_at_the_top_of_the_only_root() {
        let away = Some("/home/me");
        for (roots, here, text, expected) in [
            (ONE, away, "readme.md", "shop|readme.md"),
            (ONE, away, "", "shop|"),
            (ONE, away, "a/../b", "shop|b"),
            (ONE, away, "../x", "Outside"),
            (ONE, Some("/srv/shopping"), "x", "shop|x"),
            (ONE, Some("/srv"), "shop/x", "shop|shop/x"),
            (TWO, away, "x", "Which"),
            (TWO, away, "", "Which"),
            (TWO, away, "manual:x", "manual|x"),
            (TWO, away, "/srv/manual/x", "manual|x"),
            (&[], away, "x", "NoRoot"),
            (&[], away, "/x", "NoRoot"),
        ] {
            assert_eq!(found(roots, here, text), expected, "{here:?} {text:?}");
        }
    }

    #[test]
    fn without_a_place_paths_are_as_they_were_written() {
        for (roots, text, expected) in [
            (ONE, "a/./b", "shop|a/./b"),
            (ONE, "../x", "shop|../x"),
            (ONE, "shop:../x", "shop|../x"),
            (ONE, "/srv/shop/a", "shop|a"),
            (ONE, "/srv/shop/a/../b", "Elsewhere"),
            (TWO, "a", "Which"),
            (NESTED, "/srv/shop/docs/a", "docs|a"),
            (NESTED, "/releases/5/a", "live|a"),
        ] {
            assert_eq!(found(roots, None, text), expected, "{text:?}");
        }
    }
}
