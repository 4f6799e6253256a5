//! Version control of the services' code: as a person, as an assistant, as a client of HTTP.

use crate::control::admin;
use crate::files::{app, put, token};
use crate::support::LIMIT;
use proctor_testkit::{Conversation, Home, Http, alive, kill9, signal, wait_for, wait_until};
use rustix::process::Signal;
use serde_json::json;
use std::process::{Command, Stdio};

/// Runs the installed git in `app`, as the owner would, and returns its output.
#[track_caller]
pub(crate) fn git(home: &Home, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Owner", "-c", "user.email=owner@example.org"])
        .args(words)
        .current_dir(home.path().join("app"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

#[track_caller]
fn content(home: &Home, path: &str) -> Vec<u8> {
    std::fs::read(home.path().join("app").join(path)).unwrap()
}

/// A Proctor whose root is a repository with one commit.
fn repository(keys: &str) -> Home {
    let home = app(keys);
    put(&home, "main.rs", "fn main() {}\n");
    git(&home, &["init", "-q", "-b", "main", "--template="]);
    git(&home, &["config", "user.name", "Owner"]);
    git(&home, &["config", "user.email", "owner@example.org"]);
    git(&home, &["add", "-A"]);
    git(&home, &["commit", "-q", "-m", "First"]);
    home
}

fn hook(home: &Home, name: &str, text: &str) {
    let hook = home.path().join("app/.git/hooks").join(name);
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    // Written by another process, because a file that we have open cannot be executed.
    let made = Command::new("sh")
        .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\"; chmod 755 \"$0\""])
        .arg(&hook)
        .arg(text)
        .status();
    assert!(made.unwrap().success());
}

#[test]
fn a_person_sees_a_change_commits_it_and_takes_another_back() {
    let home = repository("");
    put(&home, "main.rs", "fn main() {\n\trun();\n}\n");
    let seen = home.run(["git", "status"]);
    let text = [seen.stdout, seen.stderr].map(|it| String::from_utf8(it).unwrap());
    let top = format!("in {}\n", home.path().join("app").display());
    assert_eq!(
        text,
        [format!("on main\n{:15}  {:12}  main.rs\n", "", "modified"), top],
        "seen from above"
    );
    assert!(home.ok(["git", "diff"]).contains("\n-fn main() {}\n+fn main() {\n+\trun();\n+}\n"));
    home.ok(["git", "add", "main.rs"]);
    assert!(home.ok(["git", "diff", "--staged", "--stat"]).contains("main.rs  +3 -1"));
    let said = home.ok(["git", "commit", "-m", "Run it"]);
    assert!(said.contains("Run it") && said.contains("1 file"), "{said}");
    assert_eq!(git(&home, &["log", "--format=%an: %s"]), "Owner: Run it\nOwner: First");
    assert_eq!(home.json(["git", "commit", "-m", "Again"])["committed"], false);
    let log = home.json(["git", "log", "--grep", "run", "main.rs"]);
    assert_eq!(log["commits"][0]["subject"], "Run it");
    assert_eq!(
        home.json(["git", "show", "HEAD~1", "--path", "main.rs"])["file"]["text"],
        "fn main() {}\n"
    );
    assert_eq!(home.json(["git", "blame", "main.rs"])["runs"][0]["subject"], "Run it");
    put(&home, "main.rs", "broken");
    home.ok(["git", "restore", "main.rs"]);
    assert_eq!(content(&home, "main.rs"), b"fn main() {\n\trun();\n}\n");
    assert_eq!(home.ok(["git", "status", "--repo", "app"]), "on main\nno changes\n");
    let (code, said) = home.fail(["git", "show", "no-such"]);
    assert_eq!((code, said.contains("no revision 'no-such'")), (3, true), "{said}");
    let (code, said) = home.fail(["git", "status", "--repo", "/"]);
    assert_eq!((code, said.contains("is outside the roots")), (1, true), "{said}");
}

#[test]
fn a_person_settles_a_conflict_with_what_another_program_writes() {
    let home = repository("");
    git(&home, &["switch", "-q", "-c", "topic"]);
    put(&home, "main.rs", "theirs\n");
    git(&home, &["commit", "-q", "-a", "-m", "Theirs"]);
    git(&home, &["switch", "-q", "main"]);
    put(&home, "main.rs", "ours\n");
    git(&home, &["commit", "-q", "-a", "-m", "Ours"]);
    let mut merge = Command::new("git");
    merge.args(["merge", "--quiet", "topic"]).current_dir(home.path().join("app"));
    assert!(!merge.output().unwrap().status.success());
    let (code, said) = home.fail(["git", "resolve", "continue"]);
    assert_eq!((code, said.contains("resolve these conflicts first")), (8, true), "{said}");
    let words = ["git", "resolve", "done", "main.rs", "--content", "-"];
    let mut done = home.command(words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    std::io::Write::write_all(&mut done.stdin.take().unwrap(), b"both \xff\n").unwrap();
    assert!(done.wait().unwrap().success());
    assert_eq!(content(&home, "main.rs"), b"both \xff\n");
    home.ok(["git", "resolve", "continue"]);
    assert_eq!(git(&home, &["log", "-1", "--format=%p"]).split(' ').count(), 2);
}

#[test]
fn an_assistant_settles_a_conflict_file_by_file() {
    let home = repository("");
    let mut assistant = Conversation::begin(&home, "assistant");
    assistant.ok("git_branch", json!({ "action": "create", "name": "topic", "switch": true }));
    put(&home, "main.rs", "theirs\n");
    assistant.ok("git_commit", json!({ "message": "Theirs", "all": true }));
    assistant.ok("git_branch", json!({ "action": "switch", "name": "main" }));
    put(&home, "main.rs", "ours\n");
    assistant.ok("git_commit", json!({ "message": "Ours", "all": true }));
    let mut merge = Command::new("git");
    merge.args(["merge", "--quiet", "topic"]).current_dir(home.path().join("app"));
    assert!(!merge.output().unwrap().status.success());
    let status = assistant.ok("git_status", json!({}));
    assert_eq!(status.facts["state"]["kind"], "merge");
    assert_eq!(status.facts["entries"][0]["conflict"], "both_modified");
    let listed = assistant.ok("git_resolve", json!({}));
    assert!(listed.text.contains("main.rs"), "{}", listed.text);
    assistant
        .ok("git_resolve", json!({ "action": "done", "path": "main.rs", "content": "both\n" }));
    assistant.ok("git_resolve", json!({ "action": "continue" }));
    assert_eq!(git(&home, &["show", "HEAD:main.rs"]), "both");
    assert_eq!(git(&home, &["log", "-1", "--format=%p"]).split(' ').count(), 2);
    put(&home, "main.rs", "later\n");
    assistant.ok("git_stash", json!({ "action": "push" }));
    assert_eq!(content(&home, "main.rs"), b"both\n");
    assistant.ok("git_stash", json!({ "action": "pop" }));
    let diff = assistant.ok("git_diff", json!({}));
    assert!(diff.text.contains("+later") && diff.facts.get("diff").is_none(), "{}", diff.text);
    assistant.ok("git_tag", json!({ "action": "create", "name": "v1", "message": "One" }));
    assert_eq!(git(&home, &["cat-file", "-t", "v1"]), "tag");
    let wrong = assistant.call("git_add", json!({ "paths": ["../token"] }));
    assert!(wrong.is_error && wrong.text.contains("is outside"), "{}", wrong.text);
}

#[test]
fn over_http_a_role_says_what_is_looked_at_and_what_is_changed() {
    let home = repository("");
    put(&home, "main.rs", "changed\n");
    let at = |role: &str| Http::at(home.port("http")).token(&token(&home, role));
    let (viewer, operator) = (at("viewer"), at("operator"));
    let admin = Http::at(home.port("http")).token(&admin(&home));
    let (nothing, commit) = (json!({}), json!({ "message": "Over HTTP", "paths": ["main.rs"] }));
    assert_eq!(Http::at(home.port("http")).get("/api/v1/git/status").status, 401);
    assert_eq!(viewer.get("/api/v1/git/status").status, 403);
    let status = operator.get("/api/v1/git/status");
    assert_eq!((status.status, &status.json()["entries"][0]["path"]), (200, &json!("main.rs")));
    assert_eq!(operator.post("/api/v1/git/commit", &commit).status, 403);
    assert_eq!(
        operator.post("/api/v1/git/branch", &json!({ "action": "create", "name": "x" })).status,
        403
    );
    assert_eq!(operator.post("/api/v1/git/branch", &nothing).status, 200);
    let made = admin.post("/api/v1/git/commit", &commit);
    assert_eq!((made.status, &made.json()["committed"]), (200, &json!(true)), "{:?}", made.json());
    assert_eq!(git(&home, &["log", "-1", "--format=%s"]), "Over HTTP");
    let audit = home.json(["audit", "read", "-n", "100"]);
    let commits = audit["entries"].as_array().unwrap().iter();
    assert_eq!(commits.filter(|line| line["operation"] == "git.commit").count(), 2, "{audit:#}");
}

#[test]
fn hooks_run_where_the_owner_trusts_the_repository_and_nowhere_else() {
    for trusted in [false, true] {
        let home = repository(if trusted { "  git: { trusted: [app] }\n" } else { "" });
        hook(&home, "post-commit", "echo ran > ran");
        put(&home, "main.rs", "changed\n");
        home.ok(["git", "commit", "-a", "-m", "With a hook"]);
        assert_eq!(home.path().join("app/ran").exists(), trusted);
    }
}

/// Git holds a lock while a file is filtered, and Proctor one while a hook runs.
#[test]
fn a_daemon_that_is_killed_leaves_neither_locks_nor_programs() {
    let home = repository("  git: { trusted: [app] }\n");
    put(&home, ".gitattributes", "*.slow filter=slow\n");
    put(&home, "a.slow", "1\n");
    git(&home, &["add", "-A"]);
    git(&home, &["commit", "-q", "-m", "Second"]);
    let slow = "echo $$ > .git/began; sleep 1000";
    git(&home, &["config", "filter.slow.smudge", slow]);
    hook(&home, "pre-commit", slow);
    let (began, lock) =
        (home.path().join("app/.git/began"), home.path().join("app/.git/index.lock"));
    put(&home, "main.rs", "changed\n");
    std::fs::remove_file(home.path().join("app/a.slow")).unwrap();
    for words in [["git", "restore", "a.slow"].as_slice(), &["git", "commit", "-m", "x", "main.rs"]]
    {
        let mut client = home.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let program = wait_for("its program runs", LIMIT, || {
            std::fs::read_to_string(&began).ok()?.trim().parse::<u32>().ok()
        });
        assert!(lock.exists(), "{words:?}");
        kill9(home.daemon_pid());
        wait_until("nobody holds the index", LIMIT, || !lock.exists());
        wait_until("its program is gone", LIMIT, || !alive(program));
        client.as_mut().unwrap().wait().unwrap();
        std::fs::remove_file(&began).unwrap();
    }
    git(&home, &["commit", "-q", "-a", "--no-verify", "-m", "By hand"]);
}

/// Git has moved the branch and runs the hook after that; the index is still the old one.
#[test]
fn a_commit_that_was_made_when_proctor_ends_has_its_index() {
    type End = (&'static str, fn(&Home));
    let ends: [End; 4] = [
        ("killed", |home| kill9(home.daemon_pid())),
        ("without its keeper", |home| kill9(home.keeper_pid())),
        ("stopped", |home| drop(home.ok(["daemon", "stop"]))),
        ("upgraded", |home| drop(home.ok(["daemon", "upgrade"]))),
    ];
    let all: [&[&str]; 2] =
        [&["git", "commit", "-m", "Made", "--all"], &["git", "commit", "-m", "Made", "main.rs"]];
    for ((how, end), words) in ends.into_iter().flat_map(|end| all.map(|words| (end, words))) {
        let home = repository("  git: { trusted: [app] }\n");
        let (began, lock) =
            (home.path().join("app/.git/began"), home.path().join("app/.git/index.lock"));
        hook(&home, "post-commit", "echo $$ > .git/began; exec sleep 1000");
        put(&home, "main.rs", "changed\n");
        let client = home.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let program = wait_for("its hook runs", LIMIT, || {
            std::fs::read_to_string(&began).ok()?.trim().parse::<u32>().ok()
        });
        end(&home);
        wait_until("nobody holds the index", LIMIT, || !lock.exists());
        wait_until("its hook is gone", LIMIT, || !alive(program));
        client.unwrap().wait().unwrap();
        assert_eq!(git(&home, &["log", "-1", "--format=%s"]), "Made", "{how}: {words:?}");
        assert_eq!(git(&home, &["status", "--short"]), "", "{how}: {words:?}");
    }
}

#[test]
fn a_commit_that_is_interrupted_is_ended_and_says_what_became_of_it() {
    for (name, expected) in [("pre-commit", false), ("post-commit", true)] {
        let home = repository("  git: { trusted: [app] }\n");
        let began = home.path().join("app/.git/began");
        hook(&home, name, "echo $$ > .git/began; exec sleep 1000");
        put(&home, "main.rs", "changed\n");
        let words = ["git", "commit", "-m", "Made", "--all"];
        let client = home.command(words).stderr(Stdio::piped()).spawn().unwrap();
        let program = wait_for("its hook runs", LIMIT, || {
            std::fs::read_to_string(&began).ok()?.trim().parse::<u32>().ok()
        });
        signal(client.id(), Signal::INT);
        let ended = client.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("cancelling; press Ctrl-C again"), "{said}");
        assert!(!alive(program), "its hook runs on");
        assert_eq!(git(&home, &["log", "-1", "--format=%s"]) == "Made", expected, "{name}");
        assert_eq!(git(&home, &["status", "--short"]).is_empty(), expected, "{name}");
        let hash = git(&home, &["rev-parse", "--short=7", "HEAD"]);
        let stays = format!("cancelled; the commit {hash}");
        let says = if expected { &stays } else { "cancelled; changes made before are kept" };
        assert!(said.contains(says), "{name}: {said}");
    }
}

#[test]
fn paths_of_a_command_line_begin_where_it_is_called() {
    let home = repository("");
    put(&home, "f", "top\n");
    put(&home, "sub/f", "sub\n");
    git(&home, &["add", "-A"]);
    git(&home, &["commit", "-q", "-m", "Both"]);
    let in_sub = |words: &[&str]| {
        let mut command = home.command(words);
        let output = command.current_dir(home.path().join("app/sub")).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    for path in ["f", "sub/f"] {
        put(&home, path, "changed\n");
    }
    in_sub(&["git", "restore", "f"]);
    assert_eq!(git(&home, &["status", "--short"]), " M f", "as git itself would");
    in_sub(&["git", "commit", "-m", "Upwards", "../f"]);
    assert_eq!(git(&home, &["status", "--short"]), "");
    assert!(in_sub(&["git", "blame", "f"]).contains("sub"));
    assert!(in_sub(&["git", "log", "f"]).contains("Both"));
    // A named folder is searched here, then from the root.
    for repo in ["..", "sub"] {
        assert!(in_sub(&["git", "status", "--repo", repo]).contains("on main"));
    }
}
