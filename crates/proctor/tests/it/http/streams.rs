//! Server-sent events: nothing is missed, also when the daemon is killed in between.

use super::{nobody, owner, two};
use crate::control::listening;
use crate::files::token;
use crate::support::{LIMIT, services, shell};
use proctor_testkit::{Event, Stream, kill9, wait_until};
use serde_json::Value;
use std::time::{Duration, Instant};

fn field<'a>(event: &'a Event, name: &str) -> &'a str {
    event
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, value)| value.as_str())
        .unwrap_or_default()
}

/// Returns the numbers that a service counts up, and updates the last id.
fn numbers(stream: &mut Stream, last: &mut String) -> Vec<u64> {
    let Some(event) = stream.event() else { return Vec::new() };
    assert_eq!(field(&event, "event"), "log", "{event:?}");
    field(&event, "id").clone_into(last);
    let page: Value = serde_json::from_str(field(&event, "data")).unwrap();
    assert_eq!(page["cursor"], *last);
    let items = page["items"].as_array().unwrap().iter();
    items.filter_map(|item| item["text"].as_str()?.parse().ok()).collect()
}

#[test]
fn a_stream_goes_on_where_it_was_when_the_daemon_is_killed() {
    let home = listening(&services(&[shell(
        "count",
        "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done",
        "",
    )]));
    let (mut seen, mut last) = (Vec::new(), String::new());
    let path = "/api/v1/services/count/logs/stream?tail=1000000";
    for round in 0..4 {
        let mut client = nobody(&home);
        if round > 0 {
            client = client.header("Last-Event-ID", &last);
        }
        let mut stream = client.stream(path);
        assert_eq!(stream.status, 200);
        let want = seen.len() + 50;
        while seen.len() < want {
            seen.extend(numbers(&mut stream, &mut last));
        }
        let daemon = home.daemon_pid();
        kill9(daemon);
        // Events sent before it died count.
        loop {
            match numbers(&mut stream, &mut last) {
                more if more.is_empty() => break,
                more => seen.extend(more),
            }
        }
        wait_until("another daemon", LIMIT, || {
            home.run(["daemon", "status"]).status.success() && home.daemon_pid() != daemon
        });
    }
    let expected: Vec<u64> = (seen[0]..).take(seen.len()).collect();
    assert_eq!(seen, expected, "a line was missed or came twice");
}

#[test]
fn a_page_that_asks_for_events_gets_them() {
    let home = two();
    let mut stream =
        nobody(&home).header("Accept", "text/event-stream").stream("/api/v1/services/web/logs");
    assert_eq!(stream.status, 200);
    assert_eq!(field(&stream.event().unwrap(), "event"), "log");
}

#[test]
fn events_are_streamed_and_a_gap_is_told() {
    let home = two();
    let mut stream = nobody(&home).stream("/api/v1/events/stream?tail=0");
    home.ok(["restart", "web"]);
    let about_web = |event: &Event| field(event, "data").contains("\"web\"");
    let event = std::iter::from_fn(|| stream.event()).find(about_web).unwrap();
    assert_eq!(field(&event, "event"), "event");
    let id = field(&event, "id").to_owned();
    let daemon = home.daemon_pid();
    kill9(daemon);
    wait_until("another daemon", LIMIT, || {
        home.run(["daemon", "status"]).status.success() && home.daemon_pid() != daemon
    });
    let mut stream = nobody(&home).header("Last-Event-ID", &id).stream("/api/v1/events/stream");
    let event = stream.event().unwrap();
    let page: Value = serde_json::from_str(field(&event, "data")).unwrap();
    assert_eq!(page["missed"], true, "{page}");
}

#[test]
fn a_stream_ends_with_the_token_that_opened_it() {
    let home = two();
    let made = home.json(["token", "create", "eyes"]);
    let mut stream = nobody(&home)
        .token(made["secret"].as_str().unwrap())
        .stream("/api/v1/services/web/logs/stream");
    assert_eq!(field(&stream.event().unwrap(), "event"), "log");
    home.ok(["token", "revoke", "eyes"]);
    home.ok(["restart", "web"]);
    let last = std::iter::from_fn(|| stream.event()).last().unwrap();
    assert_eq!(field(&last, "event"), "error", "{last:?}");
    assert!(field(&last, "data").contains("unauthenticated"), "{last:?}");
    // One more, so all before it is recorded.
    assert_eq!(nobody(&home).token("proctor_wrong").get("/api/v1/services").status, 401);
    let refusals = || {
        let read = home.json(["audit", "read", "--code", "unauthenticated"]);
        read["entries"].as_array().unwrap().len()
    };
    wait_until("the last refusal is written down", LIMIT, || refusals() >= 2);
    assert_eq!(refusals(), 2, "the end of the stream is one refusal");
}

#[test]
fn a_stream_that_is_refused_never_begins() {
    let home = two();
    let unknown = nobody(&home).get("/api/v1/services/nope/logs/stream");
    assert_eq!((unknown.status, &unknown.json()["code"]), (404, &"unknown_service".into()));
    let barred = nobody(&home).token("proctor_wrong").get("/api/v1/services/web/logs/stream");
    assert_eq!((barred.status, &barred.json()["code"]), (401, &"unauthenticated".into()));
}

#[test]
fn streams_are_bounded_and_end_with_their_clients() {
    let home = two();
    let open: Vec<Stream> =
        (0..64).map(|_| nobody(&home).stream("/api/v1/services/web/logs/stream")).collect();
    assert!(open.iter().all(|stream| stream.status == 200));
    let refused = nobody(&home).get("/api/v1/services/web/logs/stream");
    assert_eq!((refused.status, refused.json()["code"].as_str()), (503, Some("busy")));
    let own = owner(&home).stream("/api/v1/services/web/logs/stream");
    assert_eq!(own.status, 200, "a caller with a token has streams of their own");
    assert_eq!(owner(&home).get("/api/v1/services").status, 200, "others are served");
    home.ok(["status", "web"]);
    drop(open);
    wait_until("there is room again", LIMIT, || {
        nobody(&home).stream("/api/v1/services/web/logs/stream").status == 200
    });
}

#[test]
fn a_stream_ends_at_once_when_its_token_is_revoked() {
    let home = two();
    let secret = token(&home, "viewer");
    let client = nobody(&home).token(&secret);
    let mut stream = client.stream("/api/v1/services/web/logs/stream?tail=0");
    let mut events = client.stream("/api/v1/events/stream?tail=0");
    assert_eq!((stream.status, events.status), (200, 200));
    let waiting =
        std::thread::spawn(move || client.get("/api/v1/services/web/logs?tail=0&wait=20"));
    let begun = Instant::now();
    home.ok(["token", "revoke", "viewer"]);
    for stream in [&mut stream, &mut events] {
        let mut all = std::iter::from_fn(|| stream.event());
        let last = all.find(|event| field(event, "event") == "error").expect("a reason");
        assert!(field(&last, "data").contains("unauthenticated"), "{last:?}");
    }
    assert_eq!(waiting.join().unwrap().status, 401);
    // Without the revocation it would have continued until the next page, at most 15 s.
    assert!(begun.elapsed() < Duration::from_secs(8), "after {:?}", begun.elapsed());
}
