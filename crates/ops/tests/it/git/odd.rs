//! Repositories with unusual content or surroundings, and the responses about them.

use super::scene::{Asker, Scene, put};
use proctor_core::home::Home;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

fn list<'a>(answer: &'a Value, what: &str, field: &str) -> Vec<&'a str> {
    let entries = answer[what].as_array().unwrap();
    entries.iter().map(|entry| entry[field].as_str().unwrap()).collect()
}

/// Writes a commit by hand.
fn write_commit(scene: &Scene, repo: &Path, author: &str, message: &str) {
    let (tree, parent) = ("HEAD^{tree}", "HEAD");
    let [tree, parent] = [tree, parent].map(|name| scene.git(repo, &["rev-parse", name]));
    let people = format!("author {author}\ncommitter C <c@x> 1700000000 +0000");
    let text = format!("tree {tree}\nparent {parent}\n{people}\n\n{message}\n");
    let file = scene.root.join("commit");
    fs::write(&file, text).unwrap();
    let words = ["hash-object", "-t", "commit", "-w", "--literally", file.to_str().unwrap()];
    let hash = scene.git(repo, &words);
    scene.git(repo, &["reset", "-q", "--hard", &hash]);
}

#[test]
fn what_proctor_keeps_in_a_work_tree_is_not_told() {
    for below in [".proc", ""] {
        let mut scene = Scene::new();
        let state = scene.root.join("app").join(below);
        let kept = ["token", "logs/web/x"].map(|name| state.join(name));
        let repo = scene.repository("app", &[("f", "1\n"), (".gitignore", "*.json\n")]);
        for file in &kept {
            put(&state, file.strip_prefix(&state).unwrap().to_str().unwrap(), "stored\n");
        }
        scene.git(&repo, &["add", "-A"]);
        scene.git(&repo, &["commit", "-q", "-m", "with everything"]);
        kept.iter().for_each(|file| fs::write(file, "SECRET\n").unwrap());
        put(&repo, "f", "2\n");
        put(&repo, "token.rs", "new\n");
        scene.place.home = Home { state: state.clone(), runtime: state.join("run") };
        scene.daemon("roots: [app]", json!({}), async |caller| {
            for paths in [json!([]), json!(["."]), json!(["f", "token", ".proc", "logs"])] {
                for since in [json!(null), json!("HEAD")] {
                    let input = json!({ "from": since, "paths": paths });
                    let diff = caller.ok("git.diff", &repo, input.clone()).await;
                    assert_eq!(list(&diff, "files", "path"), ["f"], "{below}: {input}");
                    assert!(!diff.to_string().contains("SECRET"), "{below}: {input}");
                }
            }
            let only = json!({ "paths": [kept[0]] });
            assert_eq!(caller.ok("git.diff", &repo, only).await["files"], json!([]), "{below}");
            for ignored in [false, true] {
                let status = caller.ok("git.status", &repo, json!({ "ignored": ignored })).await;
                assert_eq!(list(&status, "entries", "path"), ["f", "token.rs"], "{below}");
            }
            // Content in the history is not hidden by a setting.
            let shown = caller.ok("git.show", &repo, json!({ "stat": true })).await;
            assert_eq!(shown["files"].as_array().unwrap().len(), 2, "{below}: {shown}");
        });
    }
}

#[test]
fn a_status_is_about_one_index() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    put(&repo, "new", "n\n");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in (0..5000).take_while(|_| !done.load(Ordering::Relaxed)) {
                scene.git(&repo, &["add", "new"]);
                scene.git(&repo, &["rm", "-q", "--cached", "new"]);
            }
        });
        scene.daemon("", json!({}), async |caller| {
            let mut answers = Vec::new();
            for _ in 0..40 {
                answers.push(caller.ok("git.status", &repo, json!({})).await);
            }
            done.store(true, Ordering::Relaxed);
            let told = answers.iter().map(|status| list(status, "entries", "path"));
            assert_eq!(told.collect::<Vec<_>>(), vec![["new"]; 40]);
        });
    });
}

#[test]
fn commits_with_odd_dates_are_in_the_log() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    for (author, message) in [
        ("A <a@x> 99999999999999999999 +0000", "far"),
        ("A <a@x>", "never"),
        ("<> 5 +0000", "early"),
    ] {
        write_commit(&scene, &repo, author, message);
    }
    scene.daemon("", json!({}), async |caller| {
        let log = caller.ok("git.log", &repo, json!({})).await;
        assert_eq!(list(&log, "commits", "subject"), ["early", "never", "far", "first"]);
        assert_eq!(pages(&caller, &repo).await, ["early", "never", "far", "first"]);
        for (rev, subject) in [("HEAD", "early"), ("HEAD~1", "never"), ("HEAD~2", "far")] {
            let shown = caller.ok("git.show", &repo, json!({ "rev": rev })).await;
            assert_eq!(shown["commit"]["subject"], subject);
        }
    });
}

/// Returns the subjects of all commits, one page at a time.
async fn pages(caller: &Asker, repo: &Path) -> Vec<String> {
    let (mut subjects, mut input) = (Vec::new(), json!({ "limit": 1 }));
    loop {
        let page = caller.ok("git.log", repo, input.clone()).await;
        let found = list(&page, "commits", "subject");
        subjects.extend(found.iter().map(|subject| subject.chars().take(20).collect::<String>()));
        match page.get("cursor") {
            Some(cursor) if *cursor != input["cursor"] => input["cursor"] = cursor.clone(),
            Some(cursor) => panic!("{cursor} leads nowhere"),
            None => return subjects,
        }
    }
}

#[test]
fn messages_without_end_hide_nothing() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let long = scene.root.join("long");
    fs::write(&long, format!("long\n\n{}", "long text\n".repeat(500_000))).unwrap();
    let long = long.to_str().unwrap();
    scene.git(&repo, &["commit", "-q", "--allow-empty", "-F", long]);
    scene.git(&repo, &["commit", "-q", "--allow-empty", "-m", "last"]);
    fs::write(long, "a subject of many words ".repeat(70_000)).unwrap();
    for name in ["one", "two", "three"] {
        scene.git(&repo, &["tag", "-a", "-F", long, name]);
    }
    scene.daemon("", json!({}), async |caller| {
        let log = caller.ok("git.log", &repo, json!({})).await;
        let commits = list(&log, "commits", "subject");
        assert_eq!((commits, &log["more"]), (vec!["last"], &json!(true)), "what fits");
        assert_eq!(pages(&caller, &repo).await, ["last", "long", "first"]);
        let shown = caller.ok("git.show", &repo, json!({ "rev": "HEAD~1", "stat": true })).await;
        let commit = &shown["commit"];
        assert_eq!((&commit["subject"], &commit["truncated"]), (&json!("long"), &json!(true)));
        assert!(commit["body"].as_str().unwrap().starts_with("long text\nlong"));
        let tags = caller.ok("git.tag", &repo, json!({})).await;
        let mut names = list(&tags, "tags", "name");
        names.sort_unstable();
        assert_eq!((names, tags.get("truncated")), (vec!["one", "three", "two"], None));
        let first = caller.ok("git.tag", &repo, json!({ "limit": 1 })).await;
        let subject = first["tags"][0]["subject"].as_str().unwrap();
        assert_eq!((subject.chars().count(), &first["truncated"]), (201, &json!(true)));
        scene.git(&repo, &["switch", "-q", "-c", "topic", "HEAD~1"]);
        put(&repo, "f", "2\n");
        let amended = caller.ok("git.commit", &repo, json!({ "amend": true, "all": true })).await;
        assert_eq!(amended["commit"]["subject"], "long");
    });
}

#[test]
fn a_name_that_is_no_text_is_told_as_bytes() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[]);
    let odd = repo.join(std::ffi::OsStr::from_bytes(b"o\xffd"));
    fs::write(&odd, "1\n").unwrap();
    scene.git(&repo, &["add", "-A"]);
    scene.git(&repo, &["commit", "-q", "-m", "odd"]);
    fs::write(&odd, "2\n").unwrap();
    scene.daemon("", json!({}), async |caller| {
        for (name, list) in
            [("git.status", "entries"), ("git.diff", "files"), ("git.show", "files")]
        {
            let answer = caller.ok(name, &repo, json!({})).await;
            assert_eq!(answer[list][0]["bytes"], "b/9k", "{name}: {answer}");
        }
    });
}

#[test]
fn settings_of_a_repository_change_no_answer() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    put(&repo, "f", "2\n");
    scene.git(&repo, &["commit", "-q", "-a", "-m", "second"]);
    scene.git(&repo, &["tag", "v1"]);
    scene.daemon("", json!({}), async |caller| {
        let ask = async || {
            let log = json!({ "paths": ["f"], "follow": true });
            let log = caller.ok("git.log", &repo, log).await;
            (log, caller.ok("git.show", &repo, json!({ "rev": "HEAD" })).await)
        };
        let before = ask().await;
        let refs = &before.0["commits"][0]["refs"];
        assert_eq!(refs, "HEAD -> main, tag: v1", "{before:?}");
        for (name, value) in [
            ("log.showRoot", "false"),
            ("log.excludeDecoration", "*"),
            ("log.initialDecorationSet", "all"),
            ("core.abbrev", "4"),
        ] {
            scene.git(&repo, &["config", name, value]);
            assert_eq!(ask().await, before, "{name}");
        }
    });
}
