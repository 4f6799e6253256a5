//! Applying hunks to a content: where each of them fits, as `patch` looks for it, and why one does not.

use super::{Hunk, Sign, lines};
use crate::content::{Endings, Observer};
use std::ops::Range;

/// Hunks that do not fit and are told. Nothing is changed then, so there is no need to know of all.
const MOST_MISSED: usize = 100;

/// How exact hunks have to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct How {
    /// So many lines around a change, at most, may be others.
    pub fuzz: usize,
    /// The ends of lines may be others: added lines get those of the content, unless the diff has such ends itself.
    pub any_ends: bool,
}

/// Comparisons of lines that may still be made, for all hunks of a diff together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effort {
    /// To look for hunks elsewhere than they say.
    pub away: usize,
    /// To tell where those that do not fit would come nearest.
    pub near: usize,
}

impl Default for Effort {
    /// The first is more than any diff needs that somebody made: a hundred hunks, each a million lines away.
    fn default() -> Effort {
        Effort { away: 100_000_000, near: 2_000_000 }
    }
}

/// A hunk that fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fitted {
    /// The first line before that it covers, from 1.
    pub line: usize,
    /// How far that is from where it says.
    pub offset: isize,
    /// Lines around it that were not looked at.
    pub fuzz: usize,
}

/// A hunk that does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// Where it says that it belongs, from 1.
    pub line: Option<usize>,
    /// Where most of its lines are, if any are: the line, how many of how many, and what differs first.
    pub nearest: Option<Near>,
    /// It was not looked for everywhere, because the effort was spent.
    pub spent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// From 1.
    pub line: usize,
    pub same: usize,
    pub of: usize,
    /// The first line that differs: its number, what the hunk has, and what is there.
    pub differs: usize,
    pub expected: Vec<u8>,
    pub found: Option<Vec<u8>>,
}

/// What became of one hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Fits(Fitted),
    Misses(Missed),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub content: Vec<u8>,
    pub hunks: Vec<Fitted>,
}

/// The content after all hunks; if one does not fit, what would become of each.
pub fn apply(content: &[u8], hunks: &[Hunk], how: How) -> Result<Applied, Vec<Outcome>> {
    apply_with(content, hunks, how, &mut Effort::default())
}

/// The same with what others left of the effort: without any, a hunk is only looked for where it is expected.
pub fn apply_with(
    content: &[u8],
    hunks: &[Hunk],
    how: How,
    effort: &mut Effort,
) -> Result<Applied, Vec<Outcome>> {
    let lines = lines(content);
    let mut search = Search { lines, how, shift: 0, free: 0, effort };
    let (mut outcomes, mut missed) = (Vec::with_capacity(hunks.len()), 0);
    for hunk in hunks {
        let outcome = search.next(hunk);
        missed += usize::from(matches!(outcome, Outcome::Misses(_)));
        outcomes.push(outcome);
        if missed == MOST_MISSED {
            break;
        }
    }
    let fitted: Option<Vec<Fitted>> = outcomes
        .iter()
        .map(|outcome| match outcome {
            Outcome::Fits(fitted) => Some(*fitted),
            Outcome::Misses(_) => None,
        })
        .collect();
    let Some(fitted) = fitted else { return Err(outcomes) };
    // A diff that has such ends itself means those that it has not.
    let knows = hunks.iter().flat_map(|hunk| &hunk.lines).any(|it| it.text.ends_with(b"\r\n"));
    let crlf = how.any_ends && !knows && Observer::look(content).endings == Endings::CrLf;
    Ok(Applied { content: assembled(&search.lines, hunks, &fitted, crlf), hunks: fitted })
}

struct Search<'a> {
    lines: Vec<&'a [u8]>,
    how: How,
    /// How far the last hunk was from where it says; the next ones are as far, most likely.
    shift: isize,
    /// Lines before this one belong to hunks before.
    free: usize,
    effort: &'a mut Effort,
}

/// Where a hunk is.
enum Found {
    At(usize),
    Nowhere,
    /// Not where it was looked for, and that was not everywhere.
    Spent,
}

/// What a hunk wants to find: the lines that are there before, and how many of them are only around the change.
struct Wanted<'a> {
    lines: Vec<&'a [u8]>,
    leading: usize,
    trailing: usize,
    /// Does it say that it belongs at the very beginning?
    first: bool,
}

impl<'a> Wanted<'a> {
    fn of(hunk: &'a Hunk) -> Wanted<'a> {
        let same = |line: &&super::Line| line.sign == Sign::Same;
        Wanted {
            lines: hunk.before().collect(),
            leading: hunk.lines.iter().take_while(same).count(),
            trailing: hunk.lines.iter().rev().take_while(same).count(),
            first: hunk.old.is_some_and(|old| old <= 1),
        }
    }

    /// Where it says that it begins, from 0.
    fn place(&self, hunk: &Hunk) -> Option<usize> {
        let old = hunk.old?;
        Some(if self.lines.is_empty() { old } else { old.saturating_sub(1) })
    }
}

impl Search<'_> {
    fn next(&mut self, hunk: &Hunk) -> Outcome {
        let wanted = Wanted::of(hunk);
        let said = wanted.place(hunk);
        let guess = said.map_or(self.free, |said| said.saturating_add_signed(self.shift));
        let most = self.how.fuzz.min(wanted.leading.max(wanted.trailing));
        let mut spent = false;
        for fuzz in 0..=most {
            let found = self.find(&wanted, guess, fuzz);
            spent |= matches!(found, Found::Spent);
            let Found::At(at) = found else { continue };
            let offset = said.map_or(0, |said| distance(said, at));
            self.shift = said.map_or(self.shift, |_| offset);
            self.free = at + wanted.lines.len();
            return Outcome::Fits(Fitted { line: at + 1, offset, fuzz });
        }
        let nearest = self.nearest(&wanted, guess.min(self.lines.len()));
        Outcome::Misses(Missed { line: said.map(|said| said.saturating_add(1)), nearest, spent })
    }

    /// The place nearest to `guess` at which it fits with that fuzz.
    fn find(&mut self, wanted: &Wanted<'_>, guess: usize, fuzz: usize) -> Found {
        let (count, all) = (wanted.lines.len(), self.lines.len());
        if count == 0 {
            // Nothing to look for: it is where it says, or nowhere.
            return Found::at(guess, guess <= all && guess >= self.free);
        }
        let Some(last) = all.checked_sub(count).filter(|last| *last >= self.free) else {
            return Found::Nowhere;
        };
        // With fewer lines before it than after it, a hunk is at the beginning; the other way round, at the end.
        let longer = wanted.leading.max(wanted.trailing);
        let before = (fuzz + wanted.leading).checked_sub(longer);
        let after = (fuzz + wanted.trailing).checked_sub(longer);
        let inner = inner(count, before.unwrap_or(0), after.unwrap_or(0));
        match (before, after) {
            (None, None) if wanted.first && last > 0 => Found::Nowhere,
            (None, _) if wanted.first => {
                Found::at(0, self.free == 0 && self.alike(wanted, 0, inner) == Ok(()))
            }
            (_, None) => Found::at(last, self.alike(wanted, last, inner) == Ok(())),
            (_, Some(_)) => self.search(wanted, guess.clamp(self.free, last), last, inner),
        }
    }

    /// From the middle to both ends, downwards first.
    fn search(
        &mut self,
        wanted: &Wanted<'_>,
        guess: usize,
        last: usize,
        inner: Range<usize>,
    ) -> Found {
        let furthest = (guess - self.free).max(last - guess);
        for offset in 0..=furthest {
            if offset > 0 && self.effort.away == 0 {
                return Found::Spent;
            }
            let down = Some(guess + offset).filter(|at| *at <= last);
            let up = guess.checked_sub(offset).filter(|at| offset > 0 && *at >= self.free);
            for at in [down, up].into_iter().flatten() {
                match self.alike(wanted, at, inner.clone()) {
                    Ok(()) => return Found::At(at),
                    Err(compared) if offset > 0 => {
                        self.effort.away = self.effort.away.saturating_sub(compared);
                    }
                    Err(_) => {}
                }
            }
        }
        Found::Nowhere
    }

    /// Are these of its lines there? If not, how many had to be compared.
    fn alike(&self, wanted: &Wanted<'_>, at: usize, inner: Range<usize>) -> Result<(), usize> {
        let begin = inner.start;
        let differs = |line: &usize| !self.same(wanted.lines[*line], self.lines[at + *line]);
        inner.into_iter().find(differs).map_or(Ok(()), |line| Err(line - begin + 1))
    }

    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        one == other || (self.how.any_ends && without_end(one) == without_end(other))
    }

    /// Where most of its lines are.
    fn nearest(&mut self, wanted: &Wanted<'_>, guess: usize) -> Option<Near> {
        let of = wanted.lines.len();
        let places = (self.effort.near / of.max(1)).min(self.lines.len());
        self.effort.near -= places * of;
        let begin = guess.saturating_sub(places / 2);
        let end = self.lines.len().min(begin.saturating_add(places));
        let count = |at: usize| {
            let there = self.lines[at..].iter().zip(&wanted.lines);
            there.filter(|(there, wanted)| self.same(wanted, there)).count()
        };
        // Of those with as many, the one that is nearest to where it should be.
        let best = (begin..end)
            .map(|at| (count(at), at))
            .max_by_key(|(same, at)| (*same, std::cmp::Reverse(at.abs_diff(guess))));
        let (same, at) = best.filter(|(same, _)| *same > 0)?;
        let found = |line: usize| self.lines.get(at + line).copied();
        let differs = (0..of)
            .find(|line| found(*line).is_none_or(|found| !self.same(wanted.lines[*line], found)));
        // All of it is there, but not where the hunk may be.
        let differs = differs.unwrap_or(0);
        Some(Near {
            line: at + 1,
            same,
            of,
            differs: at + differs + 1,
            expected: wanted.lines[differs].to_vec(),
            found: found(differs).map(<[u8]>::to_vec),
        })
    }
}

impl Found {
    fn at(at: usize, fits: bool) -> Found {
        if fits { Found::At(at) } else { Found::Nowhere }
    }
}

/// The lines that have to be the same. Those that are not looked at have to be there nevertheless.
fn inner(count: usize, before: usize, after: usize) -> Range<usize> {
    let before = before.min(count);
    before..count.saturating_sub(after).max(before)
}

fn distance(from: usize, to: usize) -> isize {
    let far = isize::try_from(from.abs_diff(to)).unwrap_or(isize::MAX);
    if to < from { -far } else { far }
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn assembled(lines: &[&[u8]], hunks: &[Hunk], fitted: &[Fitted], crlf: bool) -> Vec<u8> {
    let end: &[u8] = if crlf { b"\r\n" } else { b"\n" };
    let (mut content, mut at) = (Vec::new(), 0);
    for (hunk, fitted) in hunks.iter().zip(fitted) {
        let begin = fitted.line - 1;
        extend(&mut content, &lines[at..begin], end);
        at = begin;
        for line in &hunk.lines {
            match line.sign {
                // As it is there, which may differ from what the hunk has.
                Sign::Same => extend(&mut content, &lines[at..=at], end),
                Sign::Gone => {}
                Sign::New if crlf && line.text.ends_with(b"\n") => {
                    extend(&mut content, &[without_end(&line.text), end], end);
                }
                Sign::New => extend(&mut content, &[&line.text], end),
            }
            at += usize::from(line.sign != Sign::New);
        }
    }
    extend(&mut content, &lines[at..], end);
    content
}

/// Further lines. One before them that has no end, because it was the last or is said to be, is not the last any more.
fn extend(content: &mut Vec<u8>, lines: &[&[u8]], end: &[u8]) {
    if !lines.is_empty() && content.last().is_some_and(|last| *last != b'\n') {
        content.extend_from_slice(end);
    }
    lines.iter().for_each(|line| content.extend_from_slice(line));
}
