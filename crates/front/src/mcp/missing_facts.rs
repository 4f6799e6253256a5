//! Adds facts that the readable text of a reply lacks: a client may show the model only the text.
//!
//! Tables and sentences for people leave out cursors, hashes and URLs. Every fact that is not in the text is added as
//! `name: field=value, …`, so no tool can forget a field in one half.
//!
//! Text that quotes a file, a log or a program is never searched: a `0` in a log line does not state an exit code.

use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Fields that the text shows rounded or relative to now: sizes, durations, times.
const ROUNDED: [&str; 14] = [
    "memory_bytes",
    "cpu_percent",
    "uptime_seconds",
    "lease_seconds_left",
    "size",
    "at",
    "since",
    "started",
    "began",
    "ended",
    "modified",
    "created_at",
    "time",
    "expires",
];

/// Flags that decide the model's next step. Others are stated in words ("created", "not ready").
const DECISIVE: [&str; 3] = ["reached", "hopeless", "truncated"];

/// Default values that need no mention.
const ORDINARY: [(&str, &str); 3] =
    [("encoding", "utf-8"), ("line_endings", "lf"), ("kind", "code")];

/// Fields that name their object, best first.
const IDENTITY: [&str; 5] = ["name", "path", "operation", "id", "hash"];

/// Number of characters of a short hash.
const SHORT_HASH: usize = 10;

/// Part of a reply that may state a fact.
#[derive(Debug, Clone, Copy)]
pub(super) enum OwnText<'a> {
    /// Our own tables and sentences, which name every number.
    Page(&'a str),
    /// Notes below quoted text. A number in them is about the quote, so every number is added.
    Notes(&'a str),
}

impl<'a> OwnText<'a> {
    fn text(self) -> &'a str {
        match self {
            OwnText::Page(text) | OwnText::Notes(text) => text,
        }
    }

    fn with_text(self, text: &str) -> OwnText<'_> {
        match self {
            OwnText::Page(_) => OwnText::Page(text),
            OwnText::Notes(_) => OwnText::Notes(text),
        }
    }

    fn tells_number(self, number: &str) -> bool {
        match self {
            OwnText::Page(text) => has_word(text, number),
            OwnText::Notes(_) => false,
        }
    }
}

/// Returns lines with every fact that `text` does not state. Each starts with `mark`.
pub(super) fn lines(text: OwnText<'_>, facts: &Value, mark: &str) -> String {
    let Value::Object(fields) = facts else { return String::new() };
    let mut added = String::new();
    let mut top = Vec::new();
    for (key, value) in fields {
        match value {
            Value::Array(items) if items.iter().any(Value::is_object) => {
                for (at, item) in items.iter().enumerate() {
                    let label = label(key, at, item);
                    let mut missing = Vec::new();
                    // The label states its identity.
                    let labelled = format!("{}\n{label}", text.text());
                    collect(text.with_text(&labelled), "", item, &mut missing);
                    push(&mut added, mark, Some(&label), &missing);
                }
            }
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_) => collect_field(text, key, value, &mut top),
        }
    }
    push(&mut added, mark, None, &top);
    added
}

fn push(added: &mut String, mark: &str, label: Option<&str>, missing: &[String]) {
    if missing.is_empty() {
        return;
    }
    let label = label.map(|label| format!("{label}: ")).unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = writeln!(added, "{mark}{label}{}", missing.join(", "));
}

fn label(key: &str, at: usize, item: &Value) -> String {
    let named = IDENTITY.iter().find_map(|field| item.get(field)?.as_str());
    named.map_or_else(|| format!("{key} {}", at + 1), ToOwned::to_owned)
}

fn collect(text: OwnText<'_>, within: &str, value: &Value, missing: &mut Vec<String>) {
    let Value::Object(fields) = value else { return collect_field(text, within, value, missing) };
    let prefixed = |key: &str| match within {
        "" => key.to_owned(),
        within => format!("{within}.{key}"),
    };
    for (key, value) in fields {
        collect_field(text, &prefixed(key), value, missing);
    }
}

fn collect_field(text: OwnText<'_>, key: &str, value: &Value, missing: &mut Vec<String>) {
    match value {
        Value::Object(_) => collect(text, key, value, missing),
        Value::Array(items) => {
            items.iter().for_each(|item| collect_field(text, key, item, missing))
        }
        value if !is_told(text, key, value) => missing.push(format!("{key}={}", plain(value))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.trim_end().replace('\n', "\\n"))
}

fn is_told(text: OwnText<'_>, key: &str, value: &Value) -> bool {
    let field = key.rsplit('.').next().unwrap_or(key);
    let is_ordinary = value.as_str().is_some_and(|text| ORDINARY.contains(&(field, text)));
    if ROUNDED.contains(&field) || is_ordinary {
        return true;
    }
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => !DECISIVE.contains(&field) || has_word(text.text(), field),
        Value::Number(number) => text.tells_number(&number.to_string()),
        Value::String(said) => said.lines().all(|line| has_line(text.text(), line.trim())),
        Value::Array(_) | Value::Object(_) => true,
    }
}

fn has_line(text: &str, line: &str) -> bool {
    let is_hash = line.len() >= SHORT_HASH * 2 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    match line {
        "" => true,
        // A commit may be shown in short form; a sha256 is compared in full.
        line if is_hash && line.len() == 40 => text.contains(&line[..SHORT_HASH]),
        line if line.contains(' ') => text.contains(line),
        line => has_word(text, line),
    }
}

/// Returns true if the text contains the word on its own, not within a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    text.match_indices(word).any(|(at, _)| {
        apart(text[..at].chars().next_back()) && apart(text[at + word.len()..].chars().next())
    })
}

/// Returns the fields of an object without those that the text contains in full.
pub(super) fn without(fields: &Map<String, Value>, told: &[&str], within: &[&str]) -> Value {
    let mut left = fields.clone();
    left.retain(|name, _| !told.contains(&name.as_str()));
    for value in left.values_mut() {
        let Value::Array(items) = value else { continue };
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.retain(|name, _| !within.contains(&name.as_str()));
        }
    }
    Value::Object(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(text: &str, facts: Value, expected: &str) {
        assert_eq!(lines(OwnText::Page(text), &facts, ""), expected, "{text}");
    }

    #[test]
    fn notes_below_quoted_text_tell_a_cursor_but_no_number() {
        let check = |notes: &str, facts: Value, expected: &str| {
            assert_eq!(lines(OwnText::Notes(notes), &facts, "── "), expected, "{notes}");
        };
        let notes = "more is there (lines 2 to 2 of 9); continue with cursor: c1\n";
        let file = json!({ "path": "2", "from": 2, "to": 2, "cursor": "c1" });
        check(notes, json!({ "files": [file] }), "── 2: from=2, to=2\n");
        check("", json!({ "exit_code": 0, "truncated": true }), "── exit_code=0, truncated=true\n");
    }

    #[test]
    fn a_fact_that_the_text_tells_is_not_repeated() {
        let facts = json!({ "services": [{ "name": "web", "pid": 12, "url": "http://x:3" }] });
        check("web  running  12\n", facts.clone(), "web: url=http://x:3\n");
        check("web  running  12  http://x:3\n", facts.clone(), "");
        check("web  running  312\n", facts, "web: pid=12, url=http://x:3\n");
    }

    #[test]
    fn nested_and_plain_facts_are_named_by_their_fields() {
        check("", json!({ "exit_code": 0, "cursor": "c1" }), "exit_code=0, cursor=c1\n");
        check("", json!({ "last": { "exit": { "code": 3 } } }), "last.exit.code=3\n");
        check("a\n", json!({ "removed": ["a", "b"] }), "removed=b\n");
        check("", json!({ "steps": [{ "text": "x y" }] }), "steps 1: text=x y\n");
    }

    #[test]
    fn flags_and_rounded_numbers_are_left_to_the_words() {
        check("", json!({ "settled": true, "memory_bytes": 7, "at": "2026" }), "");
        check("", json!({ "reached": true, "hopeless": false }), "reached=true\n");
        check("truncated: 3 of 9\n", json!({ "truncated": true }), "");
    }

    #[test]
    fn a_short_commit_is_enough_and_lines_are_compared_one_by_one() {
        let hash = "2704a6c2fbe348687a479b6cd5f674ae46421b56";
        check("committed 2704a6c2fb on main\n", json!({ "hash": hash }), "");
        check("  one\n  two\n", json!({ "output": "one\ntwo\n" }), "");
        check("  one\n", json!({ "output": "one\ntwo" }), "output=one\\ntwo\n");
    }
}
