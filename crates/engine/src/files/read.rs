//! Reads a range of lines or bytes of a file, as much as fits, with a cursor for the rest.

use super::error::FileError;
use super::file_info::{self, FileInfo, FileInfoCache, FileVersion};
use super::roots::{OwnFiles, PathInRoot};
use proctor_core::content::{self, ContentKind, Encoding};
use proctor_core::time::Wall;
use proctor_sys::beneath::EntryInfo;
use std::fs::File;

/// Maximum size of a UTF-16 file that is decoded, since it is decoded as a whole; a larger one is treated as
/// bytes.
const MAX_UTF16: u64 = 8 << 20;

/// A request to read a file.
#[derive(Debug, Clone, Default)]
pub struct ReadQuery {
    /// First line, from 1.
    pub from: Option<u64>,
    /// Number of lines.
    pub lines: Option<u64>,
    /// Number of lines from the end, instead of a range.
    pub tail: Option<u64>,
    /// Return the raw bytes instead of text.
    pub bytes: bool,
    /// Continue where an earlier response ended.
    pub cursor: Option<String>,
    /// Maximum size of the response in bytes.
    pub max_bytes: usize,
    /// Maximum size of a picture that is returned as a whole.
    pub largest_picture: u64,
}

/// A file, or a part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Content {
    pub path: String,
    pub size: u64,
    pub modified: Wall,
    /// Permissions.
    pub mode: u32,
    /// Hash of the whole file; `None` if the file is too large.
    pub sha256: Option<String>,
    pub nature: ContentKind,
    /// True if `nature` describes the whole file, false if only its beginning.
    pub whole: bool,
    /// The type of picture.
    pub picture: Option<&'static str>,
    pub part: ContentRange,
    /// Position of the rest, if more was requested.
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ContentRange {
    /// Numbers of its first and last line, where they are known.
    Text {
        text: String,
        from: Option<u64>,
        to: Option<u64>,
        lossy: bool,
    },
    Bytes {
        bytes: Vec<u8>,
        offset: u64,
    },
    /// The whole picture.
    Picture {
        bytes: Vec<u8>,
    },
    /// The file is not text, and bytes were not requested.
    Unreadable,
}

pub(crate) fn read(
    spot: &PathInRoot,
    query: &ReadQuery,
    guarded: &OwnFiles,
    surveys: &FileInfoCache,
    stop: &dyn Fn() -> bool,
) -> Result<Content, FileError> {
    let (file, look) = spot.place(guarded)?.read().map_err(spot.at())?;
    let survey = surveys.of(&file, &look, stop)?;
    let mut first = [0; 16];
    let length = file_info::read_at(&file, &mut first, 0)?;
    let picture = content::picture(&first[..length]);
    let reader = Reader { spot, query, look, survey: &survey, picture: picture.is_some(), stop };
    let (part, next) = reader.part(&file)?;
    let wall = look.modified.0.saturating_mul(1_000_000).saturating_add(look.modified.1 / 1000);
    Ok(Content {
        path: spot.shown.clone(),
        size: look.size,
        modified: Wall(wall),
        mode: look.mode,
        sha256: survey.sha256.clone(),
        nature: survey.nature,
        whole: survey.whole,
        picture,
        part,
        cursor: next.map(|cursor| cursor.text(&look)),
    })
}

/// The position to continue at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    offset: u64,
    /// The line of this offset, from 1; 0 if it is not known, and for bytes.
    line: u64,
    /// The last requested line.
    last: u64,
}

impl Cursor {
    fn text(&self, look: &EntryInfo) -> String {
        let Cursor { offset, line, last } = self;
        format!("{offset}.{line}.{last}.{:08x}", FileVersion::of(look).digest())
    }

    fn parse(text: &str, look: &EntryInfo, path: &str) -> Result<Cursor, FileError> {
        let bad = || FileError::BadCursor(text.to_owned());
        let parts: Vec<&str> = text.split('.').collect();
        let [offset, line, last, stamp] = parts[..] else { return Err(bad()) };
        let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
        let cursor = Cursor { offset: number(offset)?, line: number(line)?, last: number(last)? };
        let stamp = u32::from_str_radix(stamp, 16).map_err(|_| bad())?;
        if stamp != FileVersion::of(look).digest() {
            return Err(FileError::Moved { path: path.to_owned() });
        }
        if cursor.offset > look.size.max(MAX_UTF16) {
            return Err(bad());
        }
        Ok(cursor)
    }
}

/// The source of the bytes.
enum Source<'a> {
    File(&'a File, &'a FileInfo),
    Memory(&'a [u8]),
}

impl Source<'_> {
    fn read_at(&self, room: &mut [u8], offset: u64) -> Result<usize, FileError> {
        match self {
            Source::File(file, _) => file_info::read_at(file, room, offset),
            Source::Memory(bytes) => {
                let rest = usize::try_from(offset).ok().and_then(|at| bytes.get(at..));
                let rest = rest.unwrap_or_default();
                let length = rest.len().min(room.len());
                room[..length].copy_from_slice(&rest[..length]);
                Ok(length)
            }
        }
    }

    fn before_line(&self, line: u64) -> (u64, u64) {
        match self {
            Source::File(_, survey) => survey.before_line(line),
            Source::Memory(_) => (0, 1),
        }
    }

    /// The offset and number of this line, or of the end if there are fewer lines.
    fn line(&self, wanted: u64, stop: &dyn Fn() -> bool) -> Result<(u64, u64), FileError> {
        let (mut offset, mut line) = self.before_line(wanted);
        let mut piece = vec![0; file_info::PIECE];
        while line < wanted {
            let length = self.read_at(&mut piece, offset)?;
            if length == 0 {
                break;
            }
            if stop() {
                return Err(FileError::Cancelled);
            }
            match memchr::memchr_iter(b'\n', &piece[..length]).nth((wanted - line - 1) as usize) {
                Some(end) => return Ok((offset + end as u64 + 1, wanted)),
                None => line += memchr::memchr_iter(b'\n', &piece[..length]).count() as u64,
            }
            offset += length as u64;
        }
        Ok((offset, line))
    }
}

struct Reader<'a> {
    spot: &'a PathInRoot,
    query: &'a ReadQuery,
    look: EntryInfo,
    survey: &'a FileInfo,
    picture: bool,
    stop: &'a dyn Fn() -> bool,
}

impl Reader<'_> {
    fn part(&self, file: &File) -> Result<(ContentRange, Option<Cursor>), FileError> {
        let source = Source::File(file, self.survey);
        let encoding = self.survey.nature.encoding;
        if self.query.bytes {
            return self.bytes(&source);
        }
        match encoding {
            None if self.picture && self.look.size <= self.query.largest_picture => {
                Ok((ContentRange::Picture { bytes: self.all(&source)? }, None))
            }
            None => Ok((ContentRange::Unreadable, None)),
            Some(encoding @ (Encoding::Utf16Le | Encoding::Utf16Be)) => {
                if self.look.size > MAX_UTF16 {
                    return Ok((ContentRange::Unreadable, None));
                }
                let text = content::decode_utf16(&self.all(&source)?, encoding);
                self.text(&Source::Memory(text.as_bytes()), Encoding::Utf8)
            }
            Some(encoding @ (Encoding::Utf8 | Encoding::Utf8Bom | Encoding::Unknown)) => {
                self.text(&source, encoding)
            }
        }
    }

    /// Reads a whole file that is known not to be large.
    fn all(&self, source: &Source<'_>) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0; usize::try_from(self.look.size).unwrap_or(0)];
        let length = source.read_at(&mut bytes, 0)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    fn bytes(&self, source: &Source<'_>) -> Result<(ContentRange, Option<Cursor>), FileError> {
        let ReadQuery { from, lines, tail, .. } = self.query;
        if from.or(*lines).or(*tail).is_some() {
            return Err(FileError::BadInput("lines cannot be combined with bytes".into()));
        }
        let offset = self.cursor()?.map_or(0, |cursor| cursor.offset);
        let mut bytes = vec![0; self.query.max_bytes];
        let length = source.read_at(&mut bytes, offset)?;
        bytes.truncate(length);
        let end = offset + length as u64;
        let more = end < self.look.size && length > 0;
        let next = more.then_some(Cursor { offset: end, line: 0, last: 0 });
        Ok((ContentRange::Bytes { bytes, offset }, next))
    }

    fn cursor(&self) -> Result<Option<Cursor>, FileError> {
        let text = self.query.cursor.as_ref();
        text.map(|text| Cursor::parse(text, &self.look, &self.spot.shown)).transpose()
    }

    /// The start position, and the last requested line.
    fn begin(&self, source: &Source<'_>) -> Result<Cursor, FileError> {
        if let Some(cursor) = self.cursor()? {
            return Ok(cursor);
        }
        let ReadQuery { from, lines, tail, .. } = *self.query;
        if tail.is_some() && from.or(lines).is_some() {
            return Err(FileError::BadInput("give 'tail' or a range of lines, not both".into()));
        }
        let (first, last) = match tail {
            Some(count) if self.survey.whole => {
                (self.survey.nature.lines.saturating_sub(count) + 1, u64::MAX)
            }
            Some(count) => return self.last_lines(source, count),
            None => {
                let first = from.unwrap_or(1).max(1);
                (first, lines.map_or(u64::MAX, |count| (first - 1).saturating_add(count)))
            }
        };
        let (offset, line) = source.line(first, self.stop)?;
        Ok(Cursor { offset, line, last })
    }

    /// The start of the last lines that fit, in a file whose lines are not counted.
    fn last_lines(&self, source: &Source<'_>, count: u64) -> Result<Cursor, FileError> {
        if count == 0 {
            return Ok(Cursor { offset: self.look.size, line: 0, last: u64::MAX });
        }
        let begin = self.look.size.saturating_sub(self.query.max_bytes as u64);
        let mut bytes = vec![0; self.query.max_bytes];
        let length = source.read_at(&mut bytes, begin)?;
        let ends = memchr::memrchr_iter(b'\n', &bytes[..length.saturating_sub(1)]);
        let before = ends.take(count as usize).last().map_or(0, |end| end as u64 + 1);
        Ok(Cursor { offset: begin + before, line: 0, last: u64::MAX })
    }

    fn text(
        &self,
        source: &Source<'_>,
        encoding: Encoding,
    ) -> Result<(ContentRange, Option<Cursor>), FileError> {
        let begin = self.begin(source)?;
        let known = |line: u64| (begin.line > 0).then_some(line);
        if begin.line > begin.last {
            let (from, to) = (known(begin.line), known(begin.line - 1));
            return Ok((ContentRange::Text { text: String::new(), from, to, lossy: false }, None));
        }
        // Reads a little more than fits, to see whether a character or a line continues.
        let mut bytes = vec![0; self.query.max_bytes + 4];
        let length = source.read_at(&mut bytes, begin.offset)?;
        bytes.truncate(length);
        let (kept, wanted) = self.cut(&bytes, begin);
        let ended = memchr::memchr_iter(b'\n', &bytes[..kept]).count() as u64;
        let next = Cursor {
            offset: begin.offset + kept as u64,
            line: known(begin.line.saturating_add(ended)).unwrap_or(0),
            last: begin.last,
        };
        let more = !wanted && kept < length;
        bytes.truncate(kept);
        let open = u64::from(kept > 0 && bytes[kept - 1] != b'\n');
        let to = begin.line.saturating_add(ended + open).saturating_sub(1);
        if begin.offset == 0 && encoding == Encoding::Utf8Bom {
            bytes.drain(..encoding.mark().len().min(kept));
        }
        let (text, lossy) = match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
        };
        let more = more.then_some(next);
        Ok((ContentRange::Text { text, from: known(begin.line), to: known(to), lossy }, more))
    }

    /// The length of the part in these bytes, and whether the request is complete.
    fn cut(&self, bytes: &[u8], begin: Cursor) -> (usize, bool) {
        let left = begin.last.saturating_sub(begin.line);
        let last = usize::try_from(left).ok();
        let end = last.and_then(|nth| memchr::memchr_iter(b'\n', bytes).nth(nth));
        let most = self.query.max_bytes;
        match end {
            Some(end) if end < most => (end + 1, true),
            _ if bytes.len() <= most => (bytes.len(), false),
            _ => match memchr::memrchr(b'\n', &bytes[..most]) {
                Some(end) => (end + 1, false),
                None => (letter_end(bytes, most), false),
            },
        }
    }
}

/// The last position up to `most` that does not cut a character.
fn letter_end(bytes: &[u8], most: usize) -> usize {
    let begins = |byte: u8| byte & 0xc0 != 0x80;
    let back = (0..4).find(|back| bytes.get(most - back).is_none_or(|byte| begins(*byte)));
    most - back.unwrap_or(0)
}
