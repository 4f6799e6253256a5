//! Writes one stream: index before bytes, rotation at line ends, and handling of a full disk.

use super::RETRY;
use super::segments::{OpenSegment, Segments};
use crate::log;
use proctor_core::log_index::{ExitMark, IndexEntry, IndexMark, Stream};
use proctor_core::name::RunId;
use proctor_core::spec::{LogSpec, OnFull};
use proctor_core::time::{Millis, Mono, Wall};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::fifo::{self, SpliceOutcome};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

/// Minimum distance between index entries in microseconds, so that a flood of output does not
/// become a flood of entries.
const ENTRY_APART: i64 = 1000;

/// Maximum growth of a segment beyond its size while it waits for a line end.
const SLACK: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    Moved(u64),
    Empty,
    /// The log cannot be written now; the bytes stay in the pipe.
    Stalled,
    /// The disk is full; the bytes stay in the pipe.
    Full,
}

pub(super) struct Writer {
    pub(super) spec: Arc<LogSpec>,
    folder: PathBuf,
    segments: Segments,
    open: Option<OpenSegment>,
    /// Time and run of the last index entry.
    entry: Option<(Wall, RunId)>,
    /// Dropped bytes that are not marked yet.
    dropped: u64,
    /// Time of the next attempt on a full disk, so that a flood of output does not become a flood
    /// of marks.
    full_until: Option<Mono>,
    /// The last failure; logged once.
    failing: Option<Errno>,
}

impl Writer {
    pub(super) fn new(folder: PathBuf, stream: Stream, spec: Arc<LogSpec>) -> Writer {
        let segments = Segments::look(folder.clone(), stream);
        let (open, entry, full_until, failing) = (None, None, None, None);
        Writer { spec, folder, segments, open, entry, dropped: 0, full_until, failing }
    }

    /// Moves the bytes in the pipe into the log.
    pub(super) fn store(&mut self, pipe: &OwnedFd, run: RunId, most: usize) -> WriteOutcome {
        let now = proctor_sys::clock::now();
        if self.full_until.is_some_and(|until| now.mono < until) {
            return if fifo::waiting(pipe) > 0 { WriteOutcome::Full } else { WriteOutcome::Empty };
        }
        match self.try_store(pipe, run, most, now.wall) {
            Ok(stored @ WriteOutcome::Moved(_)) => {
                (self.failing, self.full_until) = (None, None);
                stored
            }
            // Nothing was written, so an earlier failure may persist.
            Ok(stored @ (WriteOutcome::Empty | WriteOutcome::Stalled | WriteOutcome::Full)) => {
                stored
            }
            Err(error) => self.failed(&error),
        }
    }

    /// The disk is full and nothing of this service may be deleted: acts as configured.
    pub(super) fn overflow(&mut self, pipe: &OwnedFd, null: &File) -> WriteOutcome {
        match self.spec.on_full {
            OnFull::Block => WriteOutcome::Stalled,
            OnFull::Drop => {
                let now = proctor_sys::clock::now().mono;
                self.full_until =
                    self.full_until.filter(|until| now < *until).or(Some(now.plus(RETRY)));
                match fifo::discard(pipe, null, fifo::CAPACITY) {
                    Ok(SpliceOutcome::Bytes(bytes)) => {
                        // Marked when writing is possible again, or when the run ends.
                        self.dropped = self.dropped.saturating_add(bytes);
                        WriteOutcome::Moved(bytes)
                    }
                    Ok(SpliceOutcome::Empty | SpliceOutcome::Closed) | Err(_) => {
                        WriteOutcome::Empty
                    }
                }
            }
        }
    }

    fn try_store(
        &mut self,
        pipe: &OwnedFd,
        run: RunId,
        most: usize,
        now: Wall,
    ) -> io::Result<WriteOutcome> {
        if fifo::waiting(pipe) == 0 {
            return Ok(WriteOutcome::Empty);
        }
        self.rotate_if_due(now)?;
        self.note_dropped(run, now);
        failpoint::step(Point::LogIndex)?;
        self.note_time(run, now)?;
        failpoint::step(Point::LogBytes)?;
        let limit = self.spec.segment_bytes + SLACK;
        let open = self.opened(now)?;
        let room = usize::try_from(limit.saturating_sub(open.length).max(1)).unwrap_or(most);
        match fifo::move_to_file(pipe, &open.log, open.length, most.min(room))? {
            SpliceOutcome::Bytes(bytes) => {
                open.length += bytes;
                failpoint::moment(Point::LogMoved);
                Ok(WriteOutcome::Moved(bytes))
            }
            SpliceOutcome::Empty | SpliceOutcome::Closed => Ok(WriteOutcome::Empty),
        }
    }

    /// Writes a mark at the current end of the log; a failure is ignored.
    pub(super) fn mark(&mut self, run: RunId, mark: IndexMark, wall: Wall) {
        self.note_dropped(run, wall);
        if mark == IndexMark::RunStarted {
            // If the segment cannot be closed, it keeps growing.
            let _ = self.rotate_if_due(wall);
        }
        if self.check_segment(wall).is_ok()
            && let Ok(open) = self.opened(wall)
        {
            let offset = open.length;
            let _ = open.note(&IndexEntry { offset, wall, run, mark });
            self.entry = Some((wall, run));
        }
    }

    /// Whether this run's start is marked. The mark precedes any other entry of a run, but the
    /// keeper may have died before it.
    pub(super) fn knows(&mut self, run: RunId) -> bool {
        let now = proctor_sys::clock::now().wall;
        let Ok(open) = self.opened(now) else { return true };
        let newest = open.last_run();
        newest.or_else(|| self.segments.last_run()).is_some_and(|newest| newest >= run)
    }

    /// Marks the end of a run, unless a keeper did so and died before it was known.
    pub(super) fn mark_exit(&mut self, run: RunId, exit: ExitMark) {
        let now = proctor_sys::clock::now().wall;
        if !self.opened(now).is_ok_and(|open| open.has_exit_of(run)) {
            self.mark(run, IndexMark::RunExited(exit), now);
        }
    }

    /// Counts bytes of a run that is over; they will never be stored.
    pub(super) fn lost(&mut self, run: RunId, bytes: u64) {
        self.dropped = self.dropped.saturating_add(bytes);
        self.note_dropped(run, proctor_sys::clock::now().wall);
    }

    /// Deletes the oldest closed segment; returns false if there is none. Never deletes the newest
    /// segment: a writer that has not opened it yet, as after a change of keeper, continues in it.
    pub(super) fn delete_oldest(&mut self) -> bool {
        let newest = usize::from(self.open.is_none());
        self.segments.count() > newest && self.segments.delete_oldest()
    }

    /// Bytes of the stream on disk, including indexes.
    pub(super) fn bytes(&self) -> u64 {
        self.segments.bytes() + self.open.as_ref().map_or(0, OpenSegment::size)
    }

    /// Allows a new attempt, because there may be room again.
    pub(super) fn try_again(&mut self) -> WriteOutcome {
        self.full_until = None;
        WriteOutcome::Moved(0)
    }

    fn opened(&mut self, now: Wall) -> io::Result<&mut OpenSegment> {
        match &mut self.open {
            Some(open) => Ok(open),
            empty => Ok(empty.insert(self.segments.open_newest(now)?)),
        }
    }

    /// Files can be deleted under us; further output must not go into a deleted file.
    fn check_segment(&mut self, now: Wall) -> io::Result<()> {
        let Some(open) = self.open.as_mut() else { return Ok(()) };
        if let Some(next) = self.segments.check(open, now)? {
            log!(
                "the log in {} was deleted or moved: continuing in segment {}",
                self.folder.display(),
                next.number
            );
            *open = next;
        }
        Ok(())
    }

    fn note_time(&mut self, run: RunId, now: Wall) -> io::Result<()> {
        let recent =
            |(at, of): (Wall, RunId)| of == run && (0..ENTRY_APART).contains(&(now.0 - at.0));
        if self.entry.is_some_and(recent) {
            return Ok(());
        }
        self.check_segment(now)?;
        let open = self.opened(now)?;
        let offset = open.length;
        open.note(&IndexEntry { offset, wall: now, run, mark: IndexMark::Bytes })?;
        self.entry = Some((now, run));
        Ok(())
    }

    fn note_dropped(&mut self, run: RunId, wall: Wall) {
        if self.dropped == 0 {
            return;
        }
        let mark = IndexMark::Dropped(u32::try_from(self.dropped).unwrap_or(u32::MAX));
        let Ok(open) = self.opened(wall) else { return };
        let offset = open.length;
        if open.note(&IndexEntry { offset, wall, run, mark }).is_ok() {
            self.dropped = 0;
        }
    }

    fn rotate_if_due(&mut self, now: Wall) -> io::Result<()> {
        let spec = &self.spec;
        let Some(open) = &self.open else { return Ok(()) };
        let old =
            |age: Millis| now.0.saturating_sub(open.opened.0) > (age.0 as i64).saturating_mul(1000);
        let due =
            open.size() >= spec.segment_bytes || (open.length > 0 && spec.max_age.is_some_and(old));
        if !due || (!open.at_line_end() && open.length < spec.segment_bytes + SLACK) {
            return Ok(());
        }
        let Some(open) = self.open.take() else { return Ok(()) };
        match self.segments.next(open, now) {
            Ok(next) => {
                failpoint::moment(Point::RotateMade);
                self.open = Some(next);
                self.entry = None;
                self.retain();
                Ok(())
            }
            Err((open, error)) => {
                self.open = Some(open);
                Err(error)
            }
        }
    }

    /// Deletes segments beyond the configured count. The lane enforces the size, which both streams
    /// share.
    fn retain(&mut self) {
        let closed_allowed = self.spec.max_segments.max(2) as usize - 1;
        while self.segments.count() > closed_allowed {
            self.segments.delete_oldest();
        }
    }

    /// Logs a failure once; the caller retries.
    fn failed(&mut self, error: &io::Error) -> WriteOutcome {
        let errno = Errno::from_io_error(error);
        if self.failing != errno {
            self.failing = errno;
            log!("cannot write the log in {}: {error}", self.folder.display());
        }
        match errno {
            Some(Errno::NOSPC | Errno::DQUOT) => WriteOutcome::Full,
            _ => WriteOutcome::Stalled,
        }
    }
}
