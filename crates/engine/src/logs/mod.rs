//! Reads the logs of services: pages, tails, searches, cursors, and waiting for more.
//!
//! The keeper writes (see `proctor_core::log_index` for the files); this module only reads. Nothing is locked;
//! the only agreement is the order "index record first, then bytes". All functions block on the disk and belong
//! into `spawn_blocking`; only [`Watch`] is for async code.
//!
//! A page is built in steps. A `folder` is listed, and each of its streams becomes a `lane` that reads lines
//! and marks forward from a position. `start` and `tail` choose that position, `page` merges the lanes by time,
//! and `gather` collects items until the page is full. The `cursor` records how far each lane was delivered.
//!
//! Guarantees for a reader:
//! - Bytes are exact. A line ends at its newline (removed), where a run starts or ends, where bytes were
//!   dropped, or where a segment is missing. Segments do not end a line.
//! - Within a stream the order is that of the file, whatever the clock did. Between streams and services it is
//!   time, then run, then stdout before stderr.
//! - A line longer than `MAX_LINE` is split into pieces. Every piece but the last is `cut`, and a last piece
//!   always follows, if necessary an empty one. Each piece carries the time of its own first byte. A search
//!   examines one piece at a time and shows the line from the first matching piece; an inverted search examines
//!   the first piece only.
//! - Text without a newline yet: a read without a cursor delivers it (`cut`, unless its run has ended), and its
//!   rest is the next piece. A read with a cursor holds it back until its newline, the end of its run, or
//!   `HELD_BACK` bytes, so that a follower sees whole lines. Text that a search does not match is held back in
//!   both, because its rest may match.
//! - With `max_line` a line is never split: its beginning is shown, with the number of bytes left out, and the
//!   next item is another line. `fold` and `context`, which work on whole lines, do this at `MAX_LINE`.
//! - Context lines are counted in the merged log. Lines that may become context of a later match are not
//!   delivered: the cursor is before them. Lines still owed after a match are counted in the cursor.
//! - `since` and `until` are inclusive and found by bisecting the index. If the clock jumped backwards, a
//!   stream may begin or end on either side of the jump.
//! - A page may be empty and still have `more`, if `SCANNED` bytes contained nothing to show.
//! - A mark of a run that both streams have is shown where stdout has it.
//!
//! Not here on purpose: decompressing old segments, making text harmless for terminals (views do that), and any
//! cache between calls.

mod cursor;
mod filter;
mod folder;
mod index_window;
mod line_piece;
mod page;
mod page_items;
pub(crate) mod query;
mod repeated_lines;
mod segment;
mod segment_window;
mod start_position;
mod stream_reader;
mod tail;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use watch::Watch;

pub(crate) use filter::check_pattern;

use crate::api::{LogPage, LogQuery};
use crate::error::EngineError;
use proctor_core::name::ServiceName;
use std::io::ErrorKind;
use std::path::Path;

/// Maximum length of a piece of a line: larger than any line a person reads, small enough to hold one for every
/// stream of a page.
const MAX_LINE: usize = 256 * 1024;

/// A follower waits for the rest of a line up to this length: a progress bar drawn with carriage returns must
/// appear at some time, and a slowly written JSON line should stay whole.
const HELD_BACK: usize = 64 * 1024;

/// Maximum number of items in a page: limits a log of empty lines to a few megabytes.
const PAGE_ITEMS: usize = 10_000;

/// Maximum number of bytes read for a page without showing any: about a tenth of a second of searching, so that
/// a blocking thread returns to a caller who may have left.
const SCANNED: u64 = 256 * 1024 * 1024;

/// Attempts to delete a folder in which the keeper may just be creating a file; more failures are not a race.
const PURGE_ATTEMPTS: usize = 3;

/// One page of a query. `logs` contains one folder for each service; a missing one is an empty log.
pub(crate) fn read(logs: &Path, query: &LogQuery) -> Result<LogPage, EngineError> {
    page::read(logs, query, &mut Scan::new(query.services.len() * 2))
}

/// Decodes a cursor and encodes it again.
pub(crate) fn cursor_again(text: &str) -> Result<String, EngineError> {
    Ok(cursor::Cursor::decode(text)?.encode())
}

/// The cursor of an earlier page, reduced to one of its services.
pub(crate) fn cursor_for(text: &str, service: &ServiceName) -> Result<String, EngineError> {
    let mut cursor = cursor::Cursor::decode(text)?;
    cursor.services.retain(|(name, _)| name == service);
    Ok(cursor.encode())
}

/// Deletes the logs of a service; having none is success.
pub(crate) fn delete(logs: &Path, name: &ServiceName) -> Result<(), EngineError> {
    let path = logs.join(name.as_str());
    for attempt in 1.. {
        match std::fs::remove_dir_all(&path) {
            Ok(()) => break,
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error)
                if error.kind() == ErrorKind::DirectoryNotEmpty && attempt < PURGE_ATTEMPTS => {}
            Err(error) => return Err(EngineError::Unwritable { path, why: error.to_string() }),
        }
    }
    Ok(())
}

/// Read statistics of one call, and its buffer size.
struct Scan {
    read: u64,
    /// The page ends after this many bytes were read.
    limit: u64,
    /// Number of bytes that a page may read from its beginning.
    allowance: u64,
    block: usize,
}

impl Scan {
    /// Total size of the buffers of all lanes; and the largest and smallest block worth a system call.
    const BUFFERS: usize = 8 * 1024 * 1024;
    const BLOCK: std::ops::RangeInclusive<usize> = 4 * 1024..=64 * 1024;

    fn new(lanes: usize) -> Scan {
        let block = (Self::BUFFERS / lanes.max(1)).clamp(*Self::BLOCK.start(), *Self::BLOCK.end());
        Scan { read: 0, limit: u64::MAX, allowance: SCANNED, block }
    }

    /// Starts the read limit of the page; finding its beginning had no limit.
    fn begin_page(&mut self) {
        self.limit = self.read.saturating_add(self.allowance);
    }

    fn spent(&self) -> bool {
        self.read > self.limit
    }
}
