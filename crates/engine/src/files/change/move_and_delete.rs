//! Moves, deletes and creates names of files and folders. Each is one system call, so nothing needs to be
//! recorded.
//!
//! A moved file gets a generation under both names: the old state, and where the file went or came from
//! (`undo`).

use super::backup::{BackupInProgress, MovedPath};
use super::target::{self, ExistingFile, Target};
use super::{ExpectedState, FileOutcome, FileResult, PlannedFile, described};
use crate::error::EngineError;
use crate::files::error::FileError;
use crate::files::{Files, PathInRoot};
use proctor_sys::beneath::{EntryInfo, Kind, OverwriteMode, PathError};
use std::io;

/// The path of `from`'s name inside `folder`.
fn inside(folder: &PathInRoot, from: &PathInRoot) -> Result<PathInRoot, FileError> {
    let name = from.rel.split().map(|(_, name)| name.to_owned()).unwrap_or_default();
    Ok(folder.sibling(folder.rel.join(&name).map_err(folder.at())?))
}

impl Files {
    /// Moves a file or a folder. An existing target is replaced only if it is a file and the request says so.
    pub async fn rename(
        &self,
        path: String,
        to: String,
        replace: bool,
        wish: ExpectedState,
    ) -> Result<FileOutcome, EngineError> {
        let moved = self.work(move |files, stop| {
            let from = files.find(&path)?;
            let to = match to.ends_with('/') {
                true => inside(&files.find(&to)?, &from)?,
                false => files.find(&to)?,
            };
            files.rename_now(&from, &to, replace, &wish, stop)
        });
        let MoveResult { path, found, generations, .. } = moved.await??;
        Ok(FileOutcome {
            path,
            after: found.as_ref().map(|found| found.sha256.clone()),
            size: found.as_ref().map_or(0, |found| found.content.len() as u64),
            generation: generations.1,
            ..FileOutcome::default()
        })
    }

    /// Moves now; creates missing folders above the new name.
    pub(super) fn rename_now(
        &self,
        from: &PathInRoot,
        to: &PathInRoot,
        replace: bool,
        wish: &ExpectedState,
        stop: &dyn Fn() -> bool,
    ) -> Result<MoveResult, FileError> {
        let rename = || self.rename_there(from, to, replace, wish, stop);
        let folder = match (Target::of(to, &self.guarded()), to.rel.split()) {
            (Err(FileError::Missing { .. }), Some((folder, _))) => folder,
            _ => return rename(),
        };
        let found = self.wanted(&Target::of(from, &self.guarded())?, wish)?;
        refuse_inside(from, found.as_ref(), to)?;
        if wish.dry_run {
            let (path, generations) = (to.shown.clone(), (None, None));
            return Ok(MoveResult { path, found, there: None, generations });
        }
        drop(found);
        Ok(self.in_folders(&[(to, &folder)], rename)?.0)
    }

    fn rename_there(
        &self,
        from: &PathInRoot,
        to: &PathInRoot,
        replace: bool,
        wish: &ExpectedState,
        stop: &dyn Fn() -> bool,
    ) -> Result<MoveResult, FileError> {
        let guarded = self.guarded();
        let (from, to) = (Target::of(from, &guarded)?, Target::of(to, &guarded)?);
        let _held = self.shared.locks.hold([from.key(), to.key()], stop)?;
        let found = self.wanted(&from, wish)?;
        refuse_inside(&from.spot, found.as_ref(), &to.spot)?;
        let disk = |target: &Target| target.place.folder().id().device;
        if disk(&from) != disk(&to) {
            return Err(FileError::OtherDisk { path: from.spot.shown, to: to.spot.shown });
        }
        let itself = from.key() == to.key();
        let (onto, there) = match to.place.look().map_err(to.spot.at())? {
            Some(look) if look.kind == Kind::Folder && !itself => {
                let inside = inside(&to.spot, &from.spot)?.shown;
                return Err(FileError::FolderThere { path: to.spot.shown, inside });
            }
            Some(_) if !replace => return Err(FileError::Occupied { path: to.spot.shown }),
            Some(_) if itself => (OverwriteMode::Anything, None),
            Some(_) => (OverwriteMode::Anything, to.find()?),
            None => (OverwriteMode::Nothing, None),
        };
        let mut generations = (None, None);
        if !wish.dry_run {
            let mut running = BackupInProgress::default();
            let kept = match itself {
                true => Ok((None, None)),
                false => self.keep_moved((&from, &found), (&to, &there), wish, &mut running),
            };
            let moved = kept.and_then(|kept| {
                give_name((&from, found.as_ref()), (&to, there.as_ref()), onto).map(|()| kept)
            });
            generations = moved.inspect_err(|_| self.shared.backups.forget(&running))?;
            self.synced(&[&from, &to])?;
        }
        Ok(MoveResult { path: to.spot.shown, found, there, generations })
    }

    /// Keeps the old state of both names, each with the other path of the move. Folders and links are not kept.
    fn keep_moved(
        &self,
        (from, found): (&Target, &Option<ExistingFile>),
        (to, there): (&Target, &Option<ExistingFile>),
        wish: &ExpectedState,
        running: &mut BackupInProgress,
    ) -> Result<(Option<u64>, Option<u64>), FileError> {
        let path = |target: &Target| target.spot.real().into_os_string().into_string().ok();
        let mut keep = |target: &Target, found: &Option<ExistingFile>, moved: Option<MovedPath>| {
            self.keep_for(target, found.as_ref(), moved, wish, running)
        };
        let kept = match (found, there) {
            (Some(_), _) => (
                keep(from, found, path(to).map(MovedPath::To))?,
                keep(to, there, path(from).map(MovedPath::From))?,
            ),
            (None, Some(_)) => (None, keep(to, there, None)?),
            (None, None) => (None, None),
        };
        running.settle()?;
        Ok(kept)
    }

    /// Deletes a file, a link itself, or an empty folder.
    pub async fn delete(
        &self,
        path: String,
        wish: ExpectedState,
    ) -> Result<FileOutcome, EngineError> {
        let gone = self.work(move |files, stop| files.delete_now(&path, &wish, stop));
        Ok(gone.await??)
    }

    fn delete_now(
        &self,
        path: &str,
        wish: &ExpectedState,
        stop: &dyn Fn() -> bool,
    ) -> Result<FileOutcome, FileError> {
        let target = Target::of(&self.find(path)?, &self.guarded())?;
        let _held = self.shared.locks.hold([target.key()], stop)?;
        let (look, at) = (self.there(&target)?, target.spot.at());
        let before = self.wanted(&target, wish)?;
        let gone = PlannedFile { after: FileResult::Gone, ..PlannedFile::default() };
        let mut changed = described(&target.spot, before.as_ref(), &gone, wish.dry_run);
        let not_empty = || FileError::NotEmpty { path: target.spot.shown.clone() };
        if wish.dry_run {
            let inside = target.place.folder().child(target.place.name());
            let inside = inside.and_then(|folder| folder.entries()).unwrap_or_default();
            return if inside.is_empty() { Ok(changed) } else { Err(not_empty()) };
        }
        if look.kind == Kind::Folder {
            target.place.remove_folder().map_err(|fault| {
                match fault.is(io::ErrorKind::DirectoryNotEmpty) {
                    true => not_empty(),
                    false => at(fault),
                }
            })?;
        } else {
            if let Some(found) = &before {
                let mut running = BackupInProgress::default();
                changed.generation =
                    self.keep_for(&target, Some(found), None, wish, &mut running)?;
                running.settle()?;
                if !target.is_still(Some(found))? {
                    return Err(FileError::Changed { path: changed.path });
                }
            }
            target.place.remove().map_err(at)?;
        }
        self.synced(&[&target])?;
        Ok(changed)
    }

    /// Creates a folder and those above it; true if it did not exist.
    pub async fn make_folder(&self, path: String) -> Result<(String, bool), EngineError> {
        let made = self.work(move |files, _| {
            let spot = files.find(&path)?;
            let mut made = Vec::new();
            target::make_folders(&spot, &spot.rel, &files.guarded(), &mut made)?;
            Ok::<_, FileError>((spot.shown, !made.is_empty()))
        });
        Ok(made.await??)
    }

    /// Returns true if [`Files::make_folder`] would create a folder; fails where that would fail.
    pub async fn look_for_folder(&self, path: String) -> Result<(String, bool), EngineError> {
        let looked = self.work(move |files, _| {
            let spot = files.find(&path)?;
            let missing = target::missing_folders(&*target::writable(&spot)?, &spot.rel);
            let missing = missing.map_err(spot.at())?;
            if spot.rel.is_root() {
                return Ok((spot.shown, false));
            }
            // Everything above the first missing folder exists; nothing below it does.
            let rel = missing.first().unwrap_or(&spot.rel).clone();
            let first = Target::of(&PathInRoot { rel, ..spot.clone() }, &files.guarded())?;
            match first.place.look().map_err(spot.at())?.map(|look| look.kind) {
                None | Some(Kind::Folder) => Ok((spot.shown, !missing.is_empty())),
                Some(Kind::Link) => Err(spot.at()(PathError::Link)),
                Some(_) => Err(FileError::Occupied { path: spot.shown }),
            }
        });
        Ok(looked.await??)
    }

    /// The existing entry. Fails for folders that contain Proctor's own files or a read-only root.
    fn there(&self, target: &Target) -> Result<EntryInfo, FileError> {
        let missing = || FileError::Missing { path: target.spot.shown.clone() };
        let look = target.place.look().map_err(target.spot.at())?.ok_or_else(missing)?;
        let whose = match look.kind {
            Kind::Folder if target::holds_proctor(&self.shared.home, look.id) => {
                "a folder around Proctor's own files"
            }
            Kind::Folder if self.guarded().holds_read_only(look.id) => {
                "a folder around a read-only root"
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

    /// The existing file, if it is a regular file with the expected hash.
    fn wanted(
        &self,
        target: &Target,
        wish: &ExpectedState,
    ) -> Result<Option<ExistingFile>, FileError> {
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

    /// Keeps the current state as part of a change.
    pub(super) fn keep_for(
        &self,
        target: &Target,
        found: Option<&ExistingFile>,
        moved: Option<MovedPath>,
        wish: &ExpectedState,
        running: &mut BackupInProgress,
    ) -> Result<Option<u64>, FileError> {
        let bounds = self.shared.registry.backups();
        self.shared.backups.keep(&target.spot, found, wish.by, moved, bounds, running)
    }

    fn synced(&self, targets: &[&Target]) -> Result<(), FileError> {
        let sync = |target: &&Target| {
            target.place.folder().sync().map_err(|error| target.spot.at()(error.into()))
        };
        targets.iter().try_for_each(sync)
    }
}

/// The result of a move.
#[derive(Debug)]
pub(super) struct MoveResult {
    /// The new path, as shown in responses.
    path: String,
    /// The moved file, if it is a regular file.
    pub(super) found: Option<ExistingFile>,
    /// The file that it replaced.
    pub(super) there: Option<ExistingFile>,
    /// The generations of the old name and of the new name.
    pub(super) generations: (Option<u64>, Option<u64>),
}

/// Rejects moving a folder below itself.
fn refuse_inside(
    from: &PathInRoot,
    file: Option<&ExistingFile>,
    to: &PathInRoot,
) -> Result<(), FileError> {
    let inside = file.is_none() && from.real() != to.real() && to.real().starts_with(from.real());
    match inside {
        true => Err(FileError::BadInput(format!(
            "cannot move '{}' into itself, to '{}'",
            from.shown, to.shown
        ))),
        false => Ok(()),
    }
}

/// Renames one to the other, if both are still as they were found.
pub(super) fn give_name(
    (from, before): (&Target, Option<&ExistingFile>),
    (to, there): (&Target, Option<&ExistingFile>),
    onto: OverwriteMode,
) -> Result<(), FileError> {
    for (target, found) in [(from, before), (to, there)] {
        if found.is_some() && !target.is_still(found)? {
            return Err(FileError::Changed { path: target.spot.shown.clone() });
        }
    }
    let same = matches!((before, there), (Some(one), Some(other)) if one.look.id == other.look.id);
    if same && from.key() != to.key() {
        // Two names of one file: rename(2) would do nothing.
        return from.place.remove().map_err(from.spot.at());
    }
    from.place.rename(&to.place, onto).map_err(|fault| {
        let (path, to_path) = (from.spot.shown.clone(), to.spot.shown.clone());
        if fault.is(io::ErrorKind::CrossesDevices) {
            FileError::OtherDisk { path, to: to_path }
        } else {
            to.spot.at()(fault)
        }
    })
}
