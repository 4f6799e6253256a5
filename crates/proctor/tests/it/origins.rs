//! Origins of values that are in no file; none of them shows a secret.

use crate::support::{LIMIT, status, wait_state, web};
use proctor_testkit::{Home, kill9, victim, wait_until};
use std::process::Command;

#[track_caller]
fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_target_command_runs_where_its_caller_stands_and_its_secrets_stay_secret() {
    let home = Home::new();
    let target = format!("{} --line-prefix --token=s3cr3t", victim().display());
    let up = |variables: &[(&str, &str)]| {
        let mut command = home.command(["up", "-d"]);
        succeeds(
            command
                .env("SUPERVISOR_TARGET_CMD", &target)
                .env("PWD", "/usr")
                .envs(variables.iter().copied()),
        );
        wait_state(&home, "target", "running")
    };
    assert_eq!(up(&[])["working_dir"], home.path().to_str().unwrap());
    let config = home.ok(["config"]);
    for expected in ["environment SUPERVISOR_TARGET_CMD", "--token=***", "restart.max_delay"] {
        assert!(config.contains(expected), "{expected} is missing: {config}");
    }
    for words in [["config", "-q"], ["status", "target"], ["list", "-q"]] {
        assert!(!home.ok(words).contains("s3cr3t"), "{words:?}");
    }
    assert_eq!(up(&[("SUPERVISOR_WORKING_DIR", "/usr/../tmp")])["working_dir"], "/usr/../tmp");
    assert!(home.ok(["config"]).contains("environment SUPERVISOR_WORKING_DIR"));
}

#[test]
fn a_log_level_that_nobody_knows_silences_nothing() {
    for (level, said) in [("verbose", true), ("WARN", false)] {
        let home = Home::new();
        home.write("proctor.yaml", &web(&[], ""));
        succeeds(home.command(["up", "-d"]).env("SUPERVISOR_LOG_LEVEL", level));
        let log = home.own_log();
        assert_eq!(log.contains("SUPERVISOR_LOG_LEVEL"), said, "{level}: {log}");
        assert_eq!(log.contains("INFO"), said, "{level}: {log}");
    }
}

#[test]
fn secrets_are_shown_nowhere() {
    let home = Home::new();
    home.write(".env", "DOT_TOKEN=s3cr3t-dot\n");
    home.write("web.env", "FILE_PASSWORD=s3cr3t-file\n");
    let keys = "\
env: { A_TOKEN: s3cr3t-a, DSN: 'user=me password=s3cr3t-b', URL: 'pg://me:s3cr3t-c@h/?key=s3cr3t-d', D: '${DOT_TOKEN}' }
env_file: web.env
health_check_url: http://127.0.0.1:1/?token=s3cr3t-e
health_check_interval: 1
health_check: { retries: 1000 }";
    let args = ["--line-prefix", "--password", "--line-prefix", "Authorization: Bearer s3cr3t-f"];
    home.write("proctor.yaml", &web(&args, keys));
    home.ok(["up", "-d"]);
    let script = "exec sleep 1000; app --token 's3cr3t-g s3cr3t-h'";
    home.ok(["start", "--name", "job", "--env", "X_KEY=s3cr3t-i", "--shell", "--command", script]);
    wait_until("a failed check", LIMIT, || {
        status(&home, "web")["health"]["failures"].as_u64() > Some(0)
    });
    let daemon = home.daemon_pid();
    kill9(daemon);
    wait_until("another daemon", LIMIT, || home.daemon_pid() != daemon);
    for words in [
        &["config"][..],
        &["list"],
        &["status", "web"],
        &["status", "job"],
        &["restart", "web"],
        &["restart", "job"],
        &["daemon", "status"],
        &["logs", "web"],
    ] {
        for json in [&[][..], &["--json"]] {
            let output = home.run([json, words].concat());
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            assert!(!said.contains("s3cr3t"), "{words:?} shows a secret:\n{said}");
        }
    }
    assert!(!home.own_log().contains("s3cr3t"), "{}", home.own_log());
}

#[test]
fn a_variable_without_effect_is_named_with_what_to_use_instead() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&[], ""));
    let output = home.command(["up", "-d"]).env("SUPERVISOR_MCP_PORT", "8082").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success()
            && said.contains("SUPERVISOR_MCP_PORT")
            && said.contains("PROCTOR_HTTP_PORT"),
        "{said}"
    );
}
