//! Changes that failed their check: the undone parts, and the parts that others changed meanwhile.

use crate::edits::{GOOD, content, script, scripted, up_armed};
use crate::files::put;
use crate::git::git;
use crate::support::LIMIT;
use proctor_testkit::{Home, signal, wait_until};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

#[test]
fn what_somebody_else_changed_meanwhile_is_left_alone_and_all_else_is_taken_back() {
    let home = scripted();
    put(&home, "b.txt", "one\n");
    let run = crate::support::pid(&home, "web");
    let diff = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+echo theirs >> app/b.txt; exit 1\n exec sleep 100000\n\
                --- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let (code, said) = home.fail(["change", "web", "--diff", diff]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("not everything could be restored"), "{said}");
    assert!(said.contains("'b.txt' changed meanwhile and was not modified"), "{said}");
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    assert_eq!(content(&home, "b.txt"), b"two\ntheirs\n");
    let status = crate::support::status(&home, "web");
    assert!(status["state"] == "running" && status["pid"] != json!(run), "{status:#}");
}

const TWO: &str = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+echo hello from two\n exec sleep 100000\n";

#[test]
fn a_change_that_is_being_checked_is_taken_back_before_an_upgrade() {
    let home = scripted();
    let words =
        ["change", "web", "--diff", TWO, "--log", "never said", "--timeout", "600", "--background"];
    home.json(words);
    wait_until("it is changed", LIMIT, || {
        content(&home, "web.sh").starts_with(b"echo hello from two\n")
    });
    // A binary that is not Proctor does not end it.
    home.fail(["daemon", "upgrade", "--binary", "/bin/true"]);
    assert!(content(&home, "web.sh").starts_with(b"echo hello from two\n"));
    home.ok(["daemon", "upgrade"]);
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    wait_until("Proctor is back", LIMIT, || home.run(["status"]).status.success());
    crate::support::wait_state(&home, "web", "running");
    let said = home.ok(["logs", "web", "-n", "1"]);
    assert!(said.contains("hello from one"), "{said}");
}

/// Starts a change that waits for a line that never comes.
fn waiting(home: &Home, diff: &str) -> Child {
    let words = ["change", "web", "--diff", diff, "--log", "never said", "--timeout", "600"];
    let before = content(home, "web.sh");
    let child = home.command(words).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is changed", LIMIT, || content(home, "web.sh") != before);
    child
}

#[test]
fn a_change_that_is_interrupted_is_taken_back_before_its_command_ends() {
    let home = scripted();
    let child = waiting(&home, TWO);
    signal(child.id(), Signal::INT);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("restoring the change"), "{said}");
    assert!(said.contains("its changes are undone"), "{said}");
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert_eq!(crate::support::status(&home, "web")["state"], "running");
    assert!(home.ok(["logs", "web", "-n", "1"]).contains("hello from one"));
}

#[test]
fn who_interrupts_a_change_twice_does_not_wait_for_it() {
    let home = scripted();
    // It must be killed, which takes a while.
    let stubborn = TWO.replace("+echo hello from two", "+trap '' TERM");
    let mut child = waiting(&home, &stubborn);
    crate::support::wait_state(&home, "web", "running");
    let mut said = BufReader::new(child.stderr.take().unwrap());
    signal(child.id(), Signal::INT);
    let mut line = String::new();
    while !line.contains("Ctrl-C again to let Proctor finish") {
        assert!(said.read_line(&mut line).unwrap() > 0, "{line}");
    }
    signal(child.id(), Signal::INT);
    said.read_to_string(&mut line).unwrap();
    assert!(line.contains("left: Proctor continues to restore the change"), "{line}");
    assert_eq!(child.wait().unwrap().code(), Some(6), "{line}");
    wait_until("it is taken back", LIMIT, || content(&home, "web.sh") == GOOD.as_bytes());
}

#[test]
fn a_file_that_somebody_changed_is_told_to_who_cancels() {
    let home = scripted();
    let child = waiting(&home, TWO);
    put(&home, "web.sh", "exec sleep 100001\n");
    signal(child.id(), Signal::INT);
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("not all of its changes could be undone"), "{said}");
    assert!(said.contains("'web.sh' changed meanwhile"), "{said}");
}

#[test]
fn the_audit_says_which_files_a_diff_and_a_checked_change_were_about() {
    let home = scripted();
    put(&home, "b.txt", "one\n");
    home.ok(["change", "web", "--diff", TWO]);
    home.ok(["file", "apply-diff", "--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n"]);
    let audit = home.json(["audit", "read", "-n", "100"]);
    let targets = |operation: &str| -> Vec<Value> {
        let entries = audit["entries"].as_array().unwrap().iter();
        let found = entries.filter(|line| line["operation"] == operation);
        found.map(|line| line["targets"].clone()).collect()
    };
    let seen_from = format!("in {}", home.path().display());
    for (operation, expected) in [
        ("change.check", json!(["web", seen_from, "web.sh"])),
        ("file.apply_diff", json!([seen_from, "b.txt"])),
    ] {
        let found = targets(operation);
        assert!(!found.is_empty() && found.iter().all(|it| *it == expected), "{audit:#}");
    }
}

#[test]
fn folders_that_were_made_for_a_change_go_with_it() {
    let home = scripted();
    let diff = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+exit 1\n exec sleep 100000\n\
                --- /dev/null\n+++ b/new/deep/x\n@@ -0,0 +1 @@\n+x\n";
    home.fail(["change", "web", "--diff", diff]);
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    assert!(!home.path().join("app/new").exists());
}

#[test]
fn folders_that_were_made_for_a_change_go_if_proctor_is_killed() {
    let home = crate::edits::armed();
    home.write("failpoints/file.begin", "kill 1");
    assert!(!home.run(["file", "write", "new/deep/x", "--content", "x"]).status.success());
    wait_until("Proctor is back", LIMIT, || home.run(["file", "list"]).status.success());
    assert!(!home.path().join("app/new").exists());
    assert_eq!(std::fs::read_dir(home.path().join("changes")).unwrap().count(), 0);
}

/// Waits until the only change has reached this state.
fn wait_for(home: &Home, state: &str) {
    wait_until(state, LIMIT, || {
        let all = home.json(["operation", "list"]);
        let mut all = all["operations"].as_array().unwrap().iter();
        all.any(|it| it["name"] == "change.check" && it["state"] == state)
    });
}

/// Creates a pipe in the home for a waiting process, and holds it open.
fn pipe(home: &Home, name: &str) -> File {
    let path = home.path().join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    File::options().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_change_that_is_interrupted_while_it_is_committed_stays_and_that_is_told() {
    let home = script();
    let config = fs::read_to_string(home.path().join("proctor.yaml")).unwrap();
    let trusting = config.replace("  services:", "  git: { trusted: [app] }\n  services:");
    home.write("proctor.yaml", &trusting);
    home.ok(["up", "-d"]);
    git(&home, &["init", "-q", "-b", "main", "--template="]);
    git(&home, &["config", "user.name", "Owner"]);
    git(&home, &["config", "user.email", "owner@example.org"]);
    git(&home, &["add", "-A"]);
    git(&home, &["commit", "-q", "-m", "first"]);
    let (hook, mut go) = (home.path().join("app/.git/hooks/post-commit"), pipe(&home, "go"));
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\ntouch ../reached; read go < ../go\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["change", "web", "--diff", TWO, "--commit", "Second"];
    let child = home.command(words).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is committed", LIMIT, || home.path().join("reached").exists());
    signal(child.id(), Signal::INT);
    wait_for(&home, "cancelled");
    go.write_all(b"go\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    let hash = git(&home, &["rev-parse", "--short=7", "HEAD"]);
    assert!(said.contains(&format!("kept, committed as {hash}")), "{said}");
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert_eq!(git(&home, &["log", "-1", "--format=%s"]), "Second");
    assert_eq!(git(&home, &["status", "--porcelain"]), "");
    assert!(content(&home, "web.sh").starts_with(b"echo hello from two\n"));
}

#[test]
fn a_service_is_left_alone_if_its_change_is_cancelled_before_it_is_restarted() {
    let home = script();
    up_armed(&home);
    crate::support::wait_state(&home, "web", "running");
    let run = crate::support::pid(&home, "web");
    home.write("failpoints/file.begin", "hold 1");
    let hit = home.path().join("failpoints/file.begin.hit");
    let words = ["change", "web", "--diff", TWO];
    let child = home.command(words).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is being made", LIMIT, || hit.exists());
    signal(child.id(), Signal::INT);
    wait_for(&home, "cancelled");
    fs::remove_file(hit).unwrap();
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("its changes are undone"), "{said}");
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    assert_eq!(crate::support::pid(&home, "web"), run);
}

#[test]
fn who_interrupts_a_change_that_is_over_has_its_answer() {
    let home = scripted();
    let mut go = pipe(&home, "go");
    let diff = TWO.replace("+echo hello from two", "+read go < go; echo hello $go");
    let words = ["change", "web", "--diff", &diff, "--log", "hello two", "--timeout", "600"];
    let mut command = home.command(words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("it is changed", LIMIT, || content(&home, "web.sh") != GOOD.as_bytes());
    signal(child.id(), Signal::STOP);
    go.write_all(b"two\n").unwrap();
    wait_for(&home, "succeeded");
    signal(child.id(), Signal::INT);
    signal(child.id(), Signal::CONT);
    let ended = child.wait_with_output().unwrap();
    let [said, error] = [ended.stdout, ended.stderr].map(|it| String::from_utf8(it).unwrap());
    assert_eq!(ended.status.code(), Some(0), "{said}{error}");
    assert!(
        said.contains("web passed the check") && error.contains("restoring the change"),
        "{error}"
    );
}

#[test]
fn a_change_that_makes_a_crash_loop_is_taken_back_as_soon_as_that_is_certain() {
    let home = script();
    let config = "supervisor:\n  roots: [app]\n  services:\n    web: { command: sh app/web.sh, max_restarts: unlimited, restart: { delay: 100 } }\n";
    home.write("proctor.yaml", config);
    home.ok(["up", "-d"]);
    let diff = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+echo broken; exit 7\n exec sleep 100000\n";
    // Longer than a test may take: it must not be waited for.
    for until in [&["--timeout", "86000"][..], &["--timeout", "86000", "--log", "never said"][..]] {
        let mut words = vec!["change", "web", "--diff", diff];
        words.extend(until);
        let (code, said) = home.fail(words);
        assert_eq!(code, 4, "{said}");
        assert!(said.contains("web has ended") && said.contains("exit code 7"), "{said}");
        assert!(said.contains("broken"), "its last lines: {said}");
        assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    }
}
