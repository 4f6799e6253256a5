//! Interface for scripts: exit codes that distinguish errors, one JSON document for every command, completions.

use crate::support::{LIMIT, service, services, up, wait_state};
use proctor_testkit::{Home, finish, victim};
use serde_json::Value;
use std::process::Command;

fn typical() -> Home {
    let home = Home::new();
    home.write(
        "proctor.yaml",
        &services(&[
            service("web", &["--lines", "3"], ""),
            service("idle", &[], "autostart: false"),
            service("job", &["--exit", "0"], "restart_policy: one_shot"),
        ]),
    );
    home.ok(["up", "-d"]);
    home
}

/// With `--json`: the code in the document on stderr, and nothing on stdout.
#[track_caller]
fn check_error(home: &Home, words: &[&str], exit: i32, code: &str) {
    let (plain, said) = home.fail(words);
    assert_eq!(plain, exit, "{words:?}: {said}");
    assert!(said.starts_with("error: "), "{words:?}: {said}");
    let output = home.run([&["--json"], words].concat());
    assert_eq!(output.status.code(), Some(exit), "{words:?}");
    assert!(output.stdout.is_empty(), "{words:?}: an error is not an answer");
    let text = String::from_utf8(output.stderr).unwrap();
    let document: Value = serde_json::from_str(&text)
        .unwrap_or_else(|why| panic!("{words:?}: not one document ({why}): {text}"));
    assert_eq!(document["error"]["code"], code, "{words:?}: {document:#}");
    assert!(document["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn errors_are_told_apart_by_exit_code_and_by_name() {
    let home = typical();
    home.write("bad.yaml", "supervisor:\n  services:\n    web:\n      comand: x\n");
    home.write("other.yaml", &services(&[service("web", &[], "")]));
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let victim = victim().display().to_string();
    home.ok(["add", "listener", "--port", &port, "--", &victim]);
    let config = home.path().join("other.yaml").display().to_string();
    for (words, exit, code) in [
        (&["start"][..], 2, "bad_input"),
        (&["frobnicate"], 2, "bad_input"),
        (&["logs", "web", "--grep", "("], 2, "bad_input"),
        (&["signal", "web", "SIGNONE"], 2, "bad_input"),
        (&["start", "--name", "../up", "--command", "true"], 2, "bad_input"),
        (&["status", "webb"], 3, "unknown_service"),
        (&["stop", "nobody"], 3, "unknown_service"),
        (&["logs", "nobody"], 3, "unknown_service"),
        (&["logs", "../../etc"], 3, "unknown_service"),
        (&["signal", "idle", "HUP"], 4, "not_running"),
        (&["config", "--check", "bad.yaml"], 7, "bad_config"),
        (&["start", "--name", "web", "--command", "sleep 1"], 8, "defined_in_file"),
        (&["add", "listener", "--command", "sleep 1"], 8, "already_exists"),
        (&["up", "-d", "--config", &config], 8, "home_in_use"),
        (&["start", "listener"], 8, "port_in_use"),
        (&["start", "--name", "ghost", "--command", "no-such-program"], 9, "program_missing"),
        (&["add", "ghost", "--user", "no-such-user", "--command", "true"], 9, "unknown_user"),
        (&["config", "--check", "not-there.yaml"], 1, "failed"),
        (&["daemon", "upgrade", "--binary", "/bin/true"], 2, "bad_input"),
    ] {
        check_error(&home, words, exit, code);
    }
    home.ok(["down"]);
    for words in
        [&["list"][..], &["status"], &["wait", "web"], &["daemon", "status"], &["logs", "web"]]
    {
        check_error(&home, words, 5, "unavailable");
    }
}

/// The failure of a service is in the response, which is still one document.
#[test]
fn a_failed_start_is_an_answer_with_an_exit_code() {
    let home = Home::new();
    home.write(
        "proctor.yaml",
        &services(&[service("web", &["--exit", "3"], "restart_policy: never")]),
    );
    let output = home.run(["--json", "up", "-d"]);
    assert_eq!(output.status.code(), Some(4));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["services"][0]["last_exit"]["code"], 3, "{answer:#}");
}

#[test]
fn every_command_answers_with_one_document() {
    let home = typical();
    let victim = victim().display().to_string();
    wait_state(&home, "job", "stopped");
    for words in [
        &["up", "-d"][..],
        &["list"],
        &["status"],
        &["status", "web"],
        &["start", "idle"],
        &["restart", "web"],
        &["signal", "web", "CONT"],
        &["wait", "web", "--until", "running"],
        &["stop", "idle"],
        &["logs", "web"],
        &["logs", "web", "--raw"],
        &["logs"],
        &["add", "more", "--", &victim],
        &["start", "--name", "extra", "--", &victim],
        &["remove", "more", "extra", "--purge"],
        &["config"],
        &["config", "--check", "proctor.yaml"],
        &["config", "--example"],
        &["daemon", "status"],
        &["daemon", "start"],
        &["daemon", "upgrade"],
        &["daemon", "stop"],
        &["daemon", "stop"],
        &["daemon", "start"],
        &["down"],
        &["down"],
    ] {
        let output = home.run([&["--json"], words].concat());
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{words:?}: {err}");
        let document: Value = serde_json::from_str(&out)
            .unwrap_or_else(|why| panic!("{words:?}: not one document ({why}):\n{out}"));
        assert!(document.is_object(), "{words:?}: {out}");
        assert_eq!(err, "", "{words:?}: nothing but the document is said");
    }
}

#[test]
fn run_with_json_still_passes_on_what_its_program_writes() {
    let home = Home::new();
    let victim = victim().display().to_string();
    let output = home.run(["--json", "run", "--", &victim, "--lines", "1", "--exit", "3"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "line 1\n");
}

#[test]
fn completions_are_scripts_that_their_shell_understands() {
    let home = Home::new();
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let script = home.ok(["completions", shell]);
        for word in ["proctor", "restart", "daemon", "upgrade", "until"] {
            assert!(script.contains(word), "{shell}: {word} is missing");
        }
        let file = home.write(&format!("completion.{shell}"), &script);
        let mut command = Command::new(shell);
        command.arg(check).arg(&file);
        // Only bash is on every machine; for a missing shell the text must do.
        if Command::new(shell).arg("--version").output().is_ok() {
            let output = finish(&mut command, LIMIT);
            assert!(
                output.status.success(),
                "{shell}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    assert!(!home.path().join("run").exists(), "nothing was started for it");
    assert_eq!(home.fail(["completions", "tcsh"]).0, 2);
}

#[test]
fn bash_completes_commands_options_and_words() {
    if Command::new("bash").arg("--version").output().is_err() {
        return;
    }
    let home = up(&services(&[service("web", &[], "")]));
    let script = home.write("completion.bash", &home.ok(["completions", "bash"]));
    for (words, expected) in [
        (&["proctor", "resta"][..], "restart"),
        (&["proctor", "daemon", "up"], "upgrade"),
        (&["proctor", "logs", "--foll"], "--follow"),
        (&["proctor", "wait", "--until", "heal"], "healthy"),
    ] {
        let before = words[words.len() - 2];
        let last = words[words.len() - 1];
        let list: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let ask = format!(
            "source '{}'; COMP_WORDS=({}); COMP_CWORD={}; _proctor proctor '{last}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            script.display(),
            list.join(" "),
            words.len() - 1
        );
        let output = finish(Command::new("bash").args(["-c", &ask]), LIMIT);
        let offered = String::from_utf8_lossy(&output.stdout);
        assert!(offered.lines().any(|line| line.trim() == expected), "{words:?} offers {offered}");
    }
}
