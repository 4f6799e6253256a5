//! One door for assistants, too: they get the responses of every caller, in brief, and the same refusals.

use crate::control::{admin, forget_times, listening};
use crate::support::{service, services};
use proctor_ops::operation::{Effect, Role};
use proctor_ops::tools::fields::in_shown_names;
use proctor_ops::tools::{TOOLS, Tool};
use proctor_testkit::{Conversation, Home, Http, ToolReply};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

const REVISION: &str = "2026-07-28";

fn home() -> Home {
    listening(&services(&[
        service("web", &["--lines", "3"], "groups: [front]"),
        service("idle", &[], "autostart: false"),
    ]))
}

/// Returns the response at the unix socket: an output, or an error.
fn at_socket(home: &Home, op: &str, input: &Value) -> Result<Value, Value> {
    let mut stream = UnixStream::connect(home.path().join("run/proctor.sock")).unwrap();
    writeln!(stream, "{}", json!({ "op": op, "input": input })).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    let mut answer: Value = serde_json::from_str(&line).unwrap();
    match answer.get("error") {
        Some(error) => Err(error.clone()),
        None => Ok(answer["ok"].take()),
    }
}

/// Sends a self-contained request over HTTP.
fn over_http(http: &Http, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut http = http
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", REVISION)
        .header("Mcp-Method", method);
    if !name.is_empty() {
        http = http.header("Mcp-Name", &name);
    }
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let response = http.post("/mcp?toolsets=all", &body);
    let text = String::from_utf8(response.body).unwrap();
    let event = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
    let document = event.unwrap_or(&text);
    serde_json::from_str(document).unwrap_or_else(|why| panic!("{why}: {} {text}", response.status))
}

/// Returns the error for programs in a tool's result.
fn error_of(result: &Value) -> Option<&Value> {
    result["_meta"].get("proctor/error")
}

/// Checks that a tool refuses for the same reason as the operation, with the field and command names of assistants.
#[track_caller]
fn assert_refused_alike(tool: &Tool, result: &Value, expected: &Value) {
    let told = error_of(result).unwrap_or_else(|| panic!("{}: {result}", tool.name));
    for part in ["code", "details"] {
        assert_eq!(told.get(part), expected.get(part), "{}: {told}", tool.name);
    }
    let mut message = expected["message"].as_str().unwrap().to_owned();
    if expected["code"] == "bad_input" {
        message = in_shown_names(tool, &message);
    }
    assert_eq!(told["message"], message, "{}", tool.name);
    assert_eq!(told.get("help").is_some(), expected.get("help").is_some(), "{}", tool.name);
}

/// Checks that everything in `part` is in `whole` with the same value.
fn is_within(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|other| is_within(value, other))),
        (Value::Array(part), Value::Array(whole)) => {
            part.len() == whole.len() && part.iter().zip(whole).all(|(a, b)| is_within(a, b))
        }
        (part, whole) => part == whole,
    }
}

/// Adds the defaults of this tool.
fn with_usual(tool: &Tool, input: &Value) -> Value {
    let mut input = input.clone();
    let usual: Value = serde_json::from_str(tool.usual).unwrap();
    let begins = ["cursor", "since"].iter().any(|field| input.get(field).is_some());
    let usual = usual.as_object().unwrap().iter();
    for (field, value) in usual.filter(|(field, _)| *field != "tail" || !begins) {
        input.as_object_mut().unwrap().entry(field).or_insert(value.clone());
    }
    input
}

/// Operations whose responses grow with every call.
const GROWING: [&str; 3] = ["audit.read", "audit.verify", "daemon.metrics"];

#[test]
fn an_assistant_is_answered_what_everybody_is_answered() {
    let home = home();
    let mut conversation = Conversation::begin_with(&home, "test", &["--toolsets", "all"]);
    let http = Http::at(home.port("http")).token(&admin(&home));
    for tool in TOOLS.iter().filter(|tool| tool.is_read_only()) {
        for input in [json!({}), json!({ "names": ["web"] }), json!({ "names": ["nothing"] })] {
            let mut input = with_usual(tool, &input);
            if tool.operation == "service.wait" {
                input["timeout"] = json!(0);
            }
            let expected = at_socket(&home, tool.operation, &input);
            let params = json!({ "name": tool.name, "arguments": input });
            let stdio = conversation.ask("tools/call", params.clone());
            let mut web = over_http(&http, "tools/call", params);
            let web = web["result"].take();
            for (way, result) in [("stdio", stdio), ("HTTP", web)] {
                match &expected {
                    Err(error) => assert_refused_alike(tool, &result, error),
                    Ok(_) if GROWING.contains(&tool.operation) => {
                        assert!(error_of(&result).is_none())
                    }
                    Ok(output) => {
                        let (mut output, mut facts) =
                            (output.clone(), ToolReply::of(&result).facts);
                        forget_times(&mut output);
                        forget_times(&mut facts);
                        assert!(
                            is_within(&facts, &output),
                            "{way} {} {input}\n{facts:#}\n{output:#}",
                            tool.name
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_to_an_assistant_for_the_same_reason() {
    let home = home();
    let mut conversation = Conversation::begin_with(&home, "test", &["--toolsets", "all"]);
    for tool in TOOLS {
        let schema = tool.entry().input_schema();
        let fields = schema["properties"].as_object().into_iter().flatten();
        let mut inputs = vec![json!({ "no_such_field": 1 })];
        // Fields that this front fills in or uses itself.
        let ours = ["environment", "base_dir", "from_base", "folders", "background"];
        let fields = fields.filter(|(field, _)| !ours.contains(&field.as_str()));
        inputs.extend(fields.map(|(field, _)| json!({ field: { "deep": [[[null]]] } })));
        for input in inputs {
            let input = with_usual(tool, &input);
            let expected = at_socket(&home, tool.operation, &input).expect_err("it makes no sense");
            let result =
                conversation.ask("tools/call", json!({ "name": tool.name, "arguments": input }));
            assert_refused_alike(tool, &result, &expected);
            assert_eq!(result["isError"], true);
        }
    }
}

#[test]
fn a_role_gets_what_the_table_says_over_mcp_too() {
    let home = home();
    let port = home.port("http");
    for (name, role) in [("viewer", Role::Viewer), ("operator", Role::Operator)] {
        let made = home.json(["token", "create", name, "--role", name]);
        let token = made["secret"].as_str().or(made["token"].as_str()).unwrap().to_owned();
        let http = Http::at(port).token(&token);
        for tool in TOOLS {
            let meta = &tool.entry().meta;
            let allowed = role >= meta.role;
            // A change is tried only where it must be refused.
            if allowed && meta.effect != Effect::Read {
                continue;
            }
            let schema = tool.entry().input_schema();
            let required =
                schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let least: Value = required.map(|field| (field.to_owned(), json!("x"))).collect();
            let answer =
                over_http(&http, "tools/call", json!({ "name": tool.name, "arguments": least }));
            let code = error_of(&answer["result"]).map(|error| error["code"].clone());
            assert_eq!(
                code == Some(json!("forbidden")),
                !allowed,
                "{name}: {}: {answer}",
                tool.name
            );
        }
    }
}

#[test]
fn a_stranger_is_turned_away_at_the_door() {
    let home = home();
    let port = home.port("http");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {} });
    let bad = Http::at(port).token("not-a-token").post("/mcp", &call);
    assert_eq!(bad.status, 401, "{bad:?}");
    for (header, value) in [("Origin", "http://evil.example"), ("Host", "evil.example")] {
        let response =
            Http::at(port).token(&admin(&home)).header(header, value).post("/mcp", &call);
        assert_eq!(response.status, 403, "{header}: {response:?}");
    }
}
