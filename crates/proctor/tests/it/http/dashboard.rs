//! Paths and shapes of earlier supervisors.

use super::{nobody, owner, two};
use crate::control::listening;
use crate::support::{LIMIT, pid, service, services, status, wait_state};
use proctor_testkit::{Home, Response, wait_until};
use serde_json::{Value, json};

/// Returns the response, which has the five common fields.
#[track_caller]
fn said(response: &Response, code: u16, action: &str, status: &str) -> Value {
    let said = response.json();
    assert_eq!(response.status, code, "{said}");
    for field in ["action", "status", "message", "data", "timestamp"] {
        assert!(said.get(field).is_some(), "no {field} in {said}");
    }
    assert_eq!(
        (said["action"].as_str(), said["status"].as_str()),
        (Some(action), Some(status)),
        "{said}"
    );
    said
}

fn finished(home: &Home, said: &Value) -> Value {
    let id = said["data"]["operation_id"].as_str().unwrap_or_else(|| panic!("no id in {said}"));
    owner(home).get(&format!("/api/v1/operations/{id}?wait=30")).json()
}

#[test]
fn a_restart_is_answered_at_once_with_an_id() {
    let home = two();
    let before = pid(&home, "web");
    let path = "/dashboard/api/system/restart";
    said(&nobody(&home).post(path, &json!({ "service": "web" })), 401, "restart", "error");
    assert_eq!(pid(&home, "web"), before);
    let begun =
        said(&owner(&home).post(path, &json!({ "service": "web" })), 202, "restart", "accepted");
    assert_eq!(finished(&home, &begun)["state"], "succeeded");
    assert_ne!(pid(&home, "web"), before);
    let none = said(&owner(&home).post(path, &json!({})), 400, "restart", "error");
    assert!(none.to_string().contains("db"), "which of two? {none}");
}

#[test]
fn a_restart_of_a_service_that_does_not_exist_is_not_accepted() {
    let home = two();
    let client = owner(&home);
    let path = "/dashboard/api/system/restart";
    said(&client.post(path, &json!({ "service": "nope" })), 404, "restart", "error");
    let path = "/dashboard/api/services/nope/restart";
    said(&client.post(path, &json!({})), 404, "restart", "error");
    let path = "/dashboard/api/system/custom-restart";
    said(&client.post(path, &json!({ "service": "nope" })), 404, "custom_restart", "error");
    let refused = client.post("/api/v1/services/nope/restart", &json!({ "background": true }));
    assert_eq!(refused.status, 404, "{}", refused.text());
    let begun = home.json(["operation", "list"]).to_string();
    assert!(!begun.contains("restart"), "{begun}");
}

#[test]
fn services_are_started_stopped_and_restarted_by_name() {
    let home = two();
    let client = owner(&home);
    said(&client.post("/dashboard/api/services/db/start", &json!({})), 200, "start", "success");
    wait_state(&home, "db", "running");
    said(&client.post("/dashboard/api/services/db/stop", &json!({})), 200, "stop", "success");
    assert_eq!(status(&home, "db")["state"], "stopped");
    let begun = said(
        &client.post("/dashboard/api/services/web/restart", &json!({})),
        202,
        "restart",
        "accepted",
    );
    assert_eq!(finished(&home, &begun)["state"], "succeeded");
    let unknown =
        said(&client.post("/dashboard/api/services/nope/start", &json!({})), 404, "start", "error");
    assert_eq!(unknown["data"]["code"], "unknown_service");
    assert_eq!(client.post("/dashboard/api/services/web/explode", &json!({})).status, 404);
}

#[test]
fn status_shows_proctor_and_its_services() {
    let home = two();
    wait_state(&home, "web", "running");
    let said = said(&nobody(&home).get("/dashboard/api/system/status"), 200, "status", "success");
    let web = &said["data"]["services"]["web"];
    assert_eq!(
        (web["status"].as_str(), web["pid"].as_u64()),
        (Some("running"), Some(pid(&home, "web").into()))
    );
    assert_eq!(said["supervisor"]["managed_services"], 2);
    assert_eq!(said["restart_capability"]["can_restart"], true);
}

/// A home that runs shell commands for its clients.
fn obliging() -> Home {
    let allowed = "supervisor:\n  security: { execute: { allowed: [/bin/sh ...] } }\n";
    listening(&services(&[service("web", &[], "")]).replace("supervisor:\n", allowed))
}

#[test]
fn commands_are_run_and_their_results_told() {
    let home = obliging();
    let path = "/dashboard/api/system/execute-command";
    let command = json!({ "command": { "command_type": "shell", "command": "echo hello; exit 3", "is_safe": true }, "timeout_seconds": 30 });
    said(&nobody(&home).post(path, &command), 401, "execute_command", "error");
    let done = said(&owner(&home).post(path, &command), 200, "execute_command", "failed");
    assert_eq!(
        (done["data"]["exit_code"].as_i64(), done["data"]["stdout"].as_str()),
        (Some(3), Some("hello\n")),
        "{done}"
    );
}

#[test]
fn a_custom_restart_runs_its_commands_around_the_restart() {
    let home = obliging();
    let path = "/dashboard/api/system/custom-restart";
    let workflow = json!({
        "service": "web",
        "pre_commands": [{ "command_type": "shell", "command": "echo before > before" }],
        "post_commands": [{ "command_type": "shell", "command": "echo $WHO > after" }],
        "env_vars": { "WHO": "me" },
        "args": null,
    });
    let before = pid(&home, "web");
    let begun = said(&owner(&home).post(path, &workflow), 202, "custom_restart", "accepted");
    let end = finished(&home, &begun);
    assert_eq!(end["state"], "succeeded", "{end}");
    assert_ne!(pid(&home, "web"), before);
    assert_eq!(std::fs::read_to_string(home.path().join("after")).unwrap(), "me\n");
}

#[test]
fn modes_and_metrics_are_told_as_they_are() {
    let home = two();
    let mode = nobody(&home).get("/dashboard/api/mode").json();
    for field in
        ["runtime_mode", "mode_description", "available_features", "hidden_features", "ui_config"]
    {
        assert!(mode.get(field).is_some(), "no {field} in {mode}");
    }
    let path = "/dashboard/api/system/switch-mode";
    let same = owner(&home).post(path, &json!({ "mode": mode["runtime_mode"] }));
    said(&same, 200, "switch_mode", "success");
    let wrong =
        said(&owner(&home).post(path, &json!({ "mode": "x" })), 400, "switch_mode", "error");
    assert_eq!(wrong["error"], "invalid_mode");
    let metrics = nobody(&home).get("/dashboard/api/metrics").json();
    assert_eq!(metrics["supervisor"]["managed_services"], 2, "{metrics}");
    assert!(metrics["services"]["web"].get("restart_count").is_some(), "{metrics}");
}

#[test]
fn logs_are_lines() {
    let home = two();
    wait_until("web has said its lines", LIMIT, || {
        let said = nobody(&home).get("/dashboard/api/logs?service=web&lines=2").json();
        said["data"]["logs"].as_array().is_some_and(|lines| lines.len() == 2)
    });
    let said = said(&nobody(&home).get("/dashboard/api/logs?lines=100"), 200, "logs", "success");
    let line = &said["data"]["logs"][0];
    assert_eq!(
        (line["service"].as_str(), line["stream"].as_str()),
        (Some("web"), Some("stdout")),
        "{said}"
    );
}
