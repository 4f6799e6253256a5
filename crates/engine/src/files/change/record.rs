//! Carries out a change of one or several files atomically: whenever this process ends, the next start leaves
//! all of the change or nothing, and no temporary files.
//!
//! First, a record in `changes/` names the temporary files. New contents are written next to their files and
//! synced together with the kept generations. If there are several files, each old one gets a second name. Then
//! each new file replaces the old one by a rename. Until the record says that all renames are done, a start
//! reverts those that were. With one file the rename itself decides: the record only names the temporary file,
//! and is not synced.

use super::super::error::FileError;
use super::super::file_info;
use super::super::list::{cursor, parse_cursor};
use super::super::roots::PathInRoot;
use super::{FileStep, target};
use crate::own_folder;
use proctor_core::home::{Home, OwnFolder};
use proctor_sys::beneath::{
    EntryPath, Id, LinkPolicy, OverwriteMode, PathError, RelativePath, Root,
};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::own_folder::names;
use proctor_sys::{atomic, own_file, small_file};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const VERSION: u32 = 1;

/// The suffix of a record of folders, after its mark.
const OF_FOLDERS: &str = ".folders.json";

/// A killed process is gone by then, unless a hanging disk keeps it.
const WRITER_TIMEOUT: Duration = Duration::from_secs(2);
const WRITER_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Serialize, Deserialize)]
struct ChangeRecord {
    version: u32,
    /// All files have their new state, or there is only one: only temporary files are left to remove.
    settled: bool,
    files: Vec<RecordedFile>,
    /// Folders created for files, in a record of their own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    folders: Vec<RecordedFolder>,
}

/// A folder that did not exist before a change; the deepest is last.
#[derive(Debug, Serialize, Deserialize)]
struct RecordedFolder {
    root: PathBuf,
    root_folder: (u64, u64),
    path: String,
}

impl RecordedFolder {
    /// Removes the folder if it is empty.
    fn finish(&self) -> Result<(), FileError> {
        match place(&self.root, Some(self.root_folder), &self.path) {
            Ok(place) => drop(place.remove_folder()),
            Err(FileError::Unrecorded(why)) => return Err(FileError::Unrecorded(why)),
            Err(_) => {}
        }
        Ok(())
    }
}

/// One file of a change.
#[derive(Debug, Serialize, Deserialize)]
struct RecordedFile {
    root: PathBuf,
    /// Device and inode of the root; the first records did not have it.
    #[serde(default)]
    root_folder: Option<(u64, u64)>,
    /// Below the root, in hexadecimal digits: it may contain any bytes.
    path: String,
    /// Device and inode of its folder.
    folder: (u64, u64),
    /// Names of the temporary files next to it: the new content, and the old file.
    new: String,
    old: String,
    /// Hashes before and after; `None`: there is no file.
    before: Option<String>,
    after: Option<String>,
}

impl RecordedFile {
    fn of(step: &FileStep, mark: &str, number: usize) -> RecordedFile {
        RecordedFile {
            root: step.target.spot.root.path.clone(),
            root_folder: Some(pair(step.target.root)),
            path: cursor(step.target.spot.rel.as_bytes()),
            folder: pair(step.target.place.folder().id()),
            new: format!(".proctor-{mark}-{number}.new"),
            old: format!(".proctor-{mark}-{number}.old"),
            before: step.before.as_ref().map(|found| found.sha256.clone()),
            after: step.after.as_ref().map(|new| new.sha256()),
        }
    }

    /// Its place, if its folder is still the same.
    fn place(&self) -> Result<EntryPath, FileError> {
        let place = place(&self.root, self.root_folder, &self.path)?;
        if pair(place.folder().id()) != self.folder {
            return Err(FileError::at(&shown(&self.root, &self.path))(PathError::Moved));
        }
        Ok(place)
    }

    /// Reverts an interrupted change unless it was settled, and removes the temporary files.
    fn finish(&self, settled: bool) -> Result<(), FileError> {
        let place = match self.place() {
            // The folder is gone, and its content with it.
            Err(FileError::Missing { .. }) => return Ok(()),
            place => place?,
        };
        let put_right = || -> Result<(), PathError> {
            if !settled && self.may_have_turned(&place)? {
                self.take_back(&place)?;
                // Synced before the record is removed.
                place.folder().sync()?;
            }
            self.tidy(&place)
        };
        put_right().map_err(FileError::at(&shown(&self.root, &self.path)))
    }

    /// Returns false while the new content still has its temporary name, unless both names are one file: then a
    /// two-step rename was interrupted.
    fn may_have_turned(&self, place: &EntryPath) -> Result<bool, PathError> {
        let beside = place.folder().place(OsStr::new(&self.new))?.look()?;
        let Some(beside) = beside else { return Ok(true) };
        Ok(place.look()?.is_some_and(|there| there.id == beside.id))
    }

    /// Restores the old state, if the current state is the one that the change made.
    fn take_back(&self, place: &EntryPath) -> Result<(), PathError> {
        let now = hash(place)?;
        let old = place.folder().place(OsStr::new(&self.old))?;
        if now != self.after {
            return Ok(());
        }
        let onto =
            if self.after.is_some() { OverwriteMode::Anything } else { OverwriteMode::Nothing };
        match self.before {
            None if now.is_some() => place.remove(),
            Some(_) if old.look()?.is_some() => old.rename(place, onto),
            None | Some(_) => Ok(()),
        }
    }

    /// Removes the temporary files.
    fn tidy(&self, place: &EntryPath) -> Result<(), PathError> {
        let mut removed = false;
        for name in [&self.new, &self.old] {
            match place.folder().place(OsStr::new(name))?.remove() {
                Err(fault) if !fault.is_missing() => return Err(fault),
                gone => removed |= gone.is_ok(),
            }
        }
        if removed {
            place.folder().sync()?;
        }
        Ok(())
    }
}

/// The place of a recorded path.
fn place(path: &Path, known: Option<(u64, u64)>, rel: &str) -> Result<EntryPath, FileError> {
    // A missing root may return later, like a disk that is not mounted: it does not count as deleted.
    let absent =
        |why: &dyn std::fmt::Display| FileError::Unrecorded(format!("{}: {why}", path.display()));
    let root = Root::open(path).map_err(|error| absent(&error))?;
    if known.is_some_and(|known| known != pair(root.folder().id())) {
        return Err(absent(&"another folder has its path now"));
    }
    let there = root.place(&parse_cursor(rel)?, LinkPolicy::Refuse);
    there.map_err(FileError::at(&shown(path, rel)))
}

/// A recorded path as a person knows it.
fn shown(root: &Path, rel: &str) -> String {
    let below = |rel: RelativePath| root.join(rel.as_path()).display().to_string();
    parse_cursor(rel).map_or_else(|_| rel.to_owned(), below)
}

/// A record of folders to be created, until this is dropped: by then they are in use or removed.
#[derive(Debug)]
pub(crate) struct AnnouncedFolders(Option<PathBuf>);

impl Drop for AnnouncedFolders {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            fs::remove_file(path).ok();
        }
    }
}

/// Records which of these folders are missing.
pub(crate) fn announce<'a>(
    home: &Home,
    needed: impl Iterator<Item = (&'a PathInRoot, &'a RelativePath)>,
) -> Result<AnnouncedFolders, FileError> {
    let mut folders = Vec::new();
    for (spot, folder) in needed {
        let root = target::writable(spot)?;
        let missing = target::missing_folders(&root, folder).map_err(spot.at())?;
        folders.extend(missing.iter().map(|rel| RecordedFolder {
            root: spot.root.path.clone(),
            root_folder: pair(root.folder().id()),
            path: cursor(rel.as_bytes()),
        }));
    }
    if folders.is_empty() {
        return Ok(AnnouncedFolders(None));
    }
    let path = home.changes().join(format!("{}{OF_FOLDERS}", atomic::mark()));
    let record = ChangeRecord { version: VERSION, settled: true, files: Vec::new(), folders };
    let text = serde_json::to_vec(&record).map_err(|error| unrecorded(error.into()))?;
    let noted = own_folder::make(home, OwnFolder::Changes);
    noted.and_then(|()| atomic::note(&path, &text)).map_err(unrecorded)?;
    Ok(AnnouncedFolders(Some(path)))
}

fn pair(id: Id) -> (u64, u64) {
    (id.device, id.inode)
}

fn hash(place: &EntryPath) -> Result<Option<String>, PathError> {
    let (mut file, _) = match place.read() {
        Err(fault) if fault.is_missing() => return Ok(None),
        opened => opened?,
    };
    let mut content = Vec::new();
    io::Read::read_to_end(&mut file, &mut content)?;
    Ok(Some(file_info::sha256(&content)))
}

/// Carries out all steps, or none of them.
pub(crate) fn carry_out(
    home: &Home,
    steps: &[FileStep],
    unsynced: Vec<fs::File>,
) -> Result<(), FileError> {
    failpoint::step(Point::FileBegin).map_err(unrecorded)?;
    let mark = atomic::mark();
    let path = home.changes().join(format!("{mark}.json"));
    let files =
        steps.iter().enumerate().map(|(n, step)| RecordedFile::of(step, &mark, n)).collect();
    let mut record =
        ChangeRecord { version: VERSION, settled: steps.len() == 1, files, folders: Vec::new() };
    own_folder::make(home, OwnFolder::Changes)
        .and_then(|()| write(&path, &record))
        .map_err(unrecorded)?;
    let mut turned = 0;
    let done = turn(steps, &record.files, unsynced, &mut turned).and_then(|()| {
        if !record.settled {
            record.settled = true;
            write(&path, &record).map_err(unrecorded)?;
        }
        failpoint::moment(Point::FileSettled);
        Ok(())
    });
    let (back, mut tidy) = (done.is_err() && steps.len() > 1, true);
    for (number, (step, noted)) in steps.iter().zip(&record.files).enumerate() {
        let place = &step.target.place;
        // Files whose turn had not come are left alone, even if they look like ours.
        let back = if back && number < turned { noted.take_back(place) } else { Ok(()) };
        if let Err(error) = back.and_then(|()| noted.tidy(place)) {
            tidy = false;
            tracing::warn!(path = step.target.spot.shown, %error, "cannot clean up after a change; the next start retries");
        }
    }
    failpoint::moment(Point::FileTidied);
    // The next start cleans up the rest.
    if tidy {
        fs::remove_file(&path).ok();
    }
    done
}

/// Runs the steps. `unsynced` are the kept generations; `turned` becomes the number of steps done, even if one
/// fails.
fn turn(
    steps: &[FileStep],
    noted: &[RecordedFile],
    mut unsynced: Vec<fs::File>,
    turned: &mut usize,
) -> Result<(), FileError> {
    failpoint::step(Point::FileRecorded).map_err(unrecorded)?;
    for (step, noted) in steps.iter().zip(noted) {
        if let Some(new) = &step.after {
            unsynced.push(step.target.write_beside(&noted.new, new, step.before.as_ref())?);
            failpoint::step(Point::FileWritten).map_err(failed(step))?;
        }
        if steps.len() > 1 && step.before.is_some() {
            unsynced.extend(keep(step, &noted.old)?);
        }
        small_file::sync_many(&mut unsynced).map_err(unsaved)?;
    }
    small_file::sync_together(&mut unsynced).map_err(unsaved)?;
    failpoint::step(Point::FileReady).map_err(unrecorded)?;
    for (step, noted) in steps.iter().zip(noted) {
        failpoint::step(Point::FileTurn).map_err(failed(step))?;
        turn_one(step, noted)?;
        *turned += 1;
        failpoint::moment(Point::FileTurned);
    }
    // After a power cut, one file has its old or its new content; several have those that the record says.
    for step in steps.iter().filter(|_| steps.len() > 1) {
        step.target.place.folder().sync().map_err(failed(step))?;
    }
    Ok(())
}

/// The file that failed is not known: they are synced together.
fn unsaved(error: io::Error) -> FileError {
    FileError::Unrecorded(format!("cannot sync the new contents: {error}"))
}

fn failed(step: &FileStep) -> impl Fn(io::Error) -> FileError {
    move |error| step.target.spot.at()(error.into())
}

/// Gives the old file a second name, or copies it if that is not possible.
fn keep(step: &FileStep, name: &str) -> Result<Option<fs::File>, FileError> {
    let (Some(found), old) = (&step.before, step.target.beside(name)?) else { return Ok(None) };
    if step.target.place.link(&old).is_ok() {
        return Ok(None);
    }
    let copy = super::NewContent::of(found.content.clone());
    step.target.write_beside(name, &copy, Some(found)).map(Some)
}

fn turn_one(step: &FileStep, noted: &RecordedFile) -> Result<(), FileError> {
    let FileStep { target, before, after } = step;
    let stale = || FileError::Changed { path: target.spot.shown.clone() };
    if !target.is_still(before.as_ref())? {
        return Err(stale());
    }
    let at = target.spot.at();
    let onto = if before.is_some() { OverwriteMode::Anything } else { OverwriteMode::Nothing };
    match after {
        None => target.place.remove().map_err(at),
        Some(_) => match target.beside(&noted.new)?.rename(&target.place, onto) {
            // A file has appeared where there was none.
            Err(fault) if fault.is(io::ErrorKind::AlreadyExists) => Err(stale()),
            renamed => renamed.map_err(at),
        },
    }
}

fn write(path: &Path, record: &ChangeRecord) -> io::Result<()> {
    let text = serde_json::to_vec(record).map_err(io::Error::from)?;
    match record.files[..] {
        [_] => atomic::note(path, &text).map(drop),
        _ => atomic::replace(path, &text, 0o600),
    }
}

fn unrecorded(error: io::Error) -> FileError {
    FileError::Unrecorded(error.to_string())
}

/// Reverts or cleans up unfinished changes of processes that are gone. Call it before any file is changed.
pub(crate) fn recover(home: &Home) {
    for folder in [home.changes(), home.backups()] {
        if let Err(error) = small_file::make_private(&folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(folder = %folder.display(), %error, "cannot restrict the permissions of a folder");
        }
    }
    wait_for_writers(home);
    let records = records_of(home);
    for leftover in atomic::leftovers(&home.changes()).unwrap_or_default() {
        fs::remove_file(leftover).ok();
    }
    let of_folders = |path: &PathBuf| path.to_string_lossy().ends_with(OF_FOLDERS);
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = records.into_iter().partition(of_folders);
    // Folders last: their content is gone by then.
    for path in files.into_iter().chain(folders) {
        if mark_of(&path).is_some_and(atomic::is_abandoned) {
            match finish(&path) {
                Ok(()) => {
                    tracing::info!(record = %path.display(), "recovered an interrupted change of files")
                }
                Err(error) => {
                    tracing::error!(record = %path.display(), %error, "cannot recover an interrupted change of files")
                }
            }
        }
    }
}

/// A daemon that was just killed may still be ending. If it does not end, its records stay.
fn wait_for_writers(home: &Home) {
    let give_up = Instant::now() + WRITER_TIMEOUT;
    let lives = |path: &PathBuf| mark_of(path).is_some_and(|mark| !atomic::is_abandoned(mark));
    let any = || records_of(home).iter().any(lives);
    while any() && Instant::now() < give_up {
        std::thread::sleep(WRITER_INTERVAL);
    }
}

/// Paths of all records.
fn records_of(home: &Home) -> Vec<PathBuf> {
    let folder = home.changes();
    let names = names(&folder, OwnFolder::Changes.rule()).unwrap_or_default();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// The mark in the name of a record.
fn mark_of(path: &Path) -> Option<&str> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    name.strip_suffix(OF_FOLDERS).or_else(|| name.strip_suffix(".json"))
}

pub(super) fn finish(path: &Path) -> Result<(), FileError> {
    let mut text = Vec::new();
    let read =
        own_file::read(path).and_then(|mut file| io::Read::read_to_end(&mut file, &mut text));
    read.map_err(unrecorded)?;
    let mut record: ChangeRecord =
        serde_json::from_slice(&text).map_err(|error| FileError::Unrecorded(error.to_string()))?;
    if record.version != VERSION {
        return Err(FileError::Unrecorded(format!("unknown version {}", record.version)));
    }
    let (settled, mut first) = (record.settled, None);
    let mut stays = |done: Result<(), FileError>| match done {
        Ok(()) => false,
        Err(error) => {
            first.get_or_insert(error);
            true
        }
    };
    record.files.retain(|noted| stays(noted.finish(settled)));
    // The deepest first.
    record.folders.reverse();
    record.folders.retain(|noted| stays(noted.finish()));
    record.folders.reverse();
    let Some(error) = first else { return fs::remove_file(path).map_err(unrecorded) };
    // Keeps only the entries that failed: for the others, somebody may create the same names again.
    let text = serde_json::to_vec(&record).map_err(|error| unrecorded(error.into()))?;
    atomic::replace(path, &text, 0o600).map_err(unrecorded)?;
    Err(error)
}
