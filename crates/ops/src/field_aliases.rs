//! Aliases of input fields: other names and shapes that callers commonly use, accepted where the meaning is clear.
//!
//! An operation's own field names are never changed. `check` rejects a name that stays unknown, with the nearest name.

use crate::operation::Front;
use crate::table::{self, Entry};
use crate::timestamps;
use serde_json::{Map, Value, json};

/// Groups of aliases. The first name that the operation has itself is used.
const GROUPS: [&[&str]; 10] = [
    &["names", "services", "name", "service", "processes", "process", "process_name"],
    &["name", "service", "names", "services", "process", "process_name"],
    &["timeout", "timeout_seconds", "wait", "wait_seconds", "timeout_secs", "seconds"],
    &["limit", "most", "max_results", "count", "n"],
    &["rev", "revision", "commit", "ref"],
    &["path", "paths", "file", "file_path", "filename", "files"],
    &["paths", "path", "file", "file_path", "filename", "files"],
    &["working_dir", "cwd", "workdir", "working_directory", "directory"],
    &["command", "cmd"],
    &["pattern", "query", "regex", "search"],
];

/// Durations in milliseconds.
const MILLISECONDS: [&str; 2] = ["timeout_ms", "wait_ms"];

/// Fields with a number of seconds.
const SECONDS: [&str; 3] = ["timeout", "timeout_seconds", "wait"];

/// Names that other editors use for the parts of an edit.
const EDIT_PARTS: [(&str, &str); 4] =
    [("old_string", "old"), ("new_string", "new"), ("old_text", "old"), ("new_text", "new")];

/// Returns the input with the names and shapes of the operation.
///
/// HTTP describes its inputs with a schema, so there a string in place of a list is rejected.
pub fn understood(entry: &Entry, input: Value, front: Front) -> Value {
    let Value::Object(given) = input else { return input };
    let known = table::fields(entry);
    let is_known = |name: &str| known.iter().any(|own| own == name);
    let mut fields = Map::new();
    let mut foreign = Vec::new();
    for (name, value) in given {
        match is_known(&name) {
            true => _ = fields.insert(name, value),
            false => foreign.push((name, value)),
        }
    }
    for (name, value) in foreign {
        let (name, value) = in_seconds(name, value);
        let own = match is_known(&name) && !fields.contains_key(&name) {
            true => Some(&*name),
            false => own_name(&name, &value, &fields, is_known),
        };
        // An unknown name is rejected later under the name that was given.
        fields.insert(own.unwrap_or(&name).to_owned(), value);
    }
    let lists = table::list_fields(entry);
    let is_single = |name: &str| ["name", "service", "path"].contains(&name);
    for (name, value) in fields.iter_mut().filter(|(name, _)| is_single(name)) {
        if let (Value::Array(items), false) = (&*value, lists.contains(name))
            && let [only @ Value::String(_)] = &items[..]
        {
            *value = only.clone();
        }
    }
    for (name, value) in &mut fields {
        let is_described = front == Front::Rest && value.is_string() && lists.contains(name);
        if !is_described {
            reshape(name, value, lists);
        }
    }
    Value::Object(fields)
}

fn in_seconds(name: String, value: Value) -> (String, Value) {
    match value.as_f64().filter(|_| MILLISECONDS.contains(&&*name)) {
        Some(milliseconds) => ("timeout".to_owned(), json!(milliseconds / 1000.0)),
        None => (name, value),
    }
}

/// Returns the operation's own name of a field, if that field was not given as well.
fn own_name(
    name: &str,
    value: &Value,
    given: &Map<String, Value>,
    is_known: impl Fn(&str) -> bool,
) -> Option<&'static str> {
    // With a command, the name is that of the one new process.
    let is_one = value.is_string() && (given.contains_key("command") || !is_known("names"));
    let many_first = |group: &&[&str]| group[0] == "names" && is_one;
    let group =
        GROUPS.iter().filter(|group| !many_first(group)).filter(|group| group.contains(&name));
    group
        .flat_map(|group| group.iter())
        .copied()
        .find(|own| is_known(own) && !given.contains_key(*own))
}

fn reshape(name: &str, value: &mut Value, lists: &[String]) {
    let is_list = lists.iter().any(|list| list == name);
    match value {
        Value::Object(variables) if is_list && name == "env" => {
            if let Some(pairs) = pairs(variables) {
                *value = json!(pairs);
            }
        }
        Value::String(text) if is_list => *value = json!([text]),
        Value::String(text) if SECONDS.contains(&name) => {
            if let Some(seconds) = seconds(text) {
                *value = json!(seconds);
            }
        }
        Value::Array(edits) if matches!(name, "edits" | "files") => {
            edits.iter_mut().for_each(rename_parts);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        Value::Array(_) | Value::Object(_) => {}
    }
}

/// Parses seconds written as `60`, `60s` or `1m`; `None` for other text.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = text.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    number.or_else(|| {
        let micros = timestamps::duration(text).filter(|_| !text.is_empty())?;
        let millis = i32::try_from(micros / 1000).ok()?;
        Some(f64::from(millis) / 1000.0)
    })
}

/// Converts an object with plain values to `KEY=VALUE`; `None` otherwise.
fn pairs(variables: &Map<String, Value>) -> Option<Vec<String>> {
    let plain = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    variables.iter().map(|(key, value)| Some(format!("{key}={}", plain(value)?))).collect()
}

fn rename_parts(edit: &mut Value) {
    let Value::Object(parts) = edit else { return };
    for (foreign, own) in EDIT_PARTS {
        if !parts.contains_key(own)
            && let Some(text) = parts.shift_remove(foreign)
        {
            parts.insert(own.to_owned(), text);
        }
    }
    if let Some(Value::Array(edits)) = parts.get_mut("edits") {
        edits.iter_mut().for_each(rename_parts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(operation: &str, given: Value, expected: Value) {
        let entry = table::find(operation).expect("the test names an operation");
        assert_eq!(understood(entry, given.clone(), Front::Mcp), expected, "{operation} {given}");
    }

    #[test]
    fn names_of_other_tools_are_understood() {
        check("log.read", json!({ "names": ["a"] }), json!({ "services": ["a"] }));
        check("log.read", json!({ "name": "a" }), json!({ "services": ["a"] }));
        check("service.stop", json!({ "service": "a" }), json!({ "names": ["a"] }));
        check("service.lease", json!({ "service": "a" }), json!({ "name": "a" }));
        check("service.lease", json!({ "names": ["a"] }), json!({ "name": "a" }));
        check(
            "command.execute",
            json!({ "cmd": "x", "name": "a", "timeout": 3 }),
            json!({ "command": "x", "service": "a", "timeout_seconds": 3 }),
        );
        check("service.start", json!({ "service": "a" }), json!({ "names": ["a"] }));
        check(
            "service.start",
            json!({ "service": "a", "command": "x" }),
            json!({ "command": "x", "name": "a" }),
        );
        check("service.wait", json!({ "timeout_seconds": 3 }), json!({ "timeout": 3 }));
        check("service.stop", json!({ "timeout_ms": 1500 }), json!({ "wait": 1.5 }));
        check("file.read", json!({ "file_path": "a" }), json!({ "path": "a" }));
        check("git.log", json!({ "revision": "main" }), json!({ "rev": "main" }));
    }

    #[test]
    fn a_name_of_the_operation_itself_is_never_changed() {
        check(
            "service.stop",
            json!({ "names": ["a"], "name": "b" }),
            json!({ "names": ["a"], "name": "b" }),
        );
        check("service.stop", json!({ "nothing": 1 }), json!({ "nothing": 1 }));
        check("service.stop", json!([1]), json!([1]));
    }

    #[test]
    fn variables_are_an_object_or_a_list() {
        let list = json!({ "command": "x", "env": ["A=1", "B=true"] });
        check(
            "command.execute",
            json!({ "command": "x", "env": { "A": 1, "B": true } }),
            list.clone(),
        );
        check("command.execute", list.clone(), list);
        let deep = json!({ "command": "x", "env": { "A": [1] } });
        check("command.execute", deep.clone(), deep);
    }

    #[test]
    fn seconds_may_be_text_with_a_unit() {
        for (text, seconds) in [("60", 60.0), ("1.5", 1.5), ("60s", 60.0), ("2m", 120.0)] {
            check("service.wait", json!({ "timeout": text }), json!({ "timeout": seconds }));
        }
        check(
            "command.execute",
            json!({ "command": "x", "timeout": "90s" }),
            json!({ "command": "x", "timeout_seconds": 90.0 }),
        );
        for text in ["soon", ""] {
            check("service.stop", json!({ "wait": text }), json!({ "wait": text }));
        }
    }

    #[test]
    fn parts_of_an_edit_have_other_names_elsewhere() {
        check(
            "file.edit",
            json!({ "path": "a", "edits": [{ "old_string": "x", "new_string": "y" }] }),
            json!({ "path": "a", "edits": [{ "old": "x", "new": "y" }] }),
        );
    }
}
