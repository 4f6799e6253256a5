//! Searches the contents of files, with the crates of ripgrep: several files at once, in order of names, until
//! the page is full. One match takes time proportional to the bytes read for it, whatever the pattern.

mod file_batches;
mod interruptible_reader;
mod lines;
mod order;

pub use lines::FoundLine;

use super::error::{FileError, Pattern};
use super::ignore_rules::SkipRules;
use super::list::{cursor, parse_cursor};
use super::regex_deadline::{RegexDeadline, SLOWEST, StopReason};
use super::roots::{OwnFiles, PathInRoot};
use super::walk::{Walk, WalkOptions};
use file_batches::{Files, Filter};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use interruptible_reader::InterruptibleMatcher;
use lines::{CollectedLines, LineCollector, StoppableReader};
use order::Order;
use proctor_sys::beneath::{EntryInfo, Folder, Kind, RelativePath};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of a compiled pattern; a larger one is an attack.
const MAX_PATTERN_BYTES: usize = 10 << 20;

/// Memory limit per file: a longer line, or a longer file with multi-line patterns, is not searched.
const MAX_HEAP_BYTES: usize = 128 << 20;

/// Maximum size of a response in bytes. A few times what a person reads, and a limit on what a pattern can
/// produce.
pub const MAX_PAGE_BYTES: usize = 4 << 20;

/// Maximum number of threads; more would wait for the same disk.
const MAX_THREADS: usize = 8;

/// Files up to this size are read at once: as much as the searcher checks for a zero byte.
const SMALL: usize = 64 << 10;

/// A search request.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    pub pattern: String,
    /// The pattern is literal text, not a regular expression.
    pub literal: bool,
    pub case: Case,
    /// Match whole words only.
    pub word: bool,
    /// Return lines that do not match.
    pub invert: bool,
    /// A match may span several lines.
    pub multiline: bool,
    pub before: usize,
    pub after: usize,
    /// Only files that match one of these; those after a `!` are excluded.
    pub globs: Vec<String>,
    /// Only files of these types, by ripgrep's names; those after a `!` are excluded.
    pub types: Vec<String>,
    pub leave_out: SkipRules,
    pub want: ResultKind,
    /// Maximum number of matches, or of files for the other wants, in one response.
    pub most: usize,
    /// Maximum size of the response in bytes; [`MAX_PAGE_BYTES`] at most.
    pub max_bytes: usize,
    /// Longer lines are cut.
    pub max_line: usize,
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Sensitive,
    Insensitive,
    /// Insensitive, unless the pattern contains an upper-case letter.
    Smart,
}

/// The details returned for a file with a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultKind {
    Lines,
    Counts,
    Files,
}

/// A file with a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundFile {
    pub path: String,
    /// Number of matching lines returned here.
    pub matches: u64,
    pub lines: Vec<FoundLine>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPage {
    pub files: Vec<FoundFile>,
    /// Number of files searched.
    pub searched: u64,
    /// Position to continue at, if there is more.
    pub cursor: Option<String>,
    /// Number of files and folders that could not be read.
    pub unreadable: u64,
    /// Used part of the page limits: matches or files, and bytes.
    pub(super) taken: usize,
    pub(super) bytes: usize,
}

/// The end of an earlier response: in this file, after this line.
struct ResumePoint {
    path: RelativePath,
    line: u64,
}

impl ResumePoint {
    fn parse(text: &str) -> Result<ResumePoint, FileError> {
        let bad = || FileError::BadCursor(text.to_owned());
        let (path, line) = text.split_once('.').ok_or_else(bad)?;
        Ok(ResumePoint { path: parse_cursor(path)?, line: line.parse().map_err(|_| bad())? })
    }

    fn text(path: &[u8], line: u64) -> String {
        format!("{}.{line}", cursor(path))
    }
}

pub(crate) fn search(
    spot: &PathInRoot,
    query: &SearchQuery,
    guarded: &OwnFiles,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<SearchPage, FileError> {
    search_within(spot, query, guarded, stop, SLOWEST)
}

/// Like [`search`], with a time limit per file.
pub(crate) fn search_within(
    spot: &PathInRoot,
    query: &SearchQuery,
    guarded: &OwnFiles,
    stop: &(dyn Fn() -> bool + Sync),
    slowest: Duration,
) -> Result<SearchPage, FileError> {
    let begin = query.cursor.as_deref().map(ResumePoint::parse).transpose()?;
    let work = SearchWork { query, matcher: matcher(query)?, begin, stop, slowest };
    let order = Order::new(query);
    let place = spot.place(guarded)?;
    let look = place.look().map_err(spot.at())?;
    let look = look.ok_or_else(|| FileError::Missing { path: spot.shown.clone() })?;
    let unreadable = if look.kind == Kind::Folder {
        work.in_folder(spot, guarded, &order)?
    } else {
        // Fails here if the file cannot be read.
        place.read().map_err(spot.at())?;
        let folder = Arc::new(place.folder().again().map_err(spot.at())?);
        let path = spot.rel.as_bytes().to_vec();
        let job = FileJob { number: 0, path, folder, name: place.name().to_owned() };
        order.begin(std::slice::from_ref(&job));
        work.run(&job, &mut work.tools(), &order);
        0
    };
    if stop() {
        return Err(FileError::Cancelled);
    }
    let mut page = order.page(|path| {
        let rel = RelativePath::parse(OsStr::from_bytes(path)).map_err(spot.at())?;
        Ok(spot.shown_at(&rel))
    })?;
    page.unreadable += unreadable;
    Ok(page)
}

/// A file to search.
struct FileJob {
    /// Position in the order of names.
    number: u64,
    /// Below the root.
    path: Vec<u8>,
    folder: Arc<Folder>,
    name: OsString,
}

struct SearchWork<'a> {
    query: &'a SearchQuery,
    matcher: RegexMatcher,
    begin: Option<ResumePoint>,
    stop: &'a (dyn Fn() -> bool + Sync),
    slowest: Duration,
}

impl SearchWork<'_> {
    /// Searches every file below a folder; returns the number of folders that could not be read.
    fn in_folder(
        &self,
        spot: &PathInRoot,
        guarded: &OwnFiles,
        order: &Order<'_>,
    ) -> Result<u64, FileError> {
        let walk = Walk::begin(&WalkOptions {
            spot,
            guarded,
            leave_out: self.query.leave_out,
            depth: usize::MAX,
            after: self.begin.as_ref().map(|begin| &begin.path),
            again: true,
        })?;
        let files = Files::new(walk, Filter::new(self.query, spot)?);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 1..threads.min(MAX_THREADS) {
                scope.spawn(|| self.take_part(&files, order));
            }
            self.take_part(&files, order);
        });
        Ok(files.unreadable())
    }

    fn take_part(&self, files: &Files, order: &Order<'_>) {
        let mut tools = self.tools();
        while !order.is_enough() && !(self.stop)() {
            let jobs = files.take(order, self.stop);
            if jobs.is_empty() {
                return;
            }
            for job in &jobs {
                self.run(job, &mut tools, order);
            }
        }
    }

    fn run(&self, job: &FileJob, tools: &mut SearchBuffers, order: &Order<'_>) {
        let again = self.begin.as_ref().filter(|begin| begin.path.as_bytes() == job.path);
        let skip = again.map_or(0, |begin| begin.line);
        if skip == u64::MAX {
            return order.end(job, Some(CollectedLines::default()));
        }
        let stop = || (self.stop)() || order.is_enough();
        // Line by line, no pattern reads anything twice, however large the file is.
        let slowest = Some(self.slowest).filter(|_| self.query.multiline);
        let patience = RegexDeadline::new(&stop, slowest);
        let watched = InterruptibleMatcher { matcher: &tools.matcher, patience: &patience };
        let mut gather = LineCollector::new(self.query, &watched, skip);
        let searched = job.folder.read(&job.name).is_ok_and(|(file, look)| {
            let (searcher, room) = (&mut tools.searcher, &mut tools.room);
            look_through(file, &look, &watched, searcher, room, &mut gather).is_ok()
        });
        if patience.over() == Some(StopReason::TooSlow) {
            return order.end_slow(job);
        }
        order.end(job, searched.then(|| gather.finish()));
    }

    fn tools(&self) -> SearchBuffers {
        let lines = self.query.want == ResultKind::Lines;
        let searcher = SearcherBuilder::new()
            .line_number(lines)
            .invert_match(self.query.invert)
            .multi_line(self.query.multiline)
            .before_context(if lines { self.query.before } else { 0 })
            .after_context(if lines { self.query.after } else { 0 })
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP_BYTES))
            .build();
        SearchBuffers { searcher, matcher: self.matcher.clone(), room: vec![0; SMALL] }
    }
}

/// The tools of one search thread.
struct SearchBuffers {
    searcher: Searcher,
    /// Not shared: it has caches that change while it matches.
    matcher: RegexMatcher,
    room: Vec<u8>,
}

fn look_through(
    mut file: File,
    look: &EntryInfo,
    watched: &InterruptibleMatcher<'_>,
    searcher: &mut Searcher,
    room: &mut [u8],
    gather: &mut LineCollector<'_>,
) -> io::Result<()> {
    let patience = watched.patience;
    if look.size >= SMALL as u64 {
        return searcher.search_reader(watched, StoppableReader { file, patience }, gather);
    }
    let mut length = 0;
    loop {
        let more = file.read(&mut room[length..])?;
        length += more;
        if more == 0 || length as u64 >= look.size {
            break;
        }
    }
    if length < SMALL {
        return searcher.search_slice(watched, &room[..length], gather);
    }
    // The file has grown meanwhile.
    file.rewind()?;
    searcher.search_reader(watched, StoppableReader { file, patience }, gather)
}

fn matcher(query: &SearchQuery) -> Result<RegexMatcher, FileError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .octal(false)
        .fixed_strings(query.literal)
        .word(query.word)
        .case_insensitive(query.case == Case::Insensitive)
        .case_smart(query.case == Case::Smart)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    if !query.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&query.pattern).map_err(|error| Pattern::Search.bad(error))
}
