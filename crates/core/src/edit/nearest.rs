//! Where a text that is not there would come nearest: for whoever typed it from memory.

/// Places that are told.
const MOST: usize = 3;

/// Less alike than this, two texts have nothing to do with each other.
const ALIKE: f64 = 0.5;

/// Of the text, so many lines are compared, and of a content so many lines looked at: far more than people write in one edit,
/// and little enough to be quick, also for who has pasted what is in no file.
const MOST_LINES: usize = 40;
const MOST_PLACES: usize = 50_000;

/// Of a line: enough to know it again.
const LONGEST: usize = 200;

/// Of a text with no more lines than this, lines that only resemble each other count.
const FEW: usize = 3;

/// A place that is nearly what was looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// From 1.
    pub line: usize,
    /// From 0 to 1.
    pub likeness: f64,
    /// It differs in nothing but blanks.
    pub blanks: bool,
    /// What is there, as many lines as the text has.
    pub text: String,
}

/// The places that come nearest, the best first.
pub(super) fn candidates(content: &[u8], text: &[u8]) -> Vec<Candidate> {
    let wanted: Vec<Known> = lines(text).take(MOST_LINES).map(Known::of).collect();
    let there: Vec<Known> = lines(content).take(MOST_PLACES).map(Known::of).collect();
    // Of a long text, lines that are the same are enough to know it by.
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
        if kept.len() < MOST && kept.iter().all(apart) {
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

/// A line as it is compared.
struct Known {
    shown: String,
    /// Without blanks.
    words: String,
}

impl Known {
    fn of(line: &[u8]) -> Known {
        let line = &line[..line.len().min(4 * LONGEST)];
        let text = String::from_utf8_lossy(line);
        let shown: String = text.trim_end().chars().take(LONGEST).collect();
        let words = shown.split_whitespace().collect();
        Known { shown, words }
    }
}

/// With their ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

/// Which pairs of letters a line has, and how often each: counted once, so that it costs little to compare it with every line
/// of a content.
struct Pairs {
    counts: Vec<u16>,
    all: usize,
    /// Those that the other line has, too, while it is compared.
    shared: Vec<usize>,
}

impl Pairs {
    fn of(line: &Known) -> Pairs {
        let mut counts = vec![0; 1 << 16];
        let all = pairs(line).map(|pair| counts[pair] += 1).count();
        Pairs { counts, all, shared: Vec::with_capacity(all) }
    }

    /// Twice what both have, by what each has (the coefficient of Dice and Sørensen).
    fn likeness(&mut self, other: &Known) -> f64 {
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

fn pairs(line: &Known) -> impl Iterator<Item = usize> {
    line.words.as_bytes().windows(2).map(|pair| usize::from(pair[0]) << 8 | usize::from(pair[1]))
}

/// How much of a text is here: a line that is the same but for its blanks counts whole, one that resembles it in part.
fn likeness(wanted: &[Known], pairs: &mut [Pairs], there: &[Known]) -> f64 {
    let one = |(number, (wanted, there)): (usize, (&Known, &Known))| match (
        wanted.words == there.words,
        pairs.get_mut(number),
    ) {
        (true, _) => 1.0,
        (false, Some(pairs)) => pairs.likeness(there),
        (false, None) => 0.0,
    };
    let all: f64 = wanted.iter().zip(there).enumerate().map(one).sum();
    // Empty lines are everywhere.
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
            let (one, other) = (Known::of(one.as_bytes()), Known::of(other.as_bytes()));
            prop_assume!(one.words != other.words);
            let mut pairs = Pairs::of(&one);
            let expected = strsim::sorensen_dice(&one.words, &other.words);
            prop_assert_eq!(pairs.likeness(&other), expected);
            prop_assert_eq!(pairs.likeness(&other), expected, "again");
        }
    }
}
