//! Names of files and folders: moved, deleted, made. Each is one call of the kernel's, so nothing needs to be recorded.

use super::backup::Running;
use super::target::{self, Found, Target};
use super::{Changed, Wish};
use crate::error::EngineError;
use crate::files::fault::FileError;
use crate::files::{Files, Spot};
use proctor_sys::beneath::{Kind, Look, Onto};
use std::io;

impl Files {
    /// Give a file or a folder another path. What is there is replaced only if it is a file and that was asked for.
    pub async fn rename(
        &self,
        path: String,
        to: String,
        replace: bool,
        wish: Wish,
    ) -> Result<Changed, EngineError> {
        let moved =
            self.work(move |files, stop| files.rename_now(&path, &to, replace, &wish, stop));
        Ok(moved.await??)
    }

    fn rename_now(
        &self,
        path: &str,
        to: &str,
        replace: bool,
        wish: &Wish,
        stop: &dyn Fn() -> bool,
    ) -> Result<Changed, FileError> {
        let (roots, guarded) = (self.roots(), self.guarded());
        let from = Target::of(&roots.find(path)?, &guarded)?;
        let to = Target::of(&roots.find(to)?, &guarded)?;
        let _held = self.shared.locks.hold([from.key(), to.key()], stop)?;
        let before = self.wanted(&from, wish)?;
        let (mut there, mut generation) = (None, None);
        let onto = match to.place.look().map_err(to.spot.at())? {
            Some(_) if !replace => return Err(FileError::Occupied { path: to.spot.shown }),
            Some(_) if from.key() == to.key() => Onto::Anything,
            Some(_) => {
                there = to.find()?;
                generation = self.keep(&to, there.as_ref(), wish)?;
                Onto::Anything
            }
            None => Onto::Nothing,
        };
        let changed = Changed {
            path: to.spot.shown.clone(),
            after: before.as_ref().map(|found| found.sha256.clone()),
            size: before.as_ref().map_or(0, |found| found.content.len() as u64),
            generation,
            ..Changed::default()
        };
        if wish.dry_run {
            return Ok(changed);
        }
        give_name((&from, before.as_ref()), (&to, there.as_ref()), onto)?;
        self.synced(&[&from, &to])?;
        Ok(changed)
    }

    /// Remove a file, a link itself, or a folder that is empty.
    pub async fn delete(&self, path: String, wish: Wish) -> Result<Changed, EngineError> {
        let gone = self.work(move |files, stop| files.delete_now(&path, &wish, stop));
        Ok(gone.await??)
    }

    fn delete_now(
        &self,
        path: &str,
        wish: &Wish,
        stop: &dyn Fn() -> bool,
    ) -> Result<Changed, FileError> {
        let target = Target::of(&self.roots().find(path)?, &self.guarded())?;
        let _held = self.shared.locks.hold([target.key()], stop)?;
        let (look, at) = (self.there(&target)?, target.spot.at());
        let before = self.wanted(&target, wish)?;
        let mut changed = Changed {
            path: target.spot.shown.clone(),
            before: before.as_ref().map(|found| found.sha256.clone()),
            ..Changed::default()
        };
        if wish.dry_run {
            return Ok(changed);
        }
        if look.kind == Kind::Folder {
            target.place.remove_folder().map_err(|fault| {
                match fault.is(io::ErrorKind::DirectoryNotEmpty) {
                    true => FileError::NotEmpty { path: target.spot.shown.clone() },
                    false => at(fault),
                }
            })?;
        } else {
            if let Some(found) = &before {
                changed.generation = self.keep(&target, Some(found), wish)?;
                if !target.is_still(Some(found))? {
                    return Err(FileError::Changed { path: changed.path });
                }
            }
            target.place.remove().map_err(at)?;
        }
        self.synced(&[&target])?;
        Ok(changed)
    }

    /// Make a folder and those above it; true if it was not there.
    pub async fn make_folder(&self, path: String) -> Result<(String, bool), EngineError> {
        let made = self.work(move |files, _| {
            let spot = files.roots().find(&path)?;
            let mut made = Vec::new();
            target::make_folders(&spot, &spot.rel, &files.guarded(), &mut made)?;
            Ok::<_, FileError>((spot.shown, !made.is_empty()))
        });
        Ok(made.await??)
    }

    /// What is there: anything but folders that hold Proctor's own, or a root that is read only.
    fn there(&self, target: &Target) -> Result<Look, FileError> {
        let missing = || FileError::Missing { path: target.spot.shown.clone() };
        let look = target.place.look().map_err(target.spot.at())?.ok_or_else(missing)?;
        let whose = match look.kind {
            Kind::Folder if target::holds_proctor(&self.shared.home, look.id) => {
                "around Proctor's own"
            }
            Kind::Folder if self.guarded().holds_read_only(look.id) => {
                "around a root that is read only"
            }
            Kind::File
            | Kind::Folder
            | Kind::Link
            | Kind::Pipe
            | Kind::Socket
            | Kind::Device
            | Kind::Other => return Ok(look),
        };
        Err(FileError::Guarded { path: target.spot.shown.clone(), whose })
    }

    /// The file that is there, if it is a file, and the one that was seen.
    fn wanted(&self, target: &Target, wish: &Wish) -> Result<Option<Found>, FileError> {
        let look = self.there(target)?;
        let found = if look.kind == Kind::File { target.find()? } else { None };
        let now = found.as_ref().map(|found| found.sha256.clone());
        match &wish.if_hash {
            Some(hash) if !now.as_ref().is_some_and(|now| now.eq_ignore_ascii_case(hash)) => {
                Err(FileError::Stale { path: target.spot.shown.clone(), found: now })
            }
            Some(_) | None => Ok(found),
        }
    }

    fn keep(
        &self,
        target: &Target,
        found: Option<&Found>,
        wish: &Wish,
    ) -> Result<Option<u64>, FileError> {
        if wish.dry_run {
            return Ok(None);
        }
        let mut running = Running::default();
        let number = self.keep_for(target, found, wish, &mut running)?;
        running.settle()?;
        Ok(number)
    }

    /// Keep what is there as part of a change.
    pub(super) fn keep_for(
        &self,
        target: &Target,
        found: Option<&Found>,
        wish: &Wish,
        running: &mut Running,
    ) -> Result<Option<u64>, FileError> {
        let (spot, bounds) = (self.kept_as(&target.spot), self.shared.registry.backups());
        self.shared.backups.keep(&spot, found, wish.by, bounds, running)
    }

    /// What the generations of a file are kept as, whichever of its roots was named.
    pub(super) fn kept_as(&self, spot: &Spot) -> Spot {
        self.roots().innermost(spot)
    }

    fn synced(&self, targets: &[&Target]) -> Result<(), FileError> {
        let sync = |target: &&Target| {
            target.place.folder().sync().map_err(|error| target.spot.at()(error.into()))
        };
        targets.iter().try_for_each(sync)
    }
}

/// The one gets the name of the other, if both are still what was found.
pub(super) fn give_name(
    (from, before): (&Target, Option<&Found>),
    (to, there): (&Target, Option<&Found>),
    onto: Onto,
) -> Result<(), FileError> {
    for (target, found) in [(from, before), (to, there)] {
        if found.is_some() && !target.is_still(found)? {
            return Err(FileError::Changed { path: target.spot.shown.clone() });
        }
    }
    let same = matches!((before, there), (Some(one), Some(other)) if one.look.id == other.look.id);
    if same && from.key() != to.key() {
        // Two names of one file: to the kernel there is nothing to be done.
        return from.place.remove().map_err(from.spot.at());
    }
    from.place.rename(&to.place, onto).map_err(|fault| {
        match fault.is(io::ErrorKind::CrossesDevices) {
            true => {
                FileError::OtherDisk { path: from.spot.shown.clone(), to: to.spot.shown.clone() }
            }
            false => to.spot.at()(fault),
        }
    })
}
