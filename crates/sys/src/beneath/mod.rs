//! Access below a folder that cannot escape it, whatever the path contains, whatever links exist,
//! and however they change meanwhile.
//!
//! A [`Root`] holds a folder open. Everything else is reached from its descriptor: by `openat2`,
//! which the kernel keeps beneath it, or name by name where that call is missing. The result is an
//! [`EntryPath`]: an open folder and one name in it. Every operation on a place uses that descriptor,
//! so that no other folder can be swapped in. Only regular files are opened, and nothing here waits
//! for the other end of a pipe.
//!
//! A held folder that is moved out of its root stays accessible; [`Root::ascend`] detects the move.
//! Callers decide who may read or write.

mod entry;
mod file_attributes;
mod path;
mod resolve;

pub use entry::{EntryInfo, EntryPath, Kind, OverwriteMode, seen};
pub use file_attributes::FileAttributes;
pub use path::RelativePath;

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

/// Flags to traverse and hold a folder; neither needs permission to list it.
pub(crate) const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The reason a path was not opened.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    #[error("leads out of its root")]
    Outside,
    #[error("is or goes through a link, which is not followed here")]
    Link,
    #[error("{0}")]
    Malformed(&'static str),
    #[error("is {0}, not a regular file")]
    NotAFile(Kind),
    #[error("is a kernel file, not a file on a disk")]
    OfTheKernel,
    #[error("was moved while it was being opened")]
    Moved,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for PathError {
    fn from(errno: Errno) -> PathError {
        PathError::Io(errno.into())
    }
}

impl PathError {
    /// Whether nothing of that name exists.
    pub fn is_missing(&self) -> bool {
        self.is(io::ErrorKind::NotFound)
    }

    /// Whether the kernel returned this kind of error.
    pub fn is(&self, kind: io::ErrorKind) -> bool {
        matches!(self, PathError::Io(error) if error.kind() == kind)
    }
}

/// Identifies one file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub device: u64,
    pub inode: u64,
}

/// The treatment of links within a path and at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Follow links that stay beneath the root; used for reading.
    Follow,
    /// Refuse links within the path; at the end, use the link itself.
    Refuse,
}

/// The method of path resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResolveMethod {
    /// One `openat2` call that stays beneath the root.
    Kernel,
    /// Name by name, if that call is missing.
    Names,
}

/// An open folder that no path can escape.
#[derive(Debug)]
pub struct Root {
    folder: Folder,
    way: ResolveMethod,
}

impl Root {
    /// Opens the trusted folder at `path`.
    pub fn open(path: &Path) -> io::Result<Root> {
        let folder = Folder::of(rustix::fs::open(path, PASS, Mode::empty())?)?;
        let way = resolve::best_way(&folder);
        Ok(Root { folder, way })
    }

    /// Selects the method of path resolution.
    pub fn going(self, way: ResolveMethod) -> Root {
        Root { way, ..self }
    }

    pub fn way(&self) -> ResolveMethod {
        self.way
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Resolves `path`. Its last name need not exist; the folders before it must.
    pub fn place(&self, path: &RelativePath, links: LinkPolicy) -> Result<EntryPath, PathError> {
        resolve::place(self, path, links)
    }

    /// Opens the folder at `path`.
    pub fn folder_at(&self, path: &RelativePath, links: LinkPolicy) -> Result<Folder, PathError> {
        let place = self.place(path, links)?;
        place.folder().child(place.name())
    }

    /// Visits a folder and each one above it up to the root. Returns [`PathError::Outside`] if the
    /// folder is no longer below the root.
    pub fn ascend<E: From<PathError>>(
        &self,
        folder: &Folder,
        mut visit: impl FnMut(&Folder) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut here = folder.again()?;
        for _ in 0..=RelativePath::DEEPEST {
            visit(&here)?;
            if here.id == self.folder.id {
                return Ok(());
            }
            let above = here.above()?;
            if above.id == here.id {
                break;
            }
            here = above;
        }
        Err(PathError::Outside.into())
    }
}

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    id: Id,
    /// Whether the folder is on a disk and not in a kernel file system such as `/proc`. Determined
    /// when a file in it is first opened.
    on_disk: OnceLock<bool>,
}

impl Folder {
    pub(crate) fn of(handle: OwnedFd) -> io::Result<Folder> {
        let stat = rustix::fs::fstat(&handle)?;
        Ok(Folder { handle, id: entry::id(&stat), on_disk: OnceLock::new() })
    }

    /// Opens the trusted folder at `path`.
    pub fn open(path: &Path) -> io::Result<Folder> {
        Folder::of(rustix::fs::open(path, PASS, Mode::empty())?)
    }

    pub fn id(&self) -> Id {
        self.id
    }

    /// Whether this folder is still the one at `path`. A link may have changed, or the folder may
    /// have been deleted.
    pub fn is_at(&self, path: &Path) -> bool {
        rustix::fs::stat(path).is_ok_and(|stat| entry::id(&stat) == self.id)
    }

    /// Duplicates the handle.
    pub fn again(&self) -> Result<Folder, PathError> {
        let handle = self.handle.try_clone()?;
        Ok(Folder { handle, id: self.id, on_disk: self.on_disk.clone() })
    }

    /// Opens the subfolder of that name; refuses a link. `.` is the folder itself.
    pub fn child(&self, name: &OsStr) -> Result<Folder, PathError> {
        match rustix::fs::openat(&self.handle, name, PASS | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => Ok(Folder::of(handle)?),
            Err(Errno::LOOP) => Err(PathError::Link),
            // With O_DIRECTORY the kernel reports a link as "not a directory".
            Err(Errno::NOTDIR) if self.is_link(name) => Err(PathError::Link),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns a name in this folder; it must be a single name.
    pub fn place(&self, name: &OsStr) -> Result<EntryPath, PathError> {
        match RelativePath::parse(name)?.split() {
            Some((folder, only)) if folder.is_root() && only == name => {
                Ok(EntryPath::new(self.again()?, name.to_owned()))
            }
            _ => Err(PathError::Malformed("is not a single name")),
        }
    }

    /// Lists the entries in no particular order.
    pub fn entries(&self) -> Result<Vec<Entry>, PathError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.handle, c".", flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::new(handle)? {
            let entry = entry?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                entries.push(self.entry(entry.file_name(), entry.file_type()));
            }
        }
        Ok(entries)
    }

    fn entry(&self, name: &CStr, kind: FileType) -> Entry {
        let name = OsString::from_vec(name.to_bytes().to_vec());
        let kind = if kind == FileType::Unknown {
            // Some file systems do not report the kind. An entry that is gone meanwhile cannot be
            // opened anyway.
            entry::look(self, &name).ok().flatten().map_or(Kind::Other, |look| look.kind)
        } else {
            Kind::of(kind)
        };
        Entry { name, kind }
    }

    /// Opens the parent folder; the parent of the topmost is itself.
    pub fn above(&self) -> Result<Folder, PathError> {
        Ok(Folder::of(rustix::fs::openat(&self.handle, c"..", PASS, Mode::empty())?)?)
    }

    fn is_link(&self, name: &OsStr) -> bool {
        matches!(entry::look(self, name), Ok(Some(look)) if look.kind == Kind::Link)
    }

    /// Syncs created, renamed and removed names to disk.
    pub fn sync(&self) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&self.handle, c".", flags, Mode::empty())?;
        Ok(rustix::fs::fsync(handle)?)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

/// One entry of a folder and its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub name: OsString,
    pub kind: Kind,
}

impl Entry {
    pub fn bytes(&self) -> &[u8] {
        self.name.as_bytes()
    }
}
