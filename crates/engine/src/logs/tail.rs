//! Chooses the start of each lane so that the last lines of all lanes together are read.
//!
//! Each lane is searched backwards from its end in growing windows, until the lines found reach back far enough
//! in time. So the cost depends on the number of wanted lines, not on the length of the log.

use super::cursor::{Line, StreamOffset};
use super::filter::Filter;
use super::stream_reader::{Key, ReadStep, ScanStep, StreamReader};
use super::{MAX_LINE, PAGE_ITEMS, Scan};
use crate::error::EngineError;
use proctor_core::log_index::RECORD;
use std::collections::VecDeque;

/// Maximum tail: more than anybody reads. Limits the memory of the search.
const MAX_TAIL: usize = 1_000_000;

/// Size of the first window per wanted line: a usual line, so that one window is mostly enough.
const BYTES_PER_LINE: u64 = 128;

/// The smallest window worth a read, and the growth factor of the next one.
const FIRST_WINDOW: u64 = 8 * 1024;
const GROWTH: u64 = 4;

/// Items to skip at the beginning of the merged lanes.
#[derive(Debug, Clone, Default)]
pub(super) struct SkippedLines {
    pub(super) lines: usize,
    /// Also skip the marks before the first line.
    pub(super) marks: bool,
    /// The sort key of the first line found.
    pub(super) first: Option<Key>,
    /// The lanes in which lines were found.
    pub(super) lanes: Vec<usize>,
}

impl SkippedLines {
    /// Returns true if this item precedes the first wanted one.
    pub(super) fn drops(&mut self, is_line: bool) -> bool {
        if !is_line {
            return self.marks;
        }
        self.marks &= self.lines > 0;
        let drops = self.lines > 0;
        self.lines = self.lines.saturating_sub(1);
        drops
    }
}

/// The search state of one lane.
struct Window {
    lane: usize,
    /// The oldest and the newest searched position.
    start: StreamOffset,
    ceiling: Option<StreamOffset>,
    /// Nothing older may be read.
    floor: StreamOffset,
    complete: bool,
    /// Sort key of the oldest item, line or mark.
    first: Option<Key>,
    /// The last lines, each with the position after it.
    lines: VecDeque<(Key, StreamOffset)>,
    marks: usize,
    /// Size of the next window.
    size: u64,
    /// Nothing was searched yet.
    untouched: bool,
}

/// Moves the active lanes to the last `wanted` lines. `floors` are their earliest positions.
pub(super) fn place(
    lanes: &mut [StreamReader],
    floors: &[Option<StreamOffset>],
    wanted: usize,
    filter: &Filter,
    scan: &mut Scan,
) -> Result<SkippedLines, EngineError> {
    let wanted = wanted.min(MAX_TAIL);
    let mut windows = Vec::new();
    for (at, (lane, floor)) in lanes.iter_mut().zip(floors).enumerate() {
        if let Some(floor) = floor {
            windows.push(Window::new(at, lane, *floor, wanted, scan)?);
        }
    }
    if wanted > 0 {
        loop {
            let threshold = threshold(&windows, wanted);
            let mut grown = false;
            for window in windows.iter_mut().filter(|window| window.is_short(wanted, threshold)) {
                window.extend(&mut lanes[window.lane], wanted, filter, scan)?;
                grown = true;
            }
            if !grown {
                break;
            }
        }
    }
    let threshold = threshold(&windows, wanted);
    let mut found = 0;
    let (mut first, mut with_lines) = (None, Vec::new());
    for window in &mut windows {
        window.drop_before(threshold);
        found += window.lines.len();
        if let Some((earliest, _)) = window.lines.front() {
            first = Some(first.map_or(*earliest, |first: Key| first.min(*earliest)));
            with_lines.push(window.lane);
        }
        let lane = &mut lanes[window.lane];
        lane.end = window.ceiling;
        lane.jump(window.start);
    }
    Ok(SkippedLines {
        lines: found.saturating_sub(wanted),
        marks: found >= wanted,
        first,
        lanes: with_lines,
    })
}

/// The sort key of the `wanted`-th line from the end; `None`: fewer were found.
fn threshold(windows: &[Window], wanted: usize) -> Option<Key> {
    let mut keys: Vec<Key> =
        windows.iter().flat_map(|window| window.lines.iter().map(|line| line.0)).collect();
    let at = keys.len().checked_sub(wanted).filter(|at| *at < keys.len())?;
    Some(*keys.select_nth_unstable(at).1)
}

impl Window {
    fn new(
        at: usize,
        lane: &StreamReader,
        floor: StreamOffset,
        wanted: usize,
        scan: &mut Scan,
    ) -> Result<Window, EngineError> {
        let ceiling = lane.end;
        let start = match ceiling {
            Some(ceiling) => ceiling,
            None => lane.end_place(scan)?,
        };
        Ok(Window {
            lane: at,
            start,
            ceiling,
            floor,
            complete: start.order() <= floor.order(),
            first: None,
            lines: VecDeque::new(),
            marks: 0,
            size: (wanted as u64 * BYTES_PER_LINE).max(FIRST_WINDOW),
            untouched: true,
        })
    }

    /// Returns true if older lines or marks may belong to the last `wanted` of all lanes.
    fn is_short(&self, wanted: usize, threshold: Option<Key>) -> bool {
        let reaches =
            threshold.is_some_and(|threshold| self.first.is_some_and(|first| first <= threshold));
        !self.complete && self.lines.len() < wanted && self.marks < PAGE_ITEMS && !reaches
    }

    /// Searches the next, larger window before those already searched.
    fn extend(
        &mut self,
        lane: &mut StreamReader,
        wanted: usize,
        filter: &Filter,
        scan: &mut Scan,
    ) -> Result<(), EngineError> {
        let records = (self.size / RECORD as u64).max(1);
        let (mut from, oldest) = lane.before(self.start, self.size, records, scan)?;
        self.complete = oldest;
        if from.order() <= self.floor.order() {
            (from, self.complete) = (self.floor, true);
        }
        let enough = (wanted as u64 + 1) * MAX_LINE as u64;
        if filter.grep.is_none()
            && filter.clip.is_none()
            && from.line == Line::Skipped
            && self.size >= enough
            && !self.complete
        {
            // As many bytes as the wanted pieces can have: begin in the middle of a line.
            from.line = Line::Shown;
        }
        self.size = self.size.saturating_mul(GROWTH);
        lane.jump(from);
        lane.end = if self.untouched { self.ceiling } else { Some(self.start) };
        if let Some(start) = skip_rest(lane, filter, scan)? {
            self.untouched = false;
            self.collect(lane, start, wanted, filter, scan)?;
        }
        Ok(())
    }

    /// Keeps the last lines that the lane finds from `start` to its end.
    fn collect(
        &mut self,
        lane: &mut StreamReader,
        start: StreamOffset,
        wanted: usize,
        filter: &Filter,
        scan: &mut Scan,
    ) -> Result<(), EngineError> {
        let room = wanted.saturating_sub(self.lines.len());
        let mut older = VecDeque::new();
        let mut first = None;
        self.start = start;
        while let ReadStep::Item(head) = lane.next(filter, scan)? {
            lane.delivered(&head);
            let key = lane.key(&head);
            first = first.or(Some(key));
            if !head.is_line() {
                self.marks += 1;
                continue;
            }
            older.push_back((key, lane.place()));
            if older.len() > room
                && let Some((_, after)) = older.pop_front()
            {
                self.start = after;
            }
        }
        self.first = first.or(self.first);
        older.append(&mut self.lines);
        self.lines = older;
        Ok(())
    }

    /// Drops the lines before the first wanted one.
    fn drop_before(&mut self, threshold: Option<Key>) {
        let is_early =
            |line: &mut (Key, StreamOffset)| threshold.is_some_and(|threshold| line.0 < threshold);
        while let Some((_, after)) = self.lines.pop_front_if(is_early) {
            self.start = after;
        }
    }
}

/// Moves to the end of a skipped line; `None` if it has none yet.
fn skip_rest(
    lane: &mut StreamReader,
    filter: &Filter,
    scan: &mut Scan,
) -> Result<Option<StreamOffset>, EngineError> {
    while lane.at().line == Line::Skipped {
        match lane.advance(filter, scan)? {
            ScanStep::Passed | ScanStep::Item(_) => {}
            ScanStep::End => return Ok(None),
        }
    }
    Ok(Some(lane.at()))
}
