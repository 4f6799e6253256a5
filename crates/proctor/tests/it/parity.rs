//! One door: every front gives an operation the same input, and returns the same responses and refusals.
//!
//! Generated from the table, so a new operation is tested without a line here.

use crate::control::{Control, admin, forget_times, listening};
use crate::support::{LIMIT, service, services};
use proctor_ops::operation::{Effect, Role};
use proctor_ops::table::{Entry, TABLE};
use proctor_testkit::Home;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// Result without the parts of a front.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// The output.
    Done(Value),
    /// `code`, `message`, `help` and `details`.
    Refused(Value),
}

/// A way to an operation.
trait Way {
    fn name(&self) -> &'static str;
    fn ask(&mut self, op: &str, input: &Value) -> Outcome;
}

fn refused(message: &Value, error: &Value) -> Outcome {
    let field = |name: &str| error.get(name).cloned().unwrap_or(Value::Null);
    let (code, help, details) = (field("code"), field("help"), field("details"));
    Outcome::Refused(json!({ "code": code, "message": message, "help": help, "details": details }))
}

struct Socket(UnixStream, BufReader<UnixStream>);

impl Socket {
    fn connect(home: &Home) -> Socket {
        let stream = UnixStream::connect(home.path().join("run/proctor.sock")).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Socket(stream, reader)
    }
}

impl Way for Socket {
    fn name(&self) -> &'static str {
        "unix socket"
    }

    fn ask(&mut self, op: &str, input: &Value) -> Outcome {
        let line = format!("{}\n", json!({ "op": op, "input": input }));
        self.0.write_all(line.as_bytes()).unwrap();
        let mut line = String::new();
        self.1.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        match answer.get("ok") {
            Some(output) => Outcome::Done(output.clone()),
            None => refused(&answer["error"]["message"], &answer["error"]),
        }
    }
}

impl Way for Control {
    fn name(&self) -> &'static str {
        "control port"
    }

    fn ask(&mut self, op: &str, input: &Value) -> Outcome {
        let answer = Control::ask(self, &json!({ "op": op, "input": input }));
        let data = &answer["data"];
        let is_error = answer["success"] == false && data.get("code").is_some_and(Value::is_string);
        match is_error {
            true => refused(&answer["message"], data),
            false => Outcome::Done(data.clone()),
        }
    }
}

/// `POST /api/v1/{noun}/{verb}`, a connection for each.
struct Rest {
    port: u16,
    token: Option<String>,
}

impl Way for Rest {
    fn name(&self) -> &'static str {
        "REST"
    }

    fn ask(&mut self, op: &str, input: &Value) -> Outcome {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let token = self.token.iter().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let (path, token, body) =
            (op.replace('.', "/"), token.collect::<String>(), input.to_string());
        let request = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n{token}\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        let body: Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {answer}"));
        match head.starts_with("HTTP/1.1 2") {
            true => Outcome::Done(body),
            false => refused(&body["message"], &body),
        }
    }
}

fn home() -> Home {
    listening(&services(&[
        service("web", &["--lines", "3"], "groups: [front]"),
        service("idle", &[], "autostart: false"),
    ]))
}

fn token(home: &Home, name: &str) -> String {
    let made = home.json(["token", "create", name, "--role", name]);
    made["secret"].as_str().or(made["token"].as_str()).unwrap().to_owned()
}

/// Operations whose responses grow with every call.
const GROWING: [&str; 3] = ["audit.read", "audit.verify", "daemon.metrics"];

/// Returns the fields of an object.
fn shape(value: &Value) -> Value {
    value.as_object().into_iter().flatten().map(|(key, _)| json!(key)).collect()
}

/// Returns every way, with all rights.
fn ways(home: &Home) -> (Socket, Control, Rest) {
    let token = admin(home);
    let rest = Rest { port: home.port("http"), token: Some(token.clone()) };
    (Socket::connect(home), Control::known(home, &token), rest)
}

/// Sends a request through every way, and checks for equal responses.
#[track_caller]
fn same(ways: &mut [&mut dyn Way], op: &str, input: &Value) -> Outcome {
    let mut first: Option<(&'static str, Outcome)> = None;
    for way in ways {
        let mut outcome = way.ask(op, input);
        match &mut outcome {
            Outcome::Done(output) if GROWING.contains(&op) => *output = shape(output),
            Outcome::Done(output) => forget_times(output),
            // Each front has its own message for an input that is not an object.
            Outcome::Refused(error) if !input.is_object() => error["message"] = Value::Null,
            Outcome::Refused(_) => {}
        }
        match &first {
            None => first = Some((way.name(), outcome)),
            Some((name, known)) => {
                assert_eq!(&outcome, known, "{op} {input}: {} and {name}", way.name());
            }
        }
    }
    first.expect("there is a way").1
}

/// Inputs that are invalid for every operation.
fn nonsense(entry: &Entry) -> Vec<Value> {
    let mut inputs = vec![
        json!([1]),
        json!("text"),
        json!({ "no_such_field": 1 }),
        json!({ "x": "y".repeat(entry.meta.max_input.min(100_000)) }),
    ];
    let schema = entry.input_schema();
    let fields = schema["properties"].as_object().into_iter().flatten();
    // No field accepts this.
    inputs.extend(fields.map(|(field, _)| json!({ field: { "deep": [[[null]]] } })));
    inputs
}

#[test]
fn what_makes_no_sense_is_refused_with_the_same_words_everywhere() {
    let home = home();
    let (mut socket, mut control, mut rest) = ways(&home);
    let mut ways: [&mut dyn Way; 3] = [&mut socket, &mut control, &mut rest];
    for entry in TABLE {
        for input in nonsense(entry) {
            let outcome = same(&mut ways, entry.meta.name, &input);
            assert!(
                matches!(outcome, Outcome::Refused(_)),
                "{} {input}: {outcome:?}",
                entry.meta.name
            );
        }
    }
    // With REST an operation is a path; an unknown one is not found.
    same(&mut ways[..2], "service.nothing", &json!({}));
}

#[test]
fn reading_answers_the_same_everywhere() {
    let home = home();
    let (mut socket, mut control, mut rest) = ways(&home);
    let mut ways: [&mut dyn Way; 3] = [&mut socket, &mut control, &mut rest];
    for entry in TABLE.iter().filter(|entry| entry.meta.effect == Effect::Read) {
        for input in [json!({}), json!({ "names": ["web"] }), json!({ "names": ["nothing"] })] {
            // A wait that cannot succeed takes its whole timeout.
            let input = match (input, entry.meta.name) {
                (Value::Object(mut fields), "service.wait") => {
                    fields.insert("timeout".into(), json!(0));
                    Value::Object(fields)
                }
                (input, _) => input,
            };
            same(&mut ways, entry.meta.name, &input);
        }
    }
}

/// Returns the minimum input of an operation.
fn least(entry: &Entry) -> Value {
    let schema = entry.input_schema();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.map(|field| (field.to_owned(), json!("x"))).collect()
}

/// Without a token, as a viewer and as an operator: only the operations of the role.
#[test]
fn a_role_gets_what_the_table_says_and_nothing_else() {
    let home = home();
    let callers =
        [("nobody", None), ("viewer", Some(Role::Viewer)), ("operator", Some(Role::Operator))];
    let (tcp, http) = (home.port("tcp"), home.port("http"));
    for (name, role) in callers {
        let token = role.map(|_| token(&home, name));
        let mut rest = Rest { port: http, token: token.clone() };
        for entry in TABLE {
            let needs = entry.meta.role;
            let allowed = role.unwrap_or(Role::Viewer) >= needs;
            // A change is tried only where it must be refused.
            if allowed && entry.meta.effect != Effect::Read {
                continue;
            }
            // One for each: after a few refusals it would be closed.
            let mut control = Control::connect(tcp);
            if let Some(token) = &token {
                Control::ask(&mut control, &json!({ "Auth": { "token": token } }));
            }
            let mut ways: [&mut dyn Way; 2] = [&mut control, &mut rest];
            let outcome = same(&mut ways, entry.meta.name, &least(entry));
            let code = match &outcome {
                Outcome::Done(_) => None,
                Outcome::Refused(error) => error["code"].as_str(),
            };
            let barred = matches!(code, Some("unauthenticated" | "forbidden"));
            assert_eq!(barred, !allowed, "{name}: {} needs {needs}: {outcome:?}", entry.meta.name);
            assert_eq!(code == Some("unauthenticated"), !allowed && role.is_none(), "{outcome:?}");
        }
    }
    assert_eq!(crate::support::status(&home, "web")["state"], "running");
}
