//! The matching lines of one file, with their context lines.

use super::super::regex_deadline::RegexDeadline;
use super::interruptible_reader::InterruptibleMatcher;
use super::{ResultKind, SearchQuery};
use grep_matcher::Matcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

/// Maximum number of lines of one match in a response. A multi-line pattern may match a whole file.
const MAX_SHOWN_MATCH_BYTES: usize = 200;
const MAX_MATCH_BYTES: usize = 256 << 10;

/// Bytes that a line adds to a response in addition to its text.
const AROUND_A_LINE: usize = 64;

/// Bytes after the lines of a match that decide whether it is one: the next character.
const LETTER: usize = 4;

/// A matching line, or a context line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLine {
    /// From 1.
    pub number: u64,
    /// Column of the match, in bytes from 1; `None` for a context line.
    pub column: Option<u64>,
    /// Without its end; invalid UTF-8 is replaced.
    pub text: String,
    /// The line is longer than `text`.
    pub cut: bool,
    /// True if a match starts here. The other lines of a multi-line match do not count.
    pub begins: bool,
    /// Number of further lines of the match that are left out.
    pub further: u64,
}

impl FoundLine {
    /// Bytes this line adds to the response.
    fn room(&self) -> usize {
        self.text.len() + AROUND_A_LINE
    }
}

/// Number of matches that are kept even if they do not fit: the first of a response, so that paging makes
/// progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MinimumMatches {
    Nothing = 0,
    One = 1,
}

/// Number of matches of a file that were kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeptMatches {
    All,
    Some,
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct CollectedLines {
    pub(super) matches: u64,
    pub(super) lines: Vec<FoundLine>,
    /// Bytes that all lines add to the response.
    pub(super) bytes: usize,
    /// The file has more matches than fit in one response.
    pub(super) full: bool,
}

impl CollectedLines {
    fn push(&mut self, line: FoundLine) {
        self.bytes += line.room();
        self.lines.push(line);
    }

    /// Drops the lines before this one.
    fn begin_at(&mut self, number: u64) {
        self.lines.retain(|line| line.number >= number);
        self.bytes = self.lines.iter().map(FoundLine::room).sum();
    }

    /// Keeps only the first `most` matches, as far as they fit, with up to `after` lines after the last.
    pub(super) fn keep(
        &mut self,
        most: u64,
        room: usize,
        after: usize,
        least: MinimumMatches,
    ) -> KeptMatches {
        // The start of each match, and the size of everything before it.
        let (mut begins, mut bytes) = (Vec::new(), 0);
        for (at, line) in self.lines.iter().enumerate() {
            if line.begins {
                begins.push((at, bytes));
            }
            bytes += line.room();
        }
        let ends = begins.iter().skip(1).map(|(_, before)| *before).chain([bytes]);
        let fits = ends.take_while(|end| *end <= room).count().max(least as usize);
        let kept = fits.min(usize::try_from(most).unwrap_or(usize::MAX));
        let Some((end, _)) = begins.get(kept) else { return KeptMatches::All };
        self.lines.truncate(*end);
        let last = self.last_match();
        self.lines.retain(|line| line.number <= last.saturating_add(after as u64));
        self.matches = kept as u64;
        self.bytes = self.lines.iter().map(FoundLine::room).sum();
        if kept == 0 { KeptMatches::Nothing } else { KeptMatches::Some }
    }

    /// The last line of the last match, whether included or not.
    pub(super) fn last_match(&self) -> u64 {
        self.lines
            .iter()
            .rev()
            .find(|line| line.column.is_some())
            .map_or(0, |line| line.number + line.further)
    }
}

/// A reader that can be stopped.
pub(super) struct StoppableReader<'a> {
    pub(super) file: File,
    pub(super) patience: &'a RegexDeadline<'a>,
}

impl Read for StoppableReader<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.patience.is_stopped() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        self.file.read(room)
    }
}

pub(super) struct LineCollector<'a> {
    query: &'a SearchQuery,
    matcher: &'a InterruptibleMatcher<'a>,
    /// Matches up to this line were in an earlier response.
    skip: u64,
    gathered: CollectedLines,
    /// Progress of the current match.
    told: ReportedMatch,
}

/// Progress of a match.
#[derive(Default)]
struct ReportedMatch {
    /// The match was not in an earlier response.
    new: bool,
    lines: usize,
    bytes: usize,
}

impl<'a> LineCollector<'a> {
    pub(super) fn new(
        query: &'a SearchQuery,
        matcher: &'a InterruptibleMatcher<'a>,
        skip: u64,
    ) -> LineCollector<'a> {
        LineCollector {
            query,
            matcher,
            skip,
            gathered: CollectedLines::default(),
            told: ReportedMatch::default(),
        }
    }

    pub(super) fn finish(self) -> CollectedLines {
        self.gathered
    }

    fn line(&self, number: u64, bytes: &[u8], column: Option<usize>, begins: bool) -> FoundLine {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let most = self.query.max_line;
        let cut = bytes.len() > most;
        let shown = if cut { window(bytes, column.unwrap_or(0), most) } else { bytes };
        let text = String::from_utf8_lossy(shown).into_owned();
        let column = column.map(|at| at as u64 + 1);
        FoundLine { number, column, text, cut, begins, further: 0 }
    }

    /// Adds a line of a match. Returns true if there is room for more.
    fn tell(&mut self, number: u64, line: &[u8], column: usize, begins: bool) -> bool {
        if begins {
            let lines = self.query.want == ResultKind::Lines;
            self.told =
                ReportedMatch { new: !lines || number > self.skip, ..ReportedMatch::default() };
            if self.told.new && self.gathered.matches == 0 {
                // Context lines of an earlier match were in its response.
                self.gathered.begin_at(number.saturating_sub(self.query.before as u64));
            }
            self.gathered.matches += u64::from(self.told.new);
            // This match shows that there is more. The first one is included, whatever its context.
            self.gathered.full =
                self.gathered.matches > 1 && self.gathered.bytes > self.query.max_bytes;
        }
        if !self.told.new || self.query.want != ResultKind::Lines {
            return self.query.want != ResultKind::Files;
        }
        if self.told.lines >= MAX_SHOWN_MATCH_BYTES || self.told.bytes >= MAX_MATCH_BYTES {
            if let Some(last) = self.gathered.lines.last_mut() {
                last.further += 1;
            }
            return true;
        }
        let line = self.line(number, line, Some(column), begins);
        self.told.lines += 1;
        self.told.bytes += line.text.len();
        self.gathered.push(line);
        !self.gathered.full && self.gathered.matches <= self.query.most as u64
    }
}

/// The matches in some lines.
struct Matches<'a> {
    matcher: &'a InterruptibleMatcher<'a>,
    text: &'a [u8],
    /// End of the last match.
    end: usize,
}

impl Matches<'_> {
    /// The first match that starts in a line, after those already found.
    fn next_in(&mut self, line: &Range<usize>) -> Option<usize> {
        let at = self.end.max(line.start);
        let found = self.matcher.find_at(self.text, at).ok().flatten()?;
        let inside = found.start() < line.end;
        if inside {
            // An empty match must not block the next one.
            self.end = found.end().max(found.start() + 1);
        }
        inside.then_some(found.start())
    }
}

/// The part of a long line around the match; no character is cut.
fn window(bytes: &[u8], column: usize, most: usize) -> &[u8] {
    let goes_on = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut begin = column.saturating_sub(most / 4).min(bytes.len() - most);
    let mut end = begin + most;
    while begin > 0 && goes_on(begin) {
        begin -= 1;
    }
    while end > begin && goes_on(end) {
        end -= 1;
    }
    &bytes[begin..end]
}

impl Sink for LineCollector<'_> {
    type Error = io::Error;

    /// Handles consecutive lines that contain matches. A multi-line pattern may have several matches in them,
    /// each its own. Further matches in a line that already has one count only if they continue on the next
    /// line.
    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let (range, first) = (found.bytes_range_in_buffer(), found.line_number().unwrap_or(0));
        match self.query.want {
            ResultKind::Files | ResultKind::Counts if !self.query.multiline => {
                self.gathered.matches += 1;
                return Ok(self.query.want == ResultKind::Counts);
            }
            ResultKind::Lines if !self.query.multiline && first <= self.skip => return Ok(true),
            ResultKind::Files | ResultKind::Counts | ResultKind::Lines => {}
        }
        let text = &found.buffer()[..found.buffer().len().min(range.end + LETTER)];
        let mut matches = Matches { matcher: self.matcher, text, end: range.start };
        let (mut begin, mut further) = (range.start, false);
        for (line, number) in found.lines().zip(first..) {
            let range = begin..begin + line.len();
            let goes_on = matches.end > range.start;
            let column = if goes_on { None } else { matches.next_in(&range) };
            let column = column.map_or(0, |at| at - range.start);
            if !self.tell(number, line, column, !goes_on || further) {
                return Ok(false);
            }
            // The last match that starts here may continue.
            further = false;
            while self.query.multiline
                && matches.end < range.end
                && matches.next_in(&range).is_some()
            {
                further = true;
            }
            begin = range.end;
        }
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> io::Result<bool> {
        let number = near.line_number().unwrap_or(0);
        if number > self.skip {
            let line = self.line(number, near.bytes(), None, false);
            self.gathered.push(line);
        }
        Ok(true)
    }
}
