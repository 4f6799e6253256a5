//! `custom-restart`: the commands, their order, and the steps skipped after a failure.

use crate::support::{LIMIT, lines, pid, replace_keeper, services, shell, status, up};
use proctor_testkit::{Home, kill9, wait_until};
use serde_json::{Value, json};

const SAYS: &str = "echo run mode=$MODE own=$OWN; exec sleep 1000";

fn one() -> Home {
    let home = up(&services(&[shell("web", SAYS, "env: { OWN: yes }")]));
    wait_until("it has begun", LIMIT, || lines(&home, "web", &[]).len() == 1);
    home
}

/// Returns the first output of its runs; a shell also reports a killed child.
fn runs(home: &Home) -> Vec<String> {
    lines(home, "web", &["--stream", "stdout"])
}

#[track_caller]
fn document(home: &Home, args: &[&str]) -> Value {
    let output = home.run([&["--json"], args].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[test]
fn commands_run_around_a_restart_with_variables_for_this_run_only() {
    let home = one();
    let before = pid(&home, "web");
    let answer = home.json([
        "custom-restart",
        "--pre-command",
        "sh -c 'echo pre $OWN $MODE; pwd'",
        "--post-command",
        "sh -c 'echo post > after'",
        "--env",
        "MODE=asked",
    ]);
    assert_eq!(answer["overall_success"], true, "{answer:#}");
    assert_eq!(answer["restart_successful"], true);
    let folder = home.path().canonicalize().unwrap();
    let said = format!("pre yes asked\n{}\n", folder.display());
    assert_eq!(answer["pre_command_results"][0]["stdout"], said);
    assert_eq!(answer["post_command_results"][0]["exit_code"], 0);
    assert!(answer["total_execution_time_ms"].as_u64().unwrap() > 0);
    assert!(home.path().join("after").exists());
    assert_ne!(pid(&home, "web"), before);
    wait_until("two runs", LIMIT, || lines(&home, "web", &[]).len() == 2);
    kill9(pid(&home, "web"));
    wait_until("three runs", LIMIT, || lines(&home, "web", &[]).len() == 3);
    let runs = ["run mode= own=yes", "run mode=asked own=yes", "run mode= own=yes"];
    assert_eq!(lines(&home, "web", &[]), runs);
    assert_eq!(status(&home, "web")["stale"], false);
}

#[test]
fn the_request_wins_over_what_the_service_says() {
    let home = one();
    home.ok(["custom-restart", "web", "--env", "OWN=asked"]);
    wait_until("two runs", LIMIT, || lines(&home, "web", &[]).len() == 2);
    assert_eq!(lines(&home, "web", &[])[1], "run mode= own=asked");
}

#[test]
fn a_failed_command_before_it_leaves_the_service_alone() {
    let home = one();
    let before = pid(&home, "web");
    let words = [
        "custom-restart",
        "web",
        "--pre-command",
        "sh -c 'exit 7'",
        "--pre-command",
        "touch never",
        "--post-command",
        "touch never",
    ];
    let answer = document(&home, &words);
    assert_eq!(answer["overall_success"], false, "{answer:#}");
    assert_eq!(answer["restart_successful"], false);
    assert_eq!(answer["pre_command_results"].as_array().unwrap().len(), 1);
    assert_eq!(answer["pre_command_results"][0]["exit_code"], 7);
    assert_eq!(answer["post_command_results"], json!([]));
    assert_eq!(pid(&home, "web"), before);
    assert!(!home.path().join("never").exists());
    assert_eq!(home.fail(words).0, 1);
}

#[test]
fn commands_after_it_run_only_when_the_service_runs() {
    let home = up(&services(&[shell("web", "[ -e bad ] && exit 9; sleep 1000", "")]));
    let words = ["custom-restart", "--pre-command", "touch bad", "--post-command", "touch never"];
    let answer = document(&home, &words);
    assert_eq!(answer["restart_successful"], false, "{answer:#}");
    assert_eq!(answer["pre_command_results"][0]["success"], true);
    assert_eq!(answer["post_command_results"], json!([]));
    assert_eq!(answer["services"][0]["result"], "crashed");
    assert!(!home.path().join("never").exists());
}

#[test]
fn a_command_that_builds_the_program_may_come_before_it() {
    let home = Home::new();
    home.write("tool", "#!/bin/sh\nexec sleep 1000\n");
    home.ok(["execute", "--", "chmod", "+x", "tool"]);
    home.write("proctor.yaml", "services: { web: { command: ./tool } }");
    home.ok(["up", "-d"]);
    std::fs::rename(home.path().join("tool"), home.path().join("other")).unwrap();
    let answer = document(&home, &["custom-restart", "web"]);
    let message = answer["restart_message"].as_str().unwrap();
    assert!(message.contains("program './tool' was not found"), "{message}");
    let answer = home.json(["custom-restart", "web", "--pre-command", "mv other tool"]);
    assert_eq!(answer["overall_success"], true, "{answer:#}");
}

#[test]
fn without_a_name_it_must_be_clear_which_service_is_meant() {
    let two = [shell("api", "sleep 1000", ""), shell("web", "sleep 1000", "")];
    let home = up(&services(&two));
    let (code, said) = home.fail(["custom-restart"]);
    assert_eq!(code, 2);
    assert!(said.contains("which service? name one of api, web"), "{said}");
    let primary = [two[0].clone(), shell("web", "sleep 1000", "primary: true")];
    home.write("proctor.yaml", &services(&primary));
    home.ok(["up", "-d"]);
    let (api, web) = (pid(&home, "api"), pid(&home, "web"));
    home.ok(["custom-restart"]);
    assert_eq!(pid(&home, "api"), api);
    assert_ne!(pid(&home, "web"), web);
}

#[test]
fn variables_for_the_next_run_outlive_a_keeper_that_dies_before_it_is_made() {
    let script = "trap 'while [ ! -e go ]; do sleep 0.05; done; exit 0' TERM; echo run mode=$MODE; \
                  while :; do sleep 0.05; done";
    let home = up(&services(&[shell("web", script, "stop: { grace: 60s }")]));
    wait_until("it has begun", LIMIT, || runs(&home).len() == 1);
    let mut command = home.command(["custom-restart", "web", "--env", "MODE=asked"]);
    let mut client = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    wait_until("it stops", LIMIT, || status(&home, "web")["state"] == "stopping");
    replace_keeper(&home);
    home.write("go", "");
    wait_until("two runs", LIMIT, || runs(&home).len() == 2);
    assert_eq!(runs(&home)[1], "run mode=asked");
    client.wait().unwrap();
    kill9(pid(&home, "web"));
    wait_until("three runs", LIMIT, || runs(&home).len() == 3);
    assert_eq!(runs(&home)[2], "run mode=");
}
