//! Finds a repository and tells git its location, so that nothing in it can change that.
//!
//! An untrusted repository stays below its root with everything: its files, borrowed objects, and the targets
//! of its links. Everything here blocks.

mod git_pointers;
mod held_folders;

use super::error::GitError;
use super::request_folder::RequestFolder;
use git_pointers::{below, borrowed, no_links};
pub(super) use held_folders::{HeldFolders, Inside};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a path in a file of git.
const MAX_POINTER_BYTES: u64 = 4096;

/// Maximum number of files in a git directory: ten times that of large projects.
const MAX_ENTRIES: usize = 500_000;

/// Folders that git neither reads nor writes: programs, repositories of submodules, data of other tools.
const LEFT_OUT: [&str; 4] = ["hooks", "modules", "lfs", "annex"];

/// Folders that may have very many files and are harmless for readers: checked only before a change.
const REFERENCES: [&str; 2] = ["refs", "logs"];

/// A git directory has at least one of these, however damaged it is.
const SIGNS: [&str; 5] = ["HEAD", "objects", "refs", "config", "commondir"];

/// A repository. All paths are absolute and without links.
#[derive(Debug, Clone)]
pub(super) struct RepositoryLocation {
    pub(super) top: PathBuf,
    pub(super) git_dir: PathBuf,
    /// The directory shared by all its work trees; often the same.
    pub(super) common_dir: PathBuf,
    /// The owner lets it run programs.
    pub(super) trusted: bool,
    /// Git finds it by itself and is not told its location: otherwise its hooks would use it for every other
    /// repository.
    pub(super) found_by_git: bool,
    /// Why it cannot be changed.
    pub(super) read_only: Option<String>,
    /// Its open folders; `None` for a trusted one.
    pub(super) held: Option<Arc<HeldFolders>>,
}

/// Folders that must not be changed. All paths are without links.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    /// Proctor's own folders.
    pub(super) own: Vec<PathBuf>,
    /// Read-only roots.
    pub(super) closed: Vec<PathBuf>,
    /// Writable roots. One inside a read-only one is writable.
    pub(super) open: Vec<PathBuf>,
}

impl Bounds {
    /// Why these folders cannot be changed.
    fn against(&self, folders: &[&Path]) -> Option<String> {
        for folder in folders {
            if let Some(part) = self.closed.iter().find(|closed| closed.starts_with(folder)) {
                return Some(format!("{} in it is read-only", part.display()));
            }
            if let Some(around) = self.closed.iter().find(|closed| self.closes(closed, folder)) {
                return Some(format!("the root {} is read-only", around.display()));
            }
            if let Some(own) = self.own.iter().find(|own| own.starts_with(folder)) {
                return Some(format!("Proctor's own files are in it, at {}", own.display()));
            }
        }
        None
    }

    /// Returns true if this is the innermost root of a folder.
    fn closes(&self, closed: &Path, folder: &Path) -> bool {
        let nearer =
            |open: &PathBuf| open != closed && open.starts_with(closed) && folder.starts_with(open);
        folder.starts_with(closed) && !self.open.iter().any(nearer)
    }
}

/// The repository of a folder, searched upwards to its root; above the root, only one that the owner trusts.
pub(super) fn find(
    given: &RequestFolder,
    trusted: &[String],
    bounds: &Bounds,
) -> Result<RepositoryLocation, GitError> {
    let RequestFolder { root, folder, write, .. } = given;
    let trusted: Vec<PathBuf> =
        trusted.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    let counts = |above: &Path| above.starts_with(root) || trusted.iter().any(|top| top == above);
    let mut above = folder.ancestors().filter(|above| counts(above));
    let top = above.find(|above| is_repository(&above.join(".git")));
    let none = || GitError::NoRepository { folder: folder.clone(), root: root.clone() };
    let top = top.ok_or_else(none)?.to_owned();
    let trusted = trusted.contains(&top);
    let unsafe_ = |why: String| GitError::Unsafe { top: top.clone(), why };
    let git_dir = git_dir(&top).map_err(unsafe_)?;
    let common_dir = common_dir(&git_dir).map_err(unsafe_)?;
    let read_only = match write {
        true => bounds.against(&[&top, &git_dir, &common_dir]),
        false => Some(format!("the root {} is read-only", root.display())),
    };
    // Git does not find a repository of another user; and a path list cannot contain a name with a colon.
    let listable = !top.as_os_str().as_bytes().contains(&b':');
    let found_by_git = trusted && listable && owned(&[&top, &top.join(".git"), &git_dir]).is_ok();
    let mut place = RepositoryLocation {
        top,
        git_dir,
        common_dir,
        trusted,
        found_by_git,
        read_only,
        held: None,
    };
    if !trusted {
        let unsafe_ = |why: String| GitError::Unsafe { top: place.top.clone(), why };
        place.check(root).map_err(unsafe_)?;
        place.held = Some(Arc::new(HeldFolders::open(&place, given).map_err(unsafe_)?));
    }
    Ok(place)
}

/// A folder without files of git is not a repository: git looks further up. A damaged one is, so that nothing
/// around it is changed.
fn is_repository(dot: &Path) -> bool {
    match dot.symlink_metadata() {
        Ok(found) if found.is_dir() => {
            SIGNS.iter().any(|name| dot.join(name).symlink_metadata().is_ok())
        }
        found => found.is_ok(),
    }
}

impl RepositoryLocation {
    /// Fails if anything in it leads out of the root.
    fn check(&self, root: &Path) -> Result<(), String> {
        for path in [&self.git_dir, &self.common_dir] {
            below(path, root)?;
        }
        owned(&[&self.top, &self.top.join(".git"), &self.git_dir, &self.common_dir])?;
        let mut left = MAX_ENTRIES;
        let unread: Vec<&str> = LEFT_OUT.into_iter().chain(REFERENCES).collect();
        for folder in self.folders() {
            no_links(folder, &unread, &mut left)?;
        }
        borrowed(&self.common_dir.join("objects"), root, &mut left)
    }

    /// Checks before a write that no link leads elsewhere.
    pub(super) fn check_writable(&self) -> Result<(), GitError> {
        if let Some(why) = &self.read_only {
            return Err(GitError::ReadOnly { top: self.top.clone(), why: why.clone() });
        }
        if self.trusted {
            return Ok(());
        }
        let unsafe_ = |why: String| GitError::Unsafe { top: self.top.clone(), why };
        let mut left = MAX_ENTRIES;
        for folder in self.folders() {
            for tree in REFERENCES {
                no_links(&folder.join(tree), &[], &mut left).map_err(unsafe_)?;
            }
        }
        Ok(())
    }

    /// The git directory, for our own access.
    pub(super) fn inside(&self) -> Inside {
        Inside::of(self)
    }

    /// All folders of git, without duplicates.
    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        let other = (self.git_dir != self.common_dir).then_some(&self.git_dir);
        [&self.common_dir].into_iter().chain(other)
    }
}

/// The folder behind `.git`, which may be a folder, a link to one, or a file that names one.
fn git_dir(top: &Path) -> Result<PathBuf, String> {
    let dot = top.join(".git");
    let found = fs::metadata(&dot).map_err(|error| format!(".git: {error}"))?;
    if found.is_dir() {
        return real(&dot);
    }
    let text = small(&real(&dot)?, MAX_POINTER_BYTES)?;
    let path = text.strip_prefix(b"gitdir: ").ok_or(".git is a file that names no folder")?;
    real(&top.join(path_of(path)))
}

pub(super) fn common_dir(git_dir: &Path) -> Result<PathBuf, String> {
    let file = git_dir.join("commondir");
    match file.symlink_metadata() {
        Ok(_) => real(&git_dir.join(path_of(&small(&file, MAX_POINTER_BYTES)?))),
        Err(_) => Ok(git_dir.to_owned()),
    }
}

fn real(path: &Path) -> Result<PathBuf, String> {
    fs::canonicalize(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The only line of a file, as git reads it: everything except the line end belongs to the path.
fn path_of(mut bytes: &[u8]) -> &Path {
    while let [line @ .., b'\n' | b'\r'] = bytes {
        bytes = line;
    }
    Path::new(OsStr::from_bytes(bytes))
}

/// The bytes of a regular file that is not a link and not larger than `most`.
pub(super) fn small(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let failed = |why: String| format!("{}: {why}", path.display());
    let mut bytes = Vec::new();
    let file = regular(path).map_err(|error| failed(error.to_string()))?;
    // One byte more shows that the file is too large.
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
    match bytes.len() as u64 > most {
        true => Err(failed("it is too large".into())),
        false => Ok(bytes),
    }
}

/// Opens a regular file, not a link, for reading. Never waits for another kind of file.
pub(super) fn regular(path: &Path) -> io::Result<fs::File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let other = || io::Error::other("it is not a regular file");
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => fs::File::from(file),
        Err(Errno::LOOP | Errno::NXIO) => return Err(other()),
        Err(error) => return Err(error.into()),
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(other()) }
}

/// Fails for files of another user, which may change at any time. Git itself checks the same when it looks for
/// a repository.
fn owned(paths: &[&Path]) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    for path in paths {
        let owner = path.symlink_metadata().map_err(|error| error.to_string())?.uid();
        if owner != own {
            return Err(format!("{} belongs to user {owner}, not to user {own}", path.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
