//! One page: the lanes of all services, merged by time until the page is full.

use super::cursor::{Cursor, Place};
use super::filter::Filter;
use super::folder::Folder;
use super::lane::{Head, Key, Lane, Step};
use super::tail::{self, Lead};
use super::{PAGE_ITEMS, Scan};
use crate::api::{LogItem, LogPage, LogQuery, LogWhat};
use crate::error::EngineError;
use proctor_core::logindex::Stream;
use proctor_core::name::ServiceName;
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
        let folder = Rc::new(Folder::list(logs, name)?);
        lanes.extend(Stream::BOTH.map(|stream| Lane::new(at, stream, Rc::clone(&folder))));
    }
    let mut floors = Vec::new();
    for lane in &mut lanes {
        let position =
            cursor.as_ref().map(|cursor| cursor.position(services[lane.service], lane.stream));
        floors.push(begin(lane, query, &filter, position, scan)?);
    }
    let lead = match query.tail {
        Some(wanted) if cursor.is_none() => {
            tail::place(&mut lanes, &floors, wanted, &filter, scan)?
        }
        Some(_) | None => Lead::default(),
    };
    scan.begin_page();
    let active = floors.iter().enumerate().filter(|(_, floor)| floor.is_some()).map(|(at, _)| at);
    let mut merge = Merge { heap: BinaryHeap::new(), heads: Vec::new(), waiting: active.collect() };
    merge.heads.resize_with(lanes.len(), || None);
    let (items, more) = fill(&mut merge, &mut lanes, &services, (query, &filter), lead, scan)?;
    Ok(LogPage { items, cursor: cursor_of(&services, &lanes).encode(), more })
}

/// Put a lane where the query begins. `None`: there is nothing to read in it.
/// `position` is the cursor's, `Some(None)` if a cursor does not know this lane.
fn begin(
    lane: &mut Lane,
    query: &LogQuery,
    filter: &Filter,
    position: Option<Option<super::cursor::Position>>,
    scan: &mut Scan,
) -> Result<Option<Place>, EngineError> {
    let wanted = query.stream.is_none_or(|stream| stream == lane.stream);
    let mut place = match position {
        Some(Some(position)) => position.place,
        None if wanted => Place::default(),
        Some(None) | None => lane.end_place(scan)?,
    };
    let idle = position.flatten().is_some_and(|position| position.is_all_of(lane.seen));
    if !wanted || idle {
        lane.jump(if wanted { place } else { lane.end_place(scan)? });
        return Ok(None);
    }
    if let Some(since) = filter.since {
        let floor = lane.find(|wall| wall < since, scan)?;
        place = if floor.order() > place.order() { floor } else { place };
    }
    if let Some(until) = filter.until {
        lane.end = Some(lane.find(|wall| wall <= until, scan)?);
    }
    lane.jump(place);
    Ok(Some(place))
}

/// The next item of each lane, the earliest on top.
struct Merge {
    heap: BinaryHeap<Reverse<(Key, usize)>>,
    heads: Vec<Option<Head>>,
    /// Lanes whose next item is not known.
    waiting: Vec<usize>,
}

impl Merge {
    /// Find the earliest item and its lane. False: reading was stopped before all lanes were known.
    fn refill(
        &mut self,
        lanes: &mut [Lane],
        filter: &Filter,
        scan: &mut Scan,
    ) -> Result<bool, EngineError> {
        while let Some(&at) = self.waiting.last() {
            match lanes[at].next(filter, scan)? {
                Step::Item(head) => {
                    self.heap.push(Reverse((lanes[at].key(&head), at)));
                    self.heads[at] = Some(head);
                }
                Step::End => {}
                Step::Spent => return Ok(false),
            }
            self.waiting.pop();
        }
        Ok(true)
    }

    fn peek(&self) -> Option<&Head> {
        self.heap.peek().and_then(|Reverse((_, at))| self.heads[*at].as_ref())
    }

    fn pop(&mut self) -> Option<(usize, Head)> {
        let Reverse((_, at)) = self.heap.pop()?;
        self.waiting.push(at);
        self.heads[at].take().map(|head| (at, head))
    }
}

/// The items of the page, and whether there are more.
fn fill(
    merge: &mut Merge,
    lanes: &mut [Lane],
    services: &[&ServiceName],
    (query, filter): (&LogQuery, &Filter),
    mut lead: Lead,
    scan: &mut Scan,
) -> Result<(Vec<LogItem>, bool), EngineError> {
    let mut items = Vec::new();
    let mut bytes = 0;
    loop {
        if !merge.refill(lanes, filter, scan)? {
            return Ok((items, true));
        }
        let Some(next) = merge.peek() else { return Ok((items, false)) };
        let size = content(next);
        if items.len() >= PAGE_ITEMS || !items.is_empty() && bytes + size > query.max_bytes {
            return Ok((items, true));
        }
        let Some((at, head)) = merge.pop() else { return Ok((items, false)) };
        lanes[at].delivered(&head);
        if lead.drops(head.is_line()) {
            continue;
        }
        bytes += size;
        items.push(LogItem {
            service: services[lanes[at].service].clone(),
            stream: lanes[at].stream,
            wall: head.stamp.wall,
            run: head.stamp.run,
            what: head.what,
        });
    }
}

fn content(head: &Head) -> usize {
    match &head.what {
        LogWhat::Line { bytes, .. } => bytes.len(),
        LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => 0,
    }
}

fn cursor_of(services: &[&ServiceName], lanes: &[Lane]) -> Cursor {
    let (pairs, _none) = lanes.as_chunks::<2>();
    let positions = pairs.iter().map(|pair| pair.each_ref().map(Lane::position));
    Cursor { services: services.iter().map(|name| (*name).clone()).zip(positions).collect() }
}
