//! The lines of one file that match, with those around them.

use super::super::patience::Patience;
use super::watched::Watched;
use super::{SearchQuery, Want};
use grep_matcher::Matcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

/// Lines and bytes of one match that are told: enough to see what it is. A pattern that goes over lines may match a whole file.
const LONGEST_MATCH: usize = 200;
const LARGEST_MATCH: usize = 256 << 10;

/// What a line takes in an answer beside its text.
const AROUND_A_LINE: usize = 64;

/// Behind the lines of a match, what decides whether it is one: the letter after it.
const LETTER: usize = 4;

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
    /// Is a match told from here on? The further lines of one that goes over several do not count.
    pub begins: bool,
    /// The match goes on for so many lines that are not told.
    pub further: u64,
}

impl FoundLine {
    /// Of an answer, that it takes.
    fn room(&self) -> usize {
        self.text.len() + AROUND_A_LINE
    }
}

/// How many matches are kept, even if they do not fit: the first of an answer, so that it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Least {
    Nothing = 0,
    One = 1,
}

/// How many of the matches of a file were kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    All,
    Some,
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) matches: u64,
    pub(super) lines: Vec<FoundLine>,
    /// Of an answer, that all lines take.
    pub(super) bytes: usize,
    /// There is more in this file than one answer has room for.
    pub(super) full: bool,
}

impl Gathered {
    fn push(&mut self, line: FoundLine) {
        self.bytes += line.room();
        self.lines.push(line);
    }

    /// Only the lines from this one on.
    fn begin_at(&mut self, number: u64) {
        self.lines.retain(|line| line.number >= number);
        self.bytes = self.lines.iter().map(FoundLine::room).sum();
    }

    /// Only the first so many matches, as far as they fit, with up to `after` lines after the last.
    pub(super) fn keep(&mut self, most: u64, room: usize, after: usize, least: Least) -> Kept {
        // Where each begins, and what all before it takes.
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
        let Some((end, _)) = begins.get(kept) else { return Kept::All };
        self.lines.truncate(*end);
        let last = self.last_match();
        self.lines.retain(|line| line.number <= last.saturating_add(after as u64));
        self.matches = kept as u64;
        self.bytes = self.lines.iter().map(FoundLine::room).sum();
        if kept == 0 { Kept::Nothing } else { Kept::Some }
    }

    /// The last line of the last match, told or not.
    pub(super) fn last_match(&self) -> u64 {
        self.lines
            .iter()
            .rev()
            .find(|line| line.column.is_some())
            .map_or(0, |line| line.number + line.further)
    }
}

/// A file whose reading can be ended.
pub(super) struct Stoppable<'a> {
    pub(super) file: File,
    pub(super) patience: &'a Patience<'a>,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.patience.is_stopped() {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        }
        self.file.read(room)
    }
}

pub(super) struct Gather<'a> {
    query: &'a SearchQuery,
    matcher: &'a Watched<'a>,
    /// Matches up to this line were told before.
    skip: u64,
    gathered: Gathered,
    /// Of the match that is told just now.
    told: Told,
}

/// How much of a match was told.
#[derive(Default)]
struct Told {
    /// It is one that was not told before.
    new: bool,
    lines: usize,
    bytes: usize,
}

impl<'a> Gather<'a> {
    pub(super) fn new(query: &'a SearchQuery, matcher: &'a Watched<'a>, skip: u64) -> Gather<'a> {
        Gather { query, matcher, skip, gathered: Gathered::default(), told: Told::default() }
    }

    pub(super) fn finish(self) -> Gathered {
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

    /// A line of a match. Is there room for more?
    fn tell(&mut self, number: u64, line: &[u8], column: usize, begins: bool) -> bool {
        if begins {
            let lines = self.query.want == Want::Lines;
            self.told = Told { new: !lines || number > self.skip, ..Told::default() };
            if self.told.new && self.gathered.matches == 0 {
                // Lines near a match that was told before were told with it.
                self.gathered.begin_at(number.saturating_sub(self.query.before as u64));
            }
            self.gathered.matches += u64::from(self.told.new);
            // This one shows that there is more. The first is told, whatever is near it.
            self.gathered.full =
                self.gathered.matches > 1 && self.gathered.bytes > self.query.max_bytes;
        }
        if !self.told.new || self.query.want != Want::Lines {
            return self.query.want != Want::Files;
        }
        if self.told.lines >= LONGEST_MATCH || self.told.bytes >= LARGEST_MATCH {
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
    matcher: &'a Watched<'a>,
    text: &'a [u8],
    /// Where the last one ends.
    end: usize,
}

impl Matches<'_> {
    /// The first one that begins in a line, behind those that were found.
    fn next_in(&mut self, line: &Range<usize>) -> Option<usize> {
        let at = self.end.max(line.start);
        let found = self.matcher.find_at(self.text, at).ok().flatten()?;
        let inside = found.start() < line.end;
        if inside {
            // One of nothing at all does not hold up the next.
            self.end = found.end().max(found.start() + 1);
        }
        inside.then_some(found.start())
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

    /// Lines that follow each other, where matches may go over several: each match in them is one of its own. The further ones in a line that has one
    /// count if they go on, and are told from the next line on.
    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let (range, first) = (found.bytes_range_in_buffer(), found.line_number().unwrap_or(0));
        match self.query.want {
            Want::Files | Want::Counts if !self.query.multiline => {
                self.gathered.matches += 1;
                return Ok(self.query.want == Want::Counts);
            }
            Want::Lines if !self.query.multiline && first <= self.skip => return Ok(true),
            Want::Files | Want::Counts | Want::Lines => {}
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
            // The last that begins here may go on.
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
