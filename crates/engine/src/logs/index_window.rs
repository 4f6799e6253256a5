//! A window on the index of one segment: records by number, one block at a time.
//!
//! Returned offsets are *effective*: no record has a larger offset than the records after it. After a power
//! failure the index may describe bytes that the log has lost. The writer then continues at a smaller offset,
//! and all larger offsets before it are reduced to that one.

use super::Scan;
use super::segment_window::read_at;
use proctor_core::log_index::{IndexEntry, IndexMark, RECORD};
use proctor_core::name::RunId;
use std::fs::File;
use std::io;

/// Records served by one read; as many again are read to detect reduced offsets. Each part is one block of the
/// file system.
const BATCH: u64 = 128;

#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// Effective offset in the segment.
    pub(super) offset: u64,
    /// `None`: of a kind that this version does not know.
    pub(super) entry: Option<IndexEntry>,
}

impl Record {
    /// Returns true if a line of `run` ends here.
    pub(super) fn ends_line_of(&self, run: RunId) -> bool {
        self.entry.is_some_and(|entry| match entry.mark {
            IndexMark::Bytes => run != RunId::NONE && entry.run != RunId::NONE && entry.run != run,
            IndexMark::RunStarted | IndexMark::RunExited(_) | IndexMark::Dropped(_) => true,
        })
    }

    /// The entry, if it gives the time and run of the following bytes.
    pub(super) fn stamp(&self) -> Option<IndexEntry> {
        self.entry.filter(|entry| match entry.mark {
            IndexMark::Bytes | IndexMark::RunStarted => true,
            IndexMark::RunExited(_) | IndexMark::Dropped(_) => false,
        })
    }
}

pub(super) struct IndexWindow {
    /// `None`: the segment has no index.
    file: Option<File>,
    records: u64,
    /// Number of the first cached record.
    first: u64,
    cached: Vec<Record>,
    /// Number of cached records that may be returned; the others were read to look ahead.
    served: u64,
}

impl IndexWindow {
    pub(super) fn new(file: Option<File>, records: u64) -> IndexWindow {
        IndexWindow { file, records, first: 0, cached: Vec::new(), served: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.records
    }

    pub(super) fn get(&mut self, number: u64, scan: &mut Scan) -> io::Result<Option<Record>> {
        if number >= self.records {
            return Ok(None);
        }
        if !(self.first..self.first + self.served).contains(&number) {
            self.load(number - number % BATCH, scan)?;
        }
        let at = usize::try_from(number - self.first).unwrap_or(usize::MAX);
        Ok(self.cached.get(at).copied())
    }

    fn load(&mut self, first: u64, scan: &mut Scan) -> io::Result<()> {
        let wanted = (self.records - first).min(2 * BATCH);
        let mut bytes = [0; 2 * BATCH as usize * RECORD];
        let mut count = 0;
        if let Some(file) = &self.file {
            let buffer = &mut bytes[..wanted as usize * RECORD];
            count = read_at(file, buffer, first * RECORD as u64, scan)? / RECORD;
        }
        let (records, _torn) = bytes[..count * RECORD].as_chunks::<RECORD>();
        self.cached = records.iter().map(decode).collect();
        let mut lowest = u64::MAX;
        for record in self.cached.iter_mut().rev() {
            lowest = lowest.min(record.offset);
            record.offset = lowest;
        }
        if (count as u64) < wanted {
            self.records = first + count as u64;
        }
        self.first = first;
        self.served = if first + count as u64 == self.records { count as u64 } else { BATCH };
        Ok(())
    }

    /// The first record of a known kind from `number` on.
    fn known(&mut self, number: u64, scan: &mut Scan) -> io::Result<Option<(u64, IndexEntry)>> {
        for at in number..self.records {
            let Some(record) = self.get(at, scan)? else { break };
            if let Some(entry) = record.entry {
                return Ok(Some((at, IndexEntry { offset: record.offset, ..entry })));
            }
        }
        Ok(None)
    }

    pub(super) fn first_known(&mut self, scan: &mut Scan) -> io::Result<Option<IndexEntry>> {
        Ok(self.known(0, scan)?.map(|(_, entry)| entry))
    }

    /// Number of leading records that satisfy `before`, which must come first.
    pub(super) fn partition_point(
        &mut self,
        before: impl Fn(&IndexEntry) -> bool,
        scan: &mut Scan,
    ) -> io::Result<u64> {
        let (mut low, mut high) = (0, self.records);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.known(middle, scan)?.filter(|(at, _)| *at < high) {
                Some((at, entry)) if before(&entry) => low = at + 1,
                Some(_) | None => high = middle,
            }
        }
        Ok(low)
    }

    /// The entry with the time and run of the bytes after record `number - 1`.
    pub(super) fn stamp_before(
        &mut self,
        number: u64,
        scan: &mut Scan,
    ) -> io::Result<Option<IndexEntry>> {
        for at in (0..number.min(self.records)).rev() {
            if let Some(entry) = self.get(at, scan)?.and_then(|record| record.stamp()) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

fn decode(bytes: &[u8; RECORD]) -> Record {
    let entry = IndexEntry::decode(bytes);
    Record { offset: entry.map_or(u64::MAX, |entry| entry.offset), entry }
}
