//! A line of JSON: the commands of earlier programs, and the general form for everything else.
//!
//! `"Status"`, `{"Restart":{"args":null,"service":"web"}}`, `{"op":"service.status","input":{…}}`; with a `"token"` field if this
//! command alone needs one.

use super::parsed_line::{OperationCall, ParsedLine, Shape, StatusTarget};
use crate::legacy_shapes;
use proctor_ops::error::{Code, OpError};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Commands, in the order in which an error lists them.
const COMMANDS: [&str; 9] = [
    "Status",
    "Restart",
    "Stop",
    "HealthCheck",
    "ReloadConfig",
    "CustomRestart",
    "ExecuteCommand",
    "Shutdown",
    "Auth",
];

/// Parses a line. The parser bounds the nesting (128), the line bounds the size.
pub(super) fn understand(text: &str) -> Result<ParsedLine, OpError> {
    let value = serde_json::from_str(text)
        .map_err(|error| OpError::bad_input(format!("not a JSON value: {error}")))?;
    match value {
        Value::String(name) => command(&name, Value::Null, None),
        Value::Object(fields) => object(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => Err(unknown()),
    }
}

fn object(mut fields: Map<String, Value>) -> Result<ParsedLine, OpError> {
    let token = match fields.shift_remove("token") {
        None | Some(Value::Null) => None,
        Some(Value::String(token)) => Some(token),
        Some(_) => return Err(OpError::bad_input("'token' must be a string")),
    };
    if fields.contains_key("op") {
        let OperationRequest { op, input } = read("this command", Value::Object(fields))?;
        return Ok(call(op, input, token, Shape::AsItIs));
    }
    let mut fields = fields.into_iter();
    match (fields.next(), fields.next()) {
        (Some((name, inner)), None) => command(&name, inner, token),
        (Some((first, _)), Some((second, _))) => {
            let message = format!("a line may have one command only, not '{first}' and '{second}'");
            Err(OpError::bad_input(message))
        }
        (None, _) => Err(unknown()),
    }
}

fn command(name: &str, inner: Value, token: Option<String>) -> Result<ParsedLine, OpError> {
    let said = |op: &str, input, shape| Ok(call(op.to_owned(), input, token.clone(), shape));
    match name {
        "Status" => {
            let ServiceField { service } = read(name, inner)?;
            let asked = match service.as_deref() {
                None => StatusTarget::Nothing,
                Some("all") => StatusTarget::All,
                Some(_) => StatusTarget::Name,
            };
            said("service.status", with_names(service, Map::new()), Shape::Status(asked))
        }
        "Stop" => {
            let ServiceField { service } = read(name, inner)?;
            said("service.stop", with_names(service, Map::new()), Shape::AsItIs)
        }
        "Restart" => {
            let Restart { service, args } = read(name, inner)?;
            let args = args.map(|args| ("args".to_owned(), json!(args)));
            said("service.restart", with_names(service, args.into_iter().collect()), Shape::AsItIs)
        }
        "HealthCheck" => {
            let ServiceField { service } = read(name, inner)?;
            said("daemon.health", with_names(service, Map::new()), Shape::Health)
        }
        "ReloadConfig" => said("config.reload", without_nulls(name, inner)?, Shape::AsItIs),
        "CustomRestart" => {
            let mut input = legacy_shapes::variables(without_nulls(name, inner)?);
            // An empty list does not mean "from now on without arguments": programs send it if they have none.
            if input["start_args"].as_array().is_some_and(Vec::is_empty) {
                input.as_object_mut().and_then(|fields| fields.shift_remove("start_args"));
            }
            said("service.custom_restart", input, Shape::Only(legacy_shapes::WORKFLOW))
        }
        "ExecuteCommand" => {
            let input = without_nulls(name, inner)?;
            said("command.execute", input, Shape::Only(legacy_shapes::COMMAND))
        }
        "Shutdown" => {
            let NoFields {} = read(name, inner)?;
            said("daemon.stop", json!({}), Shape::AsItIs)
        }
        "Auth" => {
            let Auth { token } = read(name, inner)?;
            Ok(ParsedLine::Auth(token))
        }
        _ => Err(unknown()),
    }
}

fn call(op: String, input: Value, token: Option<String>, shape: Shape) -> ParsedLine {
    ParsedLine::Call(OperationCall { op, input, token, shape })
}

/// Returns an input about one service; without a name the operation chooses it.
fn with_names(service: Option<String>, mut input: Map<String, Value>) -> Value {
    if let Some(service) = service {
        input.insert("names".to_owned(), json!([service]));
    }
    Value::Object(input)
}

/// Removes null fields. The operation checks the rest.
fn without_nulls(name: &str, inner: Value) -> Result<Value, OpError> {
    match inner {
        Value::Null => Ok(json!({})),
        Value::Object(mut fields) => {
            fields.retain(|_, value| !value.is_null());
            Ok(Value::Object(fields))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(OpError::bad_input(format!("{name}: its fields must be an object")))
        }
    }
}

fn read<T: DeserializeOwned>(name: &str, inner: Value) -> Result<T, OpError> {
    let inner = if inner.is_null() { json!({}) } else { inner };
    serde_json::from_value(inner).map_err(|error| OpError::bad_input(format!("{name}: {error}")))
}

fn unknown() -> OpError {
    OpError::new(Code::UnknownOperation, "unknown command")
        .help(format!("one of {}, or {{\"op\":NAME,\"input\":{{…}}}}", COMMANDS.join(", ")))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OperationRequest {
    op: String,
    #[serde(default)]
    input: Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceField {
    service: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restart {
    service: Option<String>,
    args: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoFields {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Auth {
    token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, op: &str, input: Value) {
        let said = understand(text).unwrap();
        let ParsedLine::Call(call) = said else { panic!("{text}: {said:?}") };
        assert_eq!((call.op.as_str(), call.input), (op, input), "{text}");
    }

    #[test]
    fn every_known_command_is_an_operation() {
        check(r#""Status""#, "service.status", json!({}));
        check(r#"{"Status":null}"#, "service.status", json!({}));
        check(r#"{"Status":{"service":"web"}}"#, "service.status", json!({ "names": ["web"] }));
        check(r#""Stop""#, "service.stop", json!({}));
        check(r#"{"Stop":{"service":"web"}}"#, "service.stop", json!({ "names": ["web"] }));
        check(r#"{"Restart":{"args":null}}"#, "service.restart", json!({}));
        check(
            r#"{"Restart":{"args":["-v"],"service":"web"}}"#,
            "service.restart",
            json!({ "args": ["-v"], "names": ["web"] }),
        );
        check(r#""HealthCheck""#, "daemon.health", json!({}));
        check(r#"{"ReloadConfig":{"config_path":null}}"#, "config.reload", json!({}));
        check(
            r#"{"ReloadConfig":{"config_path":"/a.yaml"}}"#,
            "config.reload",
            json!({ "config_path": "/a.yaml" }),
        );
        check(r#""Shutdown""#, "daemon.stop", json!({}));
        let inner = json!({ "pre_commands": [], "start_args": ["x"], "service": "web" });
        let text = json!({ "CustomRestart": inner }).to_string();
        check(&text, "service.custom_restart", inner);
        let text = r#"{"CustomRestart":{"start_args":[],"env_vars":{},"post_commands":null}}"#;
        check(text, "service.custom_restart", json!({ "env_vars": {} }));
        let text = r#"{"CustomRestart":{"env":{"MODE":"test"}}}"#;
        check(text, "service.custom_restart", json!({ "env_vars": { "MODE": "test" } }));
        let inner = json!({ "command": { "command": "make" }, "timeout_seconds": 30 });
        check(&json!({ "ExecuteCommand": inner }).to_string(), "command.execute", inner);
    }

    #[test]
    fn the_general_form_reaches_every_operation() {
        for entry in proctor_ops::table::TABLE {
            let text = json!({ "op": entry.meta.name, "input": { "x": 1 } }).to_string();
            check(&text, entry.meta.name, json!({ "x": 1 }));
        }
        check(r#"{"op":"daemon.status"}"#, "daemon.status", Value::Null);
    }

    #[test]
    fn a_token_stands_beside_any_command() {
        for text in [
            r#"{"Status":null,"token":"t"}"#,
            r#"{"token":"t","Restart":{"args":null}}"#,
            r#"{"op":"daemon.status","token":"t"}"#,
        ] {
            let ParsedLine::Call(call) = understand(text).unwrap() else { panic!("{text}") };
            assert_eq!(call.token.as_deref(), Some("t"), "{text}");
        }
        assert_eq!(
            understand(r#"{"Auth":{"token":"t"}}"#).unwrap(),
            ParsedLine::Auth("t".to_owned())
        );
    }

    #[test]
    fn what_is_no_command_is_refused_with_those_there_are() {
        for text in [r#""Sttus""#, "{}", "[]", r#"{"token":"t"}"#, r#""status""#] {
            let error = understand(text).unwrap_err();
            assert_eq!(error.code, Code::UnknownOperation, "{text}");
            assert!(error.help.unwrap().contains("CustomRestart"), "{text}");
        }
        for text in [
            r#"{"Status":{"sevice":"web"}}"#,
            r#"{"Stop":{"service":1}}"#,
            r#"{"Stop":null,"Status":null}"#,
            r#"{"op":"a","more":1}"#,
            r#"{"op":1}"#,
            r#"{"Status":null,"token":1}"#,
            r#"{"Auth":null}"#,
            r#"{"ReloadConfig":3}"#,
            r#"{"Shutdown":{"now":true}}"#,
            r#"{"Status""#,
            r#""Status" "Stop""#,
        ] {
            assert_eq!(understand(text).unwrap_err().code, Code::BadInput, "{text}");
        }
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        assert_eq!(understand(&deep).unwrap_err().code, Code::BadInput);
    }
}
