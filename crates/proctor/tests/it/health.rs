//! The HTTP health check.

use crate::support::{LIMIT, status, up, wait_state, web};
use proctor_testkit::{free_port, wait_until};

fn checked(status_code: &str, more: &[&str], keys: &str) -> proctor_testkit::Home {
    let port = free_port().to_string();
    let mut args = vec!["--http", &port, "--http-status", status_code];
    args.extend(more);
    up(&web(
        &args,
        &format!(
            "health_check_url: http://localhost:{port}/health\nhealth_check: {{ interval: 1, timeout: 1, retries: 2 }}\n{keys}"
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
    let first = crate::support::pid(&home, "web");
    wait_until("a new run", LIMIT, || {
        status(&home, "web")["pid"].as_u64().is_some_and(|pid| pid as u32 != first)
    });
}

#[test]
fn a_service_that_hangs_is_restarted_within_the_budget() {
    // It has opened its port, and then it stands still: the kernel takes the connection, nobody answers.
    let keys = "max_restarts: 1\nrestart: { delay: 1 }\nstop: { grace: 200 }";
    let home = checked("200", &["--stop-self"], keys);
    wait_until("it is seen to fail", LIMIT, || status(&home, "web")["health"]["failures"] == 1);
    let why = status(&home, "web")["health"]["why"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("no answer") || why.is_empty(), "{why}");
    let failed = wait_state(&home, "web", "failed");
    assert_eq!(failed["restarts"], 1, "{failed:#}");
    assert_eq!(failed["processes"], serde_json::Value::Null, "nothing is left of it: {failed:#}");
}
