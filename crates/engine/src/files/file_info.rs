//! A survey of a whole file: its hash, the kind of its content, and the positions of its lines. The last few
//! are cached, so that paging through a large file does not read it again for every page.

use super::error::FileError;
use proctor_core::content::{ContentKind, Observer};
use proctor_sys::beneath::{EntryInfo, Id};
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Larger files are not read as a whole: they have no hash and no number of lines.
pub(crate) const MAX_FILE_BYTES: u64 = 256 << 20;

/// Bytes per read, and the maximum distance of a line from a position whose line number is known.
pub(crate) const PIECE: usize = 64 << 10;

/// Maximum number of cached surveys: the files of a day's work.
const KEPT: usize = 64;

/// Identifies one state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileVersion {
    id: Id,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileVersion {
    pub(crate) fn of(look: &EntryInfo) -> FileVersion {
        let EntryInfo { id, size, modified, changed, .. } = *look;
        FileVersion { id, size, modified, changed }
    }

    /// A short form, for a cursor.
    pub(crate) fn digest(&self) -> u32 {
        crc32fast::hash(format!("{self:?}").as_bytes())
    }
}

#[derive(Debug)]
pub(crate) struct FileInfo {
    /// Hash of the whole content, in hexadecimal digits.
    pub(crate) sha256: Option<String>,
    pub(crate) nature: ContentKind,
    /// True if the whole file was read, false if only its beginning.
    pub(crate) whole: bool,
    /// For each piece, the number of lines that ended before it.
    marks: Vec<u64>,
}

impl FileInfo {
    fn of(file: &File, size: u64, stop: &dyn Fn() -> bool) -> Result<FileInfo, FileError> {
        let whole = size <= MAX_FILE_BYTES;
        let (mut observer, mut hash) = (Observer::default(), Sha256::new());
        let (mut marks, mut lines, mut offset) = (Vec::new(), 0, 0);
        let mut piece = vec![0; PIECE];
        loop {
            let length = read_at(file, &mut piece, offset)?;
            marks.push(lines);
            if length == 0 || (!whole && offset > 0) {
                break;
            }
            if stop() {
                return Err(FileError::Cancelled);
            }
            let piece = &piece[..length];
            observer.feed(piece);
            if whole {
                hash.update(piece);
            }
            lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            offset += length as u64;
        }
        let sha256 = whole.then(|| hex(&hash.finalize()));
        Ok(FileInfo { sha256, nature: observer.finish(), whole, marks })
    }

    /// A position before line `line` (from 1), and the number of the line at this position.
    pub(crate) fn before_line(&self, line: u64) -> (u64, u64) {
        let at = self.marks.partition_point(|ended| *ended + 1 < line).saturating_sub(1);
        let ended = self.marks.get(at).copied().unwrap_or(0);
        (at as u64 * PIECE as u64, ended + 1)
    }
}

/// Fills the buffer, unless the file ends before.
pub(crate) fn read_at(file: &File, room: &mut [u8], offset: u64) -> Result<usize, FileError> {
    let mut filled = 0;
    while filled < room.len() {
        match file.read_at(&mut room[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                return Err(FileError::BadInput(format!("cannot read the file: {error}")));
            }
        }
    }
    Ok(filled)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Decodes hexadecimal digits; `None` if they are invalid.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The cached surveys, newest first.
#[derive(Debug, Default)]
pub(crate) struct FileInfoCache(Mutex<VecDeque<(FileVersion, Arc<FileInfo>)>>);

impl FileInfoCache {
    pub(crate) fn of(
        &self,
        file: &File,
        look: &EntryInfo,
        stop: &dyn Fn() -> bool,
    ) -> Result<Arc<FileInfo>, FileError> {
        let stamp = FileVersion::of(look);
        let known = |kept: &VecDeque<(FileVersion, Arc<FileInfo>)>| {
            kept.iter().find(|(other, _)| *other == stamp).map(|(_, survey)| Arc::clone(survey))
        };
        if let Some(survey) = known(&self.0.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(survey);
        }
        let survey = Arc::new(FileInfo::of(file, look.size, stop)?);
        // The file changed meanwhile: the survey is true for the bytes read, and must not be cached.
        let after = proctor_sys::beneath::seen(file).map(|look| FileVersion::of(&look));
        if after.is_ok_and(|after| after == stamp) && settled(look) {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push_front((stamp, Arc::clone(&survey)));
            kept.truncate(KEPT);
        }
        Ok(survey)
    }
}

/// Returns false shortly after a change: two changes within one clock tick of a file system look like one.
pub(crate) fn settled(look: &EntryInfo) -> bool {
    const TICK_MICROS: i64 = 50_000;
    let changed = look.changed.0.saturating_mul(1_000_000).saturating_add(look.changed.1 / 1000);
    proctor_sys::clock::now().wall.0.saturating_sub(changed) > TICK_MICROS
}
