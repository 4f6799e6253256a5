//! Folders of our own: directories that belong to us, that nobody else can write, and that no link replaces.
//!
//! `core::home::OwnFolder` lists them. A folder is checked by its name when it is made, listed or written into for the first
//! time. Nobody else can exchange the name afterwards, because the folder above it is ours as well. The way to the home may
//! have links in it: only the last name counts.

use crate::own_file;
use crate::ownership::{self, Owners};
use proctor_core::home::FolderRule;
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Mode bits that let the group or everybody write.
const WRITABLE: u32 = 0o022;

const STICKY: u32 = 0o1000;

/// Mode bits that we need ourselves.
const NEEDED: u32 = 0o700;

/// Attempts to make a folder while another process of ours makes, moves or mends it.
const MAX_ATTEMPTS: u32 = 5;

/// The change that was necessary before a folder could be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} {why}: {remedy}", path = .path.display())]
pub struct Mended {
    path: PathBuf,
    why: String,
    remedy: String,
}

/// The reason why something cannot be used as a folder of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsound {
    #[error("is {0}, not a folder")]
    Kind(&'static str),
    #[error("is a link")]
    Link,
    #[error("is a link to a folder that cannot be used: {0}")]
    Target(String),
    #[error("belongs to {0}")]
    Owner(String),
    #[error("can be written by others (mode {0:04o})")]
    Writable(u32),
    #[error("cannot be used by its owner (mode {0:04o})")]
    Closed(u32),
}

/// Checks a folder: one system call if it is sound. `NotFound` if it is missing; [`unsound`] tells other errors apart.
pub fn check(path: &Path, rule: FolderRule) -> io::Result<()> {
    judge(path, &path.symlink_metadata()?, rule)
}

/// Returns true if something other than a usable folder of ours is at `path`.
pub fn is_damaged(path: &Path, rule: FolderRule) -> bool {
    check(path, rule).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
}

/// The reason in an error of this module.
pub fn unsound(error: &io::Error) -> Option<&Unsound> {
    error.get_ref()?.downcast_ref()
}

/// Makes a folder that only we may look into, with those above it. An existing one is checked. Wrong modes of our own folder
/// are corrected; anything else is moved aside if the rule allows that, and is an error otherwise.
pub fn make(path: &Path, rule: FolderRule) -> io::Result<Option<Mended>> {
    let mut mended = None;
    for _ in 0..MAX_ATTEMPTS {
        match make_or_check(path, rule) {
            Ok(()) => return Ok(mended),
            Err(error) => match unsound(&error).cloned() {
                Some(unsound) => mended = Some(mend(path, rule, &unsound, error)?),
                // Another process moved it between the two calls.
                None if error.kind() == io::ErrorKind::NotFound => {}
                None => return Err(error),
            },
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "is replaced again and again"))
}

/// A folder of ours that is held open: paths in it lead there, whatever has its name by now.
#[derive(Debug)]
pub struct Held(File);

impl Held {
    /// Makes a folder and opens it without following a link.
    pub fn make(path: &Path, rule: FolderRule) -> io::Result<(Held, Option<Mended>)> {
        let mended = make(path, rule)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        judge_folder(path, &opened.metadata()?, rule)?;
        Ok((Held(opened), mended))
    }

    /// A path to the folder, for this process and as long as it is held.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Corrects the mode of an existing folder of ours, and moves it aside if others left something in it meanwhile. Leaves
/// everything else, such as a link, a file or a folder of somebody else, as it is.
pub fn correct_mode(path: &Path, rule: FolderRule) -> io::Result<Option<Mended>> {
    match check(path, rule) {
        Err(error) => match unsound(&error).cloned() {
            Some(found @ (Unsound::Writable(_) | Unsound::Closed(_))) => {
                mend(path, rule, &found, error).map(Some)
            }
            _ => Ok(None),
        },
        Ok(()) => Ok(None),
    }
}

/// Names in a folder, which is opened without following a link and then checked. No more system calls than reading any folder.
pub fn names(path: &Path, rule: FolderRule) -> io::Result<Vec<OsString>> {
    let mut flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if rule.may_be_link {
        check(path, rule)?;
    } else {
        flags |= OFlags::NOFOLLOW;
    }
    let opened = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        Err(Errno::NOENT) => return Err(Errno::NOENT.into()),
        // Not a folder, or not for us: say which.
        Err(errno) => return check(path, rule).and(Err(errno.into())),
    };
    judge_folder(path, &opened.metadata()?, rule)?;
    let mut names = Vec::new();
    for entry in Dir::new(opened)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

fn make_or_check(path: &Path, rule: FolderRule) -> io::Result<()> {
    let create = || std::fs::DirBuilder::new().mode(NEEDED).create(path);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check(path, rule),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let above = path.parent().ok_or(error)?;
            std::fs::DirBuilder::new().recursive(true).mode(NEEDED).create(above)?;
            create()
        }
        created => created,
    }
}

fn judge(path: &Path, found: &Metadata, rule: FolderRule) -> io::Result<()> {
    if !found.is_symlink() {
        return judge_folder(path, found, rule);
    }
    if !rule.may_be_link {
        return Err(io::Error::other(Unsound::Link));
    }
    judge_link(path, rule).map_err(|why| io::Error::other(Unsound::Target(why)))
}

/// A link that we or root made, to a folder of ours that nobody else can write or exchange.
fn judge_link(path: &Path, rule: FolderRule) -> Result<(), String> {
    let target = path.metadata().map_err(|error| error.to_string())?;
    judge_folder(path, &target, rule).map_err(|error| error.to_string())?;
    match Owners::ours().check_folder(path, &ownership::named_folders()) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(foreign)) => Err(foreign.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn judge_folder(path: &Path, found: &Metadata, rule: FolderRule) -> io::Result<()> {
    let mode = found.mode() & 0o7777;
    // A home that its owner made read-only stays so.
    let needed = if rule.keeps_mode { NEEDED & !0o200 } else { NEEDED };
    let unsound = if !found.is_dir() {
        Unsound::Kind(kind(found))
    } else if !is_ours(path, found) {
        Unsound::Owner(crate::user::shown_user(found.uid()))
    } else if !rule.keeps_mode && mode & WRITABLE != 0 {
        Unsound::Writable(mode)
    } else if mode & needed != needed {
        Unsound::Closed(mode)
    } else {
        return Ok(());
    };
    Err(io::Error::other(unsound))
}

fn is_ours(path: &Path, found: &Metadata) -> bool {
    if found.uid() == rustix::process::geteuid().as_raw() || found.uid() == 0 {
        return true;
    }
    // Seldom: root works in a home of the user who called `sudo`, or below PROCTOR_TRUST.
    let is_trusted =
        |path: PathBuf| ownership::named_folders().iter().any(|it| path.starts_with(it));
    Owners::ours().include(found.uid()) || path.canonicalize().is_ok_and(is_trusted)
}

fn kind(found: &Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = found.file_type();
    if kind.is_file() {
        "a file"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn mend(path: &Path, rule: FolderRule, why: &Unsound, error: io::Error) -> io::Result<Mended> {
    let told = |remedy| Mended { path: path.into(), why: why.to_string(), remedy };
    let mode = match why {
        Unsound::Writable(mode) | Unsound::Closed(mode) => Some(mode),
        Unsound::Kind(_) | Unsound::Link | Unsound::Target(_) | Unsound::Owner(_) => None,
    };
    if let Some(mode) = mode.filter(|mode| **mode & STICKY == 0) {
        let right = (mode | NEEDED) & if rule.keeps_mode { !0 } else { !WRITABLE };
        // Where the mode is not ours to change, the folder is as good as somebody else's.
        if std::fs::set_permissions(path, Permissions::from_mode(right)).is_ok()
            && !holds_others_files(path)
        {
            return Ok(told(format!("its mode is {right:04o} now")));
        }
    }
    // No folder of ours has the sticky bit: this one is everybody's, such as /tmp.
    let is_public = matches!(why, Unsound::Writable(mode) if mode & STICKY != 0);
    if !rule.may_be_replaced || is_public {
        return Err(error);
    }
    match own_file::set_aside(path) {
        Ok(aside) => Ok(told(format!("moved to {}, and made anew", aside.display()))),
        // Another process of ours was quicker.
        Err(moved) if moved.kind() == io::ErrorKind::NotFound => {
            Ok(told("moved aside, and made anew".into()))
        }
        Err(moved) => Err(io::Error::new(
            moved.kind(),
            format!("{why}, and cannot be moved aside ({moved}); move it away, or correct it"),
        )),
    }
}

/// Did somebody else leave something in a folder while it could be written by others?
fn holds_others_files(path: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(path) else { return true };
    let is_others = |entry: io::Result<std::fs::DirEntry>| {
        entry.and_then(|entry| entry.metadata()).map_or(true, |found| !is_ours(path, &found))
    };
    entries.into_iter().any(is_others)
}

#[cfg(test)]
mod tests;
