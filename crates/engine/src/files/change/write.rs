//! Writes, edits and replaces in one file.

use super::replace::{self, Replacement};
use super::{ExpectedState, FileOutcome, OldContents, PlannedFile};
use crate::error::EngineError;
use crate::files::error::FileError;
use crate::files::regex_deadline::{RegexDeadline, SLOWEST};
use crate::files::{Files, PathInRoot};
use proctor_core::content::{
    ContentKind, Encoding, LineEndings, Observer, decode_utf16, encode_utf16,
};
use proctor_core::diff::AppliedHunk;
use proctor_core::edit::{self, Edit};

/// A new content for a file.
#[derive(Debug, Clone, Default)]
pub struct WriteRequest {
    pub content: Vec<u8>,
    /// Write it unchanged; otherwise it gets the encoding and the line ends of the file.
    pub exact: bool,
    /// Fail if the file exists.
    pub only_new: bool,
}

impl Files {
    /// Writes this content to a file, which may be missing.
    pub async fn write(
        &self,
        path: String,
        written: WriteRequest,
        wish: ExpectedState,
    ) -> Result<FileOutcome, EngineError> {
        self.one(path, wish, move |spot, before, _| {
            if written.only_new && before.is_some() {
                return Err(FileError::Occupied { path: spot.shown.clone() });
            }
            let old = before.map(|found| found.content.as_slice());
            Ok(PlannedFile::content(fitted(&written, old.unwrap_or_default())))
        })
        .await
    }

    /// Makes exact-text edits, all or none.
    pub async fn edit(
        &self,
        path: String,
        edits: Vec<Edit>,
        wish: ExpectedState,
    ) -> Result<FileOutcome, EngineError> {
        self.one(path, wish, move |spot, before, _| {
            let missing = || FileError::Missing { path: spot.shown.clone() };
            let found = before.ok_or_else(missing)?;
            let misfit = |misfit| FileError::EditMismatch { path: spot.shown.clone(), misfit };
            let (content, places) = as_text(&found.content, &spot.shown, |text| {
                let edited = edit::edit(text, &edits).map_err(misfit)?;
                Ok((edited.content, edited.places))
            })?;
            let at = |line: &usize| AppliedHunk { line: *line, offset: 0, fuzz: 0 };
            let hunks = places.lines.iter().map(at).collect();
            Ok(PlannedFile { hunks, places: Some(places.count), ..PlannedFile::content(content) })
        })
        .await
    }

    /// Finds and replaces.
    pub async fn replace(
        &self,
        path: String,
        wanted: Replacement,
        wish: ExpectedState,
    ) -> Result<FileOutcome, EngineError> {
        self.one(path, wish, move |spot, before, stop| {
            let missing = || FileError::Missing { path: spot.shown.clone() };
            let found = before.ok_or_else(missing)?;
            let patience = RegexDeadline::new(stop, Some(SLOWEST));
            let (content, places) = as_text(&found.content, &spot.shown, |text| {
                replace::replace(text, &wanted, &spot.shown, &patience)
            })?;
            Ok(PlannedFile { places: Some(places), ..PlannedFile::content(content) })
        })
        .await
    }

    /// Changes one file.
    async fn one(
        &self,
        path: String,
        wish: ExpectedState,
        make: impl Fn(&PathInRoot, OldContents<'_>, &dyn Fn() -> bool) -> Result<PlannedFile, FileError>
        + Send
        + 'static,
    ) -> Result<FileOutcome, EngineError> {
        let changed = self.work(move |files, stop| {
            let spots = [files.find(&path)?];
            let changed = files.change(&spots, &wish, stop, |before| {
                Ok(vec![make(&spots[0], before.first().copied().flatten(), stop)?])
            })?;
            Ok::<_, FileError>(changed.into_iter().next().unwrap_or_default())
        });
        Ok(changed.await??)
    }
}

/// Changes a text in its encoding; all other bytes stay the same.
pub(super) fn as_text<T>(
    content: &[u8],
    path: &str,
    change: impl FnOnce(&[u8]) -> Result<(Vec<u8>, T), FileError>,
) -> Result<(Vec<u8>, T), FileError> {
    let Some(encoding) = Encoding::wide(content) else { return change(content) };
    let text = decode_utf16(content, encoding);
    let no_text = |what: &'static str| {
        let (path, encoding) = (path.to_owned(), encoding.as_str());
        FileError::NoText { path, encoding, what }
    };
    if encode_utf16(&text, encoding) != content {
        return Err(no_text("has"));
    }
    let (changed, rest) = change(text.as_bytes())?;
    let changed = std::str::from_utf8(&changed).map_err(|_| no_text("would have"))?;
    let changed = encode_utf16(changed, encoding);
    match changed.len() > edit::MAX_EDIT_BYTES {
        true => {
            Err(FileError::TooLarge { path: path.to_owned(), most: edit::MAX_EDIT_BYTES as u64 })
        }
        false => Ok((changed, rest)),
    }
}

/// Converts a text to the form of the file: its byte order mark, its encoding and its line ends.
fn fitted(written: &WriteRequest, old: &[u8]) -> Vec<u8> {
    let content = written.content.as_slice();
    if written.exact || old.is_empty() || content.is_empty() {
        return content.to_vec();
    }
    let nature = Observer::look(old);
    let mark = Encoding::Utf8Bom.mark();
    // Reading such a file removes its byte order mark; the written text may have one.
    let text = || content.strip_prefix(mark).unwrap_or(content);
    match nature.encoding {
        Some(encoding @ (Encoding::Utf16Le | Encoding::Utf16Be)) => {
            let old = Observer::look(decode_utf16(old, encoding).as_bytes());
            encode_utf16(&String::from_utf8_lossy(&ended(text(), &old)), encoding)
        }
        Some(Encoding::Utf8Bom) => [mark, &ended(text(), &nature)].concat(),
        Some(Encoding::Utf8 | Encoding::Unknown) | None => ended(content, &nature),
    }
}

/// Converts line ends to those of the file, if they are all the same. Adds a final line end if the file has
/// one; never removes one.
fn ended(content: &[u8], nature: &ContentKind) -> Vec<u8> {
    let (mut ended, end) = match nature.endings {
        LineEndings::CrLf => (edit::with_crlf(content), &b"\r\n"[..]),
        LineEndings::Lf => (edit::with_lf(content), &b"\n"[..]),
        LineEndings::None | LineEndings::Cr | LineEndings::Mixed => (content.to_vec(), &b"\n"[..]),
    };
    if nature.final_newline && !matches!(content.last(), Some(b'\n' | b'\r')) {
        ended.extend_from_slice(end);
    }
    ended
}
