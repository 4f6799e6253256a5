//! What a request is about, for the audit: the names in it, and nothing that may be secret.

use proctor_core::config::secret;
use proctor_core::text::beginning;
use serde_json::Value;

/// Fields that name what an operation is done to. All others stay out: they may hold an environment or a password.
const NAMES: &[&str] = &[
    "name",
    "names",
    "service",
    "services",
    "group",
    "id",
    "config",
    "config_path",
    "check",
    "binary",
    "mode",
    "path",
    "paths",
    "to",
    "operation",
    "signal",
    "repo",
    "path",
    "paths",
    "rev",
    "action",
];

/// Fields that hold a command; it is shown as in a status.
const COMMANDS: &[&str] = &["command", "argv"];

/// Fields that hold several commands.
const WORKFLOWS: &[&str] = &["pre_commands", "post_commands"];

/// A longer command is not looked into: a shell's script fits, and the audit has the beginning of one only.
const LONGEST_COMMAND: usize = 64 << 10;

/// Far more of a name than the audit keeps.
const LONGEST_NAME: usize = 1024;

/// Every text in those fields, in the order of the request.
pub(crate) fn subjects(input: &Value) -> impl Iterator<Item = String> {
    let fields = input.as_object().into_iter().flatten();
    let found = fields.flat_map(|(key, value)| -> Box<dyn Iterator<Item = String>> {
        if NAMES.contains(&key.as_str()) {
            Box::new(texts(value).map(|name| beginning(name, LONGEST_NAME).into_owned()))
        } else if COMMANDS.contains(&key.as_str()) {
            Box::new(std::iter::once(command(value)))
        } else if WORKFLOWS.contains(&key.as_str()) {
            Box::new(value.as_array().into_iter().flatten().map(command))
        } else {
            Box::new(std::iter::empty())
        }
    });
    found.filter(|text| !text.is_empty())
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str)
}

/// A text, a list of words, or an object with `command` and `args`.
fn command(value: &Value) -> String {
    let parts = match value.as_object() {
        Some(fields) => [fields.get("command"), fields.get("args")],
        None => [Some(value), None],
    };
    let words: Vec<&str> = parts.into_iter().flatten().flat_map(texts).collect();
    let length: usize = words.iter().map(|word| word.len() + 1).sum();
    match value.as_str() {
        _ if length > LONGEST_COMMAND => format!("a command of {length} bytes"),
        Some(text) => secret::shown_text(text),
        None => secret::shown_words(words).join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_told_and_secrets_are_not() {
        let check = |input: Value, expected: &[&str]| {
            assert_eq!(subjects(&input).collect::<Vec<_>>(), expected)
        };
        let workflow =
            json!({ "service": "web", "pre_commands": ["make", ["x", "--token", "abc"]] });
        check(workflow, &["web", "make", "x --token ***"]);
        check(json!({ "names": ["a", "b", 3], "wait": 5 }), &["a", "b"]);
        check(
            json!({ "name": "web", "env": ["TOKEN=abc"], "environment": { "A": "b" } }),
            &["web"],
        );
        check(json!({ "command": "run --token abc" }), &["run --token ***"]);
        check(json!({ "argv": ["run", "--password", "abc"] }), &["run --password ***"]);
        check(
            json!({ "command": { "command": "x", "args": ["API_KEY=abc"] } }),
            &["x API_KEY=***"],
        );
        check(json!({ "config": "/srv/proctor.yaml", "token": "abc" }), &["/srv/proctor.yaml"]);
        check(json!([1]), &[]);
        check(json!({ "name": { "a": "b" }, "names": "" }), &[]);
        let (long, many) = ("x=".repeat(1 << 20), vec!["x="; 1 << 20]);
        check(json!({ "command": long }), &["a command of 2097153 bytes"]);
        check(json!({ "argv": many }), &["a command of 3145728 bytes"]);
        assert!(subjects(&json!({ "name": long })).all(|name| name.len() < 1100));
    }
}
