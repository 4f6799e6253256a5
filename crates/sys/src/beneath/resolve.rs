//! Resolves a path to a place by one of two methods. No link can lead out: the kernel keeps
//! `openat2` beneath the root, and name by name the kernel only reads links and follows none.

use super::{
    EntryPath, Folder, Kind, LinkPolicy, PASS, PathError, RelativePath, ResolveMethod, Root,
};
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, readlinkat, statat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Maximum number of links; the kernel's own limit for one path.
const MAX_LINKS: usize = 40;

/// Maximum number of retries. The kernel requests a retry, rarely, if a parent was renamed during
/// the lookup.
const MAX_TRIES: usize = 64;

/// Maximum length of a path with all its links expanded.
const MAX_LINK_BYTES: usize = 4096;
const TOO_LONG: PathError = PathError::Malformed("is too long after its links are resolved");

pub(super) fn best_way(folder: &Folder) -> ResolveMethod {
    match openat2(folder, c".", PASS, Mode::empty(), ResolveFlags::BENEATH) {
        Ok(_) => ResolveMethod::Kernel,
        // The call is missing, or a filter that does not know it forbids it.
        Err(_) => ResolveMethod::Names,
    }
}

pub(super) fn place(
    root: &Root,
    path: &RelativePath,
    links: LinkPolicy,
) -> Result<EntryPath, PathError> {
    let mut path = path.as_bytes().to_vec();
    for _ in 0..=MAX_LINKS {
        let (folder, name) = divide(&path);
        let above = folder_at(root, folder, links)?;
        let Some(text) = link(&above, name, links)? else {
            return Ok(EntryPath::new(above, OsStr::from_bytes(name).to_owned()));
        };
        path = joined(folder, &text)?;
    }
    Err(PathError::Link)
}

/// Splits off the last name; a path that ends with a folder ends with its `.`.
fn divide(path: &[u8]) -> (&[u8], &[u8]) {
    let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    };
    if matches!(name, b"" | b"." | b"..") { (path, b".") } else { (folder, name) }
}

/// Reads the target of a link, if links are followed.
fn link(folder: &Folder, name: &[u8], links: LinkPolicy) -> Result<Option<Vec<u8>>, PathError> {
    if links == LinkPolicy::Refuse || name == b"." {
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
        // It was a link a moment ago.
        Err(Errno::INVAL | Errno::NOENT) => Err(PathError::Moved),
        Err(errno) => Err(errno.into()),
    }
}

/// Joins a link's target with the folder that contains the link.
fn joined(folder: &[u8], text: &[u8]) -> Result<Vec<u8>, PathError> {
    if text.first() == Some(&b'/') {
        return Err(PathError::Outside);
    }
    if folder.len() + text.len() > MAX_LINK_BYTES {
        return Err(TOO_LONG);
    }
    Ok(if folder.is_empty() { text.to_vec() } else { [folder, b"/", text].concat() })
}

fn folder_at(root: &Root, path: &[u8], links: LinkPolicy) -> Result<Folder, PathError> {
    let path = if path.is_empty() { b"." } else { path };
    let handle = match root.way {
        ResolveMethod::Kernel => by_kernel(root.folder.as_fd(), path, links)?,
        ResolveMethod::Names => by_names(root.folder.as_fd(), path, links)?,
    };
    Ok(Folder::of(handle)?)
}

fn by_kernel(root: BorrowedFd<'_>, path: &[u8], links: LinkPolicy) -> Result<OwnedFd, PathError> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let resolve = match links {
        LinkPolicy::Follow => beneath,
        LinkPolicy::Refuse => beneath | ResolveFlags::NO_SYMLINKS,
    };
    for _ in 0..MAX_TRIES {
        match openat2(root, path, PASS, Mode::empty(), resolve) {
            Ok(handle) => return Ok(handle),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::XDEV) => return Err(PathError::Outside),
            Err(Errno::LOOP) => return Err(PathError::Link),
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(PathError::Moved)
}

fn by_names(root: BorrowedFd<'_>, path: &[u8], links: LinkPolicy) -> Result<OwnedFd, PathError> {
    // The open folders from the root to here; `..` closes the last one.
    let mut passed: Vec<OwnedFd> = Vec::new();
    let mut ahead: Vec<OsString> = Vec::new();
    push_names(&mut ahead, path);
    let mut followed = 0;
    while let Some(name) = ahead.pop() {
        if name == ".." {
            passed.pop().ok_or(PathError::Outside)?;
            continue;
        }
        let here = passed.last().map_or(root, AsFd::as_fd);
        match step(here, &name)? {
            ResolveStep::Into(_) if passed.len() > RelativePath::DEEPEST => return Err(TOO_LONG),
            ResolveStep::Into(folder) => passed.push(folder),
            ResolveStep::Link(_) if links == LinkPolicy::Refuse => return Err(PathError::Link),
            ResolveStep::Link(text) => {
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(PathError::Link);
                }
                if text.first() == Some(&b'/') {
                    return Err(PathError::Outside);
                }
                push_names(&mut ahead, &text);
                if ahead.len() > MAX_LINK_BYTES {
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

/// Pushes the names of a path in reverse order.
fn push_names(ahead: &mut Vec<OsString>, path: &[u8]) {
    let names = path.split(|byte| *byte == b'/').rev().filter(|name| !matches!(*name, b"" | b"."));
    ahead.extend(names.map(|name| OsString::from_vec(name.to_vec())));
}

enum ResolveStep {
    Into(OwnedFd),
    Link(Vec<u8>),
}

/// Opens the next name. A link is held open before it is read, so that its content cannot change in
/// between.
fn step(here: BorrowedFd<'_>, name: &OsStr) -> Result<ResolveStep, PathError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = openat(here, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    match Kind::of(FileType::from_raw_mode(stat.st_mode)) {
        Kind::Folder => Ok(ResolveStep::Into(found)),
        Kind::Link => Ok(ResolveStep::Link(readlinkat(&found, c"", Vec::new())?.into_bytes())),
        Kind::File | Kind::Pipe | Kind::Socket | Kind::Device | Kind::Other => {
            Err(Errno::NOTDIR.into())
        }
    }
}
