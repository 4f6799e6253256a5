//! Edits several files, all or none; and reverts a change as a whole.

use super::write::as_text;
use super::{ExpectedState, FileOutcome, MAX_FILES, NewContent, PlannedFile, Target};
use crate::error::EngineError;
use crate::files::error::FileError;
use crate::files::{Files, PathInRoot};
use proctor_core::edit::{self, Edit};

/// The operation named in the history for a reverted change. Undo skips the state that it removed.
pub(super) const TAKEN_BACK: &str = "change.check taken back";

impl Files {
    /// Exact-text edits of several files. A file to be created has one edit whose old text is empty.
    pub async fn edit_several(
        &self,
        edits: Vec<(String, Vec<Edit>)>,
        wish: ExpectedState,
    ) -> Result<Vec<FileOutcome>, EngineError> {
        let changed = self.work(move |files, stop| {
            if edits.len() > MAX_FILES {
                let why = format!("more than {MAX_FILES} files in one change");
                return Err(FileError::BadInput(why));
            }
            let spots = edits.iter().map(|(path, _)| files.find(path));
            let spots = spots.collect::<Result<Vec<_>, _>>()?;
            files.change(&spots, &wish, stop, |before| {
                let each = spots.iter().zip(&edits).zip(before);
                each.map(|((spot, (_, edits)), before)| {
                    if stop() {
                        return Err(FileError::Cancelled);
                    }
                    let made = matches!(&edits[..], [only] if only.old.is_empty());
                    let content = match before {
                        Some(found) => found.content.as_slice(),
                        None if made => &[],
                        None => return Err(FileError::Missing { path: spot.shown.clone() }),
                    };
                    let misfit =
                        |misfit| FileError::EditMismatch { path: spot.shown.clone(), misfit };
                    let (content, ()) = as_text(content, &spot.shown, |text| {
                        Ok((edit::edit(text, edits).map_err(misfit)?.content, ()))
                    })?;
                    Ok(PlannedFile::content(content))
                })
                .collect()
            })
        });
        Ok(changed.await??)
    }

    /// Reverts a change that was made with `hold`. A file that was changed since stays as it is, and the others
    /// are reverted without it. Returns the reason for each file that was not reverted.
    pub async fn take_back(
        &self,
        changes: Vec<FileOutcome>,
        wish: ExpectedState,
    ) -> Result<Vec<FileError>, EngineError> {
        let made = |it: &FileOutcome| it.before.is_none() && it.after.is_some();
        let of = |it: FileOutcome| {
            it.spot.clone().filter(|_| it.held.is_some() || made(&it)).map(|spot| (spot, it))
        };
        let changes: Vec<(PathInRoot, FileOutcome)> = changes.into_iter().filter_map(of).collect();
        let wish = ExpectedState { by: TAKEN_BACK, ..wish };
        // A file is reverted where it was changed, even if its root is no longer declared.
        let roots = self.roots().and_of(changes.iter().map(|(spot, _)| spot));
        self.work_in(roots, move |files, stop| {
            let left = match files.take_back_now(&changes, &wish, stop) {
                Ok(()) => Vec::new(),
                Err(error) if changes.len() == 1 => vec![error],
                Err(_) => {
                    let each = changes.chunks(1);
                    each.filter_map(|one| files.take_back_now(one, &wish, stop).err()).collect()
                }
            };
            changes.iter().rev().for_each(|(spot, changed)| files.remove_made(spot, changed));
            left
        })
        .await
    }

    /// Removes the folders that were created for a file, if they are empty.
    fn remove_made(&self, spot: &PathInRoot, changed: &FileOutcome) {
        let guarded = self.guarded();
        for rel in changed.folders.iter().rev().cloned() {
            if let Ok(folder) = Target::of(&PathInRoot { rel, ..spot.clone() }, &guarded) {
                folder.place.remove_folder().ok();
            }
        }
    }

    /// Reverts all of them, or none.
    fn take_back_now(
        &self,
        changes: &[(PathInRoot, FileOutcome)],
        wish: &ExpectedState,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), FileError> {
        let spots: Vec<PathInRoot> = changes.iter().map(|(spot, _)| spot.clone()).collect();
        let back = self.change(&spots, wish, stop, |before| {
            let each = changes.iter().zip(before);
            each.map(|((spot, changed), before)| {
                if before.map(|found| &found.sha256) != changed.after.as_ref() {
                    return Err(FileError::Changed { path: spot.shown.clone() });
                }
                let new = changed.held.as_deref().map(|(content, like)| NewContent {
                    content: content.clone(),
                    mode: Some(like.mode),
                    like: before.is_none().then(|| like.clone()),
                });
                Ok(PlannedFile { after: new.into(), ..PlannedFile::default() })
            })
            .collect()
        });
        back.map(drop)
    }
}
