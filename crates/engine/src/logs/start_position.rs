//! The start of a lane: at a time, at its end, or a distance before it.

use super::Scan;
use super::cursor::{Line, StreamOffset};
use super::segment::Segment;
use super::stream_reader::StreamReader;
use crate::error::EngineError;
use proctor_core::name::RunId;
use proctor_core::time::Wall;

impl StreamReader {
    /// The position after everything that is written.
    pub(super) fn end_place(&self, scan: &mut Scan) -> Result<StreamOffset, EngineError> {
        let Some(mut segment) = self.open_segment(self.seen.segment)? else {
            return Ok(StreamOffset::start_of(self.seen.segment));
        };
        let (mut entry, len) = (segment.records(), segment.len());
        // A record beyond the end announces bytes that are not written yet.
        while entry > 0
            && segment.record(entry - 1, scan)?.is_some_and(|record| record.offset > len)
        {
            entry -= 1;
        }
        Ok(StreamOffset { segment: segment.number, offset: len, entry, line: Line::Start })
    }

    /// The position of the first record for which `before` is false.
    pub(super) fn find(
        &self,
        before: impl Fn(Wall) -> bool,
        scan: &mut Scan,
    ) -> Result<StreamOffset, EngineError> {
        let mut found = self.end_place(scan)?;
        for &number in self.folder.segments(self.stream).iter().rev() {
            let Some(mut segment) = self.open_segment(number)? else { continue };
            if !before(segment.earliest(scan)?) {
                found = StreamOffset::start_of(number);
                continue;
            }
            let entry = segment.partition_point(|entry| before(entry.wall), scan)?;
            if let Some(record) = segment.record(entry, scan)? {
                let offset = record.offset.min(segment.len());
                found = StreamOffset { segment: number, offset, entry, line: Line::Start };
            }
            break;
        }
        found.line = self.line_at(found, scan)?;
        Ok(found)
    }

    /// The position of the first record of `run` or a later one.
    pub(super) fn find_run(
        &self,
        run: RunId,
        scan: &mut Scan,
    ) -> Result<StreamOffset, EngineError> {
        let mut found = self.end_place(scan)?;
        for &number in self.folder.segments(self.stream).iter().rev() {
            let Some(mut segment) = self.open_segment(number)? else { continue };
            let entry = segment.partition_point(|entry| entry.run < run, scan)?;
            if let Some(record) = segment.record(entry, scan)? {
                let offset = record.offset.min(segment.len());
                found = StreamOffset { segment: number, offset, entry, line: Line::Start };
            }
            if entry > 0 {
                break;
            }
        }
        found.line = self.line_at(found, scan)?;
        Ok(found)
    }

    /// The position about `bytes` or `records` before `from`, whichever is nearer; true if that is the oldest
    /// one.
    pub(super) fn before(
        &self,
        from: StreamOffset,
        mut bytes: u64,
        mut records: u64,
        scan: &mut Scan,
    ) -> Result<(StreamOffset, bool), EngineError> {
        let numbers = self.folder.segments(self.stream);
        let mut oldest = StreamOffset::default();
        for &number in numbers.iter().rev().filter(|number| **number <= from.segment) {
            let Some(mut segment) = self.open_segment(number)? else { continue };
            let here = number == from.segment;
            let end = if here { from.offset.min(segment.len()) } else { segment.len() };
            let last = if here { from.entry.min(segment.records()) } else { segment.records() };
            if let Some(mut place) = step_back(&mut segment, (end, last), (bytes, records), scan)? {
                place.line = self.line_at(place, scan)?;
                return Ok((place, false));
            }
            (bytes, records) = (bytes.saturating_sub(end), records.saturating_sub(last));
            oldest = StreamOffset::start_of(number);
        }
        Ok((oldest, true))
    }

    /// The line state of a position: the beginning of a line, or the middle of one that is then skipped.
    fn line_at(&self, place: StreamOffset, scan: &mut Scan) -> Result<Line, EngineError> {
        let Some(mut segment) = self.open_segment(place.segment)? else { return Ok(Line::Start) };
        if begins_line(&mut segment, place, scan)? {
            return Ok(Line::Start);
        }
        let last_byte = if place.offset > 0 {
            segment.byte_before(place.offset, scan)?
        } else {
            self.last_byte_before(segment, scan)?
        };
        Ok(if last_byte.is_none_or(|byte| byte == b'\n') { Line::Start } else { Line::Skipped })
    }

    /// The last byte before `segment`, if the segment continues its line.
    fn last_byte_before(
        &self,
        segment: Segment,
        scan: &mut Scan,
    ) -> Result<Option<u8>, EngineError> {
        let mut segment = segment;
        loop {
            let run = self.run_before(segment.number, scan)?;
            let Some(number) = segment.number.checked_sub(1) else { return Ok(None) };
            let Some(mut previous) = self.open_segment(number)? else { return Ok(None) };
            let entry = previous.records();
            let end =
                StreamOffset { segment: number, offset: previous.len(), entry, line: Line::Start };
            if segment.begins_anew(run, scan)? || begins_line(&mut previous, end, scan)? {
                return Ok(None);
            }
            if previous.len() > 0 {
                return previous.byte_before(previous.len(), scan);
            }
            segment = previous;
        }
    }

    /// The run that wrote last before segment `number`.
    pub(super) fn run_before(&self, number: u64, scan: &mut Scan) -> Result<RunId, EngineError> {
        let numbers = self.folder.segments(self.stream);
        for &earlier in numbers.iter().rev().filter(|earlier| **earlier < number) {
            let Some(mut segment) = self.open_segment(earlier)? else { continue };
            if let Some(stamp) = segment.stamp_before(segment.records(), scan)? {
                return Ok(stamp.run);
            }
        }
        Ok(RunId::NONE)
    }
}

/// Returns true if a record at this offset, before the position, ends the previous line.
fn begins_line(
    segment: &mut Segment,
    place: StreamOffset,
    scan: &mut Scan,
) -> Result<bool, EngineError> {
    for at in (0..place.entry).rev() {
        let Some(record) = segment.record(at, scan)?.filter(|record| record.offset >= place.offset)
        else {
            break;
        };
        let run = segment.stamp_before(at, scan)?.map_or(RunId::NONE, |stamp| stamp.run);
        if record.ends_line_of(run) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The position `bytes` or `records` before `(end, last)`; `None` if that is before the segment.
fn step_back(
    segment: &mut Segment,
    (end, last): (u64, u64),
    (bytes, records): (u64, u64),
    scan: &mut Scan,
) -> Result<Option<StreamOffset>, EngineError> {
    let by_bytes = end.checked_sub(bytes).filter(|offset| *offset > 0);
    let by_records = last.checked_sub(records).filter(|entry| *entry > 0);
    let nearest = match by_records {
        Some(entry) => segment.record(entry, scan)?.map(|record| (record.offset.min(end), entry)),
        None => None,
    };
    let number = segment.number;
    Ok(match (by_bytes, nearest) {
        (Some(offset), nearest) if nearest.is_none_or(|(near, _)| near < offset) => {
            let entry = segment.partition_point(|entry| entry.offset < offset, scan)?;
            Some(StreamOffset { segment: number, offset, entry, line: Line::Start })
        }
        (_, Some((offset, entry))) => {
            Some(StreamOffset { segment: number, offset, entry, line: Line::Start })
        }
        (_, None) => None,
    })
}
