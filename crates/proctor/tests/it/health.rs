//! The HTTP health check.

use crate::support::{LIMIT, pid, status, up, wait_state, web};
use proctor_testkit::{Home, free_port, kill9, wait_until};

/// A service that responds with this status, and whose failures count from the first.
fn checked(status_code: &str, more: &[&str], keys: &str) -> Home {
    started(free_port(), 0, status_code, more, keys)
}

fn started(port: u16, start_period: u32, status: &str, more: &[&str], keys: &str) -> Home {
    let port = port.to_string();
    let mut args = vec!["--http", &port, "--http-status", status];
    args.extend(more);
    let timing = format!("interval: 1, timeout: 1, retries: 2, start_period: {start_period}");
    up(&web(
        &args,
        &format!(
            "health_check_url: http://localhost:{port}/health?key=hidden\nhealth_check: {{ {timing} }}\n{keys}"
        ),
    ))
}

#[test]
fn a_service_that_answers_is_healthy() {
    let home = checked("200", &[], "");
    home.ok(["wait", "web", "--until", "healthy"]);
    assert_eq!(status(&home, "web")["health"]["state"], "healthy");
    assert_eq!(status(&home, "web")["restarts"], 0);
}

#[test]
fn a_service_that_answers_500_is_restarted_within_the_budget() {
    let home = checked("500", &[], "max_restarts: 1\nrestart: { delay: 1 }");
    let failed = wait_state(&home, "web", "failed");
    assert_eq!(failed["restarts"], 1, "{failed:#}");
}

#[test]
fn a_service_that_stops_answering_well_is_restarted() {
    let home = checked("200", &["--http-fail-after", "2"], "");
    let first = pid(&home, "web");
    wait_until("a new run", LIMIT, || {
        status(&home, "web")["pid"].as_u64().is_some_and(|pid| pid as u32 != first)
    });
}

#[test]
fn a_service_that_hangs_is_restarted_within_the_budget() {
    // It has opened its port and then hangs: the kernel accepts the connection, and no response comes.
    let keys = "max_restarts: 1\nrestart: { delay: 1 }\nstop: { grace: 200 }";
    let home = checked("200", &["--stop-self"], keys);
    wait_until("it is seen to fail", LIMIT, || status(&home, "web")["health"]["failures"] == 1);
    let why = status(&home, "web")["health"]["why"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("no response") || why.is_empty(), "{why}");
    let failed = wait_state(&home, "web", "failed");
    assert_eq!(failed["restarts"], 1, "{failed:#}");
    assert_eq!(failed["processes"], serde_json::Value::Null, "nothing is left of it: {failed:#}");
}

#[test]
fn a_service_that_binds_late_has_its_start_period() {
    let home = Home::new();
    let (go, port) = (home.path().join("go"), free_port());
    let text = port.to_string();
    let args = ["--wait-file", go.to_str().unwrap(), "--http", &text];
    // One counted failure would end the run. The start period is the default.
    let keys = format!(
        "health_check_url: http://localhost:{port}/\nhealth_check: {{ interval: 100ms, retries: 1 }}"
    );
    home.write("proctor.yaml", &web(&args, &keys));
    home.ok(["up", "-d"]);
    let first = pid(&home, "web");
    wait_until("a check failed", LIMIT, || status(&home, "web")["health"]["state"] == "starting");
    let starting = status(&home, "web");
    assert_eq!(starting["health"]["why"], "connection refused", "{starting:#}");
    assert_eq!(starting["health"]["failures"], 0, "{starting:#}");
    let text = home.ok(["status", "web"]);
    assert!(text.contains("starting, not healthy yet: connection refused"), "{text}");
    std::fs::write(&go, "").unwrap();
    home.ok(["wait", "web", "--until", "healthy"]);
    let healthy = status(&home, "web");
    assert_eq!((&healthy["pid"], &healthy["restarts"]), (&first.into(), &0.into()), "{healthy:#}");
}

#[test]
fn the_first_success_ends_the_start_period() {
    let home = started(free_port(), 3600, "200", &["--http-fail-after", "2"], "");
    let first = pid(&home, "web");
    wait_until("a new run", LIMIT, || {
        status(&home, "web")["pid"].as_u64().is_some_and(|pid| pid as u32 != first)
    });
}

#[test]
fn status_logs_and_events_say_that_a_run_was_ended_as_unhealthy() {
    let port = free_port();
    let keys = "max_restarts: 1\nrestart: { delay: 1 }";
    let home = started(port, 0, "500", &[], keys);
    let failed = wait_state(&home, "web", "failed");
    let reason = format!(
        "unhealthy: GET http://localhost:{port}/health: 500 Internal Server Error, 2 failures in a row"
    );
    assert_eq!(failed["last_exit"]["text"], format!("killed by SIGTERM ({reason})"), "{failed:#}");
    let text = home.ok(["status", "web"]);
    assert!(text.contains(&reason), "{text}");
    let logs = home.ok(["logs", "web"]);
    assert_eq!(logs.matches(&format!("was killed by SIGTERM ({reason})")).count(), 2, "{logs}");
    let events = home.ok(["events", "web"]);
    assert_eq!(events.matches(&format!("{reason}; its run is ended")).count(), 2, "{events}");
    for text in [failed.to_string(), text, logs, events] {
        assert!(!text.contains("hidden"), "{text}");
    }
    let daemon = home.daemon_pid();
    kill9(daemon);
    wait_until("a new daemon", LIMIT, || home.daemon_pid() != daemon);
    let text = home.ok(["status", "web"]);
    assert!(text.contains(&reason), "a new daemon knows it, too: {text}");
    let logs = home.ok(["logs", "web"]);
    assert_eq!(logs.matches(&format!("was killed by SIGTERM ({reason})")).count(), 2, "{logs}");
}
