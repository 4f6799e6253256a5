//! Changing files: what a change is, and how it comes about.
//!
//! Under the lock of its names, a change is made of what is there: the files are read, the new contents made, the old ones kept as
//! generations, and all of it carried out or nothing (`record`). Which contents those are is each operation's own.

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

/// Files in one change: more than a person reads, and few enough to hold all of them.
const MOST_FILES: usize = 1000;

/// Lines around each change in the diffs of answers.
const AROUND: usize = 3;

/// Of contents with more lines than this it is not said which of them differ.
const MOST_COMPARED: usize = 2_000_000;

/// What is held in memory of the files of one change that has to be taken back if it is not well.
const MOST_HELD: usize = 64 << 20;

/// What is read of all files of one change.
const MOST_READ: u64 = survey::LARGEST;

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
#[derive(Debug, Clone, Default)]
pub struct Changed {
    pub path: String,
    /// Where it is, whatever its path means by now. Of what only got another name or was deleted, it is not noted.
    pub(crate) spot: Option<Spot>,
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

/// What becomes of a file.
#[derive(Debug, Default)]
enum After {
    /// It is what it was, also if it was nothing.
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

/// What a file will be, and what else there is to say of it.
#[derive(Debug, Default)]
struct Made {
    after: After,
    hunks: Vec<Fitted>,
    places: Option<usize>,
    /// It is part of a move.
    moved: Option<Moved>,
}

impl Made {
    fn content(content: Vec<u8>) -> Made {
        Made { after: After::Is(New::of(content)), ..Made::default() }
    }

    /// What will be there, as bytes.
    fn bytes<'a>(&'a self, before: Before<'a>) -> Option<&'a [u8]> {
        match &self.after {
            After::Stays => before.map(|found| found.content.as_slice()),
            After::Gone => None,
            After::Is(new) => Some(&new.content),
        }
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
            // Only for what will be there.
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

    /// Do something in folders, which are made if they are not there, and go again if it fails; which were made, and for which of them.
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
                // Those that somebody else put something into stay.
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

/// What a daemon that was killed left half done.
pub(crate) fn recover(home: &Home) {
    record::recover(home);
    Backups::of(home).sweep();
}

/// Where each is, and each is another file. One in a folder that is not there may only have been thought of.
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

/// What is there; in a folder that is not there, nothing is.
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

/// What there is to say of a change, and the diff if somebody wants to see it.
fn described(spot: &Spot, before: Option<&Found>, made: &Made, with_diff: bool) -> Changed {
    let (old, new) = (before.map(|found| found.content.as_slice()), made.bytes(before));
    // As a diff that is applied at the top of the root has them.
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

/// All but what differs.
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
