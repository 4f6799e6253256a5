//! Reading the logs of services: pages, tails, searches, cursors, and waiting for more.
//!
//! The keeper writes (see `proctor_core::logindex` for the files), this only reads; nothing is locked
//! and nothing is agreed on beyond the order "index record first, then bytes". All functions block on
//! the disk and belong into `spawn_blocking`; only [`Watch`] is for async code.
//!
//! How a page comes to be: a `folder` is listed, each of its streams becomes a `lane` that reads lines
//! and marks forward from a place, `start` and `tail` choose that place, `page` merges the lanes by time, and
//! `gather` takes what is wanted until the page is full. What each lane has delivered is the `cursor`.
//!
//! What a reader may rely on:
//! - Bytes are exact. A line ends at its newline (taken off), where a run starts or ends, where bytes were
//!   dropped, or where a segment is missing. Segments do not end a line.
//! - Within a stream the order is that of the file, whatever the clock did. Between streams and services it is
//!   time, then run, then stdout before stderr.
//! - A line longer than `MAX_LINE` comes in pieces. Every piece but the last is `cut`, and a last piece
//!   always follows, if need be an empty one. Each piece carries the time of its own first byte. A search
//!   looks at one piece at a time and shows the line from the first piece that matches; an inverted one looks at the
//!   first piece only.
//! - Text without a newline yet: a read without a cursor delivers it (`cut`, unless its run is
//!   over) and its rest comes as the next piece; a read with a cursor holds it back until its newline, the end of
//!   its run, or `HELD_BACK` bytes, so that a follower sees whole lines. Text that a search does
//!   not match is held back in both, because its rest may match.
//! - With `max_line` a line is never in pieces: its beginning is shown, with how much is left out, and the next item is
//!   another line. The same, at `MAX_LINE`, with `fold` and `context`, which are about whole lines.
//! - What is near a match is counted in the merged log. Lines that wait for a match to follow are not delivered: the
//!   cursor is before them. Lines that are still to be shown after a match are counted in the cursor.
//! - `since` and `until` include their moments and are found by bisecting the index. Where the clock
//!   jumped backwards, a stream may thus begin or end at either side of the jump.
//! - A page may be empty and still say `more`, when `SCANNED` bytes held nothing to show.
//! - A run's mark that both streams hold is shown where stdout has it.
//!
//! Left out on purpose: decompressing old segments, making text harmless for terminals (views do that), and any
//! cache between calls.

mod cursor;
mod filter;
mod fold;
mod folder;
mod gather;
mod index;
mod lane;
mod page;
mod piece;
pub(crate) mod query;
mod segment;
mod start;
mod tail;
#[cfg(test)]
mod tests;
mod text;
mod watch;

pub(crate) use watch::Watch;

pub(crate) use filter::check_pattern;

use crate::api::{LogPage, LogQuery};
use crate::error::EngineError;
use proctor_core::name::ServiceName;
use std::io::ErrorKind;
use std::path::Path;

/// The longest piece of a line: larger than any line a person reads, small enough to hold one for
/// every stream of a page.
const MAX_LINE: usize = 256 * 1024;

/// A follower waits for the rest of a line until it is this long: a progress bar drawn
/// with carriage returns must show up some time, a slowly written JSON line should stay whole.
const HELD_BACK: usize = 64 * 1024;

/// Items of a page: keeps the answer to "all of a log of empty lines" within a few megabytes.
const PAGE_ITEMS: usize = 10_000;

/// Bytes of a page that may be read without showing any: about a tenth of a second of searching, so that a
/// blocking thread comes back to a caller who may have left.
const SCANNED: u64 = 256 * 1024 * 1024;

/// Purging races with a keeper that may just be creating a file; more than this often is not a race.
const PURGE_ATTEMPTS: usize = 3;

/// One page of what `query` asks for. `logs` holds one folder for each service; one that does
/// not exist (yet, or any more) is an empty log.
pub(crate) fn read(logs: &Path, query: &LogQuery) -> Result<LogPage, EngineError> {
    page::read(logs, query, &mut Scan::new(query.services.len() * 2))
}

/// The same cursor, understood and written anew.
pub(crate) fn cursor_again(text: &str) -> Result<String, EngineError> {
    Ok(cursor::Cursor::decode(text)?.encode())
}

/// The cursor of an earlier page, for one of its services alone.
pub(crate) fn cursor_for(text: &str, service: &ServiceName) -> Result<String, EngineError> {
    let mut cursor = cursor::Cursor::decode(text)?;
    cursor.services.retain(|(name, _)| name == service);
    Ok(cursor.encode())
}

/// Remove the logs of a service; having none is success.
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

/// What one call has read so far, and how much it may read at once.
struct Scan {
    read: u64,
    /// The page ends when more than this was read.
    limit: u64,
    /// What a page may read from where it begins.
    allowance: u64,
    block: usize,
}

impl Scan {
    /// Buffers of all lanes together; the largest and smallest block that is worth a system call.
    const BUFFERS: usize = 8 * 1024 * 1024;
    const BLOCK: std::ops::RangeInclusive<usize> = 4 * 1024..=64 * 1024;

    fn new(lanes: usize) -> Scan {
        let block = (Self::BUFFERS / lanes.max(1)).clamp(*Self::BLOCK.start(), *Self::BLOCK.end());
        Scan { read: 0, limit: u64::MAX, allowance: SCANNED, block }
    }

    /// From here on the page is read; finding its beginning had no limit.
    fn begin_page(&mut self) {
        self.limit = self.read.saturating_add(self.allowance);
    }

    fn spent(&self) -> bool {
        self.read > self.limit
    }
}
