//! Changes of files.
//!
//! A change runs under the lock of its names: it reads the files, makes the new contents, keeps the old ones as
//! generations, and carries out everything or nothing (`record`). Each operation decides on its new contents.

mod backup;
mod locks;
mod names;
mod patch;
mod patched;
mod record;
mod replace;
mod several;
mod target;
mod undo;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use backup::Backups;
use backup::Running;
pub use backup::{Generation, Moved, WasFile};
pub(crate) use locks::Locks;
pub use patch::DiffQuery;
pub use replace::Replacement;
pub use write::Written;

use super::Files;
use super::fault::FileError;
use super::roots::{Guarded, Spot};
use super::survey;
use proctor_core::content;
use proctor_core::diff::{self, Fitted, Names};
use proctor_core::home::Home;
use proctor_sys::beneath::{Likeness, Look, Rel};
use std::collections::HashMap;
use std::sync::Arc;
use target::{Found, Target};

/// Maximum number of files in one change: more than a person reads, and few enough to hold in memory.
const MOST_FILES: usize = 1000;

/// Context lines around each change in the diffs of responses.
const AROUND: usize = 3;

/// Contents with more lines than this are not compared line by line.
const MOST_COMPARED: usize = 2_000_000;

/// Maximum number of bytes held in memory for a change that may have to be reverted.
const MOST_HELD: usize = 64 << 20;

/// Maximum number of bytes read for one change.
const MOST_READ: u64 = survey::LARGEST;

/// Options common to all changes.
#[derive(Debug, Clone, Default)]
pub struct Wish {
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
pub struct Changed {
    pub path: String,
    /// Its place, whatever its path means by now. `None` for a rename and a deletion.
    pub(crate) spot: Option<Spot>,
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
    pub hunks: Vec<Fitted>,
    /// Number of replacements.
    pub places: Option<usize>,
    /// The old content and attributes, if they were to be held.
    pub(crate) held: Option<Arc<(Vec<u8>, Likeness)>>,
    /// Folders created for it, the deepest last.
    pub(crate) folders: Vec<Rel>,
}

impl Changed {
    /// Returns true if the content changed.
    pub fn differs(&self) -> bool {
        self.before != self.after
    }
}

/// A new content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct New {
    pub(crate) content: Vec<u8>,
    /// Permissions, if they change.
    pub(crate) mode: Option<u32>,
    /// Attributes of the new file, if they are not those of the existing file.
    pub(crate) like: Option<Likeness>,
}

impl New {
    fn of(content: Vec<u8>) -> New {
        New { content, ..New::default() }
    }

    fn sha256(&self) -> String {
        survey::sha256(&self.content)
    }
}

/// One file of a change.
#[derive(Debug)]
pub(crate) struct Step {
    target: Target,
    before: Option<Found>,
    after: Option<New>,
}

/// The state of a file after the change.
#[derive(Debug, Default)]
enum After {
    /// Unchanged, even if it does not exist.
    #[default]
    Stays,
    Gone,
    Is(New),
}

impl From<Option<New>> for After {
    fn from(new: Option<New>) -> After {
        new.map_or(After::Gone, After::Is)
    }
}

/// The new state of a file, and details for the response.
#[derive(Debug, Default)]
struct Made {
    after: After,
    hunks: Vec<Fitted>,
    places: Option<usize>,
    /// Set if it is part of a move.
    moved: Option<Moved>,
}

impl Made {
    fn content(content: Vec<u8>) -> Made {
        Made { after: After::Is(New::of(content)), ..Made::default() }
    }

    /// The new content as bytes.
    fn bytes<'a>(&'a self, before: Before<'a>) -> Option<&'a [u8]> {
        match &self.after {
            After::Stays => before.map(|found| found.content.as_slice()),
            After::Gone => None,
            After::Is(new) => Some(&new.content),
        }
    }
}

/// The old state, from which a new content is made.
type Before<'a> = Option<&'a Found>;

impl Files {
    /// Changes these files. `make` gets the old states in the order of `spots` and returns the new ones.
    fn change(
        &self,
        spots: &[Spot],
        wish: &Wish,
        stop: &dyn Fn() -> bool,
        make: impl Fn(&[Before<'_>]) -> Result<Vec<Made>, FileError>,
    ) -> Result<Vec<Changed>, FileError> {
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
                if let (After::Is(_), Some((folder, _))) = (&made.after, spot.rel.split()) {
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
        needed: &[(&Spot, &Rel)],
        work: impl FnOnce() -> Result<T, FileError>,
    ) -> Result<(T, Vec<(usize, Rel)>), FileError> {
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
        spots: &[Spot],
        wish: &Wish,
        stop: &dyn Fn() -> bool,
        make: &impl Fn(&[Before<'_>]) -> Result<Vec<Made>, FileError>,
    ) -> Result<Vec<Changed>, FileError> {
        let targets = targets(spots, &self.guarded())?;
        let _held = self.shared.locks.hold(targets.iter().flatten().map(Target::key), stop)?;
        let found = found(&targets, stop)?;
        let planned = planned(spots, &found, wish, make)?;
        let (mut steps, mut changes, mut held) = (Vec::new(), Vec::new(), 0);
        let (each, mut running) = (targets.into_iter().zip(found).zip(planned), Running::default());
        for (spot, ((target, before), made)) in spots.iter().zip(each) {
            let mut changed = described(spot, before.as_ref(), &made, false);
            if made.moved.is_some() || differs(before.as_ref(), &made.after) {
                let target = target.ok_or(FileError::Missing { path: changed.path.clone() })?;
                let was = before.as_ref();
                changed.generation = self.keep_for(&target, was, made.moved, wish, &mut running)?;
                if let Some(found) = before.as_ref().filter(|_| wish.hold) {
                    held += found.content.len();
                    if held > MOST_HELD {
                        let why = format!("the files have more than {MOST_HELD} bytes");
                        return Err(FileError::Unkept(why));
                    }
                    let unlike =
                        |fault| FileError::NotAlike { path: target.spot.shown.clone(), fault };
                    let like = found.likeness().map_err(unlike)?;
                    changed.held = Some(Arc::new((found.content.clone(), like)));
                }
                let after = if let After::Is(new) = made.after { Some(new) } else { None };
                steps.push(Step { target, before, after });
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
fn targets(spots: &[Spot], guarded: &Guarded) -> Result<Vec<Option<Target>>, FileError> {
    let target = |spot: &Spot| match Target::of(spot, guarded) {
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
) -> Result<Vec<Option<Found>>, FileError> {
    let mut room = MOST_READ;
    targets.iter().flatten().try_for_each(|target| target.check_room(&mut room))?;
    room = MOST_READ;
    let find = |target: &Option<Target>| match target {
        Some(_) if stop() => Err(FileError::Cancelled),
        Some(target) => target.find_within(&mut room),
        None => Ok(None),
    };
    targets.iter().map(find).collect()
}

fn planned(
    spots: &[Spot],
    found: &[Option<Found>],
    wish: &Wish,
    make: &impl Fn(&[Before<'_>]) -> Result<Vec<Made>, FileError>,
) -> Result<Vec<Made>, FileError> {
    if let (Some(hash), [spot], [before]) = (&wish.if_hash, spots, found) {
        let now = before.as_ref().map(|found| found.sha256.clone());
        if !now.as_ref().is_some_and(|now| now.eq_ignore_ascii_case(hash)) {
            return Err(FileError::Stale { path: spot.shown.clone(), found: now });
        }
    }
    make(&found.iter().map(Option::as_ref).collect::<Vec<_>>())
}

fn differs(before: Option<&Found>, after: &After) -> bool {
    match (before, after) {
        (_, After::Stays) | (None, After::Gone) => false,
        (Some(before), After::Is(after)) => {
            let Look { mode, user, group, .. } = before.look;
            let like = after
                .like
                .as_ref()
                .map_or((mode, Some((user, group))), |like| (like.mode, like.owner));
            let like = (after.mode.unwrap_or(like.0), like.1);
            like != (mode, Some((user, group))) || before.content != after.content
        }
        (None, After::Is(_)) | (Some(_), After::Gone) => true,
    }
}

/// The result of a change, with its diff on request.
fn described(spot: &Spot, before: Option<&Found>, made: &Made, with_diff: bool) -> Changed {
    let (old, new) = (before.map(|found| found.content.as_slice()), made.bytes(before));
    // Paths in a diff start at the top of the root.
    let path = spot.rel.to_string();
    let names = match (old, new) {
        (None, _) => Names::Made(&path),
        (Some(_), None) => Names::Removed(&path),
        (Some(_), Some(_)) => Names::Changed(&path),
    };
    let (old, content) = (old.unwrap_or_default(), new.unwrap_or_default());
    if matches!(made.after, After::Stays) || old == content {
        return plain(spot, before, made);
    }
    let (old, content) = (content::readable(old), content::readable(content));
    let (old, content) = (&*old, &*content);
    let lines = |text: &[u8]| memchr::memchr_iter(b'\n', text).count();
    if lines(old) + lines(content) > MOST_COMPARED {
        let (added, removed) = (lines(content), lines(old));
        return Changed { added, removed, ..plain(spot, before, made) };
    }
    let blocks = diff::compare(old, content);
    let diff = || diff::unified_of(names, &blocks, old, content, AROUND);
    Changed {
        added: blocks.iter().map(|block| block.new.len()).sum(),
        removed: blocks.iter().map(|block| block.old.len()).sum(),
        diff: if with_diff { diff() } else { Vec::new() },
        ..plain(spot, before, made)
    }
}

/// The result without the differences.
fn plain(spot: &Spot, before: Option<&Found>, made: &Made) -> Changed {
    let old = || before.map(|found| found.sha256.clone());
    Changed {
        path: spot.shown.clone(),
        spot: Some(spot.clone()),
        before: old(),
        after: match &made.after {
            After::Stays => old(),
            After::Gone => None,
            After::Is(new) => Some(new.sha256()),
        },
        size: made.bytes(before).map_or(0, |content| content.len() as u64),
        hunks: made.hunks.clone(),
        places: made.places,
        ..Changed::default()
    }
}
