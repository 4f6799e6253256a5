//! Tests of the control port: commands, responses, and misbehaving clients.

use crate::script::{ADMIN, Daemon, TOKEN, holding, never, now, report, service};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Front, Principal};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// Deadline; only a failing test waits this long.
const LIMIT: Duration = Duration::from_secs(20);

struct Client {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Client {
    fn connect(daemon: &Daemon) -> Client {
        let stream = TcpStream::connect(daemon.control).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Client { stream, reader }
    }

    fn say(&mut self, line: impl AsRef<[u8]>) {
        self.stream.write_all(&[line.as_ref(), b"\n"].concat()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line
    }

    fn json(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Reads a text response up to the empty line.
    fn text(&mut self) -> String {
        let mut text = String::new();
        loop {
            match self.line().as_str() {
                "\n" => return text,
                "" => panic!("the connection ended after {text:?}"),
                line => text.push_str(line),
            }
        }
    }

    /// Checks that the connection is closed, and returns the rest.
    #[track_caller]
    fn closed(mut self) -> String {
        let mut rest = String::new();
        match self.reader.read_to_string(&mut rest) {
            Ok(_) => rest,
            // The server did not read all sent data.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("{error}"),
        }
    }
}

fn echo() -> Daemon {
    Daemon::new(|op, input| match op {
        "service.stop" => {
            now(Err(OpError::new(Code::NotRunning, "it does not run").help("start it")))
        }
        "log.read" => never(),
        _ => now(Ok(json!({ "op": op, "input": input }))),
    })
}

/// Operations with outputs that can be shown.
fn typical() -> Daemon {
    Daemon::new(|op, _| match op {
        "service.status" => now(Ok(json!({
            "generation": 1, "good": null, "services": [service("web", "running"), service("db", "stopped")],
        }))),
        "service.restart" => now(Ok(json!({
            "settled": true, "services": [report("web", "running", "restarted", "restarted (pid 7)")],
        }))),
        _ => now(Ok(json!({}))),
    })
}

#[test]
fn lines_are_answered_in_their_order_however_they_come() {
    let daemon = echo();
    let mut client = Client::connect(&daemon);
    client
        .stream
        .write_all(b"{\"op\":\"a\",\"input\":{\"x\":1}}\n{\"op\":\"service.stop\"}\r\n{\"op\":")
        .unwrap();
    let first = client.json();
    assert_eq!(
        (&first["success"], &first["data"]),
        (&json!(true), &json!({ "op": "a", "input": { "x": 1 } }))
    );
    let second = client.json();
    assert_eq!(
        (&second["success"], &second["message"]),
        (&json!(false), &json!("it does not run"))
    );
    assert_eq!(
        second["data"],
        json!({ "code": "not_running", "help": "start it", "details": null })
    );
    client.say("\"b\"}");
    assert_eq!(client.json()["data"]["op"], "b");
    let fields = first.as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["success", "message", "data", "timestamp"]);
    fields["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
}

#[test]
fn words_are_answered_with_a_text_and_an_empty_line() {
    let daemon = typical();
    let mut client = Client::connect(&daemon);
    client.say("status\n\nrestart web\nnonsense\nhelp");
    let status = client.text();
    assert!(status.starts_with("NAME") && status.contains("\nweb "), "{status}");
    assert_eq!(client.text(), "web restarted (pid 7)\n");
    assert_eq!(
        client.text(),
        "error: unknown command 'nonsense'\nhelp: `help` lists the commands\ncode: unknown_operation\n"
    );
    assert!(client.text().contains("\n  restart "));
    client.say("quit");
    assert_eq!(client.closed(), "");
    assert_eq!(daemon.input_of("service.restart"), json!({ "names": ["web"] }));
}

#[test]
fn a_program_sees_services_in_the_shape_it_knows() {
    let daemon = typical();
    let mut client = Client::connect(&daemon);
    client.say(r#""Status""#);
    let answer = client.json();
    let web = json!({
        "pid": null, "status": "running", "uptime_seconds": null, "restart_count": 0, "last_restart": null,
        "health_status": "unknown", "args": ["run", "dev"],
    });
    assert_eq!(answer["data"]["web"], web, "{answer}");
    assert_eq!(answer["data"]["db"]["status"], "stopped", "{answer}");
    client.say(r#"{"Restart":{"args":["-v"],"service":"web"}}"#);
    assert_eq!(client.json()["message"], "web restarted (pid 7)");
    assert_eq!(daemon.input_of("service.restart"), json!({ "args": ["-v"], "names": ["web"] }));
}

#[test]
fn a_client_that_said_its_last_word_still_gets_the_answer() {
    let daemon = typical();
    for (said, expected) in [("status", "NAME"), ("\"Status\"", "{\"success\":true")] {
        let mut client = Client::connect(&daemon);
        client.stream.write_all(said.as_bytes()).unwrap();
        client.stream.shutdown(Shutdown::Write).unwrap();
        let answer = client.closed();
        assert!(answer.starts_with(expected), "{said}: {answer}");
    }
}

#[test]
fn who_calls_is_nobody_in_particular_until_a_token_says_who() {
    let daemon = echo();
    let mut client = Client::connect(&daemon);
    client.say(r#"{"op":"a"}"#);
    client.json();
    client.say(format!(r#"{{"op":"b","token":"{TOKEN}"}}"#));
    client.json();
    client.say(r#"{"op":"c"}"#);
    client.json();
    client.say("auth wrong");
    assert_eq!(client.text(), "error: this token is not valid\ncode: unauthenticated\n");
    client.say(format!("auth {TOKEN}"));
    assert_eq!(client.text(), "you are token 'ci' (operator)\n");
    client.say(r#"{"op":"d"}"#);
    client.json();
    client.say(r#"{"op":"e","token":"wrong"}"#);
    assert_eq!(client.json()["data"]["code"], "unauthenticated");
    let callers = daemon.callers();
    assert!(
        callers
            .iter()
            .all(|it| it.front == Front::Tcp && it.peer == client.stream.local_addr().ok())
    );
    let named = |caller: &proctor_ops::operation::Caller| {
        matches!(caller.principal, Principal::Token { .. })
    };
    assert_eq!(callers.iter().map(named).collect::<Vec<_>>(), [false, true, false, true]);
}

#[test]
fn guesses_of_a_token_come_to_an_end() {
    let daemon = echo();
    let mut client = Client::connect(&daemon);
    for _ in 0..9 {
        client.say(r#"{"Auth":{"token":"guess"}}"#);
        assert_eq!(client.json()["data"]["code"], "unauthenticated");
    }
    assert_eq!(client.closed(), "");
}

#[test]
fn what_is_no_command_is_refused_and_the_connection_goes_on() {
    let daemon = echo();
    let mut client = Client::connect(&daemon);
    for line in [
        &b"{}"[..],
        b"[1]",
        b"{\"op\":1}",
        b"{\"op\":\"a\"",
        b"{\xff\xff}",
        b"\"\xc3\x28\"",
        b"{\"a\":\"\0\"}",
        "[".repeat(10_000).as_bytes(),
        format!("{}1{}", "{\"op\":".repeat(2000), "}".repeat(2000)).as_bytes(),
    ] {
        client.say(line);
        let answer = client.json();
        let code = answer["data"]["code"].as_str();
        assert!(matches!(code, Some("bad_input" | "unknown_operation")), "{answer}");
    }
    for line in [&b"sta\0tus"[..], b"\xff\xffstatus", b"st\xc3", b"\x1b[A"] {
        client.say(line);
        assert!(client.text().ends_with("code: bad_input\n"));
    }
    client.say(b"\xff\xfd\x03\xff\xfb\x18{\"op\":\"still.there\"}\r");
    assert_eq!(client.json()["data"]["op"], "still.there");
    assert_eq!(daemon.calls().len(), 1);
}

#[test]
fn a_browser_and_an_encrypted_hello_are_closed_and_nothing_they_say_is_done() {
    let daemon = echo();
    let post = "POST / HTTP/1.1\r\nHost: 127.0.0.1:8081\r\nContent-Type: text/plain\r\n\r\n{\"op\":\"a\"}\n\"Shutdown\"\n";
    for said in [
        post.as_bytes().to_vec(),
        post.replace("POST /", "POST /x?\"Stop\"").into_bytes(),
        b"GET /\n{\"op\":\"a\"}\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\"Shutdown\"\n".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\"Shutdown\"\n".to_vec(),
    ] {
        let mut client = Client::connect(&daemon);
        client.stream.write_all(&said).unwrap();
        assert_eq!(client.closed(), "", "{}", said.escape_ascii());
    }
    // Also if it arrives in pieces.
    let mut client = Client::connect(&daemon);
    for piece in post.as_bytes().chunks(5) {
        if client.stream.write_all(piece).is_err() {
            break;
        }
    }
    assert_eq!(client.closed(), "");
    assert_eq!(daemon.calls(), []);
}

#[test]
fn the_line_of_an_admin_may_be_longer() {
    let daemon = echo();
    let long = json!({ "op": "a", "input": { "x": "y".repeat(20_000) } }).to_string();
    let mut stranger = Client::connect(&daemon);
    stranger.say(&long);
    let refused = stranger.json();
    assert_eq!(refused["data"]["code"], "too_large", "{refused}");
    assert!(refused["data"]["help"].as_str().unwrap().contains("auth"), "{refused}");
    stranger.closed();
    let mut operator = Client::connect(&daemon);
    operator.say(format!("auth {TOKEN}"));
    operator.text();
    operator.say(&long);
    assert_eq!(operator.json()["data"]["code"], "too_large");
    let mut known = Client::connect(&daemon);
    known.say(format!("auth {ADMIN}"));
    known.text();
    known.say(&long);
    assert_eq!(known.json()["success"], true);
    // The server stops reading; how much was sent depends on its buffer.
    drop(known.stream.write_all(&vec![b'x'; 5 << 20]));
    assert!(known.closed().contains("too_large"));
}

#[test]
fn long_lines_have_room_for_all_together() {
    let daemon = echo();
    let long = [vec![b'x'; 3 << 20], b"\n".to_vec()].concat();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&daemon)).collect();
    for client in &mut clients {
        client.say(format!("auth {ADMIN}"));
        client.text();
        drop(client.stream.write_all(&long[..long.len() - 1]));
    }
    // A closed client does not take the rest of it.
    clients.iter_mut().for_each(|client| drop(client.stream.write_all(b"\n")));
    let answers: Vec<String> = clients.iter_mut().map(Client::line).collect();
    let busy = answers.iter().filter(|answer| answer.contains("\"busy\"")).count();
    assert!((1..=2).contains(&busy), "{answers:?}");
    drop(clients);
    let mut next = Client::connect(&daemon);
    next.say(format!("auth {ADMIN}"));
    next.text();
    next.say(json!({ "op": "a", "input": { "x": "y".repeat(3 << 20) } }).to_string());
    assert_eq!(next.json()["success"], true, "room is given back");
}

#[test]
fn a_client_that_vanishes_ends_its_long_poll_but_not_a_change() {
    let (daemon, told, release) = holding();
    for requests in [1, 2, 500] {
        let mut client = Client::connect(&daemon);
        client.say("{\"op\":\"log.read\"}\n".repeat(requests).trim_end());
        assert_eq!(told.recv_timeout(LIMIT), Ok("poll begun"));
        drop(client);
        assert_eq!(told.recv_timeout(LIMIT), Ok("poll ended"), "{requests}");
    }
    let mut client = Client::connect(&daemon);
    client.say(r#"{"op":"service.stop"}"#);
    assert_eq!(told.recv_timeout(LIMIT), Ok("change begun"));
    drop(client);
    // When a later client has its response, the end of the first one has been noticed.
    let mut client = Client::connect(&daemon);
    client.say(r#"{"op":"service.list"}"#);
    client.json();
    release.notify_one();
    assert_eq!(told.recv_timeout(LIMIT), Ok("change done"));
}

#[test]
fn what_takes_long_keeps_no_other_connection_waiting() {
    let daemon = echo();
    let mut slow: Vec<Client> = (0..20)
        .map(|_| {
            let mut client = Client::connect(&daemon);
            client.say(r#"{"op":"log.read"}"#);
            client
        })
        .collect();
    let mut quick = Client::connect(&daemon);
    quick.say(r#"{"op":"a"}"#);
    assert_eq!(quick.json()["success"], true);
    slow[0].stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    assert!(slow[0].reader.read(&mut [0; 1]).is_err(), "a long poll was answered");
}

/// Connects more clients than there are slots: active ones are served, silent ones are closed first.
#[test]
fn idle_clients_give_way_and_one_that_does_not_read_does_too() {
    let daemon = echo();
    let mut deaf = Client::connect(&daemon);
    // Until the server takes no more: its responses wait for a reader.
    let large = json!({ "op": "a", "input": { "x": "y".repeat(15_000) } }).to_string() + "\n";
    deaf.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    while deaf.stream.write(large.as_bytes()).is_ok() {}
    let mut idle: Vec<Client> = (0..600).map(|_| Client::connect(&daemon)).collect();
    for client in &mut idle {
        // A partial line does not keep a slot.
        drop(client.stream.write_all(b"{\"op\":"));
    }
    let mut last = Client::connect(&daemon);
    last.say(r#"{"op":"a"}"#);
    assert_eq!(last.json()["success"], true);
    let gone = idle.drain(..).take(50).map(Client::closed).collect::<String>();
    assert_eq!(gone, "");
    deaf.closed();
}
