//! HTTP listeners: as configured, and shown in `daemon status`.

use super::nobody;
use crate::control::{admin, listening};
use crate::support::{LIMIT, service, services, web};
use proctor_testkit::{Home, Http, free_port, wait_for, wait_until};
use serde_json::json;
use std::net::TcpListener;

/// Writes a file with this listener.
fn file(home: &Home, http: &str) {
    let config = services(&[service("web", &[], "")]);
    home.write(
        "proctor.yaml",
        &config.replace("supervisor:\n", &format!("supervisor:\n  port: off\n  http: {http}\n")),
    );
}

/// Runs `up` without variables that override it.
fn up(home: &Home) {
    let mut command = home.command(["up", "-d"]);
    command.env_remove("PROCTOR_HTTP_PORT").env_remove("SUPERVISOR_PORT");
    assert!(command.output().unwrap().status.success());
}

fn listening_at(home: &Home) -> Option<String> {
    home.json(["daemon", "status"])["listening"]["http"].as_str().map(str::to_owned)
}

#[test]
fn the_listener_follows_the_configuration_and_the_answer_to_the_move_arrives() {
    let home = Home::new();
    let (first, second) = (free_port(), free_port());
    file(&home, &format!("{{ port: {first} }}"));
    up(&home);
    wait_until("it listens", LIMIT, || listening_at(&home) == Some(format!("127.0.0.1:{first}")));
    file(&home, &format!("{{ port: {second} }}"));
    let client = Http::at(first).token(&admin(&home));
    // Through the listener that is about to move.
    let config = home.path().join("proctor.yaml");
    let answer = client.post("/api/v1/service/up", &json!({ "config": config }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    wait_until("it moves", LIMIT, || listening_at(&home) == Some(format!("127.0.0.1:{second}")));
    assert_eq!(Http::at(second).get("/api/v1/services").status, 200);
    assert!(std::net::TcpStream::connect(("127.0.0.1", first)).is_err(), "the old port is left");
    file(&home, "{ port: off }");
    up(&home);
    wait_until("it is off", LIMIT, || listening_at(&home).is_none());
}

#[test]
fn a_port_that_is_taken_is_a_problem_and_no_failure() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let home = Home::new();
    file(&home, &format!("{{ port: {port} }}"));
    up(&home);
    let problem = wait_for("the problem", LIMIT, || {
        let problems = home.json(["daemon", "status"])["problems"].clone();
        problems
            .as_array()?
            .iter()
            .find_map(|it| it.as_str()?.strip_prefix("http: ").map(str::to_owned))
    });
    assert!(problem.contains(&format!("127.0.0.1:{port} is in use by")), "{problem}");
    home.ok(["status", "web", "--check"]);
    drop(taken);
    wait_until("it listens", LIMIT, || listening_at(&home).is_some());
    assert_eq!(home.json(["daemon", "status"])["problems"], json!([]));
}

#[test]
fn an_address_that_others_reach_is_refused_without_tls() {
    let home = listening(&web(&[], ""));
    file(&home, "{ host: 0.0.0.0 }");
    let (code, said) = home.fail(["up", "-d"]);
    assert!(code == 7 && said.contains("needs TLS"), "{code}: {said}");
    assert_eq!(nobody(&home).get("/health").status, 200, "what was in force stays");
}

#[test]
fn a_new_daemon_listens_again() {
    let home = Home::new();
    let port = free_port();
    file(&home, &format!("{{ port: {port} }}"));
    up(&home);
    wait_until("it listens", LIMIT, || listening_at(&home).is_some());
    let old = home.daemon_pid();
    proctor_testkit::kill9(old);
    wait_until("another listens", LIMIT, || {
        home.daemon_pid() != old && listening_at(&home).is_some()
    });
    assert_eq!(Http::at(port).get("/api/v1/services").status, 200);
}
