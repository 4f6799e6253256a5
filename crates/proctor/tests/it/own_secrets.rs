//! Proctor's own secrets reach no program that it starts, however they came in and however the program starts.

use crate::support::{LIMIT, pid, replace_keeper};
use proctor_testkit::{Home, Http, finish, kill9, proctor, wait_for, wait_until};
use serde_json::json;
use std::path::PathBuf;
use std::process::Output;

/// Each is a token, the value of a variable of the `security` block, or hidden by the name of its variable.
const PLANTED: [(&str, &str); 6] = [
    ("SUPERVISOR_TOKEN", "planted-1-of-the-caller"),
    ("PROCTOR_TOKEN", "planted-2-of-the-client"),
    ("SUPERVISOR_DB_PASSWORD", "planted-3-of-a-name"),
    ("DEPLOY_HASH", "planted-4-of-security"),
    ("COPY", "Bearer planted-1-of-the-caller"),
    ("FORGED", "proctor_planted5AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
];

/// `.env` and `more.env`, which services load, have the same names with other values.
const ENV_FILE: &str =
    "SUPERVISOR_TOKEN=planted-6-of-dotenv\nDOTENV_HASH=planted-7-of-dotenv\nVISIBLE=from-a-file\n";

const CONFIG: &str = "supervisor:
  security:
    authentication: { token: \"${DEPLOY_HASH}-and-more\" }
    execute: { allowed: [\"${DOTENV_HASH}\", \"${HOME}/bin/tool\", sh] }
  services:
    web: { shell: true, command: 'env > seen/web.$PROCTOR_RUN; exec sleep 1000' }
    filed: { shell: true, env_file: .env, command: 'env > seen/filed; exec sleep 1000' }
    chosen: { shell: true, env: { SUPERVISOR_TOKEN: \"${SUPERVISOR_TOKEN}\" }, command: 'env > chosen; exec sleep 1000' }
";

fn run(home: &Home, words: &[&str]) -> Output {
    finish(home.command(words).envs(PLANTED), LIMIT)
}

#[track_caller]
fn ok(home: &Home, words: &[&str]) {
    let output = run(home, words);
    assert!(output.status.success(), "{words:?}: {output:?}");
}

/// Returns the environments that programs wrote, by file.
fn seen(home: &Home) -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(home.path().join("seen")).unwrap();
    files
        .map(|file| {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            (path, text)
        })
        .collect()
}

#[track_caller]
fn wait_seen(home: &Home, beginning: &str) {
    wait_until("a program to write down its environment", LIMIT, || {
        let begins =
            |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(beginning);
        seen(home).iter().any(|(path, text)| begins(path) && text.contains("HOME="))
    });
}

#[track_caller]
fn check(home: &Home, when: &str) {
    for (path, text) in seen(home) {
        assert!(!text.contains("planted"), "{when}, {}:\n{text}", path.display());
    }
}

fn scene() -> Home {
    let home = Home::listening();
    std::fs::create_dir(home.path().join("seen")).unwrap();
    home.write(".env", ENV_FILE);
    home.write("proctor.yaml", CONFIG);
    home
}

#[test]
fn own_secrets_reach_no_service_however_it_is_started() {
    let home = scene();
    ok(&home, &["up", "-d"]);
    for service in ["web", "filed"] {
        wait_seen(&home, service);
    }
    check(&home, "up");
    let filed = seen(&home).into_iter().find(|(path, _)| path.ends_with("filed")).unwrap().1;
    assert!(filed.contains("VISIBLE=from-a-file") && filed.contains("HOME="), "{filed}");
    let chosen = wait_for("the service that asks for it", LIMIT, || {
        std::fs::read_to_string(home.path().join("chosen")).ok().filter(|it| it.contains("HOME="))
    });
    assert!(chosen.contains("SUPERVISOR_TOKEN=planted-1"), "{chosen}");

    ok(&home, &["run", "--", "sh", "-c", "env > seen/run"]);
    ok(&home, &["start", "--name", "job", "--command", "sh -c 'env > seen/job; exec sleep 1000'"]);
    ok(&home, &["add", "extra", "--start", "--", "sh", "-c", "env > seen/extra; exec sleep 1000"]);
    for service in ["job", "extra"] {
        wait_seen(&home, service);
    }
    check(&home, "started at run time");
    let words = ["custom-restart", "web", "--env", "MODE=test"];
    ok(&home, &[&words[..], &["--pre-command", "sh -c 'env > seen/pre'"]].concat());
    ok(&home, &["execute", "--", "sh", "-c", "env > seen/execute"]);
    ok(&home, &["execute", "--service", "web", "--", "sh", "-c", "env > seen/execute-web"]);
    check(&home, "commands");

    over_the_network(&home);
    kill9(home.daemon_pid());
    ok(&home, &["restart", "web", "extra"]);
    replace_keeper(&home);
    ok(&home, &["restart", "all"]);
    ok(&home, &["daemon", "upgrade"]);
    ok(&home, &["restart", "all"]);
    for service in ["web", "extra", "remote", "job"] {
        let environ = std::fs::read(format!("/proc/{}/environ", pid(&home, service))).unwrap();
        let text = String::from_utf8_lossy(&environ);
        assert!(!text.contains("planted"), "{service} after replacements: {text}");
    }
    check(&home, "after replacements");
}

/// Without an environment of the caller, the daemon's own is inherited, which has them, too.
fn over_the_network(home: &Home) {
    let admin = std::fs::read_to_string(home.path().join("token")).unwrap();
    let client = Http::at(home.port("http")).token(admin.trim_end());
    let folder = home.path().join("seen");
    let command = format!("env > {}/remote; exec sleep 1000", folder.display());
    let body = json!({ "name": "remote", "command": command, "shell": true, "start": true, "base_dir": "/" });
    let answer = client.post("/api/v1/services", &body);
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    wait_seen(home, "remote");
    let given = json!({ "SUPERVISOR_TOKEN": "planted-8-over-rest", "HOME": "/x" });
    let command = format!("env > {}/given; exec sleep 1000", folder.display());
    let body = json!({ "name": "given", "command": command, "shell": true, "start": true, "base_dir": "/", "environment": given });
    let answer = client.post("/api/v1/services", &body);
    assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    wait_seen(home, "given");
    check(home, "over the network");
}

#[test]
fn a_variable_that_becomes_a_secret_is_taken_from_services_that_were_added_before() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("seen")).unwrap();
    let services = "  services: { web: { command: sleep 1000 } }\n";
    home.write("proctor.yaml", &format!("supervisor:\n{services}"));
    ok(&home, &["up", "-d"]);
    let command = "rm -f seen/extra; env > seen/extra; exec sleep 1000";
    ok(&home, &["add", "extra", "--start", "--", "sh", "-c", command]);
    wait_seen(&home, "extra");
    assert!(seen(&home)[0].1.contains("DEPLOY_HASH=planted-4"), "not a secret yet");
    let security = "  security: { authentication: { token: \"${DEPLOY_HASH}\" } }\n";
    home.write("proctor.yaml", &format!("supervisor:\n{security}{services}"));
    ok(&home, &["up", "-d"]);
    ok(&home, &["restart", "extra"]);
    wait_seen(&home, "extra");
    check(&home, "after the security block names it");
    // The names are kept for when the file cannot be read.
    home.write("proctor.yaml", "not: [a configuration");
    ok(&home, &["daemon", "stop"]);
    ok(&home, &["daemon", "start"]);
    ok(&home, &["restart", "extra"]);
    wait_seen(&home, "extra");
    check(&home, "with a file that cannot be read");
}

#[test]
fn the_binary_that_is_asked_for_its_version_inherits_no_secret() {
    let home = scene();
    ok(&home, &["up", "-d"]);
    let real = proctor();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && env > {}/seen/version\nexec {} \"$@\"\n",
        home.path().display(),
        real.display()
    );
    let path = home.write("wrapper", &script);
    let made = std::process::Command::new("chmod").arg("755").arg(&path).status().unwrap();
    assert!(made.success());
    let _upgraded = run(&home, &["daemon", "upgrade", "--binary", path.to_str().unwrap()]);
    wait_seen(&home, "version");
    let text = std::fs::read_to_string(home.path().join("seen/version")).unwrap();
    assert!(text.contains("PATH=") && !text.contains("planted"), "{text}");
}
