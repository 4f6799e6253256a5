//! Finds lines by number, with bounded memory even if lines are short.

use std::ops::Range;

/// Maximum number of stored line starts. For a content with more lines, only every n-th start is
/// stored, and the lines after it are counted from there.
const MAX_INDEXED_LINES: usize = 4 << 20;

pub(super) struct LineIndex<'a> {
    content: &'a [u8],
    /// The start of every n-th line.
    starts: Vec<usize>,
    every: usize,
    count: usize,
}

impl<'a> LineIndex<'a> {
    pub(super) fn of(content: &'a [u8]) -> LineIndex<'a> {
        LineIndex::with(content, MAX_INDEXED_LINES)
    }

    fn with(content: &'a [u8], most: usize) -> LineIndex<'a> {
        let open = content.last().is_some_and(|last| *last != b'\n');
        let count = memchr::memchr_iter(b'\n', content).count() + usize::from(open);
        let every = count / most + 1;
        let ends = memchr::memchr_iter(b'\n', content).map(|end| end + 1);
        let starts = std::iter::once(0).chain(ends).step_by(every);
        // A start at the end of the content is not a line.
        let mut kept = Vec::with_capacity(count / every + 1);
        kept.extend(starts.take(count.div_ceil(every)));
        LineIndex { content, starts: kept, every, count }
    }

    /// Number of lines.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns a line (from 0) with its ending; `None` after the last.
    pub(super) fn get(&self, line: usize) -> Option<&'a [u8]> {
        (line < self.count).then(|| self.range(line..line + 1))
    }

    /// Returns these lines unchanged; all of them must exist.
    pub(super) fn range(&self, lines: Range<usize>) -> &'a [u8] {
        &self.content[self.start(lines.start)..self.start(lines.end)]
    }

    /// Iterates from this line on; each line has its ending.
    pub(super) fn from(&self, line: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.content[self.start(line)..].split_inclusive(|byte| *byte == b'\n')
    }

    fn start(&self, line: usize) -> usize {
        if line >= self.count {
            return self.content.len();
        }
        if self.every == 1 {
            return self.starts[line];
        }
        let known = self.starts[line / self.every];
        let mut ends = memchr::memchr_iter(b'\n', &self.content[known..]).map(|end| end + 1);
        let further = line % self.every;
        known + if further == 0 { 0 } else { ends.nth(further - 1).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_the_same_however_few_places_are_kept(content in "[ab\n]{0,40}", most in 1usize..20) {
            let (content, expected) = (content.as_bytes(), lines(content.as_bytes()));
            let index = LineIndex::with(content, most);
            prop_assert!(index.starts.len() <= most + 1, "{} of {most}", index.starts.len());
            prop_assert_eq!(index.count(), expected.len());
            for from in 0..=expected.len() {
                prop_assert_eq!(index.get(from), expected.get(from).copied());
                prop_assert_eq!(&index.from(from).collect::<Vec<_>>(), &expected[from..]);
                for to in from..=expected.len() {
                    prop_assert_eq!(index.range(from..to), expected[from..to].concat());
                }
            }
        }
    }

    #[test]
    fn very_many_lines_take_little_memory() {
        let content = vec![b'\n'; 3 * MAX_INDEXED_LINES];
        let index = LineIndex::of(&content);
        assert_eq!(index.count(), 3 * MAX_INDEXED_LINES);
        assert!(index.starts.capacity() <= MAX_INDEXED_LINES, "{}", index.starts.capacity());
        assert_eq!(index.get(3 * MAX_INDEXED_LINES - 1), Some(&b"\n"[..]));
    }
}
