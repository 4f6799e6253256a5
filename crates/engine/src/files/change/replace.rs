//! Finds and replaces in a content: a literal text or a regular expression, everywhere or at one match.

use super::super::error::{FileError, Pattern};
use super::super::regex_deadline::RegexDeadline;
use proctor_core::content::{LineEndings, Observer};
use proctor_core::edit::{Candidate, Edit, EditError, MAX_EDIT_BYTES, edit, with_crlf};
use regex::bytes::{Regex, RegexBuilder};

/// Maximum size of a compiled expression; a larger one is an attack, not a search.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// Maximum number of lines listed in an error about unexpected matches.
const MAX_REPORTED: usize = 20;

/// The pattern and its replacement.
#[derive(Debug, Clone, Default)]
pub struct Replacement {
    pub find: String,
    /// With an expression, `$1` or `${name}` is the text of a group, and `$$` a dollar sign.
    pub put: String,
    pub regex: bool,
    pub any_case: bool,
    /// Only the match of this number, from 1.
    pub nth: Option<usize>,
    /// The expected number of matches.
    pub expect: Option<usize>,
}

/// Returns the new content, and the number of replacements.
pub(crate) fn replace(
    content: &[u8],
    wanted: &Replacement,
    path: &str,
    patience: &RegexDeadline<'_>,
) -> Result<(Vec<u8>, usize), FileError> {
    let pattern = pattern(wanted)?;
    if let Some(name) = wanted.regex.then(|| unknown_group(&wanted.put, &pattern)).flatten() {
        return Err(FileError::NoGroup { name: name.to_owned() });
    }
    let crlf = Observer::look(content).endings == LineEndings::CrLf;
    let put = if crlf { with_crlf(wanted.put.as_bytes()) } else { wanted.put.clone().into_bytes() };
    check(content, wanted, &pattern, path, patience)?;
    let (mut edited, mut at, mut count) = (Vec::with_capacity(content.len()), 0, 0);
    // One after the other: there may be as many matches as bytes.
    for (number, captures) in pattern.captures_iter(content).enumerate() {
        patience.ask().map_err(|over| over.at(path))?;
        let Some(place) = captures.get(0) else { continue };
        if wanted.nth.is_some_and(|nth| nth != number + 1) {
            continue;
        }
        edited.extend_from_slice(&content[at..place.start()]);
        if wanted.regex {
            captures.expand(&put, &mut edited);
        } else {
            edited.extend_from_slice(&put);
        }
        (at, count) = (place.end(), count + 1);
        if edited.len() + content.len() - at > MAX_EDIT_BYTES {
            return Err(FileError::TooLarge { path: path.to_owned(), most: MAX_EDIT_BYTES as u64 });
        }
    }
    edited.extend_from_slice(&content[at..]);
    Ok((edited, count))
}

fn pattern(wanted: &Replacement) -> Result<Regex, FileError> {
    if wanted.find.is_empty() {
        return Err(FileError::BadInput("'find' is empty".into()));
    }
    // Line ends in the text match those of the file, whichever they are.
    let literal = || {
        let lines: Vec<String> =
            wanted.find.replace("\r\n", "\n").split('\n').map(regex::escape).collect();
        lines.join("\r?\n")
    };
    let text = if wanted.regex { wanted.find.clone() } else { literal() };
    RegexBuilder::new(&text)
        .case_insensitive(wanted.any_case)
        .multi_line(true)
        .crlf(true)
        .size_limit(MAX_REGEX_BYTES)
        .build()
        .map_err(|error| Pattern::Find.bad(error))
}

/// A group that the replacement names and the expression lacks: it would be replaced by nothing.
fn unknown_group<'p>(put: &'p str, pattern: &Regex) -> Option<&'p str> {
    let known = |name: &str| match name.parse::<usize>() {
        Ok(number) => number < pattern.captures_len(),
        Err(_) => pattern.capture_names().flatten().any(|known| known == name),
    };
    let mut rest = put;
    while let Some((_, after)) = rest.split_once('$') {
        let (name, after) = group(after);
        if name.is_some_and(|name| !known(name)) {
            return name;
        }
        rest = after;
    }
    None
}

/// The group named after a dollar sign, as the regex crate reads it, and the rest.
fn group(text: &str) -> (Option<&str>, &str) {
    if let Some(after) = text.strip_prefix('$') {
        return (None, after);
    }
    if let Some((name, after)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return (Some(name), after);
    }
    let of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (name, after) = text.split_at(text.find(|c| !of_a_name(c)).unwrap_or(text.len()));
    (Some(name).filter(|name| !name.is_empty()), after)
}

fn check(
    content: &[u8],
    wanted: &Replacement,
    pattern: &Regex,
    path: &str,
    patience: &RegexDeadline<'_>,
) -> Result<(), FileError> {
    let count = |found: usize, _| patience.ask().map(|()| found + 1);
    let found = pattern.find_iter(content).try_fold(0, count).map_err(|over| over.at(path))?;
    let expected = wanted.expect.is_none_or(|count| count == found);
    let there = wanted.nth.is_none_or(|nth| (1..=found).contains(&nth));
    if expected && there && (found > 0 || wanted.expect == Some(0)) {
        return Ok(());
    }
    if found == 0 {
        return Err(FileError::NotThere { path: path.to_owned(), near: near(content, wanted) });
    }
    let (mut at, mut line, mut lines) = (0, 1, Vec::new());
    for place in pattern.find_iter(content).take(MAX_REPORTED) {
        line += memchr::memchr_iter(b'\n', &content[at..place.start()]).count();
        at = place.start();
        lines.push(line);
    }
    Err(FileError::Counted { path: path.to_owned(), count: found, lines })
}

/// The places most similar to a text that was not found.
fn near(content: &[u8], wanted: &Replacement) -> Vec<Candidate> {
    let looked_for = Edit { old: wanted.find.clone().into_bytes(), new: Vec::new(), all: true };
    match edit(content, &[looked_for]) {
        Err(EditError::Missing { near, .. }) if !wanted.regex => near,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(content: &[u8], wanted: &Replacement) -> Result<(Vec<u8>, usize), FileError> {
        replace(content, wanted, "f", &RegexDeadline::new(&|| false, None))
    }

    #[test]
    fn a_group_that_is_not_there_is_named() {
        let pattern = Regex::new("it(e)(?<last>m)").unwrap();
        for (put, expected) in [
            ("th$1ng", Some("1ng")),
            ("th${1}ng", None),
            ("$0 $1 $2 $last ${last}s", None),
            ("$3", Some("3")),
            ("${other}", Some("other")),
            ("$$1ng costs 5$", None),
            ("$ {1ng} $-", None),
            ("$1 and $$ and $lasting", Some("lasting")),
        ] {
            assert_eq!(unknown_group(put, &pattern), expected, "{put}");
        }
        let wanted = Replacement {
            find: "it(e)m".into(),
            put: "th$1ng".into(),
            regex: true,
            ..Replacement::default()
        };
        assert!(matches!(replaced(b"item", &wanted), Err(FileError::NoGroup { .. })));
        let wanted = Replacement { find: "item".into(), regex: false, ..wanted };
        assert_eq!(replaced(b"item", &wanted).unwrap().0, b"th$1ng", "a text is a text");
    }

    #[test]
    fn a_text_that_is_not_there_is_said_not_to_be_with_what_comes_nearest() {
        let wanted = Replacement { find: "let  price = 1;".into(), ..Replacement::default() };
        let said = replaced(b"a\nlet price = 1;\n", &wanted).unwrap_err().to_string();
        assert_eq!(said, "'f': text not found\nline 2, with different whitespace:\nlet price = 1;");
        let wanted = Replacement { find: "zzz".into(), expect: Some(2), ..Replacement::default() };
        let said = replaced(b"a\n", &wanted).unwrap_err().to_string();
        assert_eq!(said, "'f': text not found");
    }
}
