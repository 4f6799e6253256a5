//! Where a text that is not there would come nearest: for whoever typed it from memory.

use crate::diff::lines;

/// Places that are told.
const MOST: usize = 3;

/// Less alike than this, two texts have nothing to do with each other.
const ALIKE: f64 = 0.5;

/// Of the text, so many lines are compared, and of a content so many lines looked at: far more than people write in one edit,
/// and little enough to be quick.
const MOST_LINES: usize = 40;
const MOST_PLACES: usize = 50_000;

/// Of a line: enough to know it again.
const LONGEST: usize = 200;

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
    let wanted: Vec<Known> = lines(text).into_iter().take(MOST_LINES).map(Known::of).collect();
    let there: Vec<Known> = lines(content).into_iter().take(MOST_PLACES).map(Known::of).collect();
    let mut found: Vec<(f64, usize)> = (0..there.len())
        .map(|at| (likeness(&wanted, &there[at..]), at))
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

/// How much of a text is here: a line that is the same but for its blanks counts whole, one that resembles it in part.
fn likeness(wanted: &[Known], there: &[Known]) -> f64 {
    let few = wanted.len() <= 3;
    let one = |(wanted, there): (&Known, &Known)| match wanted.words == there.words {
        true => 1.0,
        false if few && !wanted.words.is_empty() && !there.words.is_empty() => {
            strsim::sorensen_dice(&wanted.words, &there.words)
        }
        false => 0.0,
    };
    let all: f64 = wanted.iter().zip(there).map(one).sum();
    // Empty lines are everywhere.
    let said = wanted.iter().any(|line| !line.words.is_empty());
    if said { all / wanted.len() as f64 } else { 0.0 }
}
