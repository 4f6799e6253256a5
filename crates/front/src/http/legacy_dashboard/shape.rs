//! Converts requests of these paths to inputs, and outputs to responses. Pure, except for the time.

use crate::legacy_shapes;
use jiff::Timestamp;
use proctor_ops::status::ServiceStatus;
use serde_json::{Map, Value, json};

/// Returns the current time in RFC 3339.
pub(super) fn now() -> String {
    Timestamp::now().to_string()
}

pub(super) fn as_it_is(sent: Map<String, Value>) -> Map<String, Value> {
    sent
}

pub(super) fn same(output: Value) -> Value {
    output
}

/// Converts `service` to `names`. Without it the operation chooses the service.
pub(super) fn named(mut sent: Map<String, Value>) -> Map<String, Value> {
    match sent.remove("service") {
        Some(Value::Null) | None => {}
        Some(name) => drop(sent.insert("names".into(), json!([name]))),
    }
    sent
}

/// A restart may take long, so it returns at once and can be followed.
pub(super) fn restart(sent: Map<String, Value>) -> Map<String, Value> {
    let mut input = named(words(sent, "args", "args"));
    input.entry("names").or_insert_with(|| json!([]));
    input.entry("background").or_insert(json!(true));
    input
}

pub(super) fn custom_restart(sent: Map<String, Value>) -> Map<String, Value> {
    let mut input = words(sent, "args", "start_args");
    input.retain(|_, value| !value.is_null());
    input.entry("background").or_insert(json!(true));
    match legacy_shapes::variables(Value::Object(input)) {
        Value::Object(input) => input,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    }
}

/// Converts arguments given as a list or as one string; `null` means none.
fn words(mut sent: Map<String, Value>, from: &str, to: &str) -> Map<String, Value> {
    let list = match sent.remove(from) {
        None | Some(Value::Null) => return sent,
        Some(Value::String(text)) => match shlex::split(&text) {
            Some(words) => json!(words),
            None => Value::String(text),
        },
        Some(list) => list,
    };
    sent.insert(to.into(), list);
    sent
}

/// Converts `service` and `lines`, both optional.
pub(super) fn logs(mut sent: Map<String, Value>) -> Map<String, Value> {
    if let Some(name) = sent.remove("service") {
        sent.insert("services".into(), json!([name]));
    }
    if let Some(lines) = sent.remove("lines") {
        let number = lines.as_str().and_then(|text| text.parse::<u64>().ok());
        sent.insert("tail".into(), number.map_or(lines, |number| json!(number)));
    }
    sent
}

pub(super) fn lines(output: Value) -> Value {
    let items = output["items"].as_array().into_iter().flatten();
    let lines: Vec<Value> = items
        .filter(|item| item["kind"] == "line")
        .map(|item| {
            json!({
                "timestamp": item["at"],
                "service": item["service"],
                "stream": item["stream"],
                "message": item["text"],
            })
        })
        .collect();
    json!({ "logs": lines, "cursor": output["cursor"] })
}

pub(super) fn services(output: Value) -> Value {
    let services: Vec<ServiceStatus> =
        serde_json::from_value(output["services"].clone()).unwrap_or_default();
    json!({ "services": legacy_shapes::statuses(&services) })
}

pub(super) fn supervisor(status: &Value) -> Value {
    let managed = status["services"].as_object().into_iter().flat_map(|by_state| by_state.values());
    json!({
        "status": "running",
        "version": status["version"],
        "pid": status["daemon"]["pid"],
        "uptime": status["keeper"]["uptime_seconds"],
        "managed_services": managed.filter_map(Value::as_u64).sum::<u64>(),
        "config": status["config"],
        "problems": status["problems"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(make: fn(Map<String, Value>) -> Map<String, Value>, sent: Value, expected: Value) {
        let Value::Object(sent) = sent else { panic!("{sent} is no object") };
        assert_eq!(Value::Object(make(sent)), expected);
    }

    #[test]
    fn what_is_sent_becomes_the_input_of_the_operation() {
        check(named, json!({ "service": "web" }), json!({ "names": ["web"] }));
        check(named, json!({}), json!({}));
        check(restart, json!({ "service": null }), json!({ "names": [], "background": true }));
        check(
            restart,
            json!({ "service": "web", "args": "--port 3000", "background": false }),
            json!({ "args": ["--port", "3000"], "background": false, "names": ["web"] }),
        );
        check(
            custom_restart,
            json!({ "args": ["-v"], "pre_commands": ["make"], "env_vars": { "A": "b" }, "service": "web", "post_commands": null }),
            json!({ "start_args": ["-v"], "pre_commands": ["make"], "env_vars": { "A": "b" }, "service": "web", "background": true }),
        );
        check(
            custom_restart,
            json!({ "env": { "A": "b" } }),
            json!({ "background": true, "env_vars": { "A": "b" } }),
        );
        check(
            logs,
            json!({ "service": "web", "lines": "5" }),
            json!({ "services": ["web"], "tail": 5 }),
        );
        check(logs, json!({ "lines": "x" }), json!({ "tail": "x" }));
    }

    #[test]
    fn marks_are_no_lines() {
        let output = json!({ "items": [
            { "kind": "started", "at": "t", "service": "web", "stream": "stdout" },
            { "kind": "line", "at": "t", "service": "web", "stream": "stderr", "text": "x" },
        ], "cursor": "c", "more": false });
        let line =
            json!({ "timestamp": "t", "service": "web", "stream": "stderr", "message": "x" });
        assert_eq!(lines(output), json!({ "logs": [line], "cursor": "c" }));
    }
}
