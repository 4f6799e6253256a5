//! Requests of a client of the unix socket, and responses to it.

use proctor_front::protocol::{Answer, CutLine, Lines, Request};
use proctor_ops::dispatch::given;
use proctor_ops::table::{self, TABLE};
use proctor_ops::timestamps;

/// A limit that the inputs of these checks reach.
const MAX_TEXT_BYTES: usize = 64;

pub(crate) fn check(bytes: &[u8]) {
    lines(bytes);
    if let Ok(request) = Request::parse(bytes) {
        let sent = serde_json::to_vec(&request).expect("a request can be sent");
        assert!(!sent.contains(&b'\n'), "a request is one line");
        let again = Request::parse(&sent).expect("what was sent is understood");
        assert_eq!((&again.op, &again.input), (&request.op, &request.input));
        assert_eq!(again.voice, request.voice);
        assert!(Request::parse(&[&sent, b"{}".as_slice()].concat()).is_err(), "two are not one");
        inputs(&request);
    }
    if let Ok(answer) = serde_json::from_slice::<Answer>(bytes) {
        let sent = serde_json::to_vec(&answer).expect("an answer can be sent");
        assert!(!sent.contains(&b'\n'), "an answer is one line");
        let again: Answer = serde_json::from_slice(&sent).expect("what was sent is understood");
        assert_eq!(serde_json::to_vec(&again).ok(), Some(sent));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let utc = jiff::tz::TimeZone::UTC;
        let now = proctor_core::time::Wall(1_763_193_600_000_000);
        if let Ok(moment) = timestamps::parse(text, now, &utc) {
            let written = timestamps::rfc3339(moment);
            assert_eq!(timestamps::parse(&written, now, &utc), Ok(moment), "{text} is {written}");
        }
    }
}

/// Any division into pieces results in the same lines, none longer than allowed.
fn lines(bytes: &[u8]) {
    let whole = cut(&[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(cut(&single), whole, "lines depend on the pieces they come in");
    let joined: Vec<u8> =
        whole.0.iter().flat_map(|line| [line, b"\n".as_slice()].concat()).collect();
    assert!(bytes.starts_with(&joined), "lines are not what was sent");
    assert!(whole.0.iter().all(|line| line.len() <= MAX_TEXT_BYTES));
}

/// The lines, and whether the next was too long.
fn cut(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
    let (mut lines, mut found) = (Lines::default(), Vec::new());
    for piece in pieces {
        lines.push(piece);
        loop {
            match lines.next(MAX_TEXT_BYTES) {
                CutLine::Line(line) => found.push(line),
                CutLine::TooLong => return (found, true),
                CutLine::Unfinished => break,
            }
        }
    }
    (found, false)
}

/// Decodes the input for the operation it names, and for every other.
fn inputs(request: &Request<'_>) {
    let named = table::find(&request.op).map(|entry| entry.meta.name);
    for name in TABLE.iter().map(|entry| entry.meta.name) {
        let Ok(input) = given(name, request.input.clone().into_owned()) else { continue };
        let again = given(name, input.clone());
        assert_eq!(again.as_ref().ok(), Some(&input), "{name}: {named:?}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let inputs = [
        (
            "service.up",
            r#"{"file":"proctor.yaml","names":["web"],"environment":{"A":"b"},"base_dir":"/srv"}"#,
        ),
        (
            "service.start",
            r#"{"names":["web"],"name":"x","command":"npm run dev","env":["A=b"],"argv":["x","y"],"restart_policy":"never"}"#,
        ),
        ("service.stop", r#"{"names":["web","all"],"wait":1.5,"no_wait":true}"#),
        ("service.restart", r#"{"names":["web"],"args":["--port","3"]}"#),
        ("service.list", r#"{"state":["running"]}"#),
        ("service.status", r#"{"names":[]}"#),
        (
            "service.wait",
            r#"{"names":["web"],"until":"log","log":"a+","cursor":"x","port":1,"timeout":5,"tail":3}"#,
        ),
        ("service.signal", r#"{"names":["web"],"signal":"HUP","tree":true}"#),
        (
            "log.read",
            r#"{"services":["web"],"tail":5,"since":"10m","until":"14:05","grep":"a+","stream":"stderr","wait":0,"raw":true,"max_bytes":9}"#,
        ),
        ("config.show", "null"),
        ("daemon.status", "{}"),
    ];
    let requests = inputs.map(|(op, input)| format!(r#"{{"op":"{op}","input":{input}}}"#));
    let rest = [
        r#"{"op":"service.list","as":{"front":"mcp","client":"claude-code"}}"#,
        r#"{"ok":{"services":[]}}"#,
        r#"{"error":{"code":"bad_input","message":"no","help":"write it","details":{"a":1}}}"#,
        "{\"op\":\"daemon.status\"}\n{\"op\":\"x\"}\nrest",
        "2026-03-01T14:05:00Z",
        "2h30m",
        "14:05",
    ];
    requests
        .into_iter()
        .map(String::into_bytes)
        .chain(rest.map(|it| it.as_bytes().to_vec()))
        .collect()
}
