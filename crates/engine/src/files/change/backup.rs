//! Earlier generations of changed files: a few for each file, within limits.

use super::super::error::FileError;
use super::super::file_info;
use super::super::roots::PathInRoot;
use super::target::ExistingFile;
use crate::own_folder::make_at;
use proctor_core::config::backups::Backups as Bounds;
use proctor_core::home::{FolderRule, Home, OwnFolder};
use proctor_core::time::Wall;
use proctor_sys::beneath::FileAttributes;
use proctor_sys::{atomic, own_file, own_folder, small_file};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::ffi::CString;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const VERSION: u32 = 1;

/// Maximum size of a description, which is one short line; a longer one is damaged.
const MAX_DESCRIPTION_BYTES: u64 = 64 << 10;

/// Maximum size of extended attributes in it, names and values; hexadecimal digits double it.
const MAX_ATTRIBUTE_BYTES: usize = 16 << 10;

/// A former state of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Larger is newer.
    pub number: u64,
    /// Time of the change that ended it.
    pub at: Wall,
    /// The operation that made the change.
    pub by: String,
    /// `None`: there was no file.
    pub file: Option<OldFile>,
    pub moved: Option<MovedPath>,
}

/// The move that ended a generation: the file got another name, or another file got its name. Absolute paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovedPath {
    To(String),
    From(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OldFile {
    pub sha256: String,
    pub size: u64,
    pub mode: u32,
    /// Earlier versions did not store it.
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) attributes: Vec<(CString, Vec<u8>)>,
}

impl OldFile {
    pub(crate) fn likeness(&self) -> FileAttributes {
        FileAttributes { mode: self.mode, owner: self.owner, attributes: self.attributes.clone() }
    }
}

/// The first line of a generation's file; the content follows.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    version: u32,
    at: i64,
    by: String,
    /// For people who read the file.
    path: String,
    sha256: Option<String>,
    size: u64,
    mode: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<(u32, u32)>,
    /// Extended attributes, name and value in hexadecimal digits: they may contain any bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moved: Option<MovedPath>,
}

impl Description {
    /// Compares everything except time and operation.
    fn is_like(&self, other: &Description) -> bool {
        let said = |it: &Description| {
            (it.sha256.clone(), it.mode, it.owner, it.attributes.clone(), it.moved.clone())
        };
        said(self) == said(other)
    }
}

/// The generations that one change has kept.
#[derive(Debug, Default)]
pub(crate) struct BackupInProgress {
    kept: HashSet<PathBuf>,
    /// Those of them that are new.
    made: Vec<PathBuf>,
    /// The generations of all files at the first time there were too many, newest first: they are listed once
    /// per change.
    others: Option<Vec<StoredGeneration>>,
    /// Size of the contents.
    bytes: u64,
    /// Files that are not synced yet.
    pub(super) unsynced: Vec<fs::File>,
}

impl BackupInProgress {
    /// Syncs the kept generations to disk.
    pub(super) fn settle(&mut self) -> Result<(), FileError> {
        small_file::sync_together(&mut self.unsynced).map_err(unkept)
    }
}

/// A generation: its file, its size, and the time it was made.
type StoredGeneration = (PathBuf, u64, std::time::SystemTime);

/// All generations, in the state folder.
#[derive(Debug)]
pub(crate) struct Backups {
    folder: PathBuf,
    /// Size of all generations, after the first count.
    total: Mutex<Option<u64>>,
}

impl Backups {
    pub(crate) fn of(home: &Home) -> Backups {
        Backups { folder: home.backups(), total: Mutex::new(None) }
    }

    /// One folder for each file, by its actual path, whichever root was named.
    fn of_file(&self, path: &Path) -> PathBuf {
        let digest = file_info::sha256(path.as_os_str().as_bytes());
        self.folder.join(&digest[..32])
    }

    /// Keeps the current state and returns its number. Call `settle` before the file changes. Returns `None` if
    /// the state and the other generations of the change exceed the limit. For a moved file only a description
    /// is kept: its content still exists.
    pub(crate) fn keep(
        &self,
        spot: &PathInRoot,
        found: Option<&ExistingFile>,
        by: &str,
        moved: Option<MovedPath>,
        bounds: Bounds,
        running: &mut BackupInProgress,
    ) -> Result<Option<u64>, FileError> {
        let content = match (found, &moved) {
            (None, _) | (_, Some(MovedPath::To(_))) => &[][..],
            (Some(found), Some(MovedPath::From(_)) | None) => &found.content,
        };
        if bounds.generations == 0 || running.bytes + content.len() as u64 > bounds.bytes {
            return Ok(None);
        }
        running.bytes += content.len() as u64;
        let description = Description {
            version: VERSION,
            at: proctor_sys::clock::now().wall.0,
            by: by.to_owned(),
            path: spot.shown.clone(),
            sha256: found.map(|found| found.sha256.clone()),
            size: found.map_or(0, |found| found.content.len() as u64),
            mode: found.map_or(0, |found| found.look.mode),
            owner: found.map(|found| (found.look.user, found.look.group)),
            attributes: found.map_or(Ok(Vec::new()), attributes)?,
            moved,
        };
        let folder = self.of_file(&spot.real());
        let mut numbers = numbers(&folder);
        let newest = numbers.last().copied();
        if let Some(newest) = newest
            && describe(&folder, newest).is_ok_and(|(known, _)| known.is_like(&description))
        {
            running.kept.insert(folder.join(name(newest)));
            return Ok(Some(newest));
        }
        let number = newest.unwrap_or(0) + 1;
        let mut bytes = serde_json::to_vec(&description).map_err(|e| unkept(e.into()))?;
        bytes.push(b'\n');
        bytes.extend_from_slice(content);
        running.unsynced.push(noted(&folder, number, &bytes).map_err(unkept)?);
        small_file::sync_many(&mut running.unsynced).map_err(unkept)?;
        running.kept.insert(folder.join(name(number)));
        running.made.push(folder.join(name(number)));
        numbers.insert(number);
        self.bound(&folder, &numbers, bytes.len() as u64, bounds, running);
        Ok(Some(number))
    }

    /// Removes the generations of a failed change.
    pub(super) fn forget(&self, running: &BackupInProgress) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        for path in &running.made {
            let size = fs::metadata(path).map_or(0, |about| about.len());
            if fs::remove_file(path).is_ok() {
                *total = total.map(|total| total.saturating_sub(size));
                path.parent().and_then(|folder| fs::remove_dir(folder).ok());
            }
        }
    }

    /// Enforces the limits: the oldest of this file go first, then the oldest of all. Those of the current
    /// change stay.
    fn bound(
        &self,
        folder: &Path,
        numbers: &BTreeSet<u64>,
        size: u64,
        bounds: Bounds,
        running: &mut BackupInProgress,
    ) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = 0;
        for number in numbers.iter().take(numbers.len().saturating_sub(bounds.generations)) {
            let path = folder.join(name(*number));
            let size = fs::metadata(&path).map_or(0, |about| about.len());
            gone += if fs::remove_file(&path).is_ok() { size } else { 0 };
        }
        let mut left = match *total {
            Some(total) => (total + size).saturating_sub(gone),
            None => self.all().iter().map(|(_, size, _)| size).sum(),
        };
        if left > bounds.bytes {
            let others = running.others.get_or_insert_with(|| {
                let mut all = self.all();
                all.sort_by_key(|(_, _, modified)| Reverse(*modified));
                all
            });
            // Removes more than necessary, so that the next changes have room.
            let enough = bounds.bytes - bounds.bytes / 10;
            while left > enough
                && let Some((path, size, _)) = others.pop()
            {
                if !running.kept.contains(&path) && fs::remove_file(&path).is_ok() {
                    left = left.saturating_sub(size);
                    // Removes the folder if it is empty now.
                    path.parent().and_then(|folder| fs::remove_dir(folder).ok());
                }
            }
        }
        *total = Some(left);
    }

    /// All generations of all files.
    pub(super) fn all(&self) -> Vec<StoredGeneration> {
        let files = entries(&self.folder, OwnFolder::Backups.rule())
            .into_iter()
            .flat_map(|folder| entries(&folder, FolderRule::INNER));
        let known = files.filter_map(|path| {
            // A file that is still being written has another name.
            path.file_name()?.to_str()?.parse::<u64>().ok()?;
            let about = path.symlink_metadata().ok()?;
            Some((path, about.len(), about.modified().ok()?))
        });
        known.collect()
    }

    /// The generations of the file at this actual path, newest first. Unreadable ones are left out.
    pub(crate) fn history(&self, path: &Path) -> Vec<Generation> {
        let folder = self.of_file(path);
        let known = |number: &u64| {
            let (known, _) = describe(&folder, *number).ok()?;
            let Description { at, by, sha256, size, mode, owner, attributes, moved, .. } = known;
            let pair = |(name, value): (String, String)| {
                Some((CString::new(file_info::unhex(&name)?).ok()?, file_info::unhex(&value)?))
            };
            let attributes = attributes.into_iter().filter_map(pair).collect();
            let file = sha256.map(|sha256| OldFile { sha256, size, mode, owner, attributes });
            Some(Generation { number: *number, at: Wall(at), by, file, moved })
        };
        numbers(&folder).iter().rev().filter_map(known).collect()
    }

    /// The content of a generation.
    pub(crate) fn content(
        &self,
        path: &Path,
        generation: &Generation,
    ) -> Result<Vec<u8>, FileError> {
        let read = || -> io::Result<Vec<u8>> {
            let (_, mut rest) = describe(&self.of_file(path), generation.number)?;
            let mut content = Vec::new();
            rest.read_to_end(&mut content)?;
            Ok(content)
        };
        let content = read().map_err(|error| FileError::Lost(error.to_string()))?;
        match &generation.file {
            Some(was) if was.sha256 == file_info::sha256(&content) => Ok(content),
            Some(_) => Err(FileError::Lost("its content is damaged".into())),
            None => Ok(Vec::new()),
        }
    }

    /// Removes unfinished files of processes that are gone.
    pub(crate) fn sweep(&self) {
        for folder in entries(&self.folder, OwnFolder::Backups.rule()) {
            let is_sound = own_folder::check(&folder, FolderRule::INNER).is_ok();
            for leftover in atomic::leftovers(&folder).ok().filter(|_| is_sound).unwrap_or_default()
            {
                fs::remove_file(leftover).ok();
            }
        }
    }
}

/// As many attributes as fit into a description; the access control list is short.
fn attributes(found: &ExistingFile) -> Result<Vec<(String, String)>, FileError> {
    let like = found.likeness().map_err(|fault| FileError::Unkept(fault.to_string()))?;
    let mut room = MAX_ATTRIBUTE_BYTES;
    let fits = |(name, value): &&(CString, Vec<u8>)| {
        let length = name.as_bytes().len() + value.len();
        let fits = length <= room;
        room -= if fits { length } else { 0 };
        fits
    };
    let text = |(name, value): &(CString, Vec<u8>)| {
        (file_info::hex(name.as_bytes()), file_info::hex(value))
    };
    let mut kept: Vec<_> = like.attributes.iter().filter(fits).map(text).collect();
    // The order differs from file to file.
    kept.sort();
    Ok(kept)
}

/// Writes a generation into its folder, which another change may remove while it is empty.
fn noted(folder: &Path, number: u64, bytes: &[u8]) -> io::Result<fs::File> {
    let write = || {
        make_at(folder, FolderRule::INNER)?;
        atomic::note(&folder.join(name(number)), bytes)
    };
    // The folder existed at its creation and was missing at the check, or it is missing now.
    let gone = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
    };
    write().or_else(|error| if gone(&error) { write() } else { Err(error) })
}

fn name(number: u64) -> String {
    format!("{number:08}")
}

/// The numbers of the generations in a folder.
fn numbers(folder: &Path) -> BTreeSet<u64> {
    let names = own_folder::names(folder, FolderRule::INNER).unwrap_or_default();
    names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// Paths in a folder of ours; none if it cannot be read.
fn entries(folder: &Path, rule: FolderRule) -> Vec<PathBuf> {
    let names = own_folder::names(folder, rule).unwrap_or_default();
    names.into_iter().map(|name| folder.join(name)).collect()
}

fn describe(folder: &Path, number: u64) -> io::Result<(Description, impl io::Read + use<>)> {
    let mut file = io::BufReader::new(own_file::read(&folder.join(name(number)))?);
    let mut line = Vec::new();
    io::BufRead::read_until(&mut (&mut file).take(MAX_DESCRIPTION_BYTES), b'\n', &mut line)?;
    let description: Description = serde_json::from_slice(&line)?;
    if description.version != VERSION {
        return Err(io::Error::other(format!("unknown version {}", description.version)));
    }
    Ok((description, file))
}

fn unkept(error: io::Error) -> FileError {
    FileError::Unkept(error.to_string())
}
