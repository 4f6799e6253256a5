//! Changing files: what a change is, and how it comes about.
//!
//! Under the lock of its names, a change is made of what is there: the files are read, the new contents made, the old ones kept as
//! generations, and all of it carried out or nothing (`record`). Which contents those are is each operation's own.

mod backup;
mod locks;
mod names;
mod patch;
mod record;
mod replace;
mod several;
mod target;
mod write;

#[cfg(test)]
mod tests;

pub(crate) use backup::Backups;
use backup::Running;
pub use backup::{Generation, WasFile};
pub(crate) use locks::Locks;
pub use patch::DiffQuery;
pub use replace::Replacement;
pub use write::Written;

use super::Files;
use super::fault::FileError;
use super::roots::Spot;
use super::survey;
use proctor_core::diff::{self, Fitted, Names};
use proctor_core::home::Home;
use proctor_sys::beneath::{Likeness, Look, Rel};
use std::sync::Arc;
use target::{Found, Target};

/// Files in one change: more than a person reads, and few enough to hold all of them.
const MOST_FILES: usize = 1000;

/// Lines around each change in the diffs of answers.
const AROUND: usize = 3;

/// Of contents with more lines than this it is not said which of them differ.
const MOST_COMPARED: usize = 2_000_000;

/// What is held in memory of the files of one change that has to be taken back if it is not well.
const MOST_HELD: usize = 64 << 20;

/// What all changes have in common.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Only if the file still has this hash.
    pub if_hash: Option<String>,
    /// Say what would be changed, and change nothing.
    pub dry_run: bool,
    /// The operation, for the history.
    pub by: &'static str,
    /// Hold what was there, so that it can be taken back whatever becomes of the generations.
    pub hold: bool,
}

/// What became of one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changed {
    pub path: String,
    /// Hashes; `None`: there is no file.
    pub before: Option<String>,
    pub after: Option<String>,
    /// Bytes after.
    pub size: u64,
    /// What was there before has this number.
    pub generation: Option<u64>,
    /// Lines.
    pub added: usize,
    pub removed: usize,
    /// What would differ, as a unified diff, in a dry run.
    pub diff: Vec<u8>,
    /// Where hunks of a diff fit, or an edit was made: first lines.
    pub hunks: Vec<Fitted>,
    /// Places that were replaced.
    pub places: Option<usize>,
    /// What was there and what it was like, if that was to be held.
    pub(crate) held: Option<Arc<(Vec<u8>, Likeness)>>,
    /// Folders that were made for it, the deepest last.
    pub(crate) folders: Vec<Rel>,
}

impl Changed {
    /// Is there something else than before?
    pub fn differs(&self) -> bool {
        self.before != self.after
    }
}

/// A new content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct New {
    pub(crate) content: Vec<u8>,
    /// Permissions, if not those of before.
    pub(crate) mode: Option<u32>,
    /// What it is to be like, if not like the file that is there.
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

/// What a file will be, and what else there is to say of it.
#[derive(Debug, Default)]
struct Made {
    new: Option<New>,
    hunks: Vec<Fitted>,
    places: Option<usize>,
}

impl Made {
    fn content(content: Vec<u8>) -> Made {
        Made { new: Some(New::of(content)), ..Made::default() }
    }
}

/// What was there, for whoever makes new contents of it.
type Before<'a> = Option<&'a Found>;

impl Files {
    /// Change these files as `make` says, which gets what is there, in the order of `spots`.
    fn change(
        &self,
        spots: &[Spot],
        wish: &Wish,
        stop: &dyn Fn() -> bool,
        make: impl Fn(&[Before<'_>]) -> Result<Vec<Made>, FileError>,
    ) -> Result<Vec<Changed>, FileError> {
        let guarded = self.guarded();
        let (mut folders, mut needed) = (Vec::new(), Vec::new());
        if wish.dry_run || spots.iter().any(|spot| is_missing(&Target::of(spot, &guarded))) {
            let found = spots.iter().map(|spot| looked(Target::of(spot, &guarded)));
            let found = found.collect::<Result<Vec<_>, _>>()?;
            let planned = planned(spots, &found, wish, &make)?;
            if wish.dry_run {
                let each = spots.iter().zip(&found).zip(&planned);
                let shown =
                    each.map(|((spot, before), made)| described(spot, before.as_ref(), made, true));
                return Ok(shown.collect());
            }
            // Only for what will be there.
            for (number, (spot, made)) in spots.iter().zip(&planned).enumerate() {
                if let (Some(_), Some((folder, _))) = (&made.new, spot.rel.split()) {
                    needed.push((number, spot, folder));
                }
            }
        }
        let ahead = needed.iter().map(|(_, spot, folder)| (*spot, folder));
        let _announced = record::announce(&self.shared.home, ahead)?;
        let made = needed.into_iter().try_for_each(|(number, spot, folder)| {
            let mut made = Vec::new();
            let done = target::make_folders(spot, &folder, &guarded, &mut made);
            folders.extend(made.into_iter().map(|(place, rel)| (number, place, rel)));
            done
        });
        let mut done = made.and_then(|()| self.change_under_lock(spots, wish, stop, &make));
        match &mut done {
            Ok(changes) => {
                folders.into_iter().for_each(|(number, _, rel)| changes[number].folders.push(rel))
            }
            // Those that somebody else put something into stay.
            Err(_) => folders.iter().rev().for_each(|(_, place, _)| drop(place.remove_folder())),
        }
        done
    }

    fn change_under_lock(
        &self,
        spots: &[Spot],
        wish: &Wish,
        stop: &dyn Fn() -> bool,
        make: &impl Fn(&[Before<'_>]) -> Result<Vec<Made>, FileError>,
    ) -> Result<Vec<Changed>, FileError> {
        let guarded = self.guarded();
        // One in a folder that is not there may only have been thought of.
        let target = |spot: &Spot| match Target::of(spot, &guarded) {
            Err(FileError::Missing { .. }) => Ok(None),
            target => target.map(Some),
        };
        let targets = spots.iter().map(target).collect::<Result<Vec<_>, _>>()?;
        let _held = self.shared.locks.hold(targets.iter().flatten().map(Target::key), stop)?;
        let find = |target: &Option<Target>| target.as_ref().map_or(Ok(None), Target::find);
        let found = targets.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        let planned = planned(spots, &found, wish, make)?;
        let (mut steps, mut changes, mut held) = (Vec::new(), Vec::new(), 0);
        let (each, mut running) = (targets.into_iter().zip(found).zip(planned), Running::default());
        for (spot, ((target, before), made)) in spots.iter().zip(each) {
            let mut changed = described(spot, before.as_ref(), &made, false);
            if differs(before.as_ref(), made.new.as_ref()) {
                let target = target.ok_or(FileError::Missing { path: changed.path.clone() })?;
                changed.generation = self.keep_for(&target, before.as_ref(), wish, &mut running)?;
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
                steps.push(Step { target, before, after: made.new });
            }
            changes.push(changed);
        }
        if stop() {
            return Err(FileError::Cancelled);
        }
        if !steps.is_empty() {
            record::carry_out(&self.shared.home, &steps, running.unsynced)?;
        }
        Ok(changes)
    }
}

/// What a daemon that was killed left half done.
pub(crate) fn recover(home: &Home) {
    record::recover(home);
    Backups::of(home).sweep();
}

fn is_missing<T>(result: &Result<T, FileError>) -> bool {
    matches!(result, Err(FileError::Missing { .. }))
}

/// What is there; in a folder that is not there, nothing is.
fn looked(target: Result<Target, FileError>) -> Result<Option<Found>, FileError> {
    if is_missing(&target) { Ok(None) } else { target?.find() }
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

fn differs(before: Option<&Found>, after: Option<&New>) -> bool {
    match (before, after) {
        (None, None) => false,
        (Some(before), Some(after)) => {
            let Look { mode, user, group, .. } = before.look;
            let like = after
                .like
                .as_ref()
                .map_or((mode, Some((user, group))), |like| (like.mode, like.owner));
            let like = (after.mode.unwrap_or(like.0), like.1);
            like != (mode, Some((user, group))) || before.content != after.content
        }
        (None, Some(_)) | (Some(_), None) => true,
    }
}

/// What there is to say of a change, and the diff if somebody wants to see it.
fn described(spot: &Spot, before: Option<&Found>, made: &Made, with_diff: bool) -> Changed {
    let (old, new) =
        (before.map(|found| &found.content), made.new.as_ref().map(|new| &new.content));
    let names = match (old, new) {
        (None, _) => Names::Made(&spot.shown),
        (Some(_), None) => Names::Removed(&spot.shown),
        (Some(_), Some(_)) => Names::Changed(&spot.shown),
    };
    let (old, empty) = (old.map_or(&[][..], Vec::as_slice), Vec::new());
    let content = new.unwrap_or(&empty);
    if old == content {
        return plain(spot, before, made);
    }
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

/// All but what differs.
fn plain(spot: &Spot, before: Option<&Found>, made: &Made) -> Changed {
    Changed {
        path: spot.shown.clone(),
        before: before.map(|found| found.sha256.clone()),
        after: made.new.as_ref().map(New::sha256),
        size: made.new.as_ref().map_or(0, |new| new.content.len() as u64),
        hunks: made.hunks.clone(),
        places: made.places,
        ..Changed::default()
    }
}
