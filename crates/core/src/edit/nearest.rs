//! Finds the places nearest to a text that does not occur, for callers that typed it from memory.

/// Maximum number of reported places.
const MAX_CANDIDATES: usize = 3;

/// Minimum likeness of two related texts.
const ALIKE: f64 = 0.5;

/// Maximum number of lines of the text to compare, and of the content to examine. Both are far more
/// than an edit needs, and few enough to be fast for a text that is in no file.
const MAX_LINES: usize = 40;
const MAX_POSITIONS: usize = 50_000;

/// Maximum length of a reported line: enough to recognise it.
const MAX_LINE_BYTES: usize = 200;

/// Maximum number of lines for which similar lines count, not only equal ones.
const FEW: usize = 3;

/// A place that almost matches the text.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// From 1.
    pub line: usize,
    /// From 0 to 1.
    pub likeness: f64,
    /// It differs only in white space.
    pub blanks: bool,
    /// The text at this place, with as many lines as the search text.
    pub text: String,
}

/// Returns the nearest places, best first.
pub(super) fn candidates(content: &[u8], text: &[u8]) -> Vec<Candidate> {
    let wanted: Vec<NormalizedLine> = lines(text).take(MAX_LINES).map(NormalizedLine::of).collect();
    let there: Vec<NormalizedLine> =
        lines(content).take(MAX_POSITIONS).map(NormalizedLine::of).collect();
    // A long text is recognised by its equal lines alone.
    let few = wanted.len() <= FEW;
    let mut pairs: Vec<Pairs> = wanted.iter().filter(|_| few).map(Pairs::of).collect();
    let mut found: Vec<(f64, usize)> = (0..there.len())
        .map(|at| (likeness(&wanted, &mut pairs, &there[at..]), at))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    found.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut kept: Vec<(f64, usize)> = Vec::new();
    for (likeness, at) in found {
        let apart = |(_, other): &(f64, usize)| other.abs_diff(at) >= wanted.len();
        if kept.len() < MAX_CANDIDATES && kept.iter().all(apart) {
            kept.push((likeness, at));
        }
    }
    let candidate = |(likeness, at): (f64, usize)| {
        let place = &there[at..there.len().min(at + wanted.len())];
        let blanks = wanted.iter().zip(place).all(|(one, other)| one.words == other.words);
        Candidate {
            line: at + 1,
            likeness,
            blanks: blanks && place.len() == wanted.len(),
            text: place.iter().map(|line| format!("{}\n", line.shown)).collect(),
        }
    };
    kept.into_iter().map(candidate).collect()
}

/// A line prepared for comparison.
struct NormalizedLine {
    shown: String,
    /// Without white space.
    words: String,
}

impl NormalizedLine {
    fn of(line: &[u8]) -> NormalizedLine {
        let line = &line[..line.len().min(4 * MAX_LINE_BYTES)];
        let text = String::from_utf8_lossy(line);
        let shown: String = text.trim_end().chars().take(MAX_LINE_BYTES).collect();
        let words = shown.split_whitespace().collect();
        NormalizedLine { shown, words }
    }
}

/// Lines with their endings.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

/// The letter pairs of a line and their counts. They are counted once, so that a comparison with
/// every line of a content is cheap.
struct Pairs {
    counts: Vec<u16>,
    all: usize,
    /// Pairs that the other line shares, during a comparison.
    shared: Vec<usize>,
}

impl Pairs {
    fn of(line: &NormalizedLine) -> Pairs {
        let mut counts = vec![0; 1 << 16];
        let all = pairs(line).map(|pair| counts[pair] += 1).count();
        Pairs { counts, all, shared: Vec::with_capacity(all) }
    }

    /// Twice the shared pairs, divided by the pairs of both lines (the Sørensen–Dice coefficient).
    fn likeness(&mut self, other: &NormalizedLine) -> f64 {
        self.shared.clear();
        let mut all = self.all;
        for pair in pairs(other) {
            all += 1;
            if self.counts[pair] > 0 {
                self.counts[pair] -= 1;
                self.shared.push(pair);
            }
        }
        for pair in &self.shared {
            self.counts[*pair] += 1;
        }
        if all == 0 { 0.0 } else { 2.0 * self.shared.len() as f64 / all as f64 }
    }
}

fn pairs(line: &NormalizedLine) -> impl Iterator<Item = usize> {
    line.words.as_bytes().windows(2).map(|pair| usize::from(pair[0]) << 8 | usize::from(pair[1]))
}

/// The share of a text that matches here. A line equal except for white space counts fully, a
/// similar one in part.
fn likeness(wanted: &[NormalizedLine], pairs: &mut [Pairs], there: &[NormalizedLine]) -> f64 {
    let one = |(number, (wanted, there)): (usize, (&NormalizedLine, &NormalizedLine))| match (
        wanted.words == there.words,
        pairs.get_mut(number),
    ) {
        (true, _) => 1.0,
        (false, Some(pairs)) => pairs.likeness(there),
        (false, None) => 0.0,
    };
    let all: f64 = wanted.iter().zip(there).enumerate().map(one).sum();
    // Empty lines are everywhere, so they prove nothing.
    let said = wanted.iter().any(|line| !line.words.is_empty());
    if said { all / wanted.len() as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_nearest_place_in_a_large_content_is_found() {
        let letter = |at: usize| char::from(b"abcdefgh (){};="[at % 15]);
        let line = |number: usize| (0..120).map(move |at| letter(number * at + at / 7 + number));
        let mut content: String = (0..49_000).flat_map(|n| line(n).chain(['\n'])).collect();
        content.push_str("let total = something(that, is, there); // of all of them\n");
        let text = b"let totals = something(that, is, not, there); // of all of them\n";
        let near = candidates(content.as_bytes(), text);
        assert_eq!((near[0].line, near[0].blanks), (49_001, false), "{near:?}");
        assert!(near[0].likeness > 0.9, "{near:?}");
    }

    proptest! {
        #[test]
        fn lines_are_as_alike_as_the_reference_says(one in "[ab c]{0,12}", other in "[ab c]{0,12}") {
            let (one, other) = (NormalizedLine::of(one.as_bytes()), NormalizedLine::of(other.as_bytes()));
            prop_assume!(one.words != other.words);
            let mut pairs = Pairs::of(&one);
            let expected = strsim::sorensen_dice(&one.words, &other.words);
            prop_assert_eq!(pairs.likeness(&other), expected);
            prop_assert_eq!(pairs.likeness(&other), expected, "again");
        }
    }
}
