//! What files held before they were changed: a few generations of each, within bounds.

use super::super::fault::FileError;
use super::super::roots::Spot;
use super::super::survey;
use super::target::Found;
use crate::own_folder::make_at;
use proctor_core::config::backups::Backups as Bounds;
use proctor_core::home::{FolderRule, Home, OwnFolder};
use proctor_core::time::Wall;
use proctor_sys::beneath::Likeness;
use proctor_sys::{atomic, file, own_file, own_folder};
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

/// A description is one line, and short; what is longer is damaged.
const LONGEST_DESCRIPTION: u64 = 64 << 10;

/// Of it, names and values of extended attributes; they are written with twice as many letters.
const MOST_OF_ATTRIBUTES: usize = 16 << 10;

/// A file as it was once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Larger is newer.
    pub number: u64,
    /// When the change came that ended it.
    pub at: Wall,
    /// The operation that did.
    pub by: String,
    /// `None`: there was no file.
    pub file: Option<WasFile>,
    pub moved: Option<Moved>,
}

/// What a generation ended with: the file got another name, or another file got its name. Absolute paths.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    To(String),
    From(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WasFile {
    pub sha256: String,
    pub size: u64,
    pub mode: u32,
    /// Earlier versions did not keep it.
    pub(crate) owner: Option<(u32, u32)>,
    pub(crate) attributes: Vec<(CString, Vec<u8>)>,
}

impl WasFile {
    pub(crate) fn likeness(&self) -> Likeness {
        Likeness { mode: self.mode, owner: self.owner, attributes: self.attributes.clone() }
    }
}

/// The first line of a generation's file; the content is behind it.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    version: u32,
    at: i64,
    by: String,
    /// For people who look here.
    path: String,
    sha256: Option<String>,
    size: u64,
    mode: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<(u32, u32)>,
    /// Extended attributes, name and value in hexadecimal digits: they may be any bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moved: Option<Moved>,
}

impl Description {
    /// All but when and how it came about.
    fn is_like(&self, other: &Description) -> bool {
        let said = |it: &Description| {
            (it.sha256.clone(), it.mode, it.owner, it.attributes.clone(), it.moved.clone())
        };
        said(self) == said(other)
    }
}

/// What one change has kept so far.
#[derive(Debug, Default)]
pub(crate) struct Running {
    kept: HashSet<PathBuf>,
    /// Those of them that were not there before.
    made: Vec<PathBuf>,
    /// The generations of all files when there were too many for the first time, the newest first: they are looked through once in a change.
    others: Option<Vec<Known>>,
    /// Of contents.
    bytes: u64,
    /// Not on the disk yet.
    pub(super) unsynced: Vec<fs::File>,
}

impl Running {
    /// What is kept is on the disk.
    pub(super) fn settle(&mut self) -> Result<(), FileError> {
        file::sync_together(&mut self.unsynced).map_err(unkept)
    }
}

/// A generation: its file, bytes, and when it was made.
type Known = (PathBuf, u64, std::time::SystemTime);

/// All of them, in the folder of the state.
#[derive(Debug)]
pub(crate) struct Backups {
    folder: PathBuf,
    /// Bytes that all of them take, once they were counted.
    total: Mutex<Option<u64>>,
}

impl Backups {
    pub(crate) fn of(home: &Home) -> Backups {
        Backups { folder: home.backups(), total: Mutex::new(None) }
    }

    /// One folder for each file, by where it really is: whichever of its roots was named.
    fn of_file(&self, path: &Path) -> PathBuf {
        let digest = survey::sha256(path.as_os_str().as_bytes());
        self.folder.join(&digest[..32])
    }

    /// Keep what is there now; the number of it. It has to be settled before what is there changes. `None` if it, with what else the change keeps, is larger than all of them may
    /// be. What moves away is not lost: of it there is only a description.
    pub(crate) fn keep(
        &self,
        spot: &Spot,
        found: Option<&Found>,
        by: &str,
        moved: Option<Moved>,
        bounds: Bounds,
        running: &mut Running,
    ) -> Result<Option<u64>, FileError> {
        let content = match (found, &moved) {
            (None, _) | (_, Some(Moved::To(_))) => &[][..],
            (Some(found), Some(Moved::From(_)) | None) => &found.content,
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
        file::sync_many(&mut running.unsynced).map_err(unkept)?;
        running.kept.insert(folder.join(name(number)));
        running.made.push(folder.join(name(number)));
        numbers.insert(number);
        self.bound(&folder, &numbers, bytes.len() as u64, bounds, running);
        Ok(Some(number))
    }

    /// The change did not come about.
    pub(super) fn forget(&self, running: &Running) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        for path in &running.made {
            let size = fs::metadata(path).map_or(0, |about| about.len());
            if fs::remove_file(path).is_ok() {
                *total = total.map(|total| total.saturating_sub(size));
                path.parent().and_then(|folder| fs::remove_dir(folder).ok());
            }
        }
    }

    /// Within the bounds: the oldest of this file go, then the oldest of all. Never those of the change that is made just now.
    fn bound(
        &self,
        folder: &Path,
        numbers: &BTreeSet<u64>,
        size: u64,
        bounds: Bounds,
        running: &mut Running,
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
            // More than has to be, so that the next changes have room.
            let enough = bounds.bytes - bounds.bytes / 10;
            while left > enough
                && let Some((path, size, _)) = others.pop()
            {
                if !running.kept.contains(&path) && fs::remove_file(&path).is_ok() {
                    left = left.saturating_sub(size);
                    // A folder that is empty now goes, too; others stay.
                    path.parent().and_then(|folder| fs::remove_dir(folder).ok());
                }
            }
        }
        *total = Some(left);
    }

    /// Every generation of every file.
    pub(super) fn all(&self) -> Vec<Known> {
        let files = entries(&self.folder, OwnFolder::Backups.rule())
            .into_iter()
            .flat_map(|folder| entries(&folder, FolderRule::INNER));
        let known = files.filter_map(|path| {
            // What is being written has another name.
            path.file_name()?.to_str()?.parse::<u64>().ok()?;
            let about = path.symlink_metadata().ok()?;
            Some((path, about.len(), about.modified().ok()?))
        });
        known.collect()
    }

    /// Of the file that is really there, the newest first. What cannot be read is left out.
    pub(crate) fn history(&self, path: &Path) -> Vec<Generation> {
        let folder = self.of_file(path);
        let known = |number: &u64| {
            let (known, _) = describe(&folder, *number).ok()?;
            let Description { at, by, sha256, size, mode, owner, attributes, moved, .. } = known;
            let pair = |(name, value): (String, String)| {
                Some((CString::new(survey::unhex(&name)?).ok()?, survey::unhex(&value)?))
            };
            let attributes = attributes.into_iter().filter_map(pair).collect();
            let file = sha256.map(|sha256| WasFile { sha256, size, mode, owner, attributes });
            Some(Generation { number: *number, at: Wall(at), by, file, moved })
        };
        numbers(&folder).iter().rev().filter_map(known).collect()
    }

    /// What a generation held.
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
            Some(was) if was.sha256 == survey::sha256(&content) => Ok(content),
            Some(_) => Err(FileError::Lost("its content is damaged".into())),
            None => Ok(Vec::new()),
        }
    }

    /// What processes that are gone were writing.
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

/// As many of them as a description has room for; the list of access is short.
fn attributes(found: &Found) -> Result<Vec<(String, String)>, FileError> {
    let like = found.likeness().map_err(|fault| FileError::Unkept(fault.to_string()))?;
    let mut room = MOST_OF_ATTRIBUTES;
    let fits = |(name, value): &&(CString, Vec<u8>)| {
        let length = name.as_bytes().len() + value.len();
        let fits = length <= room;
        room -= if fits { length } else { 0 };
        fits
    };
    let text =
        |(name, value): &(CString, Vec<u8>)| (survey::hex(name.as_bytes()), survey::hex(value));
    let mut kept: Vec<_> = like.attributes.iter().filter(fits).map(text).collect();
    // Each file has them in an order of its own.
    kept.sort();
    Ok(kept)
}

/// Written into its folder, which another change may remove while it is empty.
fn noted(folder: &Path, number: u64, bytes: &[u8]) -> io::Result<fs::File> {
    let write = || {
        make_at(folder, FolderRule::INNER)?;
        atomic::note(&folder.join(name(number)), bytes)
    };
    // It was there when it was to be made, and was not when that was looked at; or it is not there any more.
    let gone = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound)
    };
    write().or_else(|error| if gone(&error) { write() } else { Err(error) })
}

fn name(number: u64) -> String {
    format!("{number:08}")
}

/// The generations in a folder with their sizes.
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
    io::BufRead::read_until(&mut (&mut file).take(LONGEST_DESCRIPTION), b'\n', &mut line)?;
    let description: Description = serde_json::from_slice(&line)?;
    if description.version != VERSION {
        return Err(io::Error::other(format!("version {} is not known", description.version)));
    }
    Ok((description, file))
}

fn unkept(error: io::Error) -> FileError {
    FileError::Unkept(error.to_string())
}
