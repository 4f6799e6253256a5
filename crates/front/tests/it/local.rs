//! Tests of the socket: requests, responses, and misbehaving clients.

use crate::script::{Daemon, holding, now};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, ClientName, Front};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Deadline; only a failing test waits this long.
const LIMIT: Duration = Duration::from_secs(20);

fn connect(daemon: &Daemon) -> (UnixStream, BufReader<UnixStream>) {
    let stream = UnixStream::connect(daemon.socket()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let reader = BufReader::new(stream.try_clone().unwrap());
    (stream, reader)
}

fn answer(reader: &mut impl BufRead) -> Value {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
}

fn echo() -> Daemon {
    Daemon::new(|op, input| match op {
        "service.fail" => {
            now(Err(OpError::new(Code::NotRunning, "it does not run").help("start it")))
        }
        _ => now(Ok(json!({ "op": op, "input": input }))),
    })
}

#[test]
fn requests_of_a_connection_are_answered_one_after_the_other() {
    let daemon = echo();
    let (mut stream, mut reader) = connect(&daemon);
    // Two requests at once, the second in pieces.
    stream.write_all(b"{\"op\":\"a\",\"input\":{\"x\":1}}\n{\"op\":").unwrap();
    assert_eq!(answer(&mut reader), json!({ "ok": { "op": "a", "input": { "x": 1 } } }));
    stream.write_all(b"\"service.fail\"}\n").unwrap();
    assert_eq!(
        answer(&mut reader),
        json!({ "error": { "code": "not_running", "message": "it does not run", "help": "start it" } })
    );
}

#[test]
fn what_is_no_request_is_refused_and_the_connection_goes_on() {
    let daemon = echo();
    let (mut stream, mut reader) = connect(&daemon);
    for bad in ["", "nonsense", "[]", "{}", r#"{"op":1}"#, r#"{"op":"a","extra":1}"#, "\u{fffd}"] {
        writeln!(stream, "{bad}").unwrap();
        let refused = answer(&mut reader);
        assert_eq!(refused["error"]["code"], "bad_input", "{bad}: {refused}");
    }
    writeln!(stream, r#"{{"op":"still.there"}}"#).unwrap();
    assert_eq!(answer(&mut reader)["ok"]["op"], "still.there");
}

#[test]
fn a_program_that_speaks_for_somebody_is_heard_as_one_and_stays_that_user() {
    let daemon = echo();
    let (mut stream, mut reader) = connect(&daemon);
    let mut check = |voice: &str, front: Front, client: Option<&str>| {
        writeln!(stream, r#"{{"op":"a"{voice}}}"#).unwrap();
        assert_eq!(answer(&mut reader)["ok"]["op"], "a", "{voice}");
        let caller = daemon.callers().pop().unwrap();
        let own = Caller::local(rustix::process::geteuid().as_raw());
        assert_eq!(caller, own.through(front, client.and_then(ClientName::parse)), "{voice}");
    };
    check(r#","as":{"front":"mcp","client":"claude-code"}"#, Front::Mcp, Some("claude-code"));
    check(r#","as":{"front":"mcp","client":"a\u001bb"}"#, Front::Mcp, Some("a_b"));
    check(r#","as":{"front":"mcp","client":" "}"#, Front::Mcp, None);
    check(r#","as":{"front":"mcp"}"#, Front::Mcp, None);
    check("", Front::Local, None);
    for bad in [r#"{"front":"rest"}"#, r#"{"front":"local"}"#, r#"{"front":"mcp","uid":0}"#, "{}"] {
        writeln!(stream, r#"{{"op":"a","as":{bad}}}"#).unwrap();
        assert_eq!(answer(&mut reader)["error"]["code"], "bad_input", "{bad}");
    }
}

#[test]
fn a_page_is_text_for_the_terminal_that_the_request_describes() {
    let list = json!({ "services": [crate::script::service("web", "running")] });
    let daemon = Daemon::answering("service.list", list);
    let (mut stream, mut reader) = connect(&daemon);
    let mut check = |page: &str, expected: &str| {
        writeln!(stream, r#"{{"op":"service.list","page":{page}}}"#).unwrap();
        assert_eq!(answer(&mut reader), json!({ "page": { "text": expected } }), "{page}");
    };
    check("{}", "NAME  STATE    COMMAND\nweb   running  npm run dev\n");
    check(r#"{"width":22}"#, "NAME  STATE\nweb   running\n");
    let coloured = "\u{1b}[1;2mNAME\u{1b}[0m  \u{1b}[1;2mSTATE\u{1b}[0m    \u{1b}[1;2mCOMMAND\u{1b}[0m\n\
                    \u{1b}[1mweb\u{1b}[0m   \u{1b}[32mrunning\u{1b}[0m  \u{1b}[2mnpm run dev\u{1b}[0m\n";
    check(r#"{"colour":true}"#, coloured);
    writeln!(stream, r#"{{"op":"service.list","page":{{"height":3}}}}"#).unwrap();
    assert_eq!(answer(&mut reader)["error"]["code"], "bad_input");
}

#[test]
fn a_line_without_end_is_refused() {
    let daemon = echo();
    let (mut stream, mut reader) = connect(&daemon);
    let sent = stream.write_all(&vec![b'x'; 5 << 20]);
    // The server stops reading; how much was sent depends on its buffer.
    drop(sent);
    let refused = answer(&mut reader);
    assert!(refused["error"]["message"].as_str().unwrap().contains("4194304"), "{refused}");
    assert_eq!(reader.read(&mut [0; 1]).unwrap_or(0), 0, "the connection is over");
}

#[test]
fn a_client_that_said_its_last_word_still_gets_the_answer() {
    let daemon = echo();
    let (mut stream, mut reader) = connect(&daemon);
    stream.write_all(b"{\"op\":\"service.list\"}").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(answer(&mut reader)["ok"]["op"], "service.list");
}

#[test]
fn a_client_that_vanishes_ends_its_long_poll_but_not_a_change() {
    let (daemon, told, release) = holding();
    // Also if the client has sent its next request already.
    for requests in [1, 2, 1000] {
        let (mut stream, reader) = connect(&daemon);
        stream.write_all("{\"op\":\"log.read\"}\n".repeat(requests).as_bytes()).unwrap();
        assert_eq!(told.recv_timeout(LIMIT), Ok("poll begun"));
        drop((stream, reader));
        assert_eq!(told.recv_timeout(LIMIT), Ok("poll ended"), "{requests}");
    }

    let (mut stream, reader) = connect(&daemon);
    writeln!(stream, r#"{{"op":"service.stop"}}"#).unwrap();
    assert_eq!(told.recv_timeout(LIMIT), Ok("change begun"));
    drop((stream, reader));
    // When a later client has its response, the end of the first one has been noticed.
    let (mut stream, mut reader) = connect(&daemon);
    writeln!(stream, r#"{{"op":"service.list"}}"#).unwrap();
    answer(&mut reader);
    release.notify_one();
    assert_eq!(told.recv_timeout(LIMIT), Ok("change done"));
}

#[test]
fn idle_connections_make_room_for_others() {
    let daemon = echo();
    let silent: Vec<_> = (0..200).map(|_| connect(&daemon)).collect();
    let ask = || {
        let (mut stream, mut reader) = connect(&daemon);
        writeln!(stream, r#"{{"op":"a"}}"#).unwrap();
        assert_eq!(answer(&mut reader)["ok"]["op"], "a");
        (stream, reader)
    };
    let answered: Vec<_> = (0..400).map(|_| ask()).collect();
    // Silent clients are closed first, then those that were answered first.
    for (_stream, mut reader) in silent {
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "it was kept");
    }
    let mut newest = answered.into_iter().next_back().unwrap();
    writeln!(newest.0, r#"{{"op":"b"}}"#).unwrap();
    assert_eq!(answer(&mut newest.1)["ok"]["op"], "b");
}
