//! The folders of a repository, held open: their paths may lead elsewhere by the time git is called.

use super::super::request_folder::RequestFolder as Named;
use super::RepositoryLocation;
use proctor_sys::beneath::{Folder, LinkPolicy, RelativePath, Root};
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folders of a repository that stays below its root.
#[derive(Debug)]
pub(in crate::git) struct HeldFolders {
    root: Arc<Root>,
    top: Folder,
    git_dir: Folder,
    common_dir: Folder,
}

impl HeldFolders {
    /// Opens the folders without following links: there were none when the repository was found.
    pub(super) fn open(place: &RepositoryLocation, below: &Named) -> Result<HeldFolders, String> {
        let open = |path: &Path| -> Result<Folder, String> {
            let failed = |why: String| format!("{}: {why}", path.display());
            let rest = path.strip_prefix(&below.root).map_err(|error| failed(error.to_string()))?;
            let folder = match rest.as_os_str().is_empty() {
                true => below.held.folder().again(),
                false => RelativePath::parse(rest)
                    .and_then(|rel| below.held.folder_at(&rel, LinkPolicy::Refuse)),
            };
            folder.map_err(|fault| failed(fault.to_string()))
        };
        Ok(HeldFolders {
            root: Arc::clone(&below.held),
            top: open(&place.top)?,
            git_dir: open(&place.git_dir)?,
            common_dir: open(&place.common_dir)?,
        })
    }

    /// Nothing outside this folder is read.
    pub(in crate::git) fn root(&self) -> BorrowedFd<'_> {
        self.root.folder().as_fd()
    }

    /// Nothing outside these folders is written.
    pub(in crate::git) fn own(&self) -> [BorrowedFd<'_>; 3] {
        [self.top.as_fd(), self.git_dir.as_fd(), self.common_dir.as_fd()]
    }

    /// The work tree, as a path for a new process.
    pub(in crate::git) fn top(&self) -> PathBuf {
        leading_to(&self.top)
    }
}

/// A path that leads to the folder in this process, and in its new child, while it is held.
fn leading_to(folder: &Folder) -> PathBuf {
    format!("/proc/self/fd/{}", folder.as_fd().as_raw_fd()).into()
}

/// The git directory, for our own access.
#[derive(Debug, Clone)]
pub(in crate::git) struct Inside {
    path: PathBuf,
    _held: Option<Arc<HeldFolders>>,
}

impl Inside {
    /// Opened once, whatever its path leads to later.
    pub(super) fn of(place: &RepositoryLocation) -> Inside {
        let held = place.held.as_ref();
        let path = held.map_or_else(|| place.git_dir.clone(), |held| leading_to(&held.git_dir));
        Inside { path, _held: held.cloned() }
    }

    /// A git directory that nobody replaces.
    #[cfg(test)]
    pub(in crate::git) fn named(path: PathBuf) -> Inside {
        Inside { path, _held: None }
    }
}

impl Deref for Inside {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}
