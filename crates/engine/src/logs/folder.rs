//! The log folder of one service: its segments, the length of the newest, and opening them.
//!
//! The writer deletes and creates files at any moment, and a person may put anything there. An entry that is
//! not (or no longer) a regular file is skipped and never an error.

use super::Scan;
use super::index_window::IndexWindow;
use super::segment::Segment;
use crate::error::EngineError;
use proctor_core::home::{FolderRule, OwnFolder};
use proctor_core::log_index::{IndexMark, RECORD, Stream, index_file, log_file, parse_log_file};
use proctor_core::name::{RunId, ServiceName};
use proctor_sys::own_folder;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Number of records at the end of an index that are searched for the end of a run: after an exit there are at
/// most a few stray writes of grandchildren.
const LAST_RECORDS: u64 = 128;

pub(super) struct LogFolder {
    path: PathBuf,
    segments: [Vec<u64>; 2],
}

/// The end of a stream when it was last examined. All zero: it had no segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct WrittenExtent {
    pub(super) segment: u64,
    pub(super) len: u64,
    pub(super) records: u64,
}

impl LogFolder {
    pub(super) fn list(logs: &Path, service: &ServiceName) -> Result<LogFolder, EngineError> {
        let path = logs.join(service.as_str());
        let mut segments = [Vec::new(), Vec::new()];
        // A link to elsewhere would show lines that no service wrote.
        let sound = own_folder::check(logs, OwnFolder::Logs.rule())
            .and_then(|()| own_folder::check(&path, FolderRule::INNER));
        match sound.and_then(|()| std::fs::read_dir(&path)) {
            Ok(entries) => {
                for entry in entries {
                    let entry = entry.map_err(|error| unreadable(&path, &error))?;
                    if let Some((stream, number)) = segment_of(&entry) {
                        segments[stream as usize].push(number);
                    }
                }
            }
            Err(error) if is_absence(error.kind()) => {}
            Err(error) => return Err(unreadable(&path, &error)),
        }
        segments.iter_mut().for_each(|numbers| numbers.sort_unstable());
        Ok(LogFolder { path, segments })
    }

    /// Numbers of the segments of a stream, oldest first.
    pub(super) fn segments(&self, stream: Stream) -> &[u64] {
        &self.segments[stream as usize]
    }

    /// The current end of the stream. The log is measured before the index: a record is written before its
    /// bytes, so the index then describes all of them.
    pub(super) fn seen(&self, stream: Stream) -> WrittenExtent {
        let size = |name: String| {
            let found = std::fs::symlink_metadata(self.path.join(name));
            found.ok().filter(std::fs::Metadata::is_file).map_or(0, |found| found.len())
        };
        let Some(&segment) = self.segments(stream).last() else { return WrittenExtent::default() };
        let len = size(log_file(stream, segment));
        WrittenExtent { segment, len, records: size(index_file(stream, segment)) / RECORD as u64 }
    }

    /// Opens a segment up to its current end, or up to `seen`. `None`: it is gone.
    pub(super) fn open(
        &self,
        stream: Stream,
        number: u64,
        seen: Option<WrittenExtent>,
    ) -> Result<Option<Segment>, EngineError> {
        let path = self.path.join(log_file(stream, number));
        let Some((log, found)) = open_regular(&path)? else { return Ok(None) };
        let index = open_regular(&self.path.join(index_file(stream, number)))?;
        let records = index.as_ref().map_or(0, |(_, found)| found.len() / RECORD as u64);
        let seen = seen.unwrap_or(WrittenExtent { segment: number, len: found.len(), records });
        let index = IndexWindow::new(index.map(|(file, _)| file), records.min(seen.records));
        Ok(Some(Segment::new(path, number, log, &found, seen.len, index)))
    }

    /// Returns true if the segment after `number` exists by now.
    pub(super) fn has_next(&self, stream: Stream, number: u64) -> bool {
        self.path.join(log_file(stream, number + 1)).exists()
    }

    /// Returns true if either stream records that `run` has ended or that a later one began.
    pub(super) fn is_over(&self, run: RunId, scan: &mut Scan) -> Result<bool, EngineError> {
        for stream in Stream::BOTH {
            for &number in self.segments(stream).iter().rev() {
                let Some(mut segment) = self.open(stream, number, None)? else { continue };
                let last = segment.records();
                for at in (last.saturating_sub(LAST_RECORDS)..last).rev() {
                    let entry = segment.record(at, scan)?.and_then(|record| record.entry);
                    if entry.is_some_and(|entry| {
                        entry.run > run || ends(entry.mark) && entry.run == run
                    }) {
                        return Ok(true);
                    }
                }
                if last > 0 {
                    break;
                }
            }
        }
        Ok(false)
    }

    /// Returns true if the index of `stream` has a mark of the same kind for `run`. Runs increase, so it is
    /// bisected.
    pub(super) fn has_mark(
        &self,
        stream: Stream,
        run: RunId,
        mark: IndexMark,
        scan: &mut Scan,
    ) -> Result<bool, EngineError> {
        let same = std::mem::discriminant(&mark);
        for &number in self.segments(stream).iter().rev() {
            let Some(mut segment) = self.open(stream, number, None)? else { continue };
            let first = segment.partition_point(|entry| entry.run < run, scan)?;
            for at in first..segment.records() {
                match segment.record(at, scan)?.and_then(|record| record.entry) {
                    Some(entry) if entry.run != run => break,
                    Some(entry) if std::mem::discriminant(&entry.mark) == same => return Ok(true),
                    Some(_) | None => {}
                }
            }
            if first > 0 {
                break;
            }
        }
        Ok(false)
    }
}

fn ends(mark: IndexMark) -> bool {
    match mark {
        IndexMark::RunExited(_) => true,
        IndexMark::Bytes | IndexMark::RunStarted | IndexMark::Dropped(_) => false,
    }
}

/// Stream and number, if this is a regular file with exactly the name that the writer would use.
fn segment_of(entry: &std::fs::DirEntry) -> Option<(Stream, u64)> {
    let name = entry.file_name();
    let name = name.to_str()?;
    let (stream, number) = parse_log_file(name)?;
    let regular = entry.file_type().is_ok_and(|kind| kind.is_file());
    (regular && number < u64::MAX && log_file(stream, number) == name).then_some((stream, number))
}

fn is_absence(kind: ErrorKind) -> bool {
    kind == ErrorKind::NotFound || kind == ErrorKind::NotADirectory
}

/// Opens without following a link or waiting for a FIFO's writer.
fn open_regular(path: &Path) -> Result<Option<(File, std::fs::Metadata)>, EngineError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(unreadable(path, &error.into())),
    };
    let found = file.metadata().map_err(|error| unreadable(path, &error))?;
    Ok(found.is_file().then_some((file, found)))
}

pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> EngineError {
    EngineError::Unreadable { path: path.to_path_buf(), why: error.to_string() }
}
