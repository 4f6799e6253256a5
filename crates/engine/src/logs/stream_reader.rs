//! A lane reads one stream of one service forward: lines and marks in the order of the file.
//!
//! Lines are examined in the buffer; only shown lines are copied. A lane uses the length of its stream at its
//! creation; later bytes belong to a later page.

use super::cursor::{Line, Position, StreamOffset};
use super::filter::Filter;
use super::folder::{LogFolder, WrittenExtent};
use super::index_window::Record;
use super::line_piece::{PieceEnd, judge};
use super::segment::{Segment, WriteStamp};
use super::{HELD_BACK, MAX_LINE, Scan};
use crate::api::{LogLine, LogWhat};
use crate::error::EngineError;
use proctor_core::log_index::{IndexMark, Stream};
use proctor_core::name::RunId;
use proctor_core::time::Wall;
use std::rc::Rc;

pub(super) struct StreamReader {
    pub(super) service: usize,
    pub(super) stream: Stream,
    pub(super) folder: Rc<LogFolder>,
    pub(super) seen: WrittenExtent,
    /// Reading stops here (`until`).
    pub(super) end: Option<StreamOffset>,
    /// Everything before this was delivered or skipped.
    place: StreamOffset,
    /// Everything before this was read. It is ahead of `place` by the pending item.
    at: StreamOffset,
    open: Option<Segment>,
    /// The stamp of the records before `at`, within its segment.
    stamp: Option<WriteStamp>,
    /// The run of the line at `at`, if its segment has no record of it yet.
    carried: RunId,
    /// The continuation of the line at `at` was lost with a segment; set only during a step.
    torn: bool,
    /// Bytes of lines that were not shown.
    pub(super) passed: u64,
    /// Items taken but not delivered; `place` stays before them.
    held: usize,
}

/// The next item of a lane, and the position after it is delivered.
pub(super) struct NextItem {
    pub(super) stamp: WriteStamp,
    pub(super) what: LogWhat,
    pub(super) after: StreamOffset,
}

/// Sort key of the merged log: time, run, stream, and the position of the service in the request.
pub(super) type Key = (Wall, RunId, Stream, usize);

impl NextItem {
    pub(super) fn is_line(&self) -> bool {
        matches!(self.what, LogWhat::Line { .. })
    }
}

pub(super) enum ReadStep {
    Item(NextItem),
    /// Nothing (more) to deliver now.
    End,
    /// The page has reached its read limit.
    Spent,
}

pub(super) enum ScanStep {
    Item(NextItem),
    /// Advanced over something that is not shown.
    Passed,
    End,
}

/// The end of the part of a line in one segment.
enum LineExtent {
    Newline,
    /// At the record of another run, or of dropped bytes.
    Mark,
    /// The line is longer than a piece.
    Full,
    /// At the end of the segment.
    Bottom,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentCrossing {
    /// This was the last segment.
    Last,
    /// A line continues in the next segment.
    Joined,
    /// The next segment begins with something else.
    Broken,
}

impl StreamReader {
    pub(super) fn new(service: usize, stream: Stream, folder: Rc<LogFolder>) -> StreamReader {
        let seen = folder.seen(stream);
        let place = StreamOffset::default();
        StreamReader {
            service,
            stream,
            folder,
            seen,
            end: None,
            place,
            at: place,
            open: None,
            stamp: None,
            carried: RunId::NONE,
            torn: false,
            passed: 0,
            held: 0,
        }
    }

    pub(super) fn place(&self) -> StreamOffset {
        self.place
    }

    pub(super) fn at(&self) -> StreamOffset {
        self.at
    }

    /// The sort key of an item of this lane.
    pub(super) fn key(&self, head: &NextItem) -> Key {
        (head.stamp.wall, head.stamp.run, self.stream, self.service)
    }

    pub(super) fn position(&self) -> Position {
        Position::new(self.place, self.seen)
    }

    /// Continues from `place`.
    pub(super) fn jump(&mut self, place: StreamOffset) {
        (self.place, self.at, self.torn) = (place, place, false);
        self.open = None;
    }

    /// Marks the item of [`StreamReader::next`] as delivered.
    pub(super) fn delivered(&mut self, head: &NextItem) {
        self.place = head.after;
    }

    /// Holds the item of [`StreamReader::next`]: it is delivered later, or read again.
    pub(super) fn hold(&mut self) {
        self.held += 1;
    }

    /// Marks the oldest held item as delivered.
    pub(super) fn release(&mut self, head: &NextItem) {
        self.held -= 1;
        self.delivered(head);
    }

    pub(super) fn next(
        &mut self,
        filter: &Filter,
        scan: &mut Scan,
    ) -> Result<ReadStep, EngineError> {
        loop {
            if scan.spent() {
                return Ok(ReadStep::Spent);
            }
            match self.advance(filter, scan)? {
                ScanStep::Item(head) => return Ok(ReadStep::Item(head)),
                ScanStep::Passed if self.held > 0 => {}
                ScanStep::Passed => self.place = self.at,
                ScanStep::End => return Ok(ReadStep::End),
            }
        }
    }

    /// Makes one step: a record, a line, or into the next segment.
    pub(super) fn advance(
        &mut self,
        filter: &Filter,
        scan: &mut Scan,
    ) -> Result<ScanStep, EngineError> {
        if !self.enter(scan)? || self.end.is_some_and(|end| self.at.order() >= end.order()) {
            return Ok(ScanStep::End);
        }
        if std::mem::take(&mut self.torn) {
            return self.close(scan);
        }
        let entry = self.at.entry;
        let record = self.segment().record(entry, scan)?;
        match record.filter(|record| record.offset <= self.at.offset) {
            Some(record) => self.pass_record(record, filter, scan),
            None if self.at.offset >= self.segment().len() => self.leave(scan),
            None => self.line(filter, scan),
        }
    }

    pub(super) fn segment(&mut self) -> &mut Segment {
        self.open.as_mut().expect("a segment is entered before it is read")
    }

    /// Opens the segment of `at`, or the next that exists. Returns false if there is none.
    fn enter(&mut self, scan: &mut Scan) -> Result<bool, EngineError> {
        if self.open.as_ref().is_some_and(|open| open.number == self.at.segment) {
            return Ok(true);
        }
        if let Some(segment) = self.open_segment(self.at.segment)? {
            self.take_up(segment, scan)?;
            return Ok(true);
        }
        for number in self.instead_of(self.at.segment) {
            if let Some(segment) = self.open_segment(number)? {
                self.torn = self.at.line != Line::Start;
                self.at = StreamOffset { line: self.at.line, ..StreamOffset::start_of(number) };
                self.take_up(segment, scan)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The segments to continue with if segment `wanted` cannot be read: the later ones. If there are only
    /// smaller numbers, the log was started again, and is read from its beginning.
    fn instead_of(&self, wanted: u64) -> Vec<u64> {
        let numbers = self.folder.segments(self.stream);
        let later: Vec<u64> = numbers.iter().copied().filter(|number| *number > wanted).collect();
        if later.is_empty() && !numbers.contains(&wanted) { numbers.to_vec() } else { later }
    }

    fn take_up(&mut self, mut segment: Segment, scan: &mut Scan) -> Result<(), EngineError> {
        if self.at.offset > segment.len() && self.at.entry > segment.records() {
            // It is shorter than the part already read, and so is its index: another log with the same number.
            self.torn = self.at.line != Line::Start;
            self.at = StreamOffset { line: self.at.line, ..StreamOffset::start_of(segment.number) };
        }
        self.at.offset = self.at.offset.min(segment.len());
        self.at.entry = self.at.entry.min(segment.records());
        self.stamp = segment.stamp_before(self.at.entry, scan)?;
        self.carried = match self.at.line {
            Line::Start => RunId::NONE,
            Line::Shown | Line::Searched | Line::Skipped => {
                self.run_before(segment.number, scan)?
            }
        };
        self.open = Some(segment);
        if !self.torn && self.held == 0 {
            self.place = self.at;
        }
        Ok(())
    }

    /// Opens a segment, limited to the range of this lane.
    pub(super) fn open_segment(&self, number: u64) -> Result<Option<Segment>, EngineError> {
        if !self.folder.segments(self.stream).contains(&number) {
            return Ok(None);
        }
        self.folder.open(self.stream, number, (number == self.seen.segment).then_some(self.seen))
    }

    /// Closes the line at `at`, which has no more bytes.
    fn close(&mut self, scan: &mut Scan) -> Result<ScanStep, EngineError> {
        let after = StreamOffset { line: Line::Start, ..self.at };
        let shown = self.at.line == Line::Shown;
        self.at = after;
        if !shown {
            return Ok(ScanStep::Passed);
        }
        let what = LogWhat::Line(LogLine::default());
        Ok(ScanStep::Item(NextItem { stamp: self.stamp(scan)?, what, after }))
    }

    fn pass_record(
        &mut self,
        record: Record,
        filter: &Filter,
        scan: &mut Scan,
    ) -> Result<ScanStep, EngineError> {
        if self.at.line != Line::Start && record.ends_line_of(self.run()) {
            return self.close(scan);
        }
        self.at.entry += 1;
        self.stamp = record.stamp().map(WriteStamp::from).or(self.stamp);
        let Some(entry) = record.entry else { return Ok(ScanStep::Passed) };
        let (what, of_run) = match entry.mark {
            IndexMark::Bytes => return Ok(ScanStep::Passed),
            IndexMark::RunStarted => (LogWhat::Started, true),
            IndexMark::RunExited(exit) => (LogWhat::Exited(exit), true),
            IndexMark::Dropped(bytes) => (LogWhat::Dropped(bytes), false),
        };
        let shown = filter.marks && filter.in_time(entry.wall);
        let twin = shown && of_run && self.stream == Stream::Stderr;
        if !shown || twin && self.folder.has_mark(Stream::Stdout, entry.run, entry.mark, scan)? {
            return Ok(ScanStep::Passed);
        }
        Ok(ScanStep::Item(NextItem { stamp: entry.into(), what, after: self.at }))
    }

    /// Handles the end of the segment's bytes.
    fn leave(&mut self, scan: &mut Scan) -> Result<ScanStep, EngineError> {
        let run = self.run();
        match self.cross(scan)? {
            SegmentCrossing::Last
                if self.at.line != Line::Start && self.is_finished(run, scan)? =>
            {
                self.close(scan)
            }
            SegmentCrossing::Last => Ok(ScanStep::End),
            crossing @ (SegmentCrossing::Joined | SegmentCrossing::Broken) => {
                self.at = StreamOffset {
                    line: self.at.line,
                    ..StreamOffset::start_of(self.segment().number)
                };
                if crossing == SegmentCrossing::Broken {
                    self.close(scan)
                } else {
                    Ok(ScanStep::Passed)
                }
            }
        }
    }

    /// Replaces the open segment by the next one.
    fn cross(&mut self, scan: &mut Scan) -> Result<SegmentCrossing, EngineError> {
        let (from, run) = (self.segment().number, self.run());
        let numbers = self.folder.segments(self.stream);
        let later: Vec<u64> = numbers.iter().copied().filter(|number| *number > from).collect();
        for number in later {
            if let Some(mut segment) = self.open_segment(number)? {
                let joined = number == from + 1 && !segment.begins_anew(run, scan)?;
                (self.open, self.stamp, self.carried) = (Some(segment), None, run);
                return Ok(if joined { SegmentCrossing::Joined } else { SegmentCrossing::Broken });
            }
        }
        Ok(SegmentCrossing::Last)
    }

    /// The line, or a piece of it, that begins at `at`.
    fn line(&mut self, filter: &Filter, scan: &mut Scan) -> Result<ScanStep, EngineError> {
        let (begin, stamp) = (self.at, self.stamp(scan)?);
        let mut run = stamp.run;
        let mut from = begin;
        let mut carried = Vec::new();
        loop {
            let (count, reach) = self.reach(from, MAX_LINE - carried.len(), run, scan)?;
            let here = &self.segment().text.buffered(from.offset)[..count];
            if !matches!(reach, LineExtent::Bottom) {
                let whole = if carried.is_empty() {
                    here
                } else {
                    carried.extend_from_slice(here);
                    &carried
                };
                let end =
                    if matches!(reach, LineExtent::Full) { PieceEnd::Full } else { PieceEnd::Here };
                let (line, what) = judge(filter, begin.line, stamp, whole, end);
                let passed = if what.is_none() { whole.len() } else { 0 };
                self.passed += passed as u64;
                let skip = count as u64 + u64::from(matches!(reach, LineExtent::Newline));
                let after =
                    self.walk(StreamOffset { offset: from.offset + skip, line, ..from }, scan)?;
                let found = self.found(stamp, what, after);
                return self.without_rest(found, filter, scan);
            }
            carried.extend_from_slice(here);
            from = self.walk(StreamOffset { offset: from.offset + count as u64, ..from }, scan)?;
            run = self.stamp.map_or(run, |stamp| stamp.run);
            match self.cross(scan)? {
                SegmentCrossing::Joined => from = StreamOffset::start_of(self.segment().number),
                SegmentCrossing::Broken => {
                    let (line, what) = judge(filter, begin.line, stamp, &carried, PieceEnd::Here);
                    let after =
                        StreamOffset { line, ..StreamOffset::start_of(self.segment().number) };
                    return Ok(self.found(stamp, what, after));
                }
                SegmentCrossing::Last => {
                    return self.unfinished(filter, (stamp, run), &carried, from, scan);
                }
            }
        }
    }

    /// Handles text at the very end without a newline, up to `after`.
    fn unfinished(
        &mut self,
        filter: &Filter,
        (stamp, run): (WriteStamp, RunId),
        text: &[u8],
        after: StreamOffset,
        scan: &mut Scan,
    ) -> Result<ScanStep, EngineError> {
        let end = if self.is_finished(run, scan)? { PieceEnd::Here } else { PieceEnd::Open };
        let (line, what) = judge(filter, self.at.line, stamp, text, end);
        let shown = matches!(&what, Some(LogWhat::Line(line)) if !line.context);
        let held = if filter.following { text.len() < HELD_BACK } else { !shown };
        let skipped = self.at.line == Line::Skipped;
        if end == PieceEnd::Open && held && !skipped {
            return Ok(ScanStep::End);
        }
        self.passed += if skipped { text.len() as u64 } else { 0 };
        Ok(self.found(stamp, what, StreamOffset { line, ..after }))
    }

    fn found(&mut self, stamp: WriteStamp, what: Option<LogWhat>, after: StreamOffset) -> ScanStep {
        self.at = after;
        match what {
            Some(what) => ScanStep::Item(NextItem { stamp, what, after }),
            None => ScanStep::Passed,
        }
    }

    /// Number of bytes from `from` on that belong to its line, at most `room`, and how they end.
    fn reach(
        &mut self,
        from: StreamOffset,
        room: usize,
        mut run: RunId,
        scan: &mut Scan,
    ) -> Result<(usize, LineExtent), EngineError> {
        let segment = self.segment();
        let mut searched = 0;
        let newline = loop {
            let here = segment.text.buffered(from.offset);
            let upto = here.len().min(room + 1);
            if let Some(found) = memchr::memchr(b'\n', &here[searched..upto]) {
                break Some(searched + found);
            }
            searched = upto;
            if searched > room || !segment.grow(from.offset, scan)? {
                break None;
            }
        };
        let limit = newline.unwrap_or(searched.min(room));
        for at in from.entry.. {
            let Some(record) = segment.record(at, scan)? else { break };
            if record.offset > from.offset + limit as u64 {
                break;
            }
            if record.ends_line_of(run) {
                let count =
                    usize::try_from(record.offset.saturating_sub(from.offset)).unwrap_or(limit);
                return Ok((count, LineExtent::Mark));
            }
            run = record.stamp().map_or(run, |entry| entry.run);
        }
        Ok(match newline {
            Some(count) => (count, LineExtent::Newline),
            None if searched > room => (room, LineExtent::Full),
            None => (searched, LineExtent::Bottom),
        })
    }

    /// Moves `place` past the records before its offset.
    fn walk(
        &mut self,
        mut place: StreamOffset,
        scan: &mut Scan,
    ) -> Result<StreamOffset, EngineError> {
        while let Some(record) = self.segment().record(place.entry, scan)? {
            if record.offset >= place.offset {
                break;
            }
            self.stamp = record.stamp().map(WriteStamp::from).or(self.stamp);
            place.entry += 1;
        }
        Ok(place)
    }

    fn run(&self) -> RunId {
        self.stamp.map_or(self.carried, |stamp| stamp.run)
    }

    fn stamp(&mut self, scan: &mut Scan) -> Result<WriteStamp, EngineError> {
        match self.stamp {
            Some(stamp) => Ok(stamp),
            None => Ok(WriteStamp { wall: self.segment().earliest(scan)?, run: RunId::NONE }),
        }
    }

    /// Returns true if nothing can follow the unfinished text at the end. Its run must have ended, and a second
    /// look must find nothing new: all bytes of a run are stored before its end.
    fn is_finished(&mut self, run: RunId, scan: &mut Scan) -> Result<bool, EngineError> {
        let over = run != RunId::NONE && self.folder.is_over(run, scan)?;
        let number = self.segment().number;
        Ok(over && self.segment().is_unchanged()? && !self.folder.has_next(self.stream, number))
    }
}
