//! One open segment: its text, its index and its name for error messages.

use super::Scan;
use super::folder::unreadable;
use super::index_window::{IndexWindow, Record};
use super::segment_window::SegmentWindow;
use crate::error::EngineError;
use proctor_core::log_index::IndexEntry;
use proctor_core::name::RunId;
use proctor_core::time::Wall;
use std::fs::{File, Metadata};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) text: SegmentWindow,
    path: PathBuf,
    index: IndexWindow,
    /// The time of bytes that the index does not describe.
    modified: Wall,
}

/// The time and the run of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteStamp {
    pub(super) wall: Wall,
    pub(super) run: RunId,
}

impl From<IndexEntry> for WriteStamp {
    fn from(entry: IndexEntry) -> WriteStamp {
        WriteStamp { wall: entry.wall, run: entry.run }
    }
}

impl Segment {
    pub(super) fn new(
        path: PathBuf,
        number: u64,
        log: File,
        found: &Metadata,
        len: u64,
        index: IndexWindow,
    ) -> Segment {
        let age = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = age.and_then(|age| i64::try_from(age.as_micros()).ok()).unwrap_or(0);
        let text = SegmentWindow::new(log, len.min(found.len()));
        Segment { number, text, path, index, modified: Wall(modified) }
    }

    pub(super) fn len(&self) -> u64 {
        self.text.len()
    }

    pub(super) fn records(&self) -> u64 {
        self.index.len()
    }

    /// Returns true if nothing was written after the part that this reader knows.
    pub(super) fn is_unchanged(&self) -> Result<bool, EngineError> {
        let now = self.text.current_len().map_err(|error| unreadable(&self.path, &error))?;
        Ok(now == self.text.len())
    }

    pub(super) fn grow(&mut self, offset: u64, scan: &mut Scan) -> Result<bool, EngineError> {
        self.text.grow(offset, scan).map_err(|error| unreadable(&self.path, &error))
    }

    pub(super) fn byte_before(
        &self,
        offset: u64,
        scan: &mut Scan,
    ) -> Result<Option<u8>, EngineError> {
        self.text.byte_before(offset, scan).map_err(|error| unreadable(&self.path, &error))
    }

    pub(super) fn record(
        &mut self,
        at: u64,
        scan: &mut Scan,
    ) -> Result<Option<Record>, EngineError> {
        self.index.get(at, scan).map_err(|error| unreadable(&self.path, &error))
    }

    pub(super) fn partition_point(
        &mut self,
        before: impl Fn(&IndexEntry) -> bool,
        scan: &mut Scan,
    ) -> Result<u64, EngineError> {
        self.index.partition_point(before, scan).map_err(|error| unreadable(&self.path, &error))
    }

    /// The stamp of the bytes that follow the records before number `at`.
    pub(super) fn stamp_before(
        &mut self,
        at: u64,
        scan: &mut Scan,
    ) -> Result<Option<WriteStamp>, EngineError> {
        let entry =
            self.index.stamp_before(at, scan).map_err(|error| unreadable(&self.path, &error))?;
        Ok(entry.map(WriteStamp::from))
    }

    /// The time of the first bytes, and of all bytes without a record.
    pub(super) fn earliest(&mut self, scan: &mut Scan) -> Result<Wall, EngineError> {
        let first = self.index.first_known(scan).map_err(|error| unreadable(&self.path, &error))?;
        Ok(first.map_or(self.modified, |entry| entry.wall.min(self.modified)))
    }

    /// Returns true if the first records end a line of `run` from the previous segment.
    pub(super) fn begins_anew(&mut self, run: RunId, scan: &mut Scan) -> Result<bool, EngineError> {
        for at in 0..self.records() {
            match self.record(at, scan)? {
                Some(record) if record.offset == 0 => {
                    if record.ends_line_of(run) {
                        return Ok(true);
                    }
                }
                Some(_) | None => break,
            }
        }
        Ok(false)
    }
}
