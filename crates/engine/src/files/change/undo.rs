//! Restores an earlier generation, and with it the name that a file had.
//!
//! A generation that ended with a move is a change of two names. It is undone by the reverse rename, so that a
//! second undo moves the file again; if a file was replaced, by a change of both files. If one of the names is
//! not available any more, the other one is still restored. No content is kept for a moved file: it is read
//! from its new path.

use super::backup::{Generation, MovedPath};
use super::move_and_delete::MoveResult;
use super::multi_file::TAKEN_BACK;
use super::{
    ExistingFile, ExpectedState, FileOutcome, FileResult, NewContent, OldContents, PlannedFile,
    Target, described,
};
use crate::error::EngineError;
use crate::files::error::FileError;
use crate::files::{Files, PathInRoot};
use std::path::Path;

/// Maximum number of moves that a content is followed through: the default number of generations.
const MAX_MOVES: usize = 20;

/// A move to be undone.
struct MoveToUndo {
    /// The current path of the file.
    from: PathInRoot,
    /// Its old path.
    to: PathInRoot,
    /// The file that the move replaced.
    replaced: Option<Generation>,
    /// The file at the old path was restored by an earlier undo of this move, and is replaced again.
    onto: bool,
    /// The expected hash of the file.
    if_hash: Option<String>,
}

impl Files {
    /// Restores a generation: this one, or the newest.
    pub async fn undo(
        &self,
        path: String,
        number: Option<u64>,
        wish: ExpectedState,
    ) -> Result<Vec<FileOutcome>, EngineError> {
        let undone = self.work(move |files, stop| {
            let spot = files.find(&path)?;
            if let Some(back) = files.moved(&spot, number, &wish)? {
                return files.move_back(back, wish, stop);
            }
            let spots = [spot];
            files.change(&spots, &wish, stop, |before| {
                let before = before.first().copied().flatten();
                let generation = files.wanted_generation(&spots[0], before, number)?;
                Ok(vec![files.as_it_was(&spots[0], before, &generation)?])
            })
        });
        Ok(undone.await??)
    }

    /// The earlier states of a file, newest first.
    pub async fn history(&self, path: String) -> Result<Vec<Generation>, EngineError> {
        let known = self.work(move |files, _| {
            let spot = files.find(&path)?;
            Ok::<_, FileError>(files.shared.backups.history(&spot.real()))
        });
        Ok(known.await??)
    }

    fn wanted_generation(
        &self,
        spot: &PathInRoot,
        before: OldContents<'_>,
        number: Option<u64>,
    ) -> Result<Generation, FileError> {
        let history = self.shared.backups.history(&spot.real());
        let again = history.first().filter(|_| is_brought_back(&history, before)).cloned();
        // A generation equal to the current state is skipped: a failed change may have kept it. But it may have
        // had another name.
        let other = |it: &Generation| {
            let renamed = match &it.moved {
                Some(MovedPath::From(path)) => before.is_some() && self.is_nothing_at(path),
                Some(MovedPath::To(_)) => again.as_ref() == Some(it),
                None => false,
            };
            renamed || !is_as_then(it, before)
        };
        let is_kept = |it: &Generation| it.by != TAKEN_BACK && other(it);
        let wanted =
            |it: &Generation| number.map_or_else(|| is_kept(it), |number| number == it.number);
        let wanted = history.iter().find(|it| wanted(it)).cloned();
        wanted.ok_or_else(|| FileError::NoGeneration {
            path: spot.shown.clone(),
            number,
            kept: history.iter().map(|it| it.number).collect(),
        })
    }

    fn as_it_was(
        &self,
        spot: &PathInRoot,
        before: OldContents<'_>,
        generation: &Generation,
    ) -> Result<PlannedFile, FileError> {
        let content = self.shared.backups.content(&spot.real(), generation);
        let content = match (content, &generation.file, &generation.moved) {
            (Err(_), Some(was), Some(MovedPath::To(path))) => {
                let lost = || {
                    let why = format!("it was moved to '{path}', and is no longer there");
                    FileError::Lost(why)
                };
                self.followed(path, &was.sha256).ok_or_else(lost)?
            }
            (content, ..) => content?,
        };
        // An existing file keeps its owner; a missing one gets its old owner.
        let new = generation.file.as_ref().map(|was| NewContent {
            content,
            mode: Some(was.mode),
            like: before.is_none().then(|| was.likeness()),
        });
        Ok(PlannedFile { after: new.into(), ..PlannedFile::default() })
    }

    /// The content of a file that was moved to `path`: the file there, a generation there, or where it moved on
    /// to.
    fn followed(&self, path: &str, sha256: &str) -> Option<Vec<u8>> {
        let mut path = path.to_owned();
        for _ in 0..MAX_MOVES {
            let now = self.find(&path).and_then(|spot| self.file_at(&spot));
            if let Some(found) = now.ok().flatten().filter(|found| found.sha256 == sha256) {
                return Some(found.content);
            }
            let mut history = self.shared.backups.history(Path::new(&path));
            history.retain(|it| it.file.as_ref().is_some_and(|was| was.sha256 == sha256));
            let content = |it| self.shared.backups.content(Path::new(&path), it).ok();
            if let Some(content) = history.iter().find_map(content) {
                return Some(content);
            }
            path = history.into_iter().find_map(|it| match it.moved {
                Some(MovedPath::To(next)) => Some(next),
                Some(MovedPath::From(_)) | None => None,
            })?;
        }
        None
    }

    /// The current file; a missing folder contains none.
    fn file_at(&self, spot: &PathInRoot) -> Result<Option<ExistingFile>, FileError> {
        match Target::of(spot, &self.guarded()) {
            Err(FileError::Missing { .. }) => Ok(None),
            target => target?.find(),
        }
    }

    fn is_nothing_at(&self, path: &str) -> bool {
        let spot = self.find(path);
        spot.is_ok_and(|spot| matches!(self.file_at(&spot), Ok(None)))
    }

    /// The move that ended the wanted generation, if it can be undone.
    fn moved(
        &self,
        spot: &PathInRoot,
        number: Option<u64>,
        wish: &ExpectedState,
    ) -> Result<Option<MoveToUndo>, FileError> {
        let now = self.file_at(spot)?;
        let generation = self.wanted_generation(spot, now.as_ref(), number)?;
        match (generation.moved.clone(), &now) {
            (Some(MovedPath::From(path)), Some(now)) => {
                self.back_to_old_name(spot, now, (&path, generation), number, wish)
            }
            (Some(MovedPath::To(path)), _) => {
                let back = self.back_from_new_name(spot, now.as_ref(), (&path, &generation));
                let found = now.map(|found| found.sha256);
                match (&wish.if_hash, &found, back.is_some()) {
                    (Some(hash), Some(now), true) if hash.eq_ignore_ascii_case(now) => Ok(back),
                    (Some(_), _, true) => Err(FileError::Stale { path: spot.shown.clone(), found }),
                    (None, _, true) | (_, _, false) => Ok(back),
                }
            }
            (Some(MovedPath::From(_)), None) | (None, _) => Ok(None),
        }
    }

    /// The file was moved here: it is moved back, if it is unchanged. If its old name is not available, the
    /// replaced file is restored alone.
    fn back_to_old_name(
        &self,
        spot: &PathInRoot,
        now: &ExistingFile,
        (path, generation): (&str, Generation),
        number: Option<u64>,
        wish: &ExpectedState,
    ) -> Result<Option<MoveToUndo>, FileError> {
        let history = self.shared.backups.history(&spot.real());
        // The last time this name got another file; failed moves from here do not count.
        let got = history.iter().find(|it| match &it.moved {
            Some(MovedPath::To(_)) => !is_as_then(it, Some(now)),
            Some(MovedPath::From(_)) => true,
            None => it.file.is_none(),
        });
        // The moved file is the state of the next generation; it may have moved on and come back.
        let came = history.iter().take_while(|it| it.number > generation.number).last();
        let is_still = got.is_none_or(|got| got.moved == generation.moved)
            || came.is_some_and(|came| is_as_then(came, Some(now)));
        if !is_still {
            return Ok(None);
        }
        let without = number.is_some() || generation.file.is_some();
        match self.find(path).and_then(|to| self.is_taken(&to, spot).map(|it| (to, it))) {
            Ok((to, onto)) => Ok(Some(MoveToUndo {
                from: spot.clone(),
                to,
                replaced: Some(generation),
                onto,
                if_hash: wish.if_hash.clone(),
            })),
            Err(error @ FileError::Occupied { .. }) if number.is_none() => Err(error),
            Err(_) if without => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the file at `to` was restored by an earlier undo of this move. Any other file stays.
    fn is_taken(&self, to: &PathInRoot, from: &PathInRoot) -> Result<bool, FileError> {
        let target = match Target::of(to, &self.guarded()) {
            Err(FileError::Missing { .. }) => return Ok(false),
            target => target?,
        };
        if target.place.look().map_err(to.at())?.is_none() {
            return Ok(false);
        }
        let history = self.shared.backups.history(&to.real());
        let led_here = history.first().is_some_and(
            |it| matches!(&it.moved, Some(MovedPath::To(path)) if Path::new(path) == from.real()),
        );
        match led_here && is_brought_back(&history, target.find().ok().flatten().as_ref()) {
            true => Ok(true),
            false => Err(FileError::Occupied { path: to.shown.clone() }),
        }
    }

    /// The file was moved away: it is moved back, if it is unchanged. A changed file stays, and the old content
    /// is restored without it.
    fn back_from_new_name(
        &self,
        spot: &PathInRoot,
        now: OldContents<'_>,
        (path, generation): (&str, &Generation),
    ) -> Option<MoveToUndo> {
        let from = self.find(path).ok()?;
        let found = self.file_at(&from).ok()??;
        if generation.file.as_ref().is_none_or(|was| was.sha256 != found.sha256) {
            return None;
        }
        let history = self.shared.backups.history(&spot.real());
        if now.is_some() && !(history.first() == Some(generation) && is_brought_back(&history, now))
        {
            return None;
        }
        let own = MovedPath::From(spot.real().into_os_string().into_string().ok()?);
        let mut history = self.shared.backups.history(&from.real()).into_iter();
        let replaced = history.find(|it| it.moved.as_ref() == Some(&own));
        Some(MoveToUndo { from, to: spot.clone(), replaced, onto: now.is_some(), if_hash: None })
    }

    fn move_back(
        &self,
        back: MoveToUndo,
        wish: ExpectedState,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<FileOutcome>, FileError> {
        let MoveToUndo { from, to, replaced, onto, if_hash } = &back;
        let wish = &ExpectedState { if_hash: if_hash.clone(), ..wish };
        let Some(was) = replaced.as_ref().filter(|was| was.file.is_some()) else {
            return self.rename_back(from, to, *onto, wish, stop);
        };
        let path = |spot: &PathInRoot| spot.real().into_os_string().into_string().ok();
        self.change(&[to.clone(), from.clone()], wish, stop, |before| {
            let &[there, found] = before else { return Ok(Vec::new()) };
            if there.is_some() && !onto {
                return Err(FileError::Occupied { path: to.shown.clone() });
            }
            let found = found.ok_or_else(|| FileError::Missing { path: from.shown.clone() })?;
            let other = |hash: &String| !hash.eq_ignore_ascii_case(&found.sha256);
            if wish.if_hash.as_ref().is_some_and(other) {
                let now = Some(found.sha256.clone());
                return Err(FileError::Stale { path: from.shown.clone(), found: now });
            }
            let unlike = |fault| FileError::NotAlike { path: from.shown.clone(), fault };
            let like = Some(found.likeness().map_err(unlike)?);
            let new = NewContent { content: found.content.clone(), mode: None, like };
            let moved = path(from).map(MovedPath::From);
            let moved = PlannedFile { after: FileResult::Is(new), moved, ..PlannedFile::default() };
            let left = self.as_it_was(from, None, was)?;
            Ok(vec![moved, PlannedFile { moved: path(to).map(MovedPath::To), ..left }])
        })
    }

    /// Renames back; nothing is restored at the current path of the file.
    fn rename_back(
        &self,
        from: &PathInRoot,
        to: &PathInRoot,
        onto: bool,
        wish: &ExpectedState,
        stop: &dyn Fn() -> bool,
    ) -> Result<Vec<FileOutcome>, FileError> {
        let MoveResult { found, there, generations, .. } =
            self.rename_now(from, to, onto, wish, stop)?;
        let Some(found) = found else { return Ok(Vec::new()) };
        let gone = PlannedFile { after: FileResult::Gone, ..PlannedFile::default() };
        let old = described(from, Some(&found), &gone, wish.dry_run);
        let new = described(to, there.as_ref(), &PlannedFile::content(found.content), wish.dry_run);
        Ok(vec![
            FileOutcome { generation: generations.1, ..new },
            FileOutcome { generation: generations.0, ..old },
        ])
    }
}

/// Returns true if the file equals its state in this generation.
fn is_as_then(generation: &Generation, now: OldContents<'_>) -> bool {
    let then = generation.file.as_ref().map(|was| (was.sha256.as_str(), was.mode));
    then == now.map(|found| (found.sha256.as_str(), found.look.mode))
}

/// Returns true if this file was replaced by a move, and restored when that move was undone.
fn is_brought_back(history: &[Generation], now: OldContents<'_>) -> bool {
    let [left, came, ..] = history else { return false };
    matches!((&left.moved, &came.moved), (Some(MovedPath::To(one)), Some(MovedPath::From(other))) if one == other)
        && now.is_some()
        && is_as_then(came, now)
}
