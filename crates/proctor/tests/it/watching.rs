//! Events, health, metrics, modes and reload, for programs that watch Proctor.

use crate::support::{LIMIT, pid, services, shell, status, up, wait_state};
use proctor_testkit::{Home, kill9, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

fn idle(name: &str) -> Home {
    up(&services(&[shell(name, "sleep 1000", "")]))
}

fn events(home: &Home, more: &[&str]) -> Value {
    home.json([&["events"], more].concat())
}

fn texts(answer: &Value) -> Vec<String> {
    let events = answer["events"].as_array().unwrap();
    events.iter().map(|event| event["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_crash_can_be_followed_from_its_exit_to_the_new_run() {
    let home = idle("web");
    let old = pid(&home, "web");
    let cursor = events(&home, &["-n", "0"])["cursor"].as_str().unwrap().to_owned();
    kill9(old);
    wait_until("it runs again", LIMIT, || {
        let status = status(&home, "web");
        status["state"] == "running" && status["pid"] != old
    });
    let new = pid(&home, "web");
    let seen = texts(&events(&home, &["web", "--cursor", &cursor]));
    assert!(seen.iter().any(|text| text == "killed by SIGKILL"), "{seen:?}");
    assert_eq!(seen.last(), Some(&format!("running (pid {new})")), "{seen:?}");
    home.ok(["stop", "web"]);
    let all = texts(&events(&home, &["--cursor", &cursor]));
    assert!(all.iter().any(|text| text.starts_with("service.stop started (")), "{all:?}");
    assert!(all.iter().any(|text| text.starts_with("service.stop succeeded (")), "{all:?}");
    let again = events(&home, &["--cursor", &cursor]);
    let end = events(&home, &["--cursor", again["cursor"].as_str().unwrap()]);
    assert_eq!((&end["events"], &end["missed"]), (&json!([]), &json!(false)));
}

#[test]
fn who_follows_hears_of_it_and_a_new_daemon_says_that_something_was_missed() {
    let home = idle("web");
    let mut command = home.command(["--json", "events", "--follow", "-n", "0"]);
    let mut follower = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let mut until = |wanted: &dyn Fn(&Value) -> bool| loop {
        let line = lines.next().expect("it goes on").unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        if wanted(&event) {
            return;
        }
    };
    // It may start after the first; until then, restarts continue.
    let id = home.json(["restart", "web", "--background"])["operation"].clone();
    home.ok(["operation", "status", id.as_str().unwrap(), "--wait"]);
    home.ok(["restart", "web"]);
    until(&|event| event["kind"] == "operation" && event["name"] == "service.restart");
    let old = home.daemon_pid();
    kill9(old);
    until(&|event| event["missed"] == true);
    home.ok(["stop", "web"]);
    until(&|event| event["service"] == "web" && event["state"] == "stopped");
    kill9(follower.id());
    follower.wait().unwrap();
}

#[test]
fn a_cursor_of_another_daemon_is_answered_with_what_there_is() {
    let home = idle("web");
    let answer = events(&home, &["--cursor", "1-2"]);
    assert_eq!(answer["missed"], true, "{answer:#}");
    assert!(!answer["events"].as_array().unwrap().is_empty());
    assert_eq!(home.fail(["events", "--cursor", "x"]).0, 2);
}

#[test]
fn a_service_that_fails_is_not_healthy_and_one_that_is_stopped_is() {
    let web = shell("web", "sleep 1000", "");
    let home = up(&services(&[web, shell("bad", "exit 3", "autostart: false\nmax_restarts: 0")]));
    assert_eq!(home.json(["health"])["healthy"], true);
    home.run(["start", "bad"]);
    wait_state(&home, "bad", "failed");
    let output = home.run(["--json", "health"]);
    assert_eq!(output.status.code(), Some(4));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["healthy"], false);
    assert_eq!(answer["services"]["bad"]["why"], "exit code 3", "{answer:#}");
    assert_eq!(answer["services"]["web"]["healthy"], true);
    assert_eq!(home.json(["health", "web"])["healthy"], true);
    home.ok(["stop", "bad"]);
    assert_eq!(home.json(["health"])["healthy"], true);
}

#[test]
fn metrics_count_what_was_asked_and_measure_proctor_itself() {
    let home = idle("web");
    home.ok(["list"]);
    home.fail(["stop", "nobody"]);
    let metrics = home.json(["metrics"]);
    assert_eq!(metrics["supervisor"]["status"], "running", "{metrics:#}");
    assert_eq!(metrics["supervisor"]["managed_services"], 1);
    for process in ["daemon", "keeper"] {
        let own = &metrics["supervisor"][process];
        assert!(own["memory_bytes"].as_u64().unwrap() > 100_000, "{own}");
        assert!(own["open_files"].as_u64().unwrap() > 3, "{own}");
    }
    let web = &metrics["services"]["web"];
    assert_eq!((&web["status"], &web["restart_count"]), (&json!("running"), &json!(0)));
    assert!(web["memory_mb"].as_f64().unwrap() > 0.0, "{web}");
    let operations = metrics["operations"].as_array().unwrap();
    let of = |name: &str| operations.iter().find(|one| one["operation"] == name).unwrap();
    assert_eq!(of("service.list")["results"]["ok"], 1);
    assert_eq!(of("service.stop")["results"]["unknown_service"], 1);
    assert_eq!(of("service.up")["count"], 1);
}

#[test]
fn there_is_one_mode_and_no_other_is_pretended() {
    let home = Home::new();
    home.write("proctor.yaml", &services(&[shell("web", "sleep 1000", "")]));
    let mut command = home.command(["up", "-d"]);
    let output = command.env("PROCTOR_RUNTIME_MODE", "advanced").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("PROCTOR_RUNTIME_MODE has no effect"), "{said}");
    let mode = home.json(["mode", "get"]);
    assert_eq!(mode["runtime_mode"], "proxy");
    assert!(mode["note"].as_str().unwrap().contains("not in this version"), "{mode:#}");
    for key in ["mode_description", "available_features", "hidden_features", "ui_config"] {
        assert!(!mode[key].is_null(), "{key} is missing");
    }
    assert_eq!(home.json(["mode", "switch", "proxy"])["runtime_mode"], "proxy");
    for (mode, expected) in [("advanced", "not in this version"), ("x", "there is no mode 'x'")] {
        let output = home.run(["--json", "mode", "switch", mode]);
        let error: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(error["error"]["code"], "invalid_mode");
        assert!(error["error"]["message"].as_str().unwrap().contains(expected), "{error:#}");
    }
}

#[test]
fn reload_changes_what_is_defined_and_leaves_what_runs() {
    let home = up(&services(&[shell("web", "sleep 1000", ""), shell("old", "sleep 1000", "")]));
    let before = pid(&home, "web");
    home.write(
        "proctor.yaml",
        &services(&[shell("web", "sleep 2000", ""), shell("new", "sleep 1000", "")]),
    );
    let answer = home.json(["reload"]);
    assert_eq!(
        (&answer["added"], &answer["changed"], &answer["removed"], &answer["stale"]),
        (&json!(["new"]), &json!(["web"]), &json!(["old"]), &json!(["web"])),
    );
    assert_eq!(pid(&home, "web"), before);
    assert_eq!(status(&home, "new")["state"], "stopped");
    home.write("proctor.yaml", "services: { web: { comand: x } }");
    let (code, said) = home.fail(["reload"]);
    assert_eq!(code, 7, "{said}");
    assert_eq!(pid(&home, "web"), before);
    let other = home.write("other/proctor.yaml", &services(&[shell("web", "sleep 3000", "")]));
    let (code, _) = home.fail(["reload", "--config", "other/proctor.yaml"]);
    assert_eq!(code, 8, "another configuration while services run");
    home.ok(["stop", "all"]);
    let answer = home.json(["reload", "--config", "other/proctor.yaml"]);
    assert_eq!(answer["source"], other.to_str().unwrap());
}
