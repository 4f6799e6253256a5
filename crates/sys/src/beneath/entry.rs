//! A name in an open folder, and the operations on it.

use super::{Folder, Id, PathError};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::fs::{
    fstat, fstatfs, linkat, mkdirat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;

/// Kernel file systems: reading one of their files may block, never end, or have side effects.
const OF_THE_KERNEL: &[i64] = &[
    libc::PROC_SUPER_MAGIC,
    libc::SYSFS_MAGIC,
    libc::DEBUGFS_MAGIC,
    libc::TRACEFS_MAGIC,
    libc::SECURITYFS_MAGIC,
    libc::CGROUP_SUPER_MAGIC,
    libc::CGROUP2_SUPER_MAGIC,
    libc::BPF_FS_MAGIC,
    libc::DEVPTS_SUPER_MAGIC,
    0x6265_6570, // configfs
    0x4249_4e4d, // binfmt_misc
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
];

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    File,
    Folder,
    Link,
    Pipe,
    Socket,
    Device,
    Other,
}

impl Kind {
    pub(super) fn of(kind: FileType) -> Kind {
        match kind {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            FileType::Fifo => Kind::Pipe,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice | FileType::BlockDevice => Kind::Device,
            FileType::Unknown => Kind::Other,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::File => "a regular file",
            Kind::Folder => "a folder",
            Kind::Link => "a link",
            Kind::Pipe => "a pipe",
            Kind::Socket => "a socket",
            Kind::Device => "a device",
            Kind::Other => "something unknown",
        })
    }
}

/// The status of a file or folder at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryInfo {
    pub id: Id,
    pub kind: Kind,
    pub size: u64,
    /// Permissions, including the set-user-id bits.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    /// Number of hard links.
    pub names: u64,
    /// Last change of the content, in seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Last change of content or metadata, which nobody can set back.
    pub changed: (i64, i64),
}

/// The treatment of an existing target of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverwriteMode {
    /// Replace it.
    Anything,
    /// Fail, and change nothing.
    Nothing,
}

/// One name in an open folder.
#[derive(Debug)]
pub struct EntryPath {
    folder: Folder,
    name: OsString,
}

impl EntryPath {
    pub(super) fn new(folder: Folder, name: OsString) -> EntryPath {
        EntryPath { folder, name }
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The name; `.` for the folder itself.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the status of the entry, if it exists; does not follow links.
    pub fn look(&self) -> Result<Option<EntryInfo>, PathError> {
        look(&self.folder, &self.name)
    }

    /// Opens a regular file for reading. Never opens anything else.
    pub fn read(&self) -> Result<(File, EntryInfo), PathError> {
        match self.look()? {
            Some(look) if look.kind != Kind::File => Err(refused(look.kind)),
            Some(_) => open_regular(&self.folder, &self.name),
            None => Err(Errno::NOENT.into()),
        }
    }

    /// Creates a new file for writing.
    pub fn create(&self, mode: u32) -> Result<File, PathError> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.folder, &*self.name, flags, Mode::from_raw_mode(mode))?))
    }

    pub fn make_folder(&self, mode: u32) -> Result<(), PathError> {
        Ok(mkdirat(&self.folder, &*self.name, Mode::from_raw_mode(mode))?)
    }

    /// Renames the entry in one step.
    pub fn rename(&self, to: &EntryPath, onto: OverwriteMode) -> Result<(), PathError> {
        let (old, new) = (&*self.name, &*to.name);
        match onto {
            OverwriteMode::Anything => Ok(renameat(&self.folder, old, &to.folder, new)?),
            OverwriteMode::Nothing => {
                let flags = RenameFlags::NOREPLACE;
                match renameat_with(&self.folder, old, &to.folder, new, flags) {
                    // Not every file system supports it.
                    Err(Errno::INVAL | Errno::NOSYS) => self.rename_onto_nothing(to),
                    renamed => Ok(renamed?),
                }
            }
        }
    }

    /// A hard link fails if the name exists, so a file is linked and then unlinked. Folders have no
    /// such call.
    fn rename_onto_nothing(&self, to: &EntryPath) -> Result<(), PathError> {
        let (old, new) = (&*self.name, &*to.name);
        if self.look()?.is_some_and(|look| look.kind == Kind::Folder) {
            if to.look()?.is_some() {
                return Err(Errno::EXIST.into());
            }
            return Ok(renameat(&self.folder, old, &to.folder, new)?);
        }
        linkat(&self.folder, old, &to.folder, new, AtFlags::empty())?;
        self.remove()
    }

    /// Creates a hard link to the file; fails if the name exists.
    pub fn link(&self, to: &EntryPath) -> Result<(), PathError> {
        Ok(linkat(&self.folder, &*self.name, &to.folder, &*to.name, AtFlags::empty())?)
    }

    /// Removes a file, or a link itself.
    pub fn remove(&self) -> Result<(), PathError> {
        Ok(unlinkat(&self.folder, &*self.name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self) -> Result<(), PathError> {
        Ok(unlinkat(&self.folder, &*self.name, AtFlags::REMOVEDIR)?)
    }
}

impl Folder {
    /// Returns the status of an entry, if it exists; does not follow links.
    pub fn look(&self, name: &OsStr) -> Result<Option<EntryInfo>, PathError> {
        look(self, name)
    }

    /// Opens an entry that was listed as a regular file for reading.
    pub fn read(&self, name: &OsStr) -> Result<(File, EntryInfo), PathError> {
        open_regular(self, name)
    }
}

/// The status of an open file.
pub fn seen(file: &File) -> Result<EntryInfo, PathError> {
    Ok(of_stat(&fstat(file)?))
}

pub(super) fn look(folder: &Folder, name: &OsStr) -> Result<Option<EntryInfo>, PathError> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(of_stat(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The entry may have changed meanwhile, so a pipe is opened without blocking and closed again.
fn open_regular(folder: &Folder, name: &OsStr) -> Result<(File, EntryInfo), PathError> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(handle) => File::from(handle),
        Err(Errno::LOOP) => return Err(PathError::Link),
        // A socket, or a device that does not exist.
        Err(Errno::NXIO | Errno::NODEV) => return Err(refused(Kind::Other)),
        Err(errno) => return Err(errno.into()),
    };
    let look = seen(&file)?;
    if look.kind != Kind::File {
        return Err(refused(look.kind));
    }
    if !on_disk(folder, &file, &look)? {
        return Err(PathError::OfTheKernel);
    }
    Ok((file, look))
}

/// A file on the same device as its folder is on the same file system, so each folder is checked
/// once.
fn on_disk(folder: &Folder, file: &File, look: &EntryInfo) -> Result<bool, PathError> {
    let ask = || {
        let kind = fstatfs(file)?.f_type as i64;
        Ok::<bool, PathError>(!OF_THE_KERNEL.contains(&kind))
    };
    if look.id.device != folder.id.device {
        return ask();
    }
    match folder.on_disk.get() {
        Some(known) => Ok(*known),
        None => Ok(*folder.on_disk.get_or_init({
            let answer = ask()?;
            move || answer
        })),
    }
}

fn refused(kind: Kind) -> PathError {
    if kind == Kind::Link { PathError::Link } else { PathError::NotAFile(kind) }
}

pub(super) fn id(stat: &Stat) -> Id {
    Id { device: stat.st_dev, inode: stat.st_ino }
}

fn of_stat(stat: &Stat) -> EntryInfo {
    EntryInfo {
        id: id(stat),
        kind: Kind::of(FileType::from_raw_mode(stat.st_mode)),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        user: stat.st_uid,
        group: stat.st_gid,
        names: stat.st_nlink,
        modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
        changed: (stat.st_ctime, stat.st_ctime_nsec as i64),
    }
}
