//! Writing, editing and replacing in one file.

use super::replace::{self, Replacement};
use super::{Before, Changed, Made, Wish};
use crate::error::EngineError;
use crate::files::fault::FileError;
use crate::files::patience::{Patience, SLOWEST};
use crate::files::{Files, Spot};
use proctor_core::content::{Endings, Observer};
use proctor_core::diff::Fitted;
use proctor_core::edit::{self, Edit};

/// A content for a file.
#[derive(Debug, Clone, Default)]
pub struct Written {
    pub content: Vec<u8>,
    /// Take it as it is; otherwise it gets the ends of lines that the file has.
    pub exact: bool,
    /// There must be no such file.
    pub only_new: bool,
}

impl Files {
    /// Give a file this content, whether it is there or not.
    pub async fn write(
        &self,
        path: String,
        written: Written,
        wish: Wish,
    ) -> Result<Changed, EngineError> {
        self.one(path, wish, move |spot, before, _| {
            if written.only_new && before.is_some() {
                return Err(FileError::Occupied { path: spot.shown.clone() });
            }
            let old = before.map(|found| found.content.as_slice());
            Ok(Made::content(fitted(&written, old.unwrap_or_default())))
        })
        .await
    }

    /// Exact-text edits, all of them or none.
    pub async fn edit(
        &self,
        path: String,
        edits: Vec<Edit>,
        wish: Wish,
    ) -> Result<Changed, EngineError> {
        self.one(path, wish, move |spot, before, _| {
            let missing = || FileError::Missing { path: spot.shown.clone() };
            let found = before.ok_or_else(missing)?;
            let misfit = |misfit| FileError::Misfit { path: spot.shown.clone(), misfit };
            let edited = edit::edit(&found.content, &edits).map_err(misfit)?;
            let at = |line: &usize| Fitted { line: *line, offset: 0, fuzz: 0 };
            let hunks = edited.places.lines.iter().map(at).collect();
            Ok(Made { hunks, places: Some(edited.places.count), ..Made::content(edited.content) })
        })
        .await
    }

    /// Find and replace.
    pub async fn replace(
        &self,
        path: String,
        wanted: Replacement,
        wish: Wish,
    ) -> Result<Changed, EngineError> {
        self.one(path, wish, move |spot, before, stop| {
            let missing = || FileError::Missing { path: spot.shown.clone() };
            let found = before.ok_or_else(missing)?;
            let (content, places) = replace::replace(
                &found.content,
                &wanted,
                &spot.shown,
                &Patience::new(stop, Some(SLOWEST)),
            )?;
            Ok(Made { places: Some(places), ..Made::content(content) })
        })
        .await
    }

    /// Change one file.
    async fn one(
        &self,
        path: String,
        wish: Wish,
        make: impl Fn(&Spot, Before<'_>, &dyn Fn() -> bool) -> Result<Made, FileError> + Send + 'static,
    ) -> Result<Changed, EngineError> {
        let changed = self.work(move |files, stop| {
            let spots = [files.roots().find(&path)?];
            let changed = files.change(&spots, &wish, stop, |before| {
                Ok(vec![make(&spots[0], before.first().copied().flatten(), stop)?])
            })?;
            Ok::<_, FileError>(changed.into_iter().next().unwrap_or_default())
        });
        Ok(changed.await??)
    }
}

/// With the ends of lines that the file has, if they are all the same. Its last line ends if the file's does; an end that
/// somebody wrote is not taken away.
fn fitted(written: &Written, old: &[u8]) -> Vec<u8> {
    let content = &written.content;
    if written.exact || old.is_empty() || content.is_empty() {
        return content.clone();
    }
    let nature = Observer::look(old);
    let (mut fitted, end) = match nature.endings {
        Endings::CrLf => (edit::with_crlf(content), &b"\r\n"[..]),
        Endings::Lf => (edit::with_lf(content), &b"\n"[..]),
        Endings::None | Endings::Cr | Endings::Mixed => (content.clone(), &b"\n"[..]),
    };
    if nature.final_newline && !matches!(content.last(), Some(b'\n' | b'\r')) {
        fitted.extend_from_slice(end);
    }
    fitted
}
