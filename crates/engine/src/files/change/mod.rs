//! Changes of files.
//!
//! A change runs under the lock of its names: it reads the files, makes the new contents, keeps the old ones as
//! generations, and carries out everything or nothing (`record`). Each operation decides on its new contents.

mod backup;
mod locks;
mod move_and_delete;
mod multi_file;
mod patch;
mod patch_results;
mod record;
mod replace;
mod target;
mod undo;
mod write;

#[cfg(test)]
mod tests;

use backup::BackupInProgress;
pub(crate) use backup::Backups;
pub use backup::{Generation, MovedPath, OldFile};
pub(crate) use locks::Locks;
pub use patch::DiffQuery;
pub use replace::Replacement;
pub use write::WriteRequest;

use super::Files;
use super::error::FileError;
use super::file_info;
use super::roots::{OwnFiles, PathInRoot};
use proctor_core::content;
use proctor_core::diff::{self, AppliedHunk, FileNames};
use proctor_core::home::Home;
use proctor_sys::beneath::{EntryInfo, FileAttributes, RelativePath};
use std::collections::HashMap;
use std::sync::Arc;
use target::{ExistingFile, Target};

/// Maximum number of files in one change: more than a person reads, and few enough to hold in memory.
const MAX_FILES: usize = 1000;

/// Context lines around each change in the diffs of responses.
const AROUND: usize = 3;

/// Contents with more lines than this are not compared line by line.
const MAX_COMPARED_BYTES: usize = 2_000_000;

/// Maximum number of bytes held in memory for a change that may have to be reverted.
const MAX_HELD_BYTES: usize = 64 << 20;

/// Maximum number of bytes read for one change.
const MAX_READ_BYTES: u64 = file_info::MAX_FILE_BYTES;

/// Options common to all changes.
#[derive(Debug, Clone, Default)]
pub struct ExpectedState {
    /// Change the file only if it still has this hash.
    pub if_hash: Option<String>,
    /// Report the changes without making them.
    pub dry_run: bool,
    /// The operation, for the history.
    pub by: &'static str,
    /// Hold the old content in memory, so that the change can be reverted even if its generations are deleted.
    pub hold: bool,
}

/// The result for one file.
#[derive(Debug, Clone, Default)]
pub struct FileOutcome {
    pub path: String,
    /// Its place, whatever its path means by now. `None` for a rename and a deletion.
    pub(crate) spot: Option<PathInRoot>,
    /// Hashes; `None`: there is no file.
    pub before: Option<String>,
    pub after: Option<String>,
    /// Size after the change.
    pub size: u64,
    /// The generation number of the old state.
    pub generation: Option<u64>,
    /// Number of lines.
    pub added: usize,
    pub removed: usize,
    /// The unified diff, in a dry run.
    pub diff: Vec<u8>,
    /// First lines where hunks of a diff were applied or edits were made.
    pub hunks: Vec<AppliedHunk>,
    /// Number of replacements.
    pub places: Option<usize>,
    /// The old content and attributes, if they were to be held.
    pub(crate) held: Option<Arc<(Vec<u8>, FileAttributes)>>,
    /// Folders created for it, the deepest last.
    pub(crate) folders: Vec<RelativePath>,
}

impl FileOutcome {
    /// Returns true if the content changed.
    pub fn differs(&self) -> bool {
        self.before != self.after
    }
}

/// A new content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NewContent {
    pub(crate) content: Vec<u8>,
    /// Permissions, if they change.
    pub(crate) mode: Option<u32>,
    /// Attributes of the new file, if they are not those of the existing file.
    pub(crate) like: Option<FileAttributes>,
}

impl NewContent {
    fn of(content: Vec<u8>) -> NewContent {
        NewContent { content, ..NewContent::default() }
    }

    fn sha256(&self) -> String {
        file_info::sha256(&self.content)
    }
}

/// One file of a change.
#[derive(Debug)]
pub(crate) struct FileStep {
    target: Target,
    before: Option<ExistingFile>,
    after: Option<NewContent>,
}

/// The state of a file after the change.
#[derive(Debug, Default)]
enum FileResult {
    /// Unchanged, even if it does not exist.
    #[default]
    Stays,
    Gone,
    Is(NewContent),
}

impl From<Option<NewContent>> for FileResult {
    fn from(new: Option<NewContent>) -> FileResult {
        new.map_or(FileResult::Gone, FileResult::Is)
    }
}

/// The new state of a file, and details for the response.
#[derive(Debug, Default)]
struct PlannedFile {
    after: FileResult,
    hunks: Vec<AppliedHunk>,
    places: Option<usize>,
    /// Set if it is part of a move.
    moved: Option<MovedPath>,
}

impl PlannedFile {
    fn content(content: Vec<u8>) -> PlannedFile {
        PlannedFile { after: FileResult::Is(NewContent::of(content)), ..PlannedFile::default() }
    }

    /// The new content as bytes.
    fn bytes<'a>(&'a self, before: OldContents<'a>) -> Option<&'a [u8]> {
        match &self.after {
            FileResult::Stays => before.map(|found| found.content.as_slice()),
            FileResult::Gone => None,
            FileResult::Is(new) => Some(&new.content),
        }
    }
}

/// The old state, from which a new content is made.
type OldContents<'a> = Option<&'a ExistingFile>;

impl Files {
    /// Changes these files. `make` gets the old states in the order of `spots` and returns the new ones.
    fn change(
        &self,
        spots: &[PathInRoot],
        wish: &ExpectedState,
        stop: &dyn Fn() -> bool,
        make: impl Fn(&[OldContents<'_>]) -> Result<Vec<PlannedFile>, FileError>,
    ) -> Result<Vec<FileOutcome>, FileError> {
        let mut needed = Vec::new();
        let targets = targets(spots, &self.guarded())?;
        if wish.dry_run || targets.iter().any(Option::is_none) {
            let found = found(&targets, stop)?;
            let planned = planned(spots, &found, wish, &make)?;
            if wish.dry_run {
                let each = spots.iter().zip(&found).zip(&planned);
                let shown =
                    each.map(|((spot, before), made)| described(spot, before.as_ref(), made, true));
                return Ok(shown.collect());
            }
            // Only for files that exist after the change.
            for (number, (spot, made)) in spots.iter().zip(&planned).enumerate() {
                if let (FileResult::Is(_), Some((folder, _))) = (&made.after, spot.rel.split()) {
                    needed.push((number, spot, folder));
                }
            }
        }
        drop(targets);
        let folders = needed.iter().map(|(_, spot, folder)| (*spot, folder));
        let work = || self.change_under_lock(spots, wish, stop, &make);
        let (mut changes, made) = self.in_folders(&folders.collect::<Vec<_>>(), work)?;
        for (which, rel) in made {
            changes[needed[which].0].folders.push(rel);
        }
        Ok(changes)
    }

    /// Runs `act` in folders, which are created if missing and removed again if it fails. Returns the created
    /// ones, with the spot they were created for.
    fn in_folders<T>(
        &self,
        needed: &[(&PathInRoot, &RelativePath)],
        work: impl FnOnce() -> Result<T, FileError>,
    ) -> Result<(T, Vec<(usize, RelativePath)>), FileError> {
        let _announced = record::announce(&self.shared.home, needed.iter().copied())?;
        let (guarded, mut folders) = (self.guarded(), Vec::new());
        let made = needed.iter().enumerate().try_for_each(|(which, (spot, folder))| {
            let mut made = Vec::new();
            let done = target::make_folders(spot, folder, &guarded, &mut made);
            folders.extend(made.into_iter().map(|(place, rel)| (which, place, rel)));
            done
        });
        match made.and_then(|()| work()) {
            Ok(done) => {
                Ok((done, folders.into_iter().map(|(which, _, rel)| (which, rel)).collect()))
            }
            Err(error) => {
                // Folders that contain something by now stay.
                folders.iter().rev().for_each(|(_, place, _)| drop(place.remove_folder()));
                Err(error)
            }
        }
    }

    fn change_under_lock(
        &self,
        spots: &[PathInRoot],
        wish: &ExpectedState,
        stop: &dyn Fn() -> bool,
        make: &impl Fn(&[OldContents<'_>]) -> Result<Vec<PlannedFile>, FileError>,
    ) -> Result<Vec<FileOutcome>, FileError> {
        let targets = targets(spots, &self.guarded())?;
        let _held = self.shared.locks.hold(targets.iter().flatten().map(Target::key), stop)?;
        let found = found(&targets, stop)?;
        let planned = planned(spots, &found, wish, make)?;
        let (mut steps, mut changes, mut held) = (Vec::new(), Vec::new(), 0);
        let (each, mut running) =
            (targets.into_iter().zip(found).zip(planned), BackupInProgress::default());
        for (spot, ((target, before), made)) in spots.iter().zip(each) {
            let mut changed = described(spot, before.as_ref(), &made, false);
            if made.moved.is_some() || differs(before.as_ref(), &made.after) {
                let target = target.ok_or(FileError::Missing { path: changed.path.clone() })?;
                let was = before.as_ref();
                changed.generation = self.keep_for(&target, was, made.moved, wish, &mut running)?;
                if let Some(found) = before.as_ref().filter(|_| wish.hold) {
                    held += found.content.len();
                    if held > MAX_HELD_BYTES {
                        let why = format!("the files have more than {MAX_HELD_BYTES} bytes");
                        return Err(FileError::Unkept(why));
                    }
                    let unlike =
                        |fault| FileError::NotAlike { path: target.spot.shown.clone(), fault };
                    let like = found.likeness().map_err(unlike)?;
                    changed.held = Some(Arc::new((found.content.clone(), like)));
                }
                let after = if let FileResult::Is(new) = made.after { Some(new) } else { None };
                steps.push(FileStep { target, before, after });
            }
            changes.push(changed);
            if stop() {
                return Err(FileError::Cancelled);
            }
        }
        if !steps.is_empty() {
            record::carry_out(&self.shared.home, &steps, running.unsynced)?;
        }
        Ok(changes)
    }
}

/// Reverts or completes changes that a killed daemon left unfinished.
pub(crate) fn recover(home: &Home) {
    record::recover(home);
    Backups::of(home).sweep();
}

/// The targets of these spots, which must be distinct files. A target in a missing folder may only be a guess.
fn targets(spots: &[PathInRoot], guarded: &OwnFiles) -> Result<Vec<Option<Target>>, FileError> {
    let target = |spot: &PathInRoot| match Target::of(spot, guarded) {
        Err(FileError::Missing { .. }) => Ok(None),
        target => target.map(Some),
    };
    let targets = spots.iter().map(target).collect::<Result<Vec<_>, _>>()?;
    let mut known = HashMap::new();
    for target in targets.iter().flatten() {
        if let Some(other) = known.insert(target.key(), &target.spot.shown) {
            let also =
                if *other == target.spot.shown { String::new() } else { format!(", as '{other}'") };
            return Err(FileError::BadInput(format!(
                "'{}' is named twice{also}",
                target.spot.shown
            )));
        }
    }
    Ok(targets)
}

/// The current files; a missing folder contains none.
fn found(
    targets: &[Option<Target>],
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Option<ExistingFile>>, FileError> {
    let mut room = MAX_READ_BYTES;
    targets.iter().flatten().try_for_each(|target| target.check_room(&mut room))?;
    room = MAX_READ_BYTES;
    let find = |target: &Option<Target>| match target {
        Some(_) if stop() => Err(FileError::Cancelled),
        Some(target) => target.find_within(&mut room),
        None => Ok(None),
    };
    targets.iter().map(find).collect()
}

fn planned(
    spots: &[PathInRoot],
    found: &[Option<ExistingFile>],
    wish: &ExpectedState,
    make: &impl Fn(&[OldContents<'_>]) -> Result<Vec<PlannedFile>, FileError>,
) -> Result<Vec<PlannedFile>, FileError> {
    if let (Some(hash), [spot], [before]) = (&wish.if_hash, spots, found) {
        let now = before.as_ref().map(|found| found.sha256.clone());
        if !now.as_ref().is_some_and(|now| now.eq_ignore_ascii_case(hash)) {
            return Err(FileError::Stale { path: spot.shown.clone(), found: now });
        }
    }
    make(&found.iter().map(Option::as_ref).collect::<Vec<_>>())
}

fn differs(before: Option<&ExistingFile>, after: &FileResult) -> bool {
    match (before, after) {
        (_, FileResult::Stays) | (None, FileResult::Gone) => false,
        (Some(before), FileResult::Is(after)) => {
            let EntryInfo { mode, user, group, .. } = before.look;
            let like = after
                .like
                .as_ref()
                .map_or((mode, Some((user, group))), |like| (like.mode, like.owner));
            let like = (after.mode.unwrap_or(like.0), like.1);
            like != (mode, Some((user, group))) || before.content != after.content
        }
        (None, FileResult::Is(_)) | (Some(_), FileResult::Gone) => true,
    }
}

/// The result of a change, with its diff on request.
fn described(
    spot: &PathInRoot,
    before: Option<&ExistingFile>,
    made: &PlannedFile,
    with_diff: bool,
) -> FileOutcome {
    let (old, new) = (before.map(|found| found.content.as_slice()), made.bytes(before));
    // Paths in a diff start at the top of the root.
    let path = spot.rel.to_string();
    let names = match (old, new) {
        (None, _) => FileNames::Made(&path),
        (Some(_), None) => FileNames::Removed(&path),
        (Some(_), Some(_)) => FileNames::Changed(&path),
    };
    let (old, content) = (old.unwrap_or_default(), new.unwrap_or_default());
    if matches!(made.after, FileResult::Stays) || old == content {
        return plain(spot, before, made);
    }
    let (old, content) = (content::readable(old), content::readable(content));
    let (old, content) = (&*old, &*content);
    let lines = |text: &[u8]| memchr::memchr_iter(b'\n', text).count();
    if lines(old) + lines(content) > MAX_COMPARED_BYTES {
        let (added, removed) = (lines(content), lines(old));
        return FileOutcome { added, removed, ..plain(spot, before, made) };
    }
    let blocks = diff::compare(old, content);
    let diff = || diff::unified_of(names, &blocks, old, content, AROUND);
    FileOutcome {
        added: blocks.iter().map(|block| block.new.len()).sum(),
        removed: blocks.iter().map(|block| block.old.len()).sum(),
        diff: if with_diff { diff() } else { Vec::new() },
        ..plain(spot, before, made)
    }
}

/// The result without the differences.
fn plain(spot: &PathInRoot, before: Option<&ExistingFile>, made: &PlannedFile) -> FileOutcome {
    let old = || before.map(|found| found.sha256.clone());
    FileOutcome {
        path: spot.shown.clone(),
        spot: Some(spot.clone()),
        before: old(),
        after: match &made.after {
            FileResult::Stays => old(),
            FileResult::Gone => None,
            FileResult::Is(new) => Some(new.sha256()),
        },
        size: made.bytes(before).map_or(0, |content| content.len() as u64),
        hunks: made.hunks.clone(),
        places: made.places,
        ..FileOutcome::default()
    }
}
