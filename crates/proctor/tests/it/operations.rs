//! Operations in flight: followed, awaited, cancelled; and no read waits for them.

use crate::support::{LIMIT, services, shell, status, up};
use proctor_testkit::{Home, alive, wait_until};
use serde_json::{Value, json};
use std::time::Instant;

fn idle() -> Home {
    up(&services(&[shell("web", "sleep 1000", "")]))
}

fn begin(home: &Home, args: &[&str]) -> String {
    home.json(args)["operation"].as_str().unwrap().to_owned()
}

fn find(home: &Home, id: &str) -> Value {
    home.json(["operation", "status", id])
}

#[test]
fn an_operation_in_the_background_is_answered_at_once_and_can_be_waited_for() {
    let home = idle();
    let id = begin(
        &home,
        &[
            "execute",
            "--background",
            "--",
            "sh",
            "-c",
            "while [ ! -e go ]; do sleep 0.05; done; echo went",
        ],
    );
    assert_eq!(find(&home, &id)["state"], "running");
    home.write("go", "");
    let over = home.json(["operation", "status", &id, "--wait"]);
    assert_eq!(over["state"], "succeeded", "{over:#}");
    assert_eq!(over["name"], "command.execute");
    assert_eq!(over["result"]["stdout"], "went\n");
    let steps: Vec<&str> =
        over["steps"].as_array().unwrap().iter().map(|s| s["text"].as_str().unwrap()).collect();
    assert!(steps[0].starts_with("running sh -c") && steps[1].ends_with(": done"), "{steps:?}");
    let failed = begin(&home, &["execute", "--background", "--", "false"]);
    let output = home.run(["--json", "operation", "status", &failed, "--wait"]);
    assert_eq!(output.status.code(), Some(1), "it exits as the operation would have");
}

#[test]
fn a_cancelled_command_is_gone_and_the_rest_of_its_workflow_is_not_done() {
    let home = idle();
    let before = crate::support::pid(&home, "web");
    let id = begin(
        &home,
        &[
            "custom-restart",
            "web",
            "--background",
            "--pre-command",
            "sh -c 'echo $$ > pid; exec sleep 1000'",
        ],
    );
    let pid = || std::fs::read_to_string(home.path().join("pid")).ok()?.trim().parse::<u32>().ok();
    wait_until("the command runs", LIMIT, || pid().is_some());
    let answer = home.json(["operation", "cancel", &id]);
    assert_eq!((&answer["cancelled"], &answer["state"]), (&json!(true), &json!("cancelled")));
    wait_until("the command is gone", LIMIT, || !alive(pid().unwrap()));
    assert_eq!(crate::support::pid(&home, "web"), before);
    let again = home.json(["operation", "cancel", &id]);
    assert_eq!(again["cancelled"], false);
    let over = find_failed(&home, &id);
    assert_eq!(over["error"]["code"], "cancelled", "{over:#}");
    assert_eq!(home.fail(["operation", "cancel", "00000000"]).0, 3);
}

fn find_failed(home: &Home, id: &str) -> Value {
    let output = home.run(["--json", "operation", "status", id]);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn somebody_who_waits_in_the_foreground_hears_that_it_was_cancelled() {
    let home = idle();
    let mut command =
        home.command(["--json", "execute", "--timeout", "1000", "--", "sleep", "1000"]);
    let client = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let running = || home.json(["operation", "list", "--running"])["operations"].clone();
    wait_until("it is under way", LIMIT, || running().as_array().unwrap().len() == 1);
    let id = running()[0]["operation"].as_str().unwrap().to_owned();
    home.ok(["operation", "cancel", &id]);
    let output = client.wait_with_output().unwrap();
    let said: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(said["error"]["code"], "cancelled", "{said:#}");
    assert_eq!(running(), json!([]));
}

#[test]
fn reading_never_waits_behind_what_is_under_way() {
    let script = "trap '' TERM; while :; do sleep 0.1; done";
    let home = up(&services(&[shell("web", script, "stop: { grace: 20s }")]));
    let ids: Vec<String> =
        (0..4).map(|_| begin(&home, &["restart", "web", "--background"])).collect();
    wait_until("it stops", LIMIT, || status(&home, "web")["state"] == "stopping");
    let begun = Instant::now();
    for id in &ids {
        assert_eq!(find(&home, id)["state"], "running");
        assert_eq!(status(&home, "web")["state"], "stopping");
        home.ok(["list"]);
    }
    assert!(begun.elapsed().as_secs() < 15, "they waited for the grace to be over");
    for id in &ids {
        home.ok(["operation", "cancel", id]);
    }
    assert_eq!(status(&home, "web")["state"], "stopping", "what was begun goes on");
}

#[test]
fn the_flag_is_known_where_it_means_something_and_nowhere_else() {
    let home = idle();
    assert_eq!(home.fail(["list", "--background"]).0, 2);
    assert_eq!(home.fail(["wait", "web", "--background"]).0, 2);
    let said = home.ok(["restart", "web", "--background"]);
    assert!(said.contains("continues in the background"), "{said}");
}
