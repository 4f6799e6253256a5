//! What may be asked of logs, and what comes back.

use proctor_core::logindex::{ExitMark, Stream};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Wall;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Folders below `logs/`; a removed service's logs may still be read.
    pub services: Vec<ServiceName>,
    /// Where an earlier page ended; everything else below narrows what comes after it.
    pub cursor: Option<String>,
    /// Without a cursor: begin this many matching lines before the end. `None`: from the oldest line.
    pub tail: Option<usize>,
    /// Count `tail` for each service, not for all together.
    pub tail_each: bool,
    /// Of these services, only what these runs wrote.
    pub runs: BTreeMap<ServiceName, RangeInclusive<RunId>>,
    pub since: Option<Wall>,
    pub until: Option<Wall>,
    pub stream: Option<Stream>,
    pub grep: Option<String>,
    /// With `grep`: the lines that do not match.
    pub invert: bool,
    /// With `grep`: also this many lines before and after each that matches.
    pub context: usize,
    /// Stop after about this many bytes of line content.
    pub max_bytes: usize,
    /// Count against `max_bytes` what an answer in JSON costs: this much for each item, and lines with their escapes.
    pub item_cost: Option<usize>,
    /// Where `max_bytes` is not enough, leave out the oldest lines and not the newest.
    pub newest: bool,
    /// Show no more than this of a line, and pass over its rest.
    pub max_line: Option<usize>,
    /// Lines in a row that are the same, but for a time at their beginning, become one.
    pub fold: bool,
    /// Do not hold text back that has no line end yet, if it matches.
    pub eager: bool,
}

#[derive(Debug, Clone)]
pub struct LogPage {
    pub items: Vec<LogItem>,
    /// Pass it back to go on from here.
    pub cursor: String,
    /// More is there already.
    pub more: bool,
    /// With `newest`: older items were left out.
    pub truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogItem {
    pub service: ServiceName,
    pub stream: Stream,
    pub wall: Wall,
    pub run: RunId,
    pub what: LogWhat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogWhat {
    Line(LogLine),
    Started,
    Exited(ExitMark),
    Dropped(u32),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogLine {
    /// Without the line end.
    pub bytes: Vec<u8>,
    /// A piece of a line longer than a page; the rest follows.
    pub cut: bool,
    /// Bytes behind these that are not shown, at least.
    pub left_out: u64,
    /// It does not match: it is near one that does.
    pub context: bool,
    /// The lines after it that are the same.
    pub repeats: Option<Repeats>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    pub count: u32,
    /// Of the last of them.
    pub wall: Wall,
}
