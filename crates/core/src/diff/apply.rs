//! Applying hunks to a content: where each of them fits, as `patch` looks for it, and why one does not.

use super::index::Index;
use super::{Hunk, Sign};
use crate::content::{Endings, Nature, Observer};
use std::ops::Range;

/// Hunks that do not fit and are told. Nothing is changed then, so there is no need to know of all.
const MOST_MISSED: usize = 100;

/// How exact hunks have to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Nothing fits that `git apply` would not take: every line is there exactly, a hunk of the first line is at the beginning, and one without lines
    /// behind its change is at the end.
    AsGit,
    AsPatch {
        /// So many lines around a change, at most, may be others.
        fuzz: usize,
        /// The ends of lines may be others where it fits nowhere as it is: added lines get those of the content, unless the diff has such
        /// ends itself.
        any_ends: bool,
    },
}

impl Default for How {
    fn default() -> How {
        How::AsPatch { fuzz: 0, any_ends: false }
    }
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
    let mut search = Search::of(content, how, effort);
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
    let crlf = !knows && search.any_ends.is_some_and(|nature| nature.endings == Endings::CrLf);
    Ok(Applied { content: assembled(&search.lines, hunks, &fitted, crlf), hunks: fitted })
}

struct Search<'a> {
    lines: Index<'a>,
    how: How,
    /// What the content is like, if the ends of its lines may be others.
    any_ends: Option<Nature>,
    /// How far the last hunk was from where it says; the next ones are as far, most likely.
    shift: isize,
    /// How many lines more there are after the hunks before than before them.
    grown: isize,
    /// Hunks before.
    hunks: usize,
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

/// How the ends of two lines are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Same,
    Any,
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

    /// How its lines may be compared with those of a content, the best first; ways in which none would be found are left out.
    fn ends(&self, nature: Option<Nature>) -> &'static [Ends] {
        let Some(Nature { endings, final_newline, .. }) = nature else { return &[Ends::Same] };
        let has = |end: Endings| self.lines.iter().any(|line| end_of(line) == end);
        let [lf, crlf, open] = [Endings::Lf, Endings::CrLf, Endings::None].map(has);
        match endings {
            Endings::Lf if crlf => &[Ends::Any],
            Endings::CrLf if lf => &[Ends::Any],
            Endings::Lf | Endings::CrLf if final_newline && !open => &[Ends::Same],
            Endings::None | Endings::Lf | Endings::CrLf | Endings::Cr | Endings::Mixed => {
                &[Ends::Same, Ends::Any]
            }
        }
    }
}

impl<'a> Search<'a> {
    fn of(content: &'a [u8], how: How, effort: &'a mut Effort) -> Search<'a> {
        let any_ends = matches!(how, How::AsPatch { any_ends: true, .. });
        let any_ends = any_ends.then(|| Observer::look(content));
        let lines = Index::of(content);
        Search { lines, how, any_ends, shift: 0, grown: 0, hunks: 0, free: 0, effort }
    }

    fn next(&mut self, hunk: &Hunk) -> Outcome {
        let wanted = Wanted::of(hunk);
        let said = wanted.place(hunk);
        let guess = said.map_or(self.free, |said| said.saturating_add_signed(self.shift));
        let (found, fuzz) = match self.how {
            How::AsGit => (self.find_as_git(&wanted, hunk), 0),
            How::AsPatch { fuzz, .. } => self.find_as_patch(&wanted, guess, fuzz),
        };
        if let Found::At(at) = found {
            let offset = said.map_or(0, |said| distance(said, at));
            self.shift = said.map_or(self.shift, |_| offset);
            self.free = at + wanted.lines.len();
            self.grown += distance(wanted.lines.len(), hunk.after().count());
            self.hunks += 1;
            return Outcome::Fits(Fitted { line: at + 1, offset, fuzz });
        }
        let nearest = self.nearest(&wanted, guess.min(self.lines.count()));
        let (line, spent) =
            (said.map(|said| said.saturating_add(1)), matches!(found, Found::Spent));
        Outcome::Misses(Missed { line, nearest, spent })
    }

    /// Where git has it. It looks from the line it has after, whatever was with the hunks before.
    fn find_as_git(&mut self, wanted: &Wanted<'_>, hunk: &Hunk) -> Found {
        let count = wanted.lines.len();
        let Some(last) = self.lines.count().checked_sub(count) else { return Found::Nowhere };
        let (all, at_end) = (0..count, wanted.trailing == 0);
        let fits =
            |at: usize| Found::at(at, self.alike(wanted, at, all.clone(), Ends::Same) == Ok(()));
        match (wanted.first, at_end) {
            (true, _) if self.hunks > 0 || (at_end && last > 0) => Found::Nowhere,
            (true, _) => fits(0),
            // Without any lines to be known by, git would take it for one of the end, wherever it says to be.
            (false, true) if last < self.free || count == 0 => Found::Nowhere,
            (false, true) => fits(last),
            (false, false) => {
                let said = hunk.new.unwrap_or(0).saturating_sub(1);
                let guess = said.saturating_add_signed(self.grown.saturating_neg()).min(last);
                match self.search(wanted, guess, 0..last + 1, all, Ends::Same) {
                    // There git would have it.
                    Found::At(at) if at < self.free => Found::Nowhere,
                    found @ (Found::At(_) | Found::Nowhere | Found::Spent) => found,
                }
            }
        }
    }

    /// Where it fits with the least fuzz, and how much that is.
    fn find_as_patch(&mut self, wanted: &Wanted<'_>, guess: usize, fuzz: usize) -> (Found, usize) {
        let most = fuzz.min(wanted.leading.max(wanted.trailing));
        let mut spent = false;
        for fuzz in 0..=most {
            for ends in wanted.ends(self.any_ends) {
                match self.find(wanted, guess, fuzz, *ends) {
                    Found::At(at) => return (Found::At(at), fuzz),
                    Found::Nowhere => {}
                    Found::Spent => spent = true,
                }
            }
        }
        (if spent { Found::Spent } else { Found::Nowhere }, 0)
    }

    /// The place nearest to `guess` at which it fits with that fuzz.
    fn find(&mut self, wanted: &Wanted<'_>, guess: usize, fuzz: usize, ends: Ends) -> Found {
        let (count, all) = (wanted.lines.len(), self.lines.count());
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
                Found::at(0, self.free == 0 && self.alike(wanted, 0, inner, ends) == Ok(()))
            }
            (_, None) => Found::at(last, self.alike(wanted, last, inner, ends) == Ok(())),
            (_, Some(_)) => {
                self.search(wanted, guess.clamp(self.free, last), self.free..last + 1, inner, ends)
            }
        }
    }

    /// From the guess to both ends of these places, downwards first.
    fn search(
        &mut self,
        wanted: &Wanted<'_>,
        guess: usize,
        places: Range<usize>,
        inner: Range<usize>,
        ends: Ends,
    ) -> Found {
        let furthest = (guess - places.start).max(places.end - 1 - guess);
        for offset in 0..=furthest {
            if offset > 0 && self.effort.away == 0 {
                return Found::Spent;
            }
            let down = Some(guess + offset).filter(|at| *at < places.end);
            let up = guess.checked_sub(offset).filter(|at| offset > 0 && *at >= places.start);
            for at in [down, up].into_iter().flatten() {
                match self.alike(wanted, at, inner.clone(), ends) {
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
    fn alike(
        &self,
        wanted: &Wanted<'_>,
        at: usize,
        inner: Range<usize>,
        ends: Ends,
    ) -> Result<(), usize> {
        let begin = inner.start;
        let mut differs = inner.filter(|line| {
            let there = self.lines.get(at + line);
            !there.is_some_and(|there| self.same(wanted.lines[*line], there, at + line, ends))
        });
        differs.next().map_or(Ok(()), |line| Err(line - begin + 1))
    }

    /// A line of a hunk without an end is the last one, whatever its end is there.
    fn same(&self, wanted: &[u8], there: &[u8], at: usize, ends: Ends) -> bool {
        let last = || wanted.ends_with(b"\n") || at + 1 == self.lines.count();
        wanted == there
            || (ends == Ends::Any && without_end(wanted) == without_end(there) && last())
    }

    /// Where most of its lines are.
    fn nearest(&mut self, wanted: &Wanted<'_>, guess: usize) -> Option<Near> {
        let of = wanted.lines.len();
        let places = (self.effort.near / of.max(1)).min(self.lines.count());
        self.effort.near -= places * of;
        let begin = guess.saturating_sub(places / 2);
        let end = self.lines.count().min(begin.saturating_add(places));
        let ends = if self.any_ends.is_some() { Ends::Any } else { Ends::Same };
        let same = |(number, (wanted, there)): &(usize, (&&[u8], &[u8]))| {
            self.same(wanted, there, *number, ends)
        };
        let count = |at: usize| {
            (at..).zip(wanted.lines.iter().zip(self.lines.from(at))).filter(same).count()
        };
        // Of those with as many, the one that is nearest to where it should be.
        let best = (begin..end)
            .map(|at| (count(at), at))
            .max_by_key(|(same, at)| (*same, std::cmp::Reverse(at.abs_diff(guess))));
        let (same, at) = best.filter(|(same, _)| *same > 0)?;
        let compared = self.alike(wanted, at, 0..of, ends);
        // All of it is there, but not where the hunk may be.
        let differs = compared.err().map_or(0, |compared| compared - 1);
        Some(Near {
            line: at + 1,
            same,
            of,
            differs: at + differs + 1,
            expected: wanted.lines[differs].to_vec(),
            found: self.lines.get(at + differs).map(<[u8]>::to_vec),
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

/// How a single line ends.
fn end_of(line: &[u8]) -> Endings {
    match line {
        [.., b'\r', b'\n'] => Endings::CrLf,
        [.., b'\n'] => Endings::Lf,
        _ => Endings::None,
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    match line {
        [rest @ .., b'\r', b'\n'] | [rest @ .., b'\n'] => rest,
        _ => line,
    }
}

fn assembled(lines: &Index<'_>, hunks: &[Hunk], fitted: &[Fitted], crlf: bool) -> Vec<u8> {
    let end: &[u8] = if crlf { b"\r\n" } else { b"\n" };
    let (mut content, mut at) = (Vec::with_capacity(lines.range(0..lines.count()).len()), 0);
    for (hunk, fitted) in hunks.iter().zip(fitted) {
        let begin = fitted.line - 1;
        extend(&mut content, lines.range(at..begin), end);
        at = begin;
        for line in &hunk.lines {
            match line.sign {
                // As it is there, which may differ from what the hunk has.
                Sign::Same => extend(&mut content, lines.range(at..at + 1), end),
                Sign::Gone => {}
                Sign::New if crlf && line.text.ends_with(b"\n") => {
                    extend(&mut content, &[without_end(&line.text), end].concat(), end);
                }
                Sign::New => extend(&mut content, &line.text, end),
            }
            at += usize::from(line.sign != Sign::New);
        }
    }
    extend(&mut content, lines.range(at..lines.count()), end);
    content
}

/// Further lines. One before them that has no end, because it was the last or is said to be, is not the last any more.
fn extend(content: &mut Vec<u8>, lines: &[u8], end: &[u8]) {
    if !lines.is_empty() && content.last().is_some_and(|last| *last != b'\n') {
        content.extend_from_slice(end);
    }
    content.extend_from_slice(lines);
}
