//! Input of `/mcp`: each error has its own response, no caller gets at the session of another, and a client that
//! disconnects leaves
//! nothing behind.

use crate::control::{admin, listening};
use crate::support::{LIMIT, service, services};
use proctor_testkit::{Event, Home, Http, Response, Stream, kill9, wait_for, wait_until};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;

const NEW: &str = "2026-07-28";
const OLD: &str = "2025-11-25";

/// Nesting far beyond real messages.
const DEEP: usize = 200_000;

pub(super) fn home() -> Home {
    listening(&services(&[service("web", &["--lines", "3"], "")]))
}

/// A client that accepts all content types.
pub(super) fn client(home: &Home) -> Http {
    Http::at(home.port("http"))
        .token(&admin(home))
        .header("Accept", "application/json, text/event-stream")
        .header("Content-Type", "application/json")
}

/// Sends a request of the newer era.
fn new(client: &Http, method: &str, mut params: Value) -> Response {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let client = client.header("MCP-Protocol-Version", NEW).header("Mcp-Method", method);
    let client = if name.is_empty() { client } else { client.header("Mcp-Name", &name) };
    client.post("/mcp", &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// Starts a session of the older era, and returns a client that sends its id.
#[track_caller]
pub(super) fn session(client: &Http) -> Http {
    let hello = json!({ "protocolVersion": OLD, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let response = client.post(
        "/mcp",
        &json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello }),
    );
    assert_eq!(response.status, 200, "{response:?}");
    let id = response.header("mcp-session-id").expect("a session has its number").to_owned();
    let client = client.header("Mcp-Session-Id", &id).header("MCP-Protocol-Version", OLD);
    let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(client.post("/mcp", &begun).status, 202);
    client
}

pub(super) fn list(client: &Http) -> Response {
    client.post("/mcp", &json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/list" }))
}

/// Returns the response in a body: a document, or the last event of a stream.
#[track_caller]
fn answer(response: &Response) -> Value {
    let text = response.text();
    let event = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
    serde_json::from_str(event.unwrap_or(&text))
        .unwrap_or_else(|why| panic!("{why}: {} {text}", response.status))
}

#[track_caller]
fn still_well(home: &Home, daemon: u32) {
    assert_eq!(new(&client(home), "tools/list", json!({})).status, 200);
    assert_eq!(home.daemon_pid(), daemon, "it is the same daemon");
}

#[test]
fn what_is_no_message_is_refused() {
    let home = home();
    let daemon = home.daemon_pid();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    let bodies: [&[u8]; 9] = [
        b"",
        b"{",
        b"17",
        b"[]",
        &format!("[{request},{request}]").into_bytes(),
        br#"{"jsonrpc":"1.0","id":1,"method":"tools/list"}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\xfe\"}",
        &b"[".repeat(DEEP),
        &br#"{"a":"#.repeat(DEEP),
    ];
    for body in bodies {
        for client in [client(&home), client(&home).header("MCP-Protocol-Version", NEW)] {
            let response = client.send("POST", "/mcp", body);
            let begin = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
            assert_eq!(response.status, 400, "{begin}: {response:?}");
            let code = answer(&response)["error"]["code"].as_i64();
            assert!(matches!(code, Some(-32700 | -32600)), "{begin}: {}", response.text());
        }
    }
    still_well(&home, daemon);
}

#[test]
fn what_cannot_be_answered_is_refused_by_its_head() {
    let home = home();
    let daemon = home.daemon_pid();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    let only_json = client(&home).header("Accept", "application/json");
    assert_eq!(only_json.post("/mcp", &body).status, 406);
    let text = client(&home).header("Content-Type", "text/plain");
    assert_eq!(text.send("POST", "/mcp", body.to_string().as_bytes()).status, 415);
    let unknown = client(&home).header("MCP-Protocol-Version", "1999-01-01");
    assert_eq!(unknown.post("/mcp", &body).status, 400);
    let large = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "x".repeat(9 << 20) } });
    assert_eq!(client(&home).post("/mcp", &large).status, 413);
    for method in ["PUT", "PATCH"] {
        assert_eq!(client(&home).send(method, "/mcp", b"{}").status, 405, "{method}");
    }
    // Without a session there is nothing to listen to or to end.
    for method in ["GET", "DELETE"] {
        let status = client(&home).send(method, "/mcp", b"").status;
        assert!((400..500).contains(&status), "{method}: {status}");
    }
    still_well(&home, daemon);
}

#[test]
fn only_our_own_pages_may_ask() {
    let home = home();
    let port = home.port("http");
    let evil = [
        ("Host", "evil.example".to_owned()),
        ("Host", format!("evil.example:{port}")),
        ("Origin", "http://evil.example".to_owned()),
        ("Origin", format!("http://127.0.0.1.evil.example:{port}")),
        ("Origin", "null".to_owned()),
    ];
    for (header, value) in evil {
        let stranger = client(&home).header(header, &value);
        assert_eq!(new(&stranger, "tools/list", json!({})).status, 403, "{header}: {value}");
        assert_eq!(stranger.send("GET", "/mcp", b"").status, 403, "{header}: {value}");
    }
    let ours = client(&home).header("Origin", &format!("http://127.0.0.1:{port}"));
    assert_eq!(new(&ours, "tools/list", json!({})).status, 200);
}

#[test]
fn a_session_belongs_to_who_began_it() {
    let home = home();
    let mine = session(&client(&home));
    let other = home.json(["token", "create", "other", "--role", "admin"])["secret"].clone();
    let other = mine.header("Authorization", &format!("Bearer {}", other.as_str().unwrap()));
    let neighbour = mine.without("Authorization");
    assert_eq!(list(&neighbour).status, 404, "who has no token has no session of others either");
    assert_eq!(list(&other).status, 404, "it does not exist for others");
    assert_eq!(other.send("DELETE", "/mcp", b"").status, 404);
    assert_eq!(other.header("Accept", "text/event-stream").send("GET", "/mcp", b"").status, 404);
    assert_eq!(list(&mine).status, 200, "it is as it was");
    assert_eq!(mine.send("DELETE", "/mcp", b"").status, 204);
    assert_eq!(list(&mine).status, 404, "it has ended");
    for made_up in ["../../token", "x", "00000000-0000-0000-0000-000000000000", &"a".repeat(5000)] {
        let status = list(&client(&home).header("Mcp-Session-Id", made_up)).status;
        assert!(matches!(status, 404 | 400 | 431), "{made_up}: {status}");
    }
}

#[test]
fn a_session_goes_on_at_the_next_daemon_but_not_the_answers_of_the_last() {
    let home = home();
    let before = session(&client(&home));
    let daemon = home.daemon_pid();
    kill9(daemon);
    wait_until("another daemon is there", LIMIT, || home.daemon_pid() != daemon);
    let mine = before.moved_to(home.port("http"));
    let lost = mine.header("Accept", "text/event-stream").header("Last-Event-ID", "0/0");
    let refused = lost.send("GET", "/mcp", b"");
    assert_eq!(refused.status, 502, "{refused:?}");
    assert_eq!(list(&mine).status, 200);
    assert_eq!(lost.send("GET", "/mcp", b"").status, 502, "the number is another request's now");
}

#[test]
fn what_a_session_follows_it_follows_at_the_next_daemon() {
    let home = home();
    let before = session(&client(&home));
    let uri = "proctor://services/web/status";
    for (method, params) in [
        ("resources/subscribe", json!({ "uri": uri })),
        ("logging/setLevel", json!({ "level": "info" })),
    ] {
        let asked = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        assert!(answer(&before.post("/mcp", &asked))["error"].is_null());
    }
    let daemon = home.daemon_pid();
    kill9(daemon);
    wait_until("another daemon is there", LIMIT, || home.daemon_pid() != daemon);
    let mine = before.moved_to(home.port("http"));
    // A client does all this after its stream was cut.
    let mut stream = mine.header("Accept", "text/event-stream").stream("/mcp");
    assert_eq!(stream.status, 200);
    home.ok(["restart", "web"]);
    let mut missing = vec!["notifications/resources/updated", "notifications/message"];
    wait_until("news of both kinds", LIMIT, || {
        let event = stream.event().unwrap();
        missing.retain(|news| !event.iter().any(|(_, value)| value.contains(news)));
        missing.is_empty()
    });
}

#[test]
fn a_token_that_was_revoked_hears_nothing_more() {
    let home = home();
    let secret = home.json(["token", "create", "eyes"])["secret"].clone();
    let bearer = format!("Bearer {}", secret.as_str().unwrap());
    let uri = "proctor://services/web/status";
    let follow = |client: &Http| {
        let client = session(client);
        let asked = json!({ "jsonrpc": "2.0", "id": 7, "method": "resources/subscribe", "params": { "uri": uri } });
        assert!(answer(&client.post("/mcp", &asked))["error"].is_null());
        client.header("Accept", "text/event-stream").stream("/mcp")
    };
    let mut revoked = follow(&client(&home).header("Authorization", &bearer));
    let mut other = follow(&client(&home));
    home.ok(["token", "revoke", "eyes"]);
    home.ok(["restart", "web"]);
    let is_news = |event: &Event| event.iter().any(|(_, value)| value.contains(uri));
    wait_for("news for who may hear it", LIMIT, || other.event().filter(is_news));
    // It ends, and all messages are there.
    kill9(home.daemon_pid());
    while let Some(event) = revoked.event() {
        assert!(!is_news(&event), "{event:?}");
    }
}

/// Returns the number of calls in flight.
fn running(home: &Home) -> usize {
    let list = home.json(["operation", "list"]);
    list["operations"].as_array().unwrap().iter().filter(|one| one["state"] == "running").count()
}

#[test]
fn who_goes_away_in_the_middle_of_a_call_is_not_waited_for() {
    let home = home();
    let port = home.port("http");
    let daemon = home.daemon_pid();
    let open = || std::fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().count();
    let before = open();
    let arguments = json!({ "names": ["web"], "until": "stopped", "timeout": 40 });
    let params = json!({ "name": "wait_for_process", "arguments": arguments, "_meta": {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientCapabilities": {},
    } });
    let body =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {}\r\n\
         Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n\
         MCP-Protocol-Version: {NEW}\r\nMcp-Method: tools/call\r\nMcp-Name: wait_for_process\r\n\
         Content-Length: {}\r\n\r\n",
        admin(&home),
        body.len()
    );
    for _ in 0..5 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        wait_until("the wait is under way", LIMIT, || running(&home) == 1);
        drop(stream);
        wait_until("nobody waits any more", LIMIT, || running(&home) == 0);
    }
    wait_until("no descriptor is left", LIMIT, || open() <= before);
    assert!(!home.own_log().contains("rmcp"), "nothing of it is worth a line in the log");
}

#[test]
fn an_answer_finished_while_its_client_was_away_is_there_when_it_returns() {
    let home = home();
    let mine = session(&client(&home));
    let arguments = json!({ "names": ["web"], "until": "stopped", "timeout": 40 });
    let params = json!({ "name": "wait_for_process", "arguments": arguments });
    let asked = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params });
    let mut stream = mine.stream_of_post("/mcp", &asked);
    let first = stream.event().unwrap();
    let last = first.iter().find(|(name, _)| name == "id").unwrap().1.clone();
    drop(stream);
    wait_until("the wait is under way", LIMIT, || running(&home) == 1);
    home.ok(["stop", "web"]);
    wait_until("it has ended", LIMIT, || running(&home) == 0);
    let back = mine.header("Accept", "text/event-stream").header("Last-Event-ID", &last);
    // The connection may be lost again.
    for _ in 0..2 {
        let told = answer(&back.send("GET", "/mcp", b""));
        assert_eq!(told["id"], 9, "{told}");
        assert_eq!(told["result"]["structuredContent"]["reached"], true, "{told}");
    }
    let other = back.header("Last-Event-ID", "0/999");
    assert_eq!(other.send("GET", "/mcp", b"").status, 502, "there is no such answer");
}

#[test]
fn who_stops_listening_gives_the_place_back() {
    let home = home();
    let daemon = home.daemon_pid();
    let open = || std::fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().count();
    let mine = session(&client(&home)).header("Accept", "text/event-stream");
    let before = open();
    for _ in 0..200 {
        let stream = mine.stream("/mcp");
        assert_eq!(stream.status, 200);
    }
    wait_until("no descriptor is left", LIMIT, || open() <= before);
    let mut stream = mine.stream("/mcp");
    follows_web(&mine);
    home.ok(["stop", "web"]);
    wait_for("news of the service", LIMIT, || news(&mine, &mut stream));
}

#[test]
fn who_comes_back_before_it_is_known_that_they_left_is_told_as_well() {
    let home = home();
    let mine = session(&client(&home)).header("Accept", "text/event-stream");
    let left = mine.stream("/mcp");
    let mut back = [mine.stream("/mcp"), mine.stream("/mcp")];
    follows_web(&mine);
    drop(left);
    for stream in &mut back {
        assert_eq!(
            stream.event().map(|event| is_news(&event)),
            Some(false),
            "what begins a stream"
        );
        assert_eq!(stream.event(), None, "sent away, to come again");
    }
    let mut stream = mine.stream("/mcp");
    home.ok(["stop", "web"]);
    wait_for("news of the service", LIMIT, || news(&mine, &mut stream));
}

/// Subscribes to the service.
fn follows_web(client: &Http) {
    let subscribe = json!({ "jsonrpc": "2.0", "id": 7, "method": "resources/subscribe", "params": { "uri": "proctor://services/web/status" } });
    let client = client.header("Accept", "application/json, text/event-stream");
    assert!(answer(&client.post("/mcp", &subscribe))["error"].is_null());
}

/// Waits for a notification; a closed listener reconnects.
fn news(client: &Http, stream: &mut Stream) -> Option<()> {
    let Some(event) = stream.event() else {
        *stream = client.stream("/mcp");
        return None;
    };
    is_news(&event).then_some(())
}

fn is_news(event: &Event) -> bool {
    event.iter().any(|(_, value)| value.contains("notifications/resources/updated"))
}

#[test]
fn half_a_request_keeps_nobody_waiting() {
    let home = home();
    let port = home.port("http");
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 1000\r\n\r\n{{"
        );
        stream.write_all(head.as_bytes()).unwrap();
        halves.push(stream);
    }
    still_well(&home, home.daemon_pid());
    for mut stream in halves {
        stream.set_nonblocking(true).unwrap();
        let mut answer = Vec::new();
        // Nothing, or a refusal; never an answer.
        drop(stream.read_to_end(&mut answer));
        assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
    }
}
