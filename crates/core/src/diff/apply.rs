//! Applies hunks to a content: searches for each position as `patch` does, and explains each miss.

use super::index::LineIndex;
use super::{Hunk, Sign};
use crate::content::{ContentKind, LineEndings, Observer};
use std::ops::Range;

/// Maximum number of reported misses. A miss leaves the content unchanged, so a complete list is
/// not needed.
const MAX_REJECTED_HUNKS: usize = 100;

/// The required precision of a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// Accepts only what `git apply` accepts: every line matches exactly, a hunk for line 1 is at
    /// the beginning, and a hunk without trailing context is at the end.
    AsGit,
    AsPatch {
        /// Maximum number of context lines that may differ.
        fuzz: usize,
        /// If a hunk matches nowhere exactly, line endings may differ. Added lines then get the
        /// endings of the content, unless the diff itself contains `\r\n`.
        any_ends: bool,
    },
}

impl Default for MatchMode {
    fn default() -> MatchMode {
        MatchMode::AsPatch { fuzz: 0, any_ends: false }
    }
}

/// Remaining budget of line comparisons for all hunks of a diff together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComparisonBudget {
    /// Comparisons left to search for hunks away from their stated line.
    pub away: usize,
    /// Comparisons left to find the nearest match of hunks that miss.
    pub near: usize,
}

impl Default for ComparisonBudget {
    /// The first limit exceeds the needs of any real diff: a hundred hunks, each a million lines
    /// away.
    fn default() -> ComparisonBudget {
        ComparisonBudget { away: 100_000_000, near: 2_000_000 }
    }
}

/// A hunk that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedHunk {
    /// First line of the old content that it covers, from 1.
    pub line: usize,
    /// Distance from its stated line.
    pub offset: isize,
    /// Number of context lines that were ignored.
    pub fuzz: usize,
}

/// A hunk that does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedHunk {
    /// Its stated line, from 1.
    pub line: Option<usize>,
    /// The place where most of its lines match, if any do.
    pub nearest: Option<NearestMatch>,
    /// The budget ran out before the whole content was searched.
    pub spent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearestMatch {
    /// From 1.
    pub line: usize,
    pub same: usize,
    pub of: usize,
    /// The first line that differs: its number, the text in the hunk, and the text in the content.
    pub differs: usize,
    pub expected: Vec<u8>,
    pub found: Option<Vec<u8>>,
}

/// The result for one hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkOutcome {
    Fits(AppliedHunk),
    Misses(RejectedHunk),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub content: Vec<u8>,
    pub hunks: Vec<AppliedHunk>,
}

/// Returns the content after all hunks. If one does not match, returns the outcome of each instead.
pub fn apply(content: &[u8], hunks: &[Hunk], how: MatchMode) -> Result<Applied, Vec<HunkOutcome>> {
    apply_with(content, hunks, how, &mut ComparisonBudget::default())
}

/// Like [`apply`], with the budget left by other files. Without any budget, a hunk is tried only at
/// its expected line.
pub fn apply_with(
    content: &[u8],
    hunks: &[Hunk],
    how: MatchMode,
    effort: &mut ComparisonBudget,
) -> Result<Applied, Vec<HunkOutcome>> {
    let mut search = Search::of(content, how, effort);
    let (mut outcomes, mut missed) = (Vec::with_capacity(hunks.len()), 0);
    for hunk in hunks {
        let outcome = search.next(hunk);
        missed += usize::from(matches!(outcome, HunkOutcome::Misses(_)));
        outcomes.push(outcome);
        if missed == MAX_REJECTED_HUNKS {
            break;
        }
    }
    let fitted: Option<Vec<AppliedHunk>> = outcomes
        .iter()
        .map(|outcome| match outcome {
            HunkOutcome::Fits(fitted) => Some(*fitted),
            HunkOutcome::Misses(_) => None,
        })
        .collect();
    let Some(fitted) = fitted else { return Err(outcomes) };
    // A diff that contains `\r\n` itself means its other endings literally.
    let knows = hunks.iter().flat_map(|hunk| &hunk.lines).any(|it| it.text.ends_with(b"\r\n"));
    let crlf = !knows && search.any_ends.is_some_and(|nature| nature.endings == LineEndings::CrLf);
    Ok(Applied { content: assembled(&search.lines, hunks, &fitted, crlf), hunks: fitted })
}

struct Search<'a> {
    lines: LineIndex<'a>,
    how: MatchMode,
    /// The properties of the content, if line endings may differ.
    any_ends: Option<ContentKind>,
    /// Distance of the last hunk from its stated line; the next hunks are most likely as far off.
    shift: isize,
    /// Number of lines that earlier hunks added, minus those they removed.
    grown: isize,
    /// Number of hunks already applied.
    hunks: usize,
    /// Lines before this one belong to earlier hunks.
    free: usize,
    effort: &'a mut ComparisonBudget,
}

/// The result of a search for a hunk.
enum HunkLocation {
    At(usize),
    Nowhere,
    /// Not found, but the budget ran out before the search was complete.
    Spent,
}

/// The comparison of line endings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndingComparison {
    Same,
    Any,
}

/// The lines that a hunk expects in the old content, with its leading and trailing context.
struct HunkPattern<'a> {
    lines: Vec<&'a [u8]>,
    leading: usize,
    trailing: usize,
    /// Whether the hunk states that it starts at the first line.
    first: bool,
}

impl<'a> HunkPattern<'a> {
    fn of(hunk: &'a Hunk) -> HunkPattern<'a> {
        let same = |line: &&super::DiffLine| line.sign == Sign::Same;
        HunkPattern {
            lines: hunk.before().collect(),
            leading: hunk.lines.iter().take_while(same).count(),
            trailing: hunk.lines.iter().rev().take_while(same).count(),
            first: hunk.old.is_some_and(|old| old <= 1),
        }
    }

    /// Its stated start, from 0.
    fn place(&self, hunk: &Hunk) -> Option<usize> {
        let old = hunk.old?;
        Some(if self.lines.is_empty() { old } else { old.saturating_sub(1) })
    }

    /// The ways to compare its lines with those of a content, best first. Omits those that cannot
    /// match.
    fn ends(&self, nature: Option<ContentKind>) -> &'static [EndingComparison] {
        let Some(ContentKind { endings, final_newline, .. }) = nature else {
            return &[EndingComparison::Same];
        };
        let has = |end: LineEndings| self.lines.iter().any(|line| end_of(line) == end);
        let [lf, crlf, open] = [LineEndings::Lf, LineEndings::CrLf, LineEndings::None].map(has);
        match endings {
            LineEndings::Lf if crlf => &[EndingComparison::Any],
            LineEndings::CrLf if lf => &[EndingComparison::Any],
            LineEndings::Lf | LineEndings::CrLf if final_newline && !open => {
                &[EndingComparison::Same]
            }
            LineEndings::None
            | LineEndings::Lf
            | LineEndings::CrLf
            | LineEndings::Cr
            | LineEndings::Mixed => &[EndingComparison::Same, EndingComparison::Any],
        }
    }
}

impl<'a> Search<'a> {
    fn of(content: &'a [u8], how: MatchMode, effort: &'a mut ComparisonBudget) -> Search<'a> {
        let any_ends = matches!(how, MatchMode::AsPatch { any_ends: true, .. });
        let any_ends = any_ends.then(|| Observer::look(content));
        let lines = LineIndex::of(content);
        Search { lines, how, any_ends, shift: 0, grown: 0, hunks: 0, free: 0, effort }
    }

    fn next(&mut self, hunk: &Hunk) -> HunkOutcome {
        let wanted = HunkPattern::of(hunk);
        let said = wanted.place(hunk);
        let guess = said.map_or(self.free, |said| said.saturating_add_signed(self.shift));
        let (found, fuzz) = match self.how {
            MatchMode::AsGit => (self.find_as_git(&wanted, hunk), 0),
            MatchMode::AsPatch { fuzz, .. } => self.find_as_patch(&wanted, guess, fuzz),
        };
        if let HunkLocation::At(at) = found {
            let offset = said.map_or(0, |said| distance(said, at));
            self.shift = said.map_or(self.shift, |_| offset);
            self.free = at + wanted.lines.len();
            self.grown += distance(wanted.lines.len(), hunk.after().count());
            self.hunks += 1;
            return HunkOutcome::Fits(AppliedHunk { line: at + 1, offset, fuzz });
        }
        let nearest = self.nearest(&wanted, guess.min(self.lines.count()));
        let (line, spent) =
            (said.map(|said| said.saturating_add(1)), matches!(found, HunkLocation::Spent));
        HunkOutcome::Misses(RejectedHunk { line, nearest, spent })
    }

    /// Finds the position that git uses. Git starts at the hunk's line in the new content and
    /// ignores earlier offsets.
    fn find_as_git(&mut self, wanted: &HunkPattern<'_>, hunk: &Hunk) -> HunkLocation {
        let count = wanted.lines.len();
        let Some(last) = self.lines.count().checked_sub(count) else {
            return HunkLocation::Nowhere;
        };
        let (all, at_end) = (0..count, wanted.trailing == 0);
        let fits = |at: usize| {
            HunkLocation::at(
                at,
                self.alike(wanted, at, all.clone(), EndingComparison::Same) == Ok(()),
            )
        };
        match (wanted.first, at_end) {
            (true, _) if self.hunks > 0 || (at_end && last > 0) => HunkLocation::Nowhere,
            (true, _) => fits(0),
            // Git would place a hunk without context or removed lines at the end, whatever line it
            // states.
            (false, true) if last < self.free || count == 0 => HunkLocation::Nowhere,
            (false, true) => fits(last),
            (false, false) => {
                let said = hunk.new.unwrap_or(0).saturating_sub(1);
                let guess = said.saturating_add_signed(self.grown.saturating_neg()).min(last);
                match self.search(wanted, guess, 0..last + 1, all, EndingComparison::Same) {
                    // Git would apply it inside an earlier hunk.
                    HunkLocation::At(at) if at < self.free => HunkLocation::Nowhere,
                    found @ (HunkLocation::At(_) | HunkLocation::Nowhere | HunkLocation::Spent) => {
                        found
                    }
                }
            }
        }
    }

    /// Finds the position with the least fuzz, and returns that fuzz.
    fn find_as_patch(
        &mut self,
        wanted: &HunkPattern<'_>,
        guess: usize,
        fuzz: usize,
    ) -> (HunkLocation, usize) {
        let most = fuzz.min(wanted.leading.max(wanted.trailing));
        let mut spent = false;
        for fuzz in 0..=most {
            for ends in wanted.ends(self.any_ends) {
                match self.find(wanted, guess, fuzz, *ends) {
                    HunkLocation::At(at) => return (HunkLocation::At(at), fuzz),
                    HunkLocation::Nowhere => {}
                    HunkLocation::Spent => spent = true,
                }
            }
        }
        (if spent { HunkLocation::Spent } else { HunkLocation::Nowhere }, 0)
    }

    /// Finds the position nearest to `guess` where the hunk matches with this fuzz.
    fn find(
        &mut self,
        wanted: &HunkPattern<'_>,
        guess: usize,
        fuzz: usize,
        ends: EndingComparison,
    ) -> HunkLocation {
        let (count, all) = (wanted.lines.len(), self.lines.count());
        if count == 0 {
            // There are no lines to match: the hunk goes to its stated line or nowhere.
            return HunkLocation::at(guess, guess <= all && guess >= self.free);
        }
        let Some(last) = all.checked_sub(count).filter(|last| *last >= self.free) else {
            return HunkLocation::Nowhere;
        };
        // A hunk with less leading than trailing context is at the beginning; one with less
        // trailing context is at the end.
        let longer = wanted.leading.max(wanted.trailing);
        let before = (fuzz + wanted.leading).checked_sub(longer);
        let after = (fuzz + wanted.trailing).checked_sub(longer);
        let inner = inner(count, before.unwrap_or(0), after.unwrap_or(0));
        match (before, after) {
            (None, None) if wanted.first && last > 0 => HunkLocation::Nowhere,
            (None, _) if wanted.first => {
                HunkLocation::at(0, self.free == 0 && self.alike(wanted, 0, inner, ends) == Ok(()))
            }
            (_, None) => HunkLocation::at(last, self.alike(wanted, last, inner, ends) == Ok(())),
            (_, Some(_)) => {
                self.search(wanted, guess.clamp(self.free, last), self.free..last + 1, inner, ends)
            }
        }
    }

    /// Searches from the guess towards both ends of the range, downwards first.
    fn search(
        &mut self,
        wanted: &HunkPattern<'_>,
        guess: usize,
        places: Range<usize>,
        inner: Range<usize>,
        ends: EndingComparison,
    ) -> HunkLocation {
        let furthest = (guess - places.start).max(places.end - 1 - guess);
        for offset in 0..=furthest {
            if offset > 0 && self.effort.away == 0 {
                return HunkLocation::Spent;
            }
            let down = Some(guess + offset).filter(|at| *at < places.end);
            let up = guess.checked_sub(offset).filter(|at| offset > 0 && *at >= places.start);
            for at in [down, up].into_iter().flatten() {
                match self.alike(wanted, at, inner.clone(), ends) {
                    Ok(()) => return HunkLocation::At(at),
                    Err(compared) if offset > 0 => {
                        self.effort.away = self.effort.away.saturating_sub(compared);
                    }
                    Err(_) => {}
                }
            }
        }
        HunkLocation::Nowhere
    }

    /// Compares these lines of the hunk with the content. On a mismatch, returns the number of
    /// comparisons.
    fn alike(
        &self,
        wanted: &HunkPattern<'_>,
        at: usize,
        inner: Range<usize>,
        ends: EndingComparison,
    ) -> Result<(), usize> {
        let begin = inner.start;
        let mut differs = inner.filter(|line| {
            let there = self.lines.get(at + line);
            !there.is_some_and(|there| self.same(wanted.lines[*line], there, at + line, ends))
        });
        differs.next().map_or(Ok(()), |line| Err(line - begin + 1))
    }

    /// A hunk line without an ending is the last one, whatever ending the content has there.
    fn same(&self, wanted: &[u8], there: &[u8], at: usize, ends: EndingComparison) -> bool {
        let last = || wanted.ends_with(b"\n") || at + 1 == self.lines.count();
        wanted == there
            || (ends == EndingComparison::Any
                && without_end(wanted) == without_end(there)
                && last())
    }

    /// Finds the place where most of its lines match.
    fn nearest(&mut self, wanted: &HunkPattern<'_>, guess: usize) -> Option<NearestMatch> {
        let of = wanted.lines.len();
        let places = (self.effort.near / of.max(1)).min(self.lines.count());
        self.effort.near -= places * of;
        let begin = guess.saturating_sub(places / 2);
        let end = self.lines.count().min(begin.saturating_add(places));
        let ends =
            if self.any_ends.is_some() { EndingComparison::Any } else { EndingComparison::Same };
        let same = |(number, (wanted, there)): &(usize, (&&[u8], &[u8]))| {
            self.same(wanted, there, *number, ends)
        };
        let count = |at: usize| {
            (at..).zip(wanted.lines.iter().zip(self.lines.from(at))).filter(same).count()
        };
        // Among equally good places, prefers the one nearest to the expected line.
        let best = (begin..end)
            .map(|at| (count(at), at))
            .max_by_key(|(same, at)| (*same, std::cmp::Reverse(at.abs_diff(guess))));
        let (same, at) = best.filter(|(same, _)| *same > 0)?;
        let compared = self.alike(wanted, at, 0..of, ends);
        // Every line matches, but at a place where the hunk may not go.
        let differs = compared.err().map_or(0, |compared| compared - 1);
        Some(NearestMatch {
            line: at + 1,
            same,
            of,
            differs: at + differs + 1,
            expected: wanted.lines[differs].to_vec(),
            found: self.lines.get(at + differs).map(<[u8]>::to_vec),
        })
    }
}

impl HunkLocation {
    fn at(at: usize, fits: bool) -> HunkLocation {
        if fits { HunkLocation::At(at) } else { HunkLocation::Nowhere }
    }
}

/// The lines that must match. Ignored context lines must still exist.
fn inner(count: usize, before: usize, after: usize) -> Range<usize> {
    let before = before.min(count);
    before..count.saturating_sub(after).max(before)
}

fn distance(from: usize, to: usize) -> isize {
    let far = isize::try_from(from.abs_diff(to)).unwrap_or(isize::MAX);
    if to < from { -far } else { far }
}

/// The ending of a single line.
fn end_of(line: &[u8]) -> LineEndings {
    match line {
        [.., b'\r', b'\n'] => LineEndings::CrLf,
        [.., b'\n'] => LineEndings::Lf,
        _ => LineEndings::None,
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    match line {
        [rest @ .., b'\r', b'\n'] | [rest @ .., b'\n'] => rest,
        _ => line,
    }
}

fn assembled(lines: &LineIndex<'_>, hunks: &[Hunk], fitted: &[AppliedHunk], crlf: bool) -> Vec<u8> {
    let end: &[u8] = if crlf { b"\r\n" } else { b"\n" };
    let (mut content, mut at) = (Vec::with_capacity(lines.range(0..lines.count()).len()), 0);
    for (hunk, fitted) in hunks.iter().zip(fitted) {
        let begin = fitted.line - 1;
        extend(&mut content, lines.range(at..begin), end);
        at = begin;
        for line in &hunk.lines {
            match line.sign {
                // Keep the content's version, which may differ from the hunk's.
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

/// Appends lines. If the line before them has no ending, because it was the last, it gets one.
fn extend(content: &mut Vec<u8>, lines: &[u8], end: &[u8]) {
    if !lines.is_empty() && content.last().is_some_and(|last| *last != b'\n') {
        content.extend_from_slice(end);
    }
    content.extend_from_slice(lines);
}
