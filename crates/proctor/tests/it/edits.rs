//! Changes of files below the roots: as a person, as a client of HTTP, as an assistant; and with Proctor killed at every step.

use crate::files::{app, put, token};
use crate::git::git;
use crate::support::LIMIT;
use proctor_testkit::{Conversation, Home, Http, finish, wait_until};
use serde_json::{Value, json};
use std::path::Path;

#[track_caller]
pub(crate) fn content(home: &Home, path: &str) -> Vec<u8> {
    std::fs::read(home.path().join("app").join(path)).unwrap()
}

#[test]
fn a_person_writes_edits_undoes_and_deletes() {
    let home = app("");
    home.ok(["file", "write", "src/a.txt", "--content", "one\ntwo\n"]);
    let (code, said) = home.fail(["file", "write", "src/a.txt", "--content", "x", "--only-new"]);
    assert_eq!(code, 8, "{said}");
    let shown = home.ok(["file", "edit", "src/a.txt", "--old", "two", "--new", "2", "--dry-run"]);
    assert_eq!(
        shown,
        "src/a.txt: would change (+1 -1)\n--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    );
    home.ok(["file", "edit", "src/a.txt", "--old", "two", "--new", "2"]);
    home.ok(["file", "change", "src/a.txt", "o(n)e", "<$1>", "--regex", "--expect", "1"]);
    assert_eq!(content(&home, "src/a.txt"), b"<n>\n2\n");
    home.ok([
        "file",
        "apply-diff",
        "--- a/src/a.txt\n+++ b/src/a.txt\n@@ -1,2 +1,2 @@\n <n>\n-2\n+3\n",
    ]);
    assert_eq!(content(&home, "src/a.txt"), b"<n>\n3\n");
    home.ok(["file", "make-folder", "other/deep"]);
    home.ok(["file", "move", "src/a.txt", "other/deep/b.txt"]);
    assert_eq!(home.fail(["file", "read", "src/a.txt"]).0, 3);
    assert_eq!(home.fail(["file", "delete", "other"]).0, 1);
    home.ok(["file", "delete", "other/deep/b.txt"]);
    home.ok(["file", "undo", "other/deep/b.txt"]);
    assert_eq!(content(&home, "other/deep/b.txt"), b"<n>\n3\n");
    let shown = home.ok(["file", "delete", "other/deep/b.txt", "--dry-run"]);
    assert!(shown.ends_with("+++ /dev/null\n@@ -1,2 +0,0 @@\n-<n>\n-3\n"), "{shown}");
    let shown = home.ok(["file", "make-folder", "src/new", "--dry-run"]);
    assert_eq!(shown, "src/new: would be created\n");
    home.ok(["file", "undo", "other/deep/b.txt", "1"]);
    assert_eq!(content(&home, "src/a.txt"), b"<n>\n3\n", "it has its old name");
    assert_eq!(home.fail(["file", "read", "other/deep/b.txt"]).0, 3);
    let history = home.json(["file", "history", "src/a.txt"]);
    let numbers: Vec<u64> = history["generations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["generation"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [6, 5, 4, 3, 2, 1], "{history:#}");
    let moved = history["generations"][1]["moved_to"].as_str().unwrap();
    assert!(moved.ends_with("/app/other/deep/b.txt"), "{moved}");
    home.ok(["file", "undo", "src/a.txt", "2"]);
    assert_eq!(content(&home, "src/a.txt"), b"one\ntwo\n");
}

#[test]
fn a_diff_and_a_content_come_on_standard_input() {
    let home = scripted();
    put(&home, "a.txt", "one\n");
    let given = |words: &[&str], text: &[u8]| {
        let mut command = home.command(words);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text).unwrap();
        assert!(child.wait().unwrap().success(), "{words:?}");
    };
    // Longer than one word of a command line can be.
    let long = "line\n".repeat(100_000);
    given(&["file", "write", "long.txt", "--content", "-"], long.as_bytes());
    assert_eq!(content(&home, "long.txt"), long.as_bytes());
    given(&["file", "apply-diff", "-"], b"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n");
    assert_eq!(content(&home, "a.txt"), b"two\n");
    // Bytes that are not text are kept.
    let names = b"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n";
    given(&["file", "apply-diff", "--diff", "-"], &[names, &b"-two\n+caf\xe9\n"[..]].concat());
    assert_eq!(content(&home, "a.txt"), b"caf\xe9\n");
    let change = ["change", "web", "--diff", "-"];
    given(&change, &[names, &b"-caf\xe9\n+\xff\n"[..]].concat());
    assert_eq!(content(&home, "a.txt"), b"\xff\n");
    given(&["file", "write", "b.bin", "--content", "-"], b"\xff\0\n");
    assert_eq!(content(&home, "b.bin"), b"\xff\0\n");
    let (_, said) = home.fail(["file", "write", "c.txt"]);
    assert!(said.contains("`--content -` reads standard input"), "{said}");
}

#[test]
fn over_http_a_hash_keeps_two_from_overwriting_each_other() {
    let home = app("");
    put(&home, "a.txt", "1\r\n");
    let secret = std::fs::read_to_string(home.path().join("token")).unwrap();
    let admin = Http::at(home.port("http")).token(secret.trim());
    let read = admin.post("/api/v1/file/read", &json!({ "path": "a.txt" })).json();
    let hash = read["files"][0]["sha256"].clone();
    let edit = |new: &str| json!({ "path": "a.txt", "if_hash": hash, "edits": [{ "old": "1", "new": new }] });
    let first = admin.post("/api/v1/file/edit", &edit("2"));
    assert_eq!((first.status, content(&home, "a.txt")), (200, b"2\r\n".to_vec()));
    let second = admin.post("/api/v1/file/edit", &edit("3"));
    assert_eq!(second.status, 412, "{}", second.json());
    assert_eq!(second.json()["details"]["sha256"], first.json()["files"][0]["sha256"]);
    let operator = Http::at(home.port("http")).token(&token(&home, "operator"));
    for (path, body) in [
        ("write", json!({ "path": "x", "content": "x" })),
        ("delete", json!({ "path": "a.txt" })),
        ("undo", json!({ "path": "a.txt" })),
    ] {
        assert_eq!(operator.post(&format!("/api/v1/file/{path}"), &body).status, 403, "{path}");
    }
    assert_eq!(operator.post("/api/v1/file/history", &json!({ "path": "a.txt" })).status, 200);
    let bytes = admin.post("/api/v1/file/write", &json!({ "path": "b", "base64": "AP8K" }));
    assert_eq!((bytes.status, content(&home, "b")), (200, vec![0, 255, 10]));
    let audit = home.json(["audit", "read", "-n", "100"]);
    let edits = |line: &&Value| line["operation"] == "file.edit";
    let found: Vec<&Value> = audit["entries"].as_array().unwrap().iter().filter(edits).collect();
    assert!(
        found.len() == 2 && found.iter().all(|line| line["targets"] == json!(["a.txt"])),
        "{audit:#}"
    );
}

#[test]
fn an_assistant_is_told_what_is_nearest_and_what_does_not_fit() {
    let home = app("");
    put(&home, "a.rs", "fn main() {\n    let x = 1;\n    let y = 1;\n}\n");
    let mut assistant = Conversation::begin(&home, "assistant");
    let edit =
        |old: &str, new: &str| json!({ "path": "a.rs", "edits": [{ "old": old, "new": new }] });
    let wrong = assistant.call("edit_file", edit("let  x = 1;", "let x = 2;"));
    assert!(
        wrong.is_error && wrong.text.contains("line 2, with different whitespace"),
        "{}",
        wrong.text
    );
    let twice = assistant.call("edit_file", edit("= 1;", "= 2;"));
    assert!(twice.is_error && twice.text.contains("2 times, on line 2, 3"), "{}", twice.text);
    let told = assistant.ok("edit_file", edit("let x = 1;", "let x = 2;"));
    assert!(told.text.contains("(+1 -1)") && told.facts["files"][0]["sha256"].is_string());
    let diff = "--- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,3 @@\n fn main() {\n-    let x = 1;\n+    let x = 3;\n     let y = 1;\n";
    let unfit = assistant.call("apply_diff", json!({ "diff": diff }));
    assert!(
        unfit.is_error && unfit.text.contains("hunk 1 (line 1): 2 of 3 lines"),
        "{}",
        unfit.text
    );
    let dry = assistant.ok(
        "change_in_file",
        json!({ "path": "a.rs", "find": "let y", "replace": "let z", "dry_run": true }),
    );
    assert!(
        dry.text.contains("+    let z = 1;") && dry.facts["files"][0].get("diff").is_none(),
        "{}",
        dry.text
    );
    assistant.ok("undo_edit", json!({ "path": "a.rs" }));
    assert_eq!(content(&home, "a.rs"), b"fn main() {\n    let x = 1;\n    let y = 1;\n}\n");
    let own =
        assistant.call("write_file", json!({ "path": ".git/hooks/pre-commit", "content": "x" }));
    assert!(own.is_error && own.text.contains("git's own"), "{}", own.text);
}

#[test]
fn a_root_that_is_read_only_says_what_would_allow_it() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("app")).unwrap();
    home.write("proctor.yaml", "supervisor:\n  roots: [{ path: app, write: false }]\n  backups: { generations: 5 }\n  services: {}\n");
    home.ok(["up", "-d"]);
    let (code, said) = home.fail(["file", "write", "a", "--content", "x"]);
    assert!(code == 1 && said.contains("read only") && said.contains("`write: true`"), "{said}");
}

/// A home with three files in `app` and failpoints that can be armed.
pub(crate) fn armed() -> Home {
    let home = Home::new();
    home.write("proctor.yaml", "supervisor:\n  roots: [app]\n  services: {}\n");
    std::fs::create_dir(home.path().join("app")).unwrap();
    up_armed(&home);
    home
}

pub(crate) fn up_armed(home: &Home) {
    std::fs::create_dir(home.path().join("failpoints")).unwrap();
    let mut command = home.command(["up", "-d"]);
    command.env("PROCTOR_FAILPOINTS", home.path().join("failpoints"));
    assert!(finish(&mut command, LIMIT).status.success());
}

fn reset(home: &Home) {
    // The folders stay, because Proctor holds one of them open.
    for folder in ["failpoints", "app"] {
        let files = std::fs::read_dir(home.path().join(folder)).unwrap();
        files.for_each(|file| std::fs::remove_file(file.unwrap().path()).unwrap());
    }
    for name in ["a", "b", "gone"] {
        put(home, name, format!("old {name}\n"));
    }
}

/// Returns every name below `app` with the contents of files.
fn all(home: &Home) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(home.path().join("app")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        found.push((name, std::fs::read_to_string(&path).unwrap_or_default()));
    }
    found.sort();
    found
}

fn listed(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

const OLD: &[(&str, &str)] = &[("a", "old a\n"), ("b", "old b\n"), ("gone", "old gone\n")];

const SEVERAL: &str = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old a\n+new a\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-old b\n+new b\n\
                       --- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-old gone\n--- /dev/null\n+++ b/made\n@@ -0,0 +1 @@\n+made\n";

/// Runs a change with this point armed, and returns the state after Proctor is back.
fn under_fire(
    home: &Home,
    words: &[&str],
    new: &[(&str, &str)],
    point: &str,
    action: &str,
) -> bool {
    reset(home);
    home.write(&format!("failpoints/{point}"), action);
    let done = home.run(words.iter().copied()).status.success();
    let hit = home.path().join(format!("failpoints/{point}.hit")).exists();
    wait_until("Proctor is back", LIMIT, || home.run(["file", "read", "a"]).status.success());
    let scene = format!("{words:?} {point} {action}");
    assert!(hit, "{scene}: not passed");
    let found = all(home);
    assert!(found == listed(OLD) || found == listed(new), "{scene}: {found:?}");
    if done {
        assert_eq!(found, listed(new), "{scene}");
    }
    let changes = std::fs::read_dir(home.path().join("changes")).into_iter().flatten().count();
    assert_eq!(changes, 0, "{scene}: a record is left");
    let stray = strays(&home.path().join("backups"));
    assert_eq!(stray, [""; 0], "{scene}");
    found == listed(new)
}

fn strays(folder: &Path) -> Vec<String> {
    let names = |folder: &Path| -> Vec<std::path::PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let files = names(folder).into_iter().flat_map(|folder| names(&folder));
    let hidden = files.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
    hidden.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn killed_at_any_step_of_a_write_there_is_the_old_or_the_new_and_nothing_beside_it() {
    let home = armed();
    let new = &[("a", "new a\n"), ("b", "old b\n"), ("gone", "old gone\n")];
    let words = ["file", "write", "a", "--content", "new a\n"];
    for point in ["begin", "recorded", "written", "ready", "turn"] {
        let point = format!("file.{point}");
        assert!(!under_fire(&home, &words, new, &point, "kill 1"), "{point}");
        assert!(!under_fire(&home, &words, new, &point, "error 1"), "{point}");
    }
    for point in ["turned", "settled", "tidied"] {
        assert!(under_fire(&home, &words, new, &format!("file.{point}"), "kill 1"), "{point}");
    }
}

const ALL_NEW: &[(&str, &str)] = &[("a", "new a\n"), ("b", "new b\n"), ("made", "made\n")];

#[test]
fn killed_before_any_file_of_a_diff_is_changed_all_are_old() {
    let home = armed();
    let words = ["file", "apply-diff", SEVERAL];
    for (point, pass) in
        [("begin", 1), ("recorded", 1), ("written", 1), ("written", 3), ("ready", 1)]
    {
        for action in ["kill", "error"] {
            let (point, action) = (format!("file.{point}"), format!("{action} {pass}"));
            assert!(!under_fire(&home, &words, ALL_NEW, &point, &action), "{point} {action}");
        }
    }
    for point in ["settled", "tidied"] {
        assert!(under_fire(&home, &words, ALL_NEW, &format!("file.{point}"), "kill 1"), "{point}");
    }
}

#[test]
fn killed_when_some_files_of_a_diff_are_changed_all_are_old_again() {
    let home = armed();
    let words = ["file", "apply-diff", SEVERAL];
    for pass in 1..=4 {
        for (point, action) in [("turn", "kill"), ("turn", "error"), ("turned", "kill")] {
            let (point, action) = (format!("file.{point}"), format!("{action} {pass}"));
            assert!(!under_fire(&home, &words, ALL_NEW, &point, &action), "{point} {action}");
        }
    }
}

/// `web` runs a script of ours that prints a line or fails.
pub(crate) fn scripted() -> Home {
    let home = script();
    home.ok(["up", "-d"]);
    home
}

pub(crate) fn script() -> Home {
    let home = Home::listening();
    std::fs::create_dir(home.path().join("app")).unwrap();
    put(&home, "web.sh", GOOD);
    home.write(
        "proctor.yaml",
        "supervisor:\n  roots: [app]\n  services:\n    web: { command: sh app/web.sh, restart_policy: never }\n",
    );
    home
}

pub(crate) const GOOD: &str = "echo hello from one\nexec sleep 100000\n";

#[test]
fn a_change_that_is_well_stays_and_one_that_is_not_is_taken_back() {
    let home = scripted();
    let mut assistant = Conversation::begin(&home, "assistant");
    let change = |old: &str, new: &str| json!({ "service": "web", "files": [{ "path": "web.sh", "edits": [{ "old": old, "new": new }] }], "timeout": 20 });
    let told = assistant.ok("change_and_check", change("from one", "from two"));
    assert_eq!((&told.facts["passed"], &told.facts["restored"]), (&json!(true), &json!(false)));
    let two = content(&home, "web.sh");
    assert!(two.starts_with(b"echo hello from two\n"));
    let run = crate::support::pid(&home, "web");
    let failed =
        assistant.call("change_and_check", change("exec sleep 100000", "echo broken >&2; exit 3"));
    assert!(failed.is_error && failed.text.contains("broken"), "{}", failed.text);
    assert_eq!(failed.facts["restored"], json!(true), "{:#}", failed.facts);
    assert_eq!(content(&home, "web.sh"), two);
    let status = crate::support::status(&home, "web");
    assert!(status["state"] == "running" && status["pid"] != json!(run), "{status:#}");
    let mut line = change("from two", "from three");
    line["log"] = json!("hello from three");
    assistant.ok("change_and_check", line);
    let mut never = change("from three", "from four");
    (never["log"], never["timeout"]) = (json!("never said"), json!(1));
    assert!(assistant.call("change_and_check", never).is_error);
    assert!(content(&home, "web.sh").starts_with(b"echo hello from three\n"));
    let port = proctor_testkit::free_port();
    let mut url = change("from three", "from five");
    (url["url"], url["timeout"]) = (json!(format!("http://127.0.0.1:{port}/")), json!(1));
    let silent = assistant.call("change_and_check", url);
    assert!(
        silent.is_error && silent.text.contains(&format!("127.0.0.1:{port}")),
        "{}",
        silent.text
    );
    assert!(content(&home, "web.sh").starts_with(b"echo hello from three\n"));
}

#[test]
fn a_change_that_is_well_is_committed_if_asked_and_refused_if_it_cannot_be() {
    let home = scripted();
    let mut assistant = Conversation::begin(&home, "assistant");
    let change = |old: &str, new: &str| json!({ "service": "web", "files": [{ "path": "web.sh", "edits": [{ "old": old, "new": new }] }], "commit": "Say more" });
    assert!(assistant.call("change_and_check", change("one", "two")).is_error, "no repository");
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    git(&home, &["init", "-q", "-b", "main", "--template="]);
    git(&home, &["config", "user.name", "Owner"]);
    git(&home, &["config", "user.email", "owner@example.org"]);
    put(&home, "other.txt", "not part of it\n");
    let told = assistant.ok("change_and_check", change("one", "two"));
    assert_eq!(told.facts["commit"], json!(git(&home, &["rev-parse", "HEAD"])), "{}", told.text);
    assert_eq!(git(&home, &["show", "--format=%s", "--name-only"]), "Say more\n\nweb.sh");
    let failed = assistant.call("change_and_check", change("exec sleep 100000", "exit 3"));
    assert!(failed.is_error && failed.facts["commit"].is_null(), "{}", failed.text);
    assert_eq!(git(&home, &["rev-list", "--count", "HEAD"]), "1");
    assert_eq!(git(&home, &["status", "--porcelain"]), "?? other.txt");
    // A name that looks like a root is a file name; one that is not text is not passed to git.
    let made = |name: &str| format!("--- /dev/null\n+++ {name}\n@@ -0,0 +1 @@\n+x\n");
    home.ok(["change", "web", "--diff", &made("b/app:web.sh"), "--commit", "Odd"]);
    assert_eq!(git(&home, &["show", "--format=%s", "--name-only"]), "Odd\n\napp:web.sh");
    let (_, said) =
        home.fail(["change", "web", "--diff", &made("\"b/n\\377\""), "--commit", "Odder"]);
    assert!(said.contains("its name is not UTF-8"), "{said}");
    assert_eq!(git(&home, &["status", "--porcelain"]), "?? other.txt");
}

#[test]
fn what_did_not_run_does_not_run_after_a_change_that_failed() {
    let home = scripted();
    home.ok(["stop", "web"]);
    let diff = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+exit 1\n exec sleep 100000\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1 @@\n+x\n";
    let (code, said) = home.fail(["change", "web", "--diff", diff]);
    assert_eq!(code, 4, "{said}");
    assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    assert!(!home.path().join("app/new.sh").exists());
    crate::support::wait_state(&home, "web", "stopped");
    let (code, said) = home.fail(["change", "web"]);
    assert!(code == 2 && said.contains("'files' or 'diff' is missing"), "{said}");
}

#[test]
fn a_change_that_is_cancelled_is_taken_back() {
    let home = scripted();
    let diff = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+echo hello from two\n exec sleep 100000\n";
    let begun = home.json([
        "change",
        "web",
        "--diff",
        diff,
        "--log",
        "never said",
        "--timeout",
        "600",
        "--background",
    ]);
    let changed = || content(&home, "web.sh").starts_with(b"echo hello from two\n");
    wait_until("it is changed", LIMIT, changed);
    home.ok(["operation", "cancel", begun["operation"].as_str().unwrap()]);
    wait_until("it is as before", LIMIT, || content(&home, "web.sh") == GOOD.as_bytes());
    crate::support::wait_state(&home, "web", "running");
}

#[test]
fn a_change_is_taken_back_to_the_end_although_nobody_waits_for_it() {
    let diff = "--- a/web.sh\n+++ b/web.sh\n@@ -1,2 +1,2 @@\n-echo hello from one\n+exit 3\n exec sleep 100000\n";
    for disconnects in [false, true] {
        let home = script();
        up_armed(&home);
        let run = crate::support::pid(&home, "web");
        // Not while the change is made, but while it is undone.
        home.write("failpoints/file.begin", "hold 2");
        let mut command = home.command(["change", "web", "--diff", diff]);
        let mut caller = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        let hit = home.path().join("failpoints/file.begin.hit");
        wait_until("it is held", LIMIT, || hit.exists());
        if disconnects {
            caller.kill().unwrap();
        } else {
            let running = home.json(["operation", "list"]);
            home.ok([
                "operation",
                "cancel",
                running["operations"][0]["operation"].as_str().unwrap(),
            ]);
        }
        caller.wait().unwrap();
        std::fs::remove_file(hit).unwrap();
        wait_until("it runs again", LIMIT, || {
            let status = crate::support::status(&home, "web");
            status["state"] == "running" && status["pid"] != json!(run)
        });
        assert_eq!(content(&home, "web.sh"), GOOD.as_bytes());
    }
}
