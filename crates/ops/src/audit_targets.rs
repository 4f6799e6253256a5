//! Subjects of a request for the audit log: the names in it, without secrets.

use crate::file_change::{DIFF, given};
use proctor_core::config::secret;
use proctor_core::diff::{self, Reading};
use proctor_core::text::beginning;
use serde_json::Value;

/// Fields that name the target of an operation. All others are left out: they may contain an environment or a password.
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

/// Fields with a command; it is shown as in a status.
const COMMANDS: &[&str] = &["command", "argv"];

/// Fields with several commands.
const WORKFLOWS: &[&str] = &["pre_commands", "post_commands"];

/// Maximum length of a command that is parsed. A shell script fits, and the audit log keeps only its beginning.
const MAX_COMMAND_BYTES: usize = 64 << 10;

/// Maximum length of a name, far above what the audit log keeps.
const MAX_NAME_BYTES: usize = 1024;

/// Returns every text in those fields, in the order of the request.
pub(crate) fn subjects(input: &Value) -> impl Iterator<Item = String> {
    let fields = input.as_object().into_iter().flatten();
    let found = fields.flat_map(|(key, value)| -> Box<dyn Iterator<Item = String>> {
        if NAMES.contains(&key.as_str()) {
            Box::new(texts(value).map(|name| beginning(name, MAX_NAME_BYTES).into_owned()))
        } else if COMMANDS.contains(&key.as_str()) {
            Box::new(std::iter::once(command(value)))
        } else if WORKFLOWS.contains(&key.as_str()) {
            Box::new(value.as_array().into_iter().flatten().map(command))
        } else {
            Box::new(std::iter::empty())
        }
    });
    found.chain(standing(input)).filter(|text| !text.is_empty())
}

/// Returns the caller's folder if names are relative to it; otherwise they would be ambiguous.
fn standing(input: &Value) -> Option<String> {
    let seen_from = input.get("from_base") == Some(&Value::Bool(true));
    let folder = input.get("base_dir").filter(|_| seen_from)?.as_str()?;
    Some(format!("in {}", beginning(folder, MAX_NAME_BYTES)))
}

/// Returns the files of a change that no field of its own names: in edits of several files, or in a diff.
pub(crate) fn changed_files(input: &Value) -> Vec<String> {
    let edits = input.get("files").and_then(Value::as_array).into_iter().flatten();
    let edited = edits.filter_map(|file| file.get("path")?.as_str().map(str::to_owned));
    let [text, base64] = DIFF.map(|field| input.get(field).and_then(Value::as_str));
    let given = given(DIFF, text.map(str::to_owned), base64.map(str::to_owned));
    // An invalid diff changes nothing.
    let text = given.ok().flatten().unwrap_or_default();
    let patches = diff::parse(&text, Reading::Lenient).unwrap_or_default();
    let patched = patches.into_iter().flat_map(|patch| {
        let new = patch.new.filter(|new| Some(new) != patch.old.as_ref());
        let names = [patch.old, new].into_iter().flatten();
        names.map(|name| String::from_utf8_lossy(&name).into_owned())
    });
    let all = edited.chain(patched).filter(|name| !name.is_empty());
    all.map(|name| beginning(&name, MAX_NAME_BYTES).into_owned()).collect()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    items.iter().filter_map(Value::as_str)
}

/// Formats a string, a list of words, or an object with `command` and `args`.
fn command(value: &Value) -> String {
    let parts = match value.as_object() {
        Some(fields) => [fields.get("command"), fields.get("args")],
        None => [Some(value), None],
    };
    let words: Vec<&str> = parts.into_iter().flatten().flat_map(texts).collect();
    let length: usize = words.iter().map(|word| word.len() + 1).sum();
    match value.as_str() {
        _ if length > MAX_COMMAND_BYTES => format!("a command of {length} bytes"),
        Some(text) => secret::shown_strictly(text),
        None => secret::shown_words_strictly(words).join(" "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    #[test]
    fn files_are_told_of_edits_and_of_a_diff_and_nothing_of_what_is_in_them() {
        let check = |input: Value, expected: &[&str]| {
            assert_eq!(changed_files(&input), expected, "{input}")
        };
        let edits = json!([{ "old": "secret", "new": "secret" }]);
        check(json!({ "files": [{ "path": "a", "edits": edits }, { "path": "b" }] }), &["a", "b"]);
        let diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n--- secret\n+++ secret\n--- /dev/null\n+++ b/made\n@@ -0,0 +1 @@\n+secret\n\
                    diff --git a/o b/n\nrename from o\nrename to n\n";
        check(json!({ "diff": diff, "service": "web" }), &["x", "made", "o", "n"]);
        let coded = STANDARD.encode(b"--- a/n\xff\n+++ b/n\xff\n@@ -1 +1 @@\n-a\n+b\n");
        check(json!({ "diff_base64": coded }), &["n\u{fffd}"]);
        check(json!({ "diff_base64": "no" }), &[]);
        check(json!({ "diff": "@@ -1 +1 @@\n-secret\n" }), &[]);
        check(json!({ "diff": true, "files": "x" }), &[]);
    }

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
        check(json!({ "path": "a", "base_dir": "/srv/x", "from_base": true }), &["a", "in /srv/x"]);
        check(json!({ "path": "a", "base_dir": "/srv/x" }), &["a"]);
        check(json!([1]), &[]);
        check(json!({ "name": { "a": "b" }, "names": "" }), &[]);
        let (long, many) = ("x=".repeat(1 << 20), vec!["x="; 1 << 20]);
        check(json!({ "command": long }), &["a command of 2097153 bytes"]);
        check(json!({ "argv": many }), &["a command of 3145728 bytes"]);
        assert!(subjects(&json!({ "name": long })).all(|name| name.len() < 1100));
    }
}
