//! From a path to a place, in one of two ways. Neither lets a link lead out: the kernel keeps `openat2` beneath the root, and
//! going name by name no link is ever followed by the kernel, only read.

use super::{Fault, Folder, Kind, Links, PASS, Place, Rel, Root, Way};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// As many as the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// The kernel asks to try again when something above was renamed while it went up, which is rare.
const MOST_TRIES: usize = 64;

/// A path as long as this, with all its links in it, is nobody's.
const LONGEST: usize = 4096;
const TOO_LONG: Fault = Fault::Malformed("is too long with its links");

pub(super) fn best_way(folder: &Folder) -> Way {
    match openat2(folder, c".", PASS, Mode::empty(), ResolveFlags::BENEATH) {
        Ok(_) => Way::Kernel,
        // Missing, or forbidden by a filter that does not know it.
        Err(_) => Way::Names,
    }
}

pub(super) fn place(root: &Root, path: &Rel, links: Links) -> Result<Place, Fault> {
    let mut path = path.as_bytes().to_vec();
    for _ in 0..=MOST_LINKS {
        let (folder, name) = divide(&path);
        let above = folder_at(root, folder, links)?;
        let Some(text) = link(&above, name, links)? else {
            return Ok(Place::new(above, OsStr::from_bytes(name).to_owned()));
        };
        path = joined(folder, &text)?;
    }
    Err(Fault::Link)
}

/// Where the last name begins; what ends in a folder ends in the `.` of it.
fn divide(path: &[u8]) -> (&[u8], &[u8]) {
    let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    };
    if matches!(name, b"" | b"." | b"..") { (path, b".") } else { (folder, name) }
}

/// What the link of that name says, if it is one that is to be followed.
fn link(folder: &Folder, name: &[u8], links: Links) -> Result<Option<Vec<u8>>, Fault> {
    if links == Links::Refuse || name == b"." {
        return Ok(None);
    }
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    if Kind::of(FileType::from_raw_mode(stat.st_mode)) != Kind::Link {
        return Ok(None);
    }
    match readlinkat(folder, name, Vec::new()) {
        Ok(text) => Ok(Some(text.into_bytes())),
        // It was one a moment ago.
        Err(Errno::INVAL | Errno::NOENT) => Err(Fault::Moved),
        Err(errno) => Err(errno.into()),
    }
}

/// A link's text, where the folder is that has the link.
fn joined(folder: &[u8], text: &[u8]) -> Result<Vec<u8>, Fault> {
    if text.first() == Some(&b'/') {
        return Err(Fault::Outside);
    }
    if folder.len() + text.len() > LONGEST {
        return Err(TOO_LONG);
    }
    Ok(if folder.is_empty() { text.to_vec() } else { [folder, b"/", text].concat() })
}

fn folder_at(root: &Root, path: &[u8], links: Links) -> Result<Folder, Fault> {
    let path = if path.is_empty() { b"." } else { path };
    let handle = match root.way {
        Way::Kernel => by_kernel(root.folder.as_fd(), path, links)?,
        Way::Names => by_names(root.folder.as_fd(), path, links)?,
    };
    Ok(Folder::of(handle)?)
}

fn by_kernel(root: BorrowedFd<'_>, path: &[u8], links: Links) -> Result<OwnedFd, Fault> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let resolve = match links {
        Links::Follow => beneath,
        Links::Refuse => beneath | ResolveFlags::NO_SYMLINKS,
    };
    for _ in 0..MOST_TRIES {
        match openat2(root, path, PASS, Mode::empty(), resolve) {
            Ok(handle) => return Ok(handle),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::XDEV) => return Err(Fault::Outside),
            Err(Errno::LOOP) => return Err(Fault::Link),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Fault::Moved)
}

fn by_names(root: BorrowedFd<'_>, path: &[u8], links: Links) -> Result<OwnedFd, Fault> {
    // The folders from the root to here: one goes up by letting go of the last.
    let mut passed: Vec<OwnedFd> = Vec::new();
    let mut ahead: Vec<OsString> = Vec::new();
    push_names(&mut ahead, path);
    let mut followed = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            passed.pop().ok_or(Fault::Outside)?;
            continue;
        }
        let here = passed.last().map_or(root, AsFd::as_fd);
        match step(here, &name)? {
            Step::Into(_) if passed.len() > Rel::DEEPEST => return Err(TOO_LONG),
            Step::Into(folder) => passed.push(folder),
            Step::Link(_) if links == Links::Refuse => return Err(Fault::Link),
            Step::Link(text) => {
                followed += 1;
                if followed > MOST_LINKS {
                    return Err(Fault::Link);
                }
                if text.first() == Some(&b'/') {
                    return Err(Fault::Outside);
                }
                push_names(&mut ahead, &text);
                if ahead.len() > LONGEST {
                    return Err(TOO_LONG);
                }
            }
        }
    }
    match passed.pop() {
        Some(folder) => Ok(folder),
        None => Ok(openat(root, c".", PASS, Mode::empty())?),
    }
}

/// The names of a path, the first one last.
fn push_names(ahead: &mut Vec<OsString>, path: &[u8]) {
    let names = path.split(|byte| *byte == b'/').rev().filter(|name| !matches!(*name, b"" | b"."));
    ahead.extend(names.map(|name| OsString::from_vec(name.to_vec())));
}

enum Step {
    Into(OwnedFd),
    Link(Vec<u8>),
}

/// One name further; a link is held before it is read, so that what is read is what was found.
fn step(here: BorrowedFd<'_>, name: &OsStr) -> Result<Step, Fault> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(here, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    match Kind::of(FileType::from_raw_mode(stat.st_mode)) {
        Kind::Folder => Ok(Step::Into(found)),
        Kind::Link => Ok(Step::Link(readlinkat(&found, c"", Vec::new())?.into_bytes())),
        Kind::File | Kind::Pipe | Kind::Socket | Kind::Device | Kind::Other => {
            Err(Errno::NOTDIR.into())
        }
    }
}
