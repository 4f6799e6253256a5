//! Below a folder and never out of it: whatever a path says, whichever links lie there, whoever swaps them meanwhile.
//!
//! A [`Root`] holds a folder open. Everything else is reached from its descriptor: by `openat2`, which the kernel keeps
//! beneath it, or name by name where that call is missing. What comes out is a [`Place`], a folder that is held open and one
//! name in it, and all that is done with a place is done on that descriptor, so that nobody can put another folder in between.
//! Only regular files are opened, and nothing here waits for whoever has the other end of a pipe.
//!
//! A folder that is moved out of its root while it is held stays what it was when it was found; [`Root::ascend`] notices.
//! Who may read or write what is decided elsewhere.

mod likeness;
mod path;
mod place;
mod resolve;

pub use likeness::Likeness;
pub use path::Rel;
pub use place::{Kind, Look, Onto, Place, seen};

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

/// To pass through a folder and to hold it; permission to list it is not needed for either.
pub(crate) const PASS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Why a path was not opened.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    #[error("leads out of its root")]
    Outside,
    #[error("is a link, or goes through one, that is not followed")]
    Link,
    #[error("{0}")]
    Malformed(&'static str),
    #[error("is {0}, not a regular file")]
    NotAFile(Kind),
    #[error("is a file of the kernel's, not one of a disk")]
    OfTheKernel,
    #[error("was moved while it was being opened")]
    Moved,
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Fault {
        Fault::Io(errno.into())
    }
}

impl Fault {
    /// Is it that there is nothing of that name?
    pub fn is_missing(&self) -> bool {
        self.is(io::ErrorKind::NotFound)
    }

    /// Did the kernel say this?
    pub fn is(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Fault::Io(error) if error.kind() == kind)
    }
}

/// What tells one file or folder from every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub device: u64,
    pub inode: u64,
}

/// Links on the way and at the end of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Followed as long as they stay beneath: for reading.
    Follow,
    /// Refused on the way; at the end, the link itself is meant.
    Refuse,
}

/// How paths are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By one call that stays beneath.
    Kernel,
    /// Name by name, where that call is missing.
    Names,
}

/// A folder that is held open, and that nothing leads out of.
#[derive(Debug)]
pub struct Root {
    folder: Folder,
    way: Way,
}

impl Root {
    /// Hold the folder at `path`, which is trusted.
    pub fn open(path: &Path) -> io::Result<Root> {
        let folder = Folder::of(rustix::fs::open(path, PASS, Mode::empty())?)?;
        let way = resolve::best_way(&folder);
        Ok(Root { folder, way })
    }

    /// The same, resolved in this way.
    pub fn going(self, way: Way) -> Root {
        Root { way, ..self }
    }

    pub fn way(&self) -> Way {
        self.way
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Where `path` is. Its last name need not exist; the folders before it do.
    pub fn place(&self, path: &Rel, links: Links) -> Result<Place, Fault> {
        resolve::place(self, path, links)
    }

    /// The folder at `path`.
    pub fn folder_at(&self, path: &Rel, links: Links) -> Result<Folder, Fault> {
        let place = self.place(path, links)?;
        place.folder().child(place.name())
    }

    /// Visit a folder and each one above it up to the root; a folder that is not below it any more is [`Fault::Outside`].
    pub fn ascend<E: From<Fault>>(
        &self,
        folder: &Folder,
        mut visit: impl FnMut(&Folder) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut here = folder.again()?;
        for _ in 0..=Rel::DEEPEST {
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
        Err(Fault::Outside.into())
    }
}

/// A folder that is held open.
#[derive(Debug)]
pub struct Folder {
    handle: OwnedFd,
    id: Id,
    /// Is it on a disk, and no folder of the kernel's own words? Looked up when a file in it is opened.
    on_disk: OnceLock<bool>,
}

impl Folder {
    pub(crate) fn of(handle: OwnedFd) -> io::Result<Folder> {
        let stat = rustix::fs::fstat(&handle)?;
        Ok(Folder { handle, id: place::id(&stat), on_disk: OnceLock::new() })
    }

    /// Hold the folder at `path`, which is trusted.
    pub fn open(path: &Path) -> io::Result<Folder> {
        Folder::of(rustix::fs::open(path, PASS, Mode::empty())?)
    }

    pub fn id(&self) -> Id {
        self.id
    }

    /// Is it the one that is at `path` now? A link there may lead to another by now, and one that was deleted is nowhere.
    pub fn is_at(&self, path: &Path) -> bool {
        rustix::fs::stat(path).is_ok_and(|stat| place::id(&stat) == self.id)
    }

    /// The same folder once more.
    pub fn again(&self) -> Result<Folder, Fault> {
        let handle = self.handle.try_clone()?;
        Ok(Folder { handle, id: self.id, on_disk: self.on_disk.clone() })
    }

    /// The folder of that name in it; a link is refused. `.` is the folder itself.
    pub fn child(&self, name: &OsStr) -> Result<Folder, Fault> {
        match rustix::fs::openat(&self.handle, name, PASS | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(handle) => Ok(Folder::of(handle)?),
            Err(Errno::LOOP) => Err(Fault::Link),
            // With O_DIRECTORY a link is "not a directory".
            Err(Errno::NOTDIR) if self.is_link(name) => Err(Fault::Link),
            Err(errno) => Err(errno.into()),
        }
    }

    /// A name in it, which must be one name.
    pub fn place(&self, name: &OsStr) -> Result<Place, Fault> {
        match Rel::parse(name)?.split() {
            Some((folder, only)) if folder.is_root() && only == name => {
                Ok(Place::new(self.again()?, name.to_owned()))
            }
            _ => Err(Fault::Malformed("is not one name")),
        }
    }

    /// What is in it, in no order.
    pub fn entries(&self) -> Result<Vec<Entry>, Fault> {
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
            // Some file systems do not tell. What is gone meanwhile is nothing that could be opened.
            place::look(self, &name).ok().flatten().map_or(Kind::Other, |look| look.kind)
        } else {
            Kind::of(kind)
        };
        Entry { name, kind }
    }

    /// The folder that it is in; that of the topmost is itself.
    pub fn above(&self) -> Result<Folder, Fault> {
        Ok(Folder::of(rustix::fs::openat(&self.handle, c"..", PASS, Mode::empty())?)?)
    }

    fn is_link(&self, name: &OsStr) -> bool {
        matches!(place::look(self, name), Ok(Some(look)) if look.kind == Kind::Link)
    }

    /// Have what was made, renamed and removed in it on the disk.
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

/// One name in a folder and what it names.
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
