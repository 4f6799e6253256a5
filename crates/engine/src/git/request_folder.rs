//! The folder of a request as a path without links: git takes paths, not descriptors.

use crate::files::{FileError, Files, PathError};
use proctor_sys::beneath::Root;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A folder of a request, below a root.
#[derive(Debug, Clone)]
pub(crate) struct RequestFolder {
    /// Without links.
    pub(crate) root: PathBuf,
    /// The root, held open.
    pub(crate) held: Arc<Root>,
    /// Without links; the root or below it.
    pub(crate) folder: PathBuf,
    /// The root is writable.
    pub(crate) write: bool,
}

impl RequestFolder {
    /// The named folder, or the first root if none is named. Blocks.
    pub(crate) fn named(files: &Files, named: Option<&Path>) -> Result<RequestFolder, FileError> {
        let roots = files.roots();
        let spot = match named {
            Some(path) => roots.find(&without_detours(path))?,
            None => roots.first()?,
        };
        let moved = |error| spot.at()(PathError::Io(error));
        let folder = real(&files.folder(&spot)?).map_err(moved)?;
        let held = spot.root.held()?;
        let root = real(held.folder()).map_err(moved)?;
        if !folder.starts_with(&root) {
            return Err(spot.at()(PathError::Outside));
        }
        Ok(RequestFolder { root, held, folder, write: spot.root.write })
    }
}

/// The path of an open folder, from the kernel.
pub(super) fn real(folder: &impl AsFd) -> std::io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()))
}

/// The path without `..`, by its names alone: the result is resolved beneath a root.
fn without_detours(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir if plain.file_name().is_some() => drop(plain.pop()),
            Component::CurDir => {}
            Component::ParentDir
            | Component::Normal(_)
            | Component::RootDir
            | Component::Prefix(_) => plain.push(part),
        }
    }
    plain.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_back_is_taken_by_its_names() {
        for (given, expected) in [
            ("/srv/app/sub/..", "/srv/app"),
            ("/srv/app/./x//y", "/srv/app/x/y"),
            ("code:x/a/../b", "code:x/b"),
            ("..", ".."),
            ("a/../../b", "../b"),
            ("/..", "/.."),
            ("", ""),
        ] {
            assert_eq!(without_detours(Path::new(given)), expected, "{given}");
        }
    }
}
