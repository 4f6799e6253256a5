//! Plain English in the comments and strings of a Rust file.
//!
//! Refuses doc comments that open with a clause in place of a noun, and a few phrases that hide the
//! subject. The lists have no false positives; they do not try to judge style.

use super::Finding;
use super::rust::has_word;

/// A doc comment opens with a noun phrase or a verb in the third person.
const REFUSED_OPENINGS: &[&str] = &["What", "Of", "Who", "That", "The same"];

/// Split, so that this list passes its own rule.
const REFUSED_PHRASES: &[&str] = &[
    concat!("is ", "none:"),
    concat!("who ", "asks"),
    concat!("whoever ", "asks"),
    concat!("is ", "told"),
    concat!("are ", "told"),
    concat!("once ", "more"),
    concat!("has its ", "place"),
    concat!("stands ", "there"),
    concat!("what ", "stands"),
];

pub(crate) fn check(file: &str, text: &str) -> Vec<Finding> {
    let finding = |(line, message)| Finding { file: file.to_owned(), line, message };
    openings(text).into_iter().chain(phrases(text)).map(finding).collect()
}

fn openings(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut paragraph = Paragraph::default();
    for (index, line) in text.lines().enumerate() {
        let Some(opening) = paragraph.opening(line) else { continue };
        let refused = REFUSED_OPENINGS.iter().find(|word| is_opening(opening, word));
        found.extend(refused.map(|word| {
            let message = format!(
                "a doc comment begins with \"{word}\": begin with a noun phrase or a verb, as in \"Returns …\""
            );
            (index + 1, message)
        }));
    }
    found
}

fn phrases(text: &str) -> Vec<(usize, String)> {
    let in_line = |(index, line): (usize, &str)| {
        let refused = REFUSED_PHRASES.iter().filter(|phrase| has_word(line, phrase));
        refused
            .map(|phrase| {
                (index + 1, format!("\"{phrase}\" hides the subject: say who does what to what"))
            })
            .collect::<Vec<_>>()
    };
    text.lines().enumerate().flat_map(in_line).collect()
}

/// The position in a doc comment.
#[derive(Default)]
struct Paragraph {
    /// The marker of the comment that the last line belongs to, unless that line was blank.
    marker: Option<&'static str>,
    is_code: bool,
}

impl Paragraph {
    /// Returns the text of a line that opens a paragraph of a doc comment.
    fn opening<'l>(&mut self, line: &'l str) -> Option<&'l str> {
        let line = line.trim_start();
        let marker = ["///", "//!"].into_iter().find(|marker| line.starts_with(marker));
        let Some(marker) = marker else {
            *self = Paragraph::default();
            return None;
        };
        let text = line[marker.len()..].trim();
        let is_fence = text.starts_with("```");
        let opens = self.marker != Some(marker) && !self.is_code && !is_fence && !text.is_empty();
        self.is_code ^= is_fence;
        self.marker = (!text.is_empty()).then_some(marker);
        opens.then_some(text)
    }
}

fn is_opening(text: &str, words: &str) -> bool {
    let rest = text.strip_prefix(words);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the findings in a file.
    fn check_file(text: &str, expected: &[usize]) {
        let lines: Vec<usize> = check("a.rs", text).into_iter().map(|found| found.line).collect();
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn a_clause_does_not_open_a_doc_comment() {
        for word in ["What", "Of", "Who", "That", "The same"] {
            check_file(&format!("//! {word} it is.\n"), &[1]);
            check_file(&format!("fn f() {{}}\n    /// {word}, if any.\n"), &[2]);
            check_file(&format!("/// A name.\n///\n/// {word} it has.\n"), &[3]);
            check_file(&format!("//! A file.\n/// {word} it has.\n"), &[2]);
        }
    }

    #[test]
    fn other_comments_may_use_these_words() {
        check_file("//! Whatever.\n/// Offers a file.\n/// Thatch.\n/// The sameness.\n", &[]);
        check_file("/// Returns the name of\n/// That and\n/// What follows.\n", &[]);
        check_file("/// A diagram:\n/// ```text\n///\n/// What ──► Of\n/// ```\n", &[]);
        check_file("let x = 1; // What it was.\n// That is it.\n", &[]);
        check_file("let text = \"What is it?\";\n", &[]);
    }

    #[test]
    fn a_phrase_without_a_subject_is_refused_in_comments_and_strings() {
        for phrase in REFUSED_PHRASES {
            check_file(&format!("let x = \"'x' {phrase} y\";\n"), &[1]);
            check_file(&format!("//! A file.\n// It {phrase} so.\n"), &[2]);
        }
        check_file(concat!("// A caller is ", "told so.\n"), &[1]);
        check_file("/// This told us that there is none.\n", &[]);
    }
}
