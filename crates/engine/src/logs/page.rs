//! Builds one page: merges the lanes of all services by time until the page is full.

use super::Scan;
use super::cursor::{Cursor, StreamOffset};
use super::filter::Filter;
use super::folder::LogFolder;
use super::page_items::PageCollector;
use super::stream_reader::{Key, NextItem, ReadStep, StreamReader};
use super::tail::{self, SkippedLines};
use crate::api::{LogPage, LogQuery};
use crate::error::EngineError;
use proctor_core::log_index::Stream;
use proctor_core::name::{RunId, ServiceName};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::path::Path;
use std::rc::Rc;

pub(super) fn read(logs: &Path, query: &LogQuery, scan: &mut Scan) -> Result<LogPage, EngineError> {
    let filter = Filter::of(query)?;
    let cursor = query.cursor.as_deref().map(Cursor::decode).transpose()?;
    let mut known = HashSet::new();
    let services: Vec<&ServiceName> =
        query.services.iter().filter(|name| known.insert(*name)).collect();
    let mut lanes = Vec::new();
    for (at, name) in services.iter().enumerate() {
        let folder = Rc::new(LogFolder::list(logs, name)?);
        lanes.extend(Stream::BOTH.map(|stream| StreamReader::new(at, stream, Rc::clone(&folder))));
    }
    let mut floors = Vec::new();
    for lane in &mut lanes {
        let position =
            cursor.as_ref().map(|cursor| cursor.position(services[lane.service], lane.stream));
        let name = services[lane.service];
        floors.push(begin(lane, (query, name), &filter, position, scan)?);
    }
    let mut gather = PageCollector::new(query, &services);
    match (query.tail, &cursor) {
        (Some(wanted), None) => {
            let together = if query.tail_each { Stream::BOTH.len() } else { lanes.len() };
            for start in (0..lanes.len()).step_by(together.max(1)) {
                let range = start..start + together;
                let (lanes, floors) = (&mut lanes[range.clone()], &floors[range]);
                let (lead, starts) = last(lanes, floors, wanted, (&filter, gather.context), scan)?;
                gather.leave_out(lead, starts);
            }
        }
        (_, Some(cursor)) if filter.context => gather.go_on(cursor.context),
        (_, Some(_)) | (None, None) => {}
    }
    scan.begin_page();
    let active = floors.iter().enumerate().filter(|(_, floor)| floor.is_some()).map(|(at, _)| at);
    let mut merge = Merge { heap: BinaryHeap::new(), heads: Vec::new(), waiting: active.collect() };
    merge.heads.resize_with(lanes.len(), || None);
    let more = fill(&mut merge, &mut lanes, &filter, &mut gather, scan)?;
    let mut cursor = cursor_of(&services, &lanes);
    cursor.context = gather.owed();
    let (items, truncated) = gather.into_items();
    Ok(LogPage { items, cursor: cursor.encode(), more, truncated })
}

/// Moves the lanes to the last `wanted` lines, plus `context` lines before those. Returns the items to skip,
/// and with `context` the start of the wanted lines of each lane.
fn last(
    lanes: &mut [StreamReader],
    floors: &[Option<StreamOffset>],
    wanted: usize,
    (filter, context): (&Filter, usize),
    scan: &mut Scan,
) -> Result<(SkippedLines, Vec<StreamOffset>), EngineError> {
    let lead = tail::place(lanes, floors, wanted, &filter.without_context(), scan)?;
    if !filter.context {
        return Ok((lead, Vec::new()));
    }
    let starts: Vec<StreamOffset> = lanes.iter().map(StreamReader::place).collect();
    let Some((wall, ..)) = lead.first else { return Ok((lead, starts)) };
    let everything = filter.without_search();
    for (at, lane) in lanes.iter_mut().enumerate().filter(|(at, _)| floors[*at].is_some()) {
        let end = lane.end;
        let near = lane.find(|before| before < wall, scan)?;
        let found = lead.lanes.contains(&at) && starts[at].order() < near.order();
        lane.end = Some(if found { starts[at] } else { near });
        let one = std::slice::from_mut(lane);
        tail::place(one, &floors[at..=at], context, &everything, scan)?;
        lane.end = end;
    }
    Ok((lead, starts))
}

/// Moves a lane to the start of the query. `None`: there is nothing to read in it. `position` is the cursor's,
/// `Some(None)` if a cursor does not know this lane.
fn begin(
    lane: &mut StreamReader,
    (query, name): (&LogQuery, &ServiceName),
    filter: &Filter,
    position: Option<Option<super::cursor::Position>>,
    scan: &mut Scan,
) -> Result<Option<StreamOffset>, EngineError> {
    let wanted = query.stream.is_none_or(|stream| stream == lane.stream);
    let mut place = match position {
        Some(Some(position)) => position.place,
        None if wanted => StreamOffset::default(),
        Some(None) | None => lane.end_place(scan)?,
    };
    let idle = position.flatten().is_some_and(|position| position.is_all_of(lane.seen));
    if !wanted || idle {
        lane.jump(if wanted { place } else { lane.end_place(scan)? });
        return Ok(None);
    }
    let runs = query.runs.get(name);
    if let Some(runs) = runs {
        place = later(place, lane.find_run(*runs.start(), scan)?);
    }
    if let Some(since) = filter.since {
        place = later(place, lane.find(|wall| wall < since, scan)?);
    }
    if let Some(until) = filter.until {
        lane.end = Some(lane.find(|wall| wall <= until, scan)?);
    }
    if let Some(next) = runs.and_then(|runs| runs.end().0.checked_add(1)) {
        let end = lane.find_run(RunId(next), scan)?;
        lane.end = lane.end.filter(|until| until.order() < end.order()).or(Some(end));
    }
    lane.jump(place);
    Ok(Some(place))
}

fn later(one: StreamOffset, other: StreamOffset) -> StreamOffset {
    if other.order() > one.order() { other } else { one }
}

/// The next item of each lane, the earliest on top.
struct Merge {
    heap: BinaryHeap<Reverse<(Key, usize)>>,
    heads: Vec<Option<NextItem>>,
    /// Lanes whose next item is not known.
    waiting: Vec<usize>,
}

impl Merge {
    /// Finds the earliest item and its lane. False: the read limit was reached before all lanes were known.
    fn refill(
        &mut self,
        lanes: &mut [StreamReader],
        filter: &Filter,
        scan: &mut Scan,
    ) -> Result<bool, EngineError> {
        while let Some(&at) = self.waiting.last() {
            match lanes[at].next(filter, scan)? {
                ReadStep::Item(head) => {
                    self.heap.push(Reverse((lanes[at].key(&head), at)));
                    self.heads[at] = Some(head);
                }
                ReadStep::End => {}
                ReadStep::Spent => return Ok(false),
            }
            self.waiting.pop();
        }
        Ok(true)
    }

    fn peek(&self) -> Option<(usize, &NextItem)> {
        let Reverse((_, at)) = self.heap.peek()?;
        self.heads[*at].as_ref().map(|head| (*at, head))
    }

    fn pop(&mut self) -> Option<(usize, NextItem)> {
        let Reverse((_, at)) = self.heap.pop()?;
        self.waiting.push(at);
        self.heads[at].take().map(|head| (at, head))
    }
}

/// Fills the page; true if there is more.
fn fill(
    merge: &mut Merge,
    lanes: &mut [StreamReader],
    filter: &Filter,
    gather: &mut PageCollector<'_>,
    scan: &mut Scan,
) -> Result<bool, EngineError> {
    loop {
        if !merge.refill(lanes, filter, scan)? {
            return Ok(true);
        }
        let Some(next) = merge.peek() else { return Ok(false) };
        if gather.is_full(lanes, next) {
            return Ok(true);
        }
        let Some((at, head)) = merge.pop() else { return Ok(false) };
        gather.take(lanes, at, head);
    }
}

fn cursor_of(services: &[&ServiceName], lanes: &[StreamReader]) -> Cursor {
    let (pairs, _none) = lanes.as_chunks::<2>();
    let positions = pairs.iter().map(|pair| pair.each_ref().map(StreamReader::position));
    let services = services.iter().map(|name| (*name).clone()).zip(positions).collect();
    Cursor { services, context: 0 }
}
