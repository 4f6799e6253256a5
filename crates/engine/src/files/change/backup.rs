//! What files held before they were changed: a few generations of each, within bounds.

use super::super::fault::FileError;
use super::super::roots::Spot;
use super::super::survey;
use super::target::Found;
use proctor_core::config::backups::Backups as Bounds;
use proctor_core::home::Home;
use proctor_core::time::Wall;
use proctor_sys::beneath::Likeness;
use proctor_sys::{atomic, file};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
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
}

/// What one change has kept so far.
#[derive(Debug, Default)]
pub(crate) struct Running {
    kept: HashSet<PathBuf>,
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

    /// One folder for each file, by what it is called in the innermost of its roots.
    fn of_file(&self, spot: &Spot) -> PathBuf {
        let root = spot.root.path.as_os_str().as_bytes();
        let digest = survey::sha256(&[root, b"\0", spot.rel.as_bytes()].concat());
        self.folder.join(&digest[..32])
    }

    /// Keep what is there now; the number of it. It has to be settled before what is there changes. `None` if it, with what else the change keeps, is larger than all of them may
    /// be.
    pub(crate) fn keep(
        &self,
        spot: &Spot,
        found: Option<&Found>,
        by: &str,
        bounds: Bounds,
        running: &mut Running,
    ) -> Result<Option<u64>, FileError> {
        let content = found.map_or(&[][..], |found| &found.content);
        if bounds.generations == 0 || running.bytes + content.len() as u64 > bounds.bytes {
            return Ok(None);
        }
        running.bytes += content.len() as u64;
        let mode = found.map_or(0, |found| found.look.mode);
        let owner = found.map(|found| (found.look.user, found.look.group));
        let attributes = found.map_or(Ok(Vec::new()), attributes)?;
        let folder = self.of_file(spot);
        let numbers = numbers(&folder);
        let newest = numbers.keys().last().copied();
        if let Some(newest) = newest {
            let same = |known: &Description| {
                known.sha256.as_ref() == found.map(|found| &found.sha256)
                    && (known.mode, known.owner, &known.attributes) == (mode, owner, &attributes)
            };
            if describe(&folder, newest).is_ok_and(|(known, _)| same(&known)) {
                running.kept.insert(folder.join(name(newest)));
                return Ok(Some(newest));
            }
        }
        let number = newest.unwrap_or(0) + 1;
        let description = Description {
            version: VERSION,
            at: proctor_sys::clock::now().wall.0,
            by: by.to_owned(),
            path: spot.shown.clone(),
            sha256: found.map(|found| found.sha256.clone()),
            size: content.len() as u64,
            mode,
            owner,
            attributes,
        };
        let mut bytes = serde_json::to_vec(&description).map_err(|e| unkept(e.into()))?;
        bytes.push(b'\n');
        bytes.extend_from_slice(content);
        fs::create_dir_all(&folder).map_err(unkept)?;
        let file = atomic::note(&folder.join(name(number)), &bytes).map_err(unkept)?;
        running.unsynced.push(file);
        file::sync_many(&mut running.unsynced).map_err(unkept)?;
        running.kept.insert(folder.join(name(number)));
        self.bound(&folder, bytes.len() as u64, bounds, running);
        Ok(Some(number))
    }

    /// Within the bounds: the oldest of this file go, then the oldest of all. Never those of the change that is made just now.
    fn bound(&self, folder: &Path, size: u64, bounds: Bounds, running: &Running) {
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        let numbers = numbers(folder);
        let mut gone = 0;
        for (number, size) in numbers.iter().take(numbers.len().saturating_sub(bounds.generations))
        {
            gone += if fs::remove_file(folder.join(name(*number))).is_ok() { *size } else { 0 };
        }
        let counted = total
            .map_or_else(|| self.all().iter().map(|it| it.1).sum(), |total| total + size - gone);
        *total = Some(counted);
        if counted <= bounds.bytes {
            return;
        }
        let (mut left, mut all) = (counted, self.all());
        all.sort_by_key(|(_, _, modified)| *modified);
        for (path, size, _) in all.iter().filter(|(path, ..)| !running.kept.contains(path)) {
            if left <= bounds.bytes {
                break;
            }
            left -= if fs::remove_file(path).is_ok() { *size } else { 0 };
            // A folder that is empty now goes, too; others stay.
            path.parent().and_then(|folder| fs::remove_dir(folder).ok());
        }
        *total = Some(left);
    }

    /// Every generation of every file: path, bytes, and when it was made.
    pub(super) fn all(&self) -> Vec<(PathBuf, u64, std::time::SystemTime)> {
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let files = entries(&self.folder).flat_map(|folder| entries(&folder.path()));
        let known = files.filter_map(|file| {
            let about = file.metadata().ok()?;
            Some((file.path(), about.len(), about.modified().ok()?))
        });
        known.collect()
    }

    /// The newest first. What cannot be read is left out.
    pub(crate) fn history(&self, spot: &Spot) -> Vec<Generation> {
        let folder = self.of_file(spot);
        let known = |number: &u64| {
            let (known, _) = describe(&folder, *number).ok()?;
            let Description { at, by, sha256, size, mode, owner, attributes, .. } = known;
            let pair = |(name, value): (String, String)| {
                Some((CString::new(survey::unhex(&name)?).ok()?, survey::unhex(&value)?))
            };
            let attributes = attributes.into_iter().filter_map(pair).collect();
            let file = sha256.map(|sha256| WasFile { sha256, size, mode, owner, attributes });
            Some(Generation { number: *number, at: Wall(at), by, file })
        };
        numbers(&folder).keys().rev().filter_map(known).collect()
    }

    /// What a generation held.
    pub(crate) fn content(
        &self,
        spot: &Spot,
        generation: &Generation,
    ) -> Result<Vec<u8>, FileError> {
        let read = || -> io::Result<Vec<u8>> {
            let (_, mut rest) = describe(&self.of_file(spot), generation.number)?;
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
        let folders = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for folder in folders {
            for leftover in atomic::leftovers(&folder.path()).unwrap_or_default() {
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

fn name(number: u64) -> String {
    format!("{number:08}")
}

/// The generations in a folder with their sizes.
fn numbers(folder: &Path) -> BTreeMap<u64, u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, entry.metadata().ok()?.len()))
    };
    entries.filter_map(number).collect()
}

fn describe(folder: &Path, number: u64) -> io::Result<(Description, impl io::Read + use<>)> {
    let mut file = io::BufReader::new(fs::File::open(folder.join(name(number)))?);
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
