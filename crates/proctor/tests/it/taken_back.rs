//! Changes that a service did not like: what is taken back, and what is left as others made it.

use crate::edits::{GOOD, content, scripted};
use crate::files::put;
use crate::support::LIMIT;
use proctor_testkit::wait_until;
use serde_json::{Value, json};

#[test]
fn what_somebody_else_changed_meanwhile_is_left_alone_and_all_else_is_taken_back() {
    let home = scripted();
    put(&home, "b.txt", "one\n");
    let run = crate::support::pid(&home, "web");
    let diff = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+echo theirs >> app/b.txt; exit 1\n exec sleep 100000\n\
                --- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-one\n+two\n";
    let (code, said) = home.fail(["change", "web", "--diff", diff]);
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("not all could be restored"), "{said}");
    assert!(said.contains("'b.txt' has changed meanwhile, and was left as it is"), "{said}");
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
    // What is no Proctor does not end it.
    home.fail(["daemon", "upgrade", "--binary", "/bin/true"]);
    assert!(content(&home, "web.sh").starts_with(b"echo hello from two\n"));
    home.ok(["daemon", "upgrade"]);
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    wait_until("Proctor is back", LIMIT, || home.run(["status"]).status.success());
    crate::support::wait_state(&home, "web", "running");
    let said = home.ok(["logs", "web", "-n", "1"]);
    assert!(said.contains("hello from one"), "{said}");
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
    for (operation, expected) in
        [("change.check", json!(["web", "web.sh"])), ("file.apply_diff", json!(["b.txt"]))]
    {
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
