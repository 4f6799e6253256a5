//! Edits of several files, all or none; and taking a change back as a whole.

use super::{Changed, Made, New, Wish};
use crate::error::EngineError;
use crate::files::Files;
use crate::files::fault::FileError;
use proctor_core::edit::{self, Edit};

impl Files {
    /// Exact-text edits of several files. A file that is to be made has one edit whose old text is empty.
    pub async fn edit_several(
        &self,
        edits: Vec<(String, Vec<Edit>)>,
        wish: Wish,
    ) -> Result<Vec<Changed>, EngineError> {
        let changed = self.work(move |files, stop| {
            let roots = files.roots();
            let spots = edits.iter().map(|(path, _)| roots.find(path));
            let spots = spots.collect::<Result<Vec<_>, _>>()?;
            for (at, spot) in spots.iter().enumerate() {
                if spots[..at].iter().any(|other| other.shown == spot.shown) {
                    return Err(FileError::BadInput(format!("'{}' is named twice", spot.shown)));
                }
            }
            files.change(&spots, &wish, stop, |before| {
                let each = spots.iter().zip(&edits).zip(before);
                each.map(|((spot, (_, edits)), before)| {
                    let made = matches!(&edits[..], [only] if only.old.is_empty());
                    let content = match before {
                        Some(found) => found.content.as_slice(),
                        None if made => &[],
                        None => return Err(FileError::Missing { path: spot.shown.clone() }),
                    };
                    let misfit = |misfit| FileError::Misfit { path: spot.shown.clone(), misfit };
                    Ok(Made::content(edit::edit(content, edits).map_err(misfit)?.content))
                })
                .collect()
            })
        });
        Ok(changed.await??)
    }

    /// Have all as it was before a change that was made with `hold`, unless somebody has changed one of the files since.
    pub async fn take_back(
        &self,
        changes: Vec<Changed>,
        wish: Wish,
    ) -> Result<Vec<Changed>, EngineError> {
        let back = self.work(move |files, stop| {
            let made = |it: &Changed| it.before.is_none() && it.after.is_some();
            let changes = changes.into_iter().filter(|it| it.held.is_some() || made(it));
            let changes: Vec<Changed> = changes.collect();
            let roots = files.roots();
            let spots = changes.iter().map(|changed| roots.find(&changed.path));
            let spots = spots.collect::<Result<Vec<_>, _>>()?;
            files.change(&spots, &wish, stop, |before| {
                let each = spots.iter().zip(&changes).zip(before);
                each.map(|((spot, changed), before)| {
                    if before.map(|found| &found.sha256) != changed.after.as_ref() {
                        return Err(FileError::Changed { path: spot.shown.clone() });
                    }
                    let new = changed
                        .held
                        .as_deref()
                        .map(|(content, mode)| New { content: content.clone(), mode: Some(*mode) });
                    Ok(Made { new, ..Made::default() })
                })
                .collect()
            })
        });
        Ok(back.await??)
    }
}
