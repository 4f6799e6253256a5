//! Responses: the same as on the command line, with a status, and nothing that was not requested.

use super::{nobody, owner, two};
use crate::support::{LIMIT, pid, wait_state};
use proctor_testkit::wait_until;
use serde_json::{Value, json};

/// Removes values that change by themselves.
fn steady(mut value: Value) -> Value {
    fn walk(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                let moving = ["uptime_seconds", "cpu_percent", "memory_bytes", "processes"];
                for key in moving.into_iter().chain(["generation", "last_used"]) {
                    fields.remove(key);
                }
                fields.values_mut().for_each(walk);
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    walk(&mut value);
    value
}

#[test]
fn the_answer_is_what_the_command_line_prints() {
    let home = two();
    wait_state(&home, "web", "running");
    wait_until("web has said its lines", LIMIT, || {
        home.json(["logs", "web"])["items"].as_array().unwrap().len() == 4
    });
    for (words, path) in [
        (&["list"][..], "/api/v1/services"),
        (
            &["list", "--state", "stopped", "--no-usage"],
            "/api/v1/services?state=stopped&no_usage=true",
        ),
        (&["list", "--group", "front"], "/api/v1/service/list?group=front"),
        (&["status"], "/api/v1/service/status"),
        (&["status", "web"], "/api/v1/services/web"),
        (&["status", "web", "db"], "/api/v1/service/status?names=web&names=db"),
        (&["logs", "web"], "/api/v1/services/web/logs"),
        (
            &["logs", "web", "-n", "1", "--stream", "stdout"],
            "/api/v1/services/web/logs?tail=1&stream=stdout",
        ),
        (&["wait", "web", "--until", "running"], "/api/v1/services/web/wait?until=running"),
        (&["config", "web"], "/api/v1/config?names=web"),
        (&["daemon", "status"], "/api/v1/daemon"),
        (&["token", "list"], "/api/v1/tokens"),
        (&["operation", "list"], "/api/v1/operations"),
        (&["health"], "/api/v1/health"),
        (&["mode", "get"], "/api/v1/mode"),
        (&["events", "-n", "1"], "/api/v1/events?tail=1"),
    ] {
        let (printed, answered) = (home.json(words), owner(&home).get(path));
        assert_eq!(answered.status, 200, "{path}: {}", answered.text());
        assert_eq!(answered.header("content-type"), Some("application/json"), "{path}");
        assert_eq!(steady(answered.json()), steady(printed), "{path}");
    }
}

#[test]
fn every_way_to_an_operation_answers_the_same() {
    let home = two();
    let asked = owner(&home);
    let once = steady(asked.get("/api/v1/services/web").json());
    assert_eq!(once["services"][0]["name"], "web");
    assert_eq!(steady(asked.get("/api/v1/service/status?names=web").json()), once);
    assert_eq!(
        steady(asked.post("/api/v1/service/status", &json!({ "names": ["web"] })).json()),
        once
    );
    assert!(asked.send("HEAD", "/api/v1/services/web", b"").body.is_empty());
}

#[test]
fn changes_need_a_token_and_are_done_with_one() {
    let home = two();
    let before = pid(&home, "web");
    let refused = nobody(&home).post("/api/v1/services/web/restart", &json!({}));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (401, Some("unauthenticated")));
    assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer"));
    let wrong = nobody(&home).token("proctor_wrong").get("/api/v1/services");
    assert_eq!((wrong.status, wrong.json()["code"].as_str()), (401, Some("unauthenticated")));
    assert_eq!(pid(&home, "web"), before);

    let done = owner(&home).post("/api/v1/services/web/restart", &json!({}));
    assert_eq!(done.status, 200, "{}", done.text());
    assert_ne!(pid(&home, "web"), before);
    let added =
        json!({ "name": "extra", "command": "sleep 1000", "working_dir": "/", "start": true });
    assert_eq!(owner(&home).post("/api/v1/services", &added).status, 200);
    wait_state(&home, "extra", "running");
    assert_eq!(owner(&home).send("DELETE", "/api/v1/services/extra?purge=true", b"").status, 200);
    assert_eq!(nobody(&home).get("/api/v1/services/extra").status, 404);
}

#[test]
fn a_token_does_what_its_role_allows() {
    let home = two();
    let made = home.json(["token", "create", "eyes", "--role", "viewer"]);
    let eyes = nobody(&home).token(made["secret"].as_str().unwrap_or_else(|| panic!("{made}")));
    assert_eq!(eyes.get("/api/v1/services").status, 200);
    let refused = eyes.post("/api/v1/services/web/stop", &json!({}));
    assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("forbidden")));
    home.ok(["token", "revoke", "eyes"]);
    assert_eq!(eyes.get("/api/v1/services").status, 401);
}

#[test]
fn an_error_has_its_code_and_the_status_of_its_row() {
    let home = two();
    let asked = owner(&home);
    for (response, status, code) in [
        (asked.get("/api/v1/services/nope"), 404, "unknown_service"),
        (asked.get("/api/v1/nothing"), 404, "not_found"),
        (asked.get("/api/v1/services?sate=running"), 400, "bad_input"),
        (asked.get("/api/v1/services/web/logs?tail=x"), 400, "bad_input"),
        (asked.get("/api/v1/services/web?names=db"), 400, "bad_input"),
        (asked.get("/api/v1/services?token=proctor_x"), 400, "bad_input"),
        (asked.post("/api/v1/services/db/signal", &json!({ "signal": "HUP" })), 409, "not_running"),
        (asked.post("/api/v1/service/stop?names=web", &json!({})), 400, "bad_input"),
        (asked.post("/api/v1/services/web/stop", &json!(["x"])), 400, "bad_input"),
        (asked.send("POST", "/api/v1/services/web/stop", b"names=web"), 415, "bad_input"),
        (asked.send("PUT", "/api/v1/services/web", b""), 405, "bad_input"),
        (asked.send("DELETE", "/api/v1/services", b""), 405, "bad_input"),
    ] {
        let error = response.json();
        assert_eq!((response.status, error["code"].as_str()), (status, Some(code)), "{error}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        assert_eq!(response.header("allow").is_some(), status == 405);
    }
    wait_state(&home, "web", "running");
}

#[test]
fn what_is_large_or_deep_is_refused() {
    let home = two();
    let client = owner(&home).header("Content-Type", "application/json");
    let large = format!("{{\"names\":[\"{}\"]}}", "x".repeat(600 << 10));
    let response = client.send("POST", "/api/v1/service/stop", large.as_bytes());
    assert_eq!((response.status, response.json()["code"].as_str()), (413, Some("too_large")));
    let small = nobody(&home).header("Content-Type", "application/json");
    let response = small.send("POST", "/api/v1/service/status", "x".repeat(65 << 10).as_bytes());
    assert_eq!(response.status, 413, "somebody without a token has less to say");
    let deep = format!("{{\"names\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let response = client.send("POST", "/api/v1/service/stop", deep.as_bytes());
    assert_eq!((response.status, response.json()["code"].as_str()), (400, Some("bad_input")));
    assert_eq!(client.get(&format!("/api/v1/services?state={}", "x".repeat(64 << 10))).status, 431);
}

#[test]
fn a_tag_changes_when_something_happens() {
    let home = two();
    wait_state(&home, "web", "running");
    let first = nobody(&home).get("/api/v1/services");
    let tag = first.header("etag").unwrap_or_else(|| panic!("{:?}", first.headers)).to_owned();
    let known = nobody(&home).header("If-None-Match", &tag);
    let again = known.get("/api/v1/services");
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!(again.header("etag"), Some(tag.as_str()));
    home.ok(["restart", "web"]);
    let changed = known.get("/api/v1/services");
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
}

#[test]
fn what_takes_long_goes_on_by_itself_if_asked_to() {
    let home = two();
    let asked = owner(&home);
    let before = pid(&home, "web");
    let prefers = asked.header("Prefer", "respond-async");
    for begun in [
        prefers.post("/api/v1/services/web/restart", &json!({})),
        asked.post("/api/v1/services/web/restart?background=true", &json!({})),
        asked.post("/api/v1/service/restart", &json!({ "names": ["web"], "background": true })),
    ] {
        assert_eq!(begun.status, 202, "{}", begun.text());
        let id = begun.json()["operation"].as_str().unwrap().to_owned();
        let end = asked.get(&format!("/api/v1/operations/{id}?wait=30")).json();
        assert_eq!(end["state"], "succeeded", "{end}");
    }
    assert_ne!(pid(&home, "web"), before);
    assert_eq!(asked.get("/api/v1/operations/00000000").status, 404);
}

#[test]
fn a_verdict_is_told_beside_the_answer() {
    let home = two();
    let response = nobody(&home).get("/api/v1/services/db?check=true");
    assert_eq!((response.status, response.header("proctor-verdict")), (200, Some("not_running")));
    assert_eq!(response.json()["good"], false);
    assert_eq!(nobody(&home).get("/api/v1/services/web").header("proctor-verdict"), None);
}

#[test]
fn pages_say_where_to_begin() {
    let home = two();
    let welcome = nobody(&home).get("/");
    assert!(
        welcome.status == 200 && welcome.text().contains("/openapi.json"),
        "{}",
        welcome.text()
    );
    let health = nobody(&home).get("/health");
    assert_eq!((health.status, health.json()["status"].as_str()), (200, Some("ok")));
    for (accept, kind, end) in [
        (None, "text/plain; version=0.0.4", false),
        (Some("text/plain"), "text/plain; version=0.0.4", false),
        (Some("application/openmetrics-text;version=1.0.0"), "application/openmetrics-text", true),
    ] {
        let client = nobody(&home);
        let client = accept.map_or(client.without("Accept"), |it| client.header("Accept", it));
        let metrics = client.get("/metrics");
        let found = metrics.header("content-type").unwrap();
        assert!(metrics.status == 200 && found.starts_with(kind), "{accept:?}: {found}");
        let text = metrics.text();
        assert!(text.contains("service=\"web\"") && text.ends_with("# EOF\n") == end, "{text}");
    }
    let described = nobody(&home).get("/openapi.json");
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let committed: Value =
        serde_json::from_str(&std::fs::read_to_string(committed).unwrap()).unwrap();
    assert_eq!(described.json(), committed);
}
