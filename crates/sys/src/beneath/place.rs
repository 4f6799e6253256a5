//! A name in a folder that is held open, and all that can be done with it.

use super::{Fault, Folder, Id};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::fs::{
    fstat, fstatfs, linkat, mkdirat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;

/// File systems whose files are the kernel's own words: to read one may wait, never end, or do something.
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

/// What a name names.
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

/// What was seen of a file or folder at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    pub id: Id,
    pub kind: Kind,
    pub size: u64,
    /// Permissions, with the bits for set-user-id and the like.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
    /// Names that it has.
    pub names: u64,
    /// Seconds and nanoseconds of the last change of its content.
    pub modified: (i64, i64),
    /// And of the last change of anything about it, which nobody can set back.
    pub changed: (i64, i64),
}

/// What becomes of what is in the place that something is renamed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Onto {
    /// It is replaced.
    Anything,
    /// Then nothing happens, and it is an error.
    Nothing,
}

/// One name in a folder that is held open.
#[derive(Debug)]
pub struct Place {
    folder: Folder,
    name: OsString,
}

impl Place {
    pub(super) fn new(folder: Folder, name: OsString) -> Place {
        Place { folder, name }
    }

    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// One name; `.` where the folder itself is meant.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// What is there, if anything is; of a link, the link itself.
    pub fn look(&self) -> Result<Option<Look>, Fault> {
        look(&self.folder, &self.name)
    }

    /// Open the regular file that is there, to read it. What else is there is not touched.
    pub fn read(&self) -> Result<(File, Look), Fault> {
        match self.look()? {
            Some(look) if look.kind != Kind::File => Err(refused(look.kind)),
            Some(_) => open_regular(&self.folder, &self.name),
            None => Err(Errno::NOENT.into()),
        }
    }

    /// Make a file that is not there yet, to write it.
    pub fn create(&self, mode: u32) -> Result<File, Fault> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.folder, &*self.name, flags, Mode::from_raw_mode(mode))?))
    }

    pub fn make_folder(&self, mode: u32) -> Result<(), Fault> {
        Ok(mkdirat(&self.folder, &*self.name, Mode::from_raw_mode(mode))?)
    }

    /// Give what is here another place, in one step.
    pub fn rename(&self, to: &Place, onto: Onto) -> Result<(), Fault> {
        let (old, new) = (&*self.name, &*to.name);
        match onto {
            Onto::Anything => Ok(renameat(&self.folder, old, &to.folder, new)?),
            Onto::Nothing => {
                let flags = RenameFlags::NOREPLACE;
                match renameat_with(&self.folder, old, &to.folder, new, flags) {
                    // Not every file system can.
                    Err(Errno::INVAL | Errno::NOSYS) => self.rename_onto_nothing(to),
                    renamed => Ok(renamed?),
                }
            }
        }
    }

    /// A file gets its second name only where there is none of that name. For a folder there is no such call.
    fn rename_onto_nothing(&self, to: &Place) -> Result<(), Fault> {
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

    /// Give the file that is here a second name, where nothing has it.
    pub fn link(&self, to: &Place) -> Result<(), Fault> {
        Ok(linkat(&self.folder, &*self.name, &to.folder, &*to.name, AtFlags::empty())?)
    }

    /// Remove a file, or a link itself.
    pub fn remove(&self) -> Result<(), Fault> {
        Ok(unlinkat(&self.folder, &*self.name, AtFlags::empty())?)
    }

    /// Remove a folder that is empty.
    pub fn remove_folder(&self) -> Result<(), Fault> {
        Ok(unlinkat(&self.folder, &*self.name, AtFlags::REMOVEDIR)?)
    }
}

impl Folder {
    /// What has that name in it, if anything has; of a link, the link itself.
    pub fn look(&self, name: &OsStr) -> Result<Option<Look>, Fault> {
        look(self, name)
    }

    /// Open the file of that name, which was listed as a regular one, to read it.
    pub fn read(&self, name: &OsStr) -> Result<(File, Look), Fault> {
        open_regular(self, name)
    }
}

/// Of an open file.
pub fn seen(file: &File) -> Result<Look, Fault> {
    Ok(of_stat(&fstat(file)?))
}

pub(super) fn look(folder: &Folder, name: &OsStr) -> Result<Option<Look>, Fault> {
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(of_stat(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// What the name names may be another thing than a moment ago: a pipe is opened without waiting, and let go.
fn open_regular(folder: &Folder, name: &OsStr) -> Result<(File, Look), Fault> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(handle) => File::from(handle),
        Err(Errno::LOOP) => return Err(Fault::Link),
        // A socket, or a device that is not there.
        Err(Errno::NXIO | Errno::NODEV) => return Err(refused(Kind::Other)),
        Err(errno) => return Err(errno.into()),
    };
    let look = seen(&file)?;
    if look.kind != Kind::File {
        return Err(refused(look.kind));
    }
    if !on_disk(folder, &file, &look)? {
        return Err(Fault::OfTheKernel);
    }
    Ok((file, look))
}

/// What is on the same device as its folder is of the same file system, so that each folder is asked once.
fn on_disk(folder: &Folder, file: &File, look: &Look) -> Result<bool, Fault> {
    let ask = || {
        let kind = fstatfs(file)?.f_type as i64;
        Ok::<bool, Fault>(!OF_THE_KERNEL.contains(&kind))
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

fn refused(kind: Kind) -> Fault {
    if kind == Kind::Link { Fault::Link } else { Fault::NotAFile(kind) }
}

pub(super) fn id(stat: &Stat) -> Id {
    Id { device: stat.st_dev, inode: stat.st_ino }
}

fn of_stat(stat: &Stat) -> Look {
    Look {
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
