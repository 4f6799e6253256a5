//! What a request is about, for the audit: the names in it, and nothing that may be secret.

use proctor_core::config::secret;
use proctor_engine::secrets::hide;
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
    "operation",
    "signal",
];

/// Fields that hold a command; it is shown as in a status.
const COMMANDS: &[&str] = &["command", "argv"];

/// Fields that hold several commands.
const WORKFLOWS: &[&str] = &["pre_commands", "post_commands"];

/// Every text in those fields, in the order of the request.
pub(crate) fn subjects(input: &Value) -> Vec<String> {
    let Value::Object(fields) = input else { return Vec::new() };
    let mut found = Vec::new();
    for (key, value) in fields {
        if NAMES.contains(&key.as_str()) {
            found.extend(texts(value).map(String::from));
        } else if COMMANDS.contains(&key.as_str()) {
            found.push(command(value));
        } else if WORKFLOWS.contains(&key.as_str()) {
            found.extend(value.as_array().into_iter().flatten().map(command));
        }
    }
    found.retain(|text| !text.is_empty());
    found.iter().map(|text| hide(text).into_owned()).collect()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str)
}

/// A text, a list of words, or an object with `command` and `args`.
fn command(value: &Value) -> String {
    match value {
        Value::String(text) => secret::shown_text(text),
        Value::Array(_) => secret::shown_words(texts(value)).join(" "),
        Value::Object(fields) => {
            let words = fields.get("command").into_iter().chain(fields.get("args"));
            secret::shown_words(words.flat_map(texts)).join(" ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_told_and_secrets_are_not() {
        let check = |input: Value, expected: &[&str]| assert_eq!(subjects(&input), expected);
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
    }
}
