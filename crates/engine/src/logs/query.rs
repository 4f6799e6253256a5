//! Queries of logs, and their results.

use proctor_core::log_index::{ExitMark, Stream};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Wall;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Folders below `logs/`; the logs of a removed service may still be read.
    pub services: Vec<ServiceName>,
    /// The end of an earlier page; all other fields filter the items after it.
    pub cursor: Option<String>,
    /// Without a cursor: begin this many matching lines before the end. `None`: at the oldest line.
    pub tail: Option<usize>,
    /// Count `tail` for each service, not for all together.
    pub tail_each: bool,
    /// For these services, only output of these runs.
    pub runs: BTreeMap<ServiceName, RangeInclusive<RunId>>,
    pub since: Option<Wall>,
    pub until: Option<Wall>,
    pub stream: Option<Stream>,
    pub grep: Option<String>,
    /// With `grep`: the lines that do not match.
    pub invert: bool,
    /// With `grep`: also this many lines before and after each match.
    pub context: usize,
    /// Stop after about this many bytes of line content.
    pub max_bytes: usize,
    /// Count the size in JSON against `max_bytes`: this much for each item, and lines with their escapes.
    pub item_cost: Option<usize>,
    /// If `max_bytes` is not enough, drop the oldest lines instead of the newest.
    pub newest: bool,
    /// Maximum length of a line; the rest is skipped.
    pub max_line: Option<usize>,
    /// Fold consecutive lines that are equal except for a time at their beginning.
    pub fold: bool,
    /// Deliver matching text that has no line end yet.
    pub eager: bool,
}

#[derive(Debug, Clone)]
pub struct LogPage {
    pub items: Vec<LogItem>,
    /// Pass it back to continue from here.
    pub cursor: String,
    /// More items are available already.
    pub more: bool,
    /// With `newest`: older items were dropped.
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
    /// Minimum number of bytes after these that are not shown.
    pub left_out: u64,
    /// A context line: it does not match.
    pub context: bool,
    /// The equal lines after it.
    pub repeats: Option<Repeats>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    pub count: u32,
    /// The time of the last of them.
    pub wall: Wall,
}
