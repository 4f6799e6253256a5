//! The lines of one file that match, with those around them.

use super::{SearchQuery, Want};
use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use std::fs::File;
use std::io::{self, Read};

/// A line that matches, or one near it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundLine {
    /// From 1.
    pub number: u64,
    /// Where the match begins in it, in bytes from 1; `None`: it is only near one.
    pub column: Option<u64>,
    /// Without its end; what is not UTF-8 is replaced.
    pub text: String,
    /// It is longer than this.
    pub cut: bool,
    /// Does a match begin here? The further lines of one that goes over several do not count.
    pub begins: bool,
}

#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) matches: u64,
    pub(super) lines: Vec<FoundLine>,
}

impl Gathered {
    /// Only the first so many matches, with up to `after` lines after the last.
    pub(super) fn keep(&mut self, most: u64, after: usize) {
        let mut seen = 0;
        let end = self.lines.iter().position(|line| {
            seen += u64::from(line.begins);
            seen > most
        });
        self.lines.truncate(end.unwrap_or(self.lines.len()));
        let last = self.last_match();
        self.lines.retain(|line| line.number <= last.saturating_add(after as u64));
        self.matches = self.matches.min(most);
    }

    /// The last line of the last match.
    pub(super) fn last_match(&self) -> u64 {
        self.lines.iter().rev().find(|line| line.column.is_some()).map_or(0, |line| line.number)
    }
}

/// A file whose reading can be ended.
pub(super) struct Stoppable<'a> {
    pub(super) file: File,
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        self.file.read(room)
    }
}

pub(super) struct Gather<'a> {
    query: &'a SearchQuery,
    matcher: &'a RegexMatcher,
    /// Matches up to this line were told before.
    skip: u64,
    gathered: Gathered,
}

impl<'a> Gather<'a> {
    pub(super) fn new(query: &'a SearchQuery, matcher: &'a RegexMatcher, skip: u64) -> Gather<'a> {
        Gather { query, matcher, skip, gathered: Gathered::default() }
    }

    pub(super) fn finish(self) -> Gathered {
        let Gather { query, mut gathered, skip, .. } = self;
        // Lines near a match that was told before were told with it.
        let first = gathered.lines.iter().find(|line| line.begins).map_or(0, |line| line.number);
        let near = first.saturating_sub(query.before as u64);
        gathered.lines.retain(|line| skip == 0 || line.number >= near);
        gathered
    }

    fn line(&self, number: u64, bytes: &[u8], column: Option<usize>, begins: bool) -> FoundLine {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let most = self.query.max_line;
        let cut = bytes.len() > most;
        let shown = if cut { window(bytes, column.unwrap_or(0), most) } else { bytes };
        let text = String::from_utf8_lossy(shown).into_owned();
        FoundLine { number, column: column.map(|at| at as u64 + 1), text, cut, begins }
    }
}

/// Of a long line, the part with the match; no letter is cut.
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

impl Sink for Gather<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let number = found.line_number().unwrap_or(0);
        if self.query.want == Want::Lines && number <= self.skip {
            return Ok(true);
        }
        self.gathered.matches += 1;
        match self.query.want {
            Want::Files => return Ok(false),
            Want::Counts => return Ok(true),
            Want::Lines => {}
        }
        let whole = self.matcher.find(found.bytes()).ok().flatten();
        let (mut from, mut lines) = (whole.map_or(0, |whole| whole.start()), Vec::new());
        for (line, number) in found.lines().zip(number..) {
            let column = from.min(line.len());
            lines.push(self.line(number, line, Some(column), lines.is_empty()));
            from = from.saturating_sub(line.len());
        }
        self.gathered.lines.append(&mut lines);
        Ok(self.gathered.matches <= self.query.most as u64)
    }

    fn context(&mut self, _: &Searcher, near: &SinkContext<'_>) -> io::Result<bool> {
        let number = near.line_number().unwrap_or(0);
        if number > self.skip {
            let line = self.line(number, near.bytes(), None, false);
            self.gathered.lines.push(line);
        }
        Ok(true)
    }
}
