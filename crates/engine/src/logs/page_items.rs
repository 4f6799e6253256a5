//! Collects the items of a page in order: skips, adds context lines around matches, folds repeats, and stops
//! when the page is full.

use super::PAGE_ITEMS;
use super::cursor::StreamOffset;
use super::line_piece::cost;
use super::repeated_lines;
use super::stream_reader::{NextItem, StreamReader};
use super::tail::SkippedLines;
use crate::api::{LogItem, LogLine, LogQuery, LogWhat};
use proctor_core::name::ServiceName;
use std::collections::VecDeque;

pub(super) struct PageCollector<'q> {
    query: &'q LogQuery,
    services: &'q [&'q ServiceName],
    items: VecDeque<LogItem>,
    /// Total cost of the items.
    bytes: usize,
    truncated: bool,
    /// Number of context lines before and after a match.
    pub(super) context: usize,
    /// Items to skip at the beginning: one entry for all services together, or one for each.
    leads: Vec<SkippedLines>,
    /// Per lane: items before this position are shown only as context, even if they match.
    starts: Vec<StreamOffset>,
    /// Items read but not delivered: shown if a match follows.
    near: VecDeque<(usize, NextItem)>,
    /// Number of lines still to be shown as context after a match.
    owed: usize,
}

impl<'q> PageCollector<'q> {
    pub(super) fn new(query: &'q LogQuery, services: &'q [&'q ServiceName]) -> PageCollector<'q> {
        PageCollector {
            query,
            services,
            items: VecDeque::new(),
            bytes: 0,
            truncated: false,
            context: if query.grep.is_some() { query.context.min(PAGE_ITEMS) } else { 0 },
            leads: Vec::new(),
            starts: Vec::new(),
            near: VecDeque::new(),
            owed: 0,
        }
    }

    /// Continues after a page that still owed this many context lines.
    pub(super) fn go_on(&mut self, owed: u32) {
        self.owed = (owed as usize).min(self.context);
    }

    /// Sets the items to skip at the beginning: for all services if it is called once, else for the next one.
    pub(super) fn leave_out(&mut self, lead: SkippedLines, starts: Vec<StreamOffset>) {
        self.leads.push(lead);
        self.starts.extend(starts);
    }

    /// Returns true if this item precedes the first wanted one of its service.
    fn drops(&mut self, service: usize, is_line: bool) -> bool {
        let at = if self.leads.len() == 1 { 0 } else { service };
        self.leads.get_mut(at).is_some_and(|lead| lead.drops(is_line))
    }

    /// Number of context lines that the next page owes after a match in this one.
    pub(super) fn owed(&self) -> u32 {
        u32::try_from(self.owed).unwrap_or(u32::MAX)
    }

    /// The items, and whether older ones were dropped.
    pub(super) fn into_items(self) -> (Vec<LogItem>, bool) {
        (self.items.into(), self.truncated)
    }

    /// Returns true if this item does not fit.
    pub(super) fn is_full(&self, lanes: &[StreamReader], (at, head): (usize, &NextItem)) -> bool {
        if self.items.is_empty() || self.query.newest || self.folds(lanes, at, head) {
            return false;
        }
        let waits = self.near.iter().map(|(_, head)| self.cost(&head.what)).sum::<usize>();
        let size = match &head.what {
            LogWhat::Line(line) if line.context && self.owed == 0 => return false,
            LogWhat::Line(line) if line.context => 0,
            LogWhat::Line(_) | LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => waits,
        };
        self.items.len() >= PAGE_ITEMS
            || self.bytes + size + self.cost(&head.what) > self.query.max_bytes
    }

    /// Takes the next item of a lane.
    pub(super) fn take(&mut self, lanes: &mut [StreamReader], at: usize, mut head: NextItem) {
        let service = lanes[at].service;
        let wanted = match &mut head.what {
            LogWhat::Line(line) if self.context > 0 => {
                let early =
                    self.starts.get(at).is_some_and(|start| head.after.order() <= start.order());
                line.context = line.context || early || self.drops(service, true);
                !line.context
            }
            LogWhat::Line(_) => !self.drops(service, true),
            LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => {
                !self.drops(service, false)
            }
        };
        if wanted {
            while let Some((at, head)) = self.near.pop_front() {
                lanes[at].release(&head);
                self.show(lanes, at, head);
            }
            lanes[at].delivered(&head);
            self.show(lanes, at, head);
            self.owed = self.context;
        } else if self.owed > 0 {
            self.owed -= 1;
            lanes[at].delivered(&head);
            self.show(lanes, at, head);
        } else {
            lanes[at].hold();
            self.near.push_back((at, head));
            if self.near.len() > self.context
                && let Some((at, head)) = self.near.pop_front()
            {
                lanes[at].release(&head);
            }
        }
    }

    fn show(&mut self, lanes: &mut [StreamReader], at: usize, head: NextItem) {
        if self.folds(lanes, at, &head)
            && let Some(LogItem { what: LogWhat::Line(last), .. }) = self.items.back_mut()
        {
            return repeated_lines::add(last, head.stamp.wall);
        }
        self.bytes += self.cost(&head.what);
        self.items.push_back(LogItem {
            service: self.services[lanes[at].service].clone(),
            stream: lanes[at].stream,
            wall: head.stamp.wall,
            run: head.stamp.run,
            what: head.what,
        });
        while self.query.newest && self.items.len() > 1 && self.is_over() {
            let oldest = self.items.pop_front();
            self.bytes -= oldest.map_or(0, |oldest| self.cost(&oldest.what));
            self.truncated = true;
        }
    }

    fn is_over(&self) -> bool {
        self.bytes > self.query.max_bytes || self.items.len() > PAGE_ITEMS
    }

    /// Returns true if it equals the last item, of the same run and stream.
    fn folds(&self, lanes: &[StreamReader], at: usize, head: &NextItem) -> bool {
        let Some(last) = self.items.back().filter(|_| self.query.fold && self.near.is_empty())
        else {
            return false;
        };
        let of_one = last.run == head.stamp.run
            && last.stream == lanes[at].stream
            && last.service == *self.services[lanes[at].service];
        match (&last.what, &head.what) {
            (LogWhat::Line(last), LogWhat::Line(next)) => {
                of_one && repeated_lines::is_same(last, next)
            }
            (LogWhat::Line(_) | LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_), _) => {
                false
            }
        }
    }

    fn cost(&self, what: &LogWhat) -> usize {
        let line = match what {
            LogWhat::Line(LogLine { bytes, .. }) => bytes.as_slice(),
            LogWhat::Started | LogWhat::Exited(_) | LogWhat::Dropped(_) => &[],
        };
        self.query.item_cost.map_or(line.len(), |each| each + cost(line))
    }
}
