//! Settings of the owner: hooks, filters and signing of a trusted repository, and open protocols.

use super::scene::{Scene, put};
use super::vectors::{program, script};
use proctor_ops::error::Code;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn hook(repo: &Path, name: &str, text: &str) {
    script(&repo.join(".git/hooks").join(name), text);
}

pub(super) async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    while !reached() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        looks.tick().await;
    }
}

#[test]
fn a_trusted_repository_runs_its_own_programs() {
    let scene = Scene::new();
    let (evil, mark) = program(&scene, "trusted");
    let repo = scene.repository("mine", &[("f", "1\n"), (".gitattributes", "*.up filter=upper\n")]);
    let config = repo.join(".git/config");
    let own = format!("[filter \"upper\"]\n clean = tr a-z A-Z\n[gpg]\n program = {evil}\n");
    fs::write(&config, fs::read_to_string(&config).unwrap() + &own).unwrap();
    hook(&repo, "pre-commit", "grep -q bad f && { echo 'no bad things' >&2; exit 1; }; exit 0");
    let other = scene.repository("other", &[("f", "1\n")]);
    hook(&other, "pre-commit", &evil);
    scene.daemon("git: { trusted: [mine] }", json!({}), async |asker| {
        put(&repo, "a.up", "loud\n");
        asker.ok("git.add", &repo, json!({ "paths": ["a.up"] })).await;
        assert_eq!(scene.git(&repo, &["show", ":a.up"]), "LOUD");
        put(&repo, "f", "bad\n");
        let (code, why) =
            asker.refused("git.commit", &repo, json!({ "message": "m", "all": true })).await;
        assert_eq!((code, why.contains("no bad things")), (Code::Failed, true), "{why}");
        put(&repo, "f", "good\n");
        asker.ok("git.commit", &repo, json!({ "message": "m", "all": true })).await;
        scene.git(&repo, &["config", "commit.gpgSign", "true"]);
        put(&repo, "f", "better\n");
        asker.refused("git.commit", &repo, json!({ "message": "m", "all": true })).await;
        assert!(mark.exists(), "its program for signing was not asked");
        fs::remove_file(&mark).unwrap();
        put(&other, "f", "2\n");
        asker.ok("git.commit", &other, json!({ "message": "m", "all": true })).await;
        assert!(!mark.exists(), "trust in one is trust in another");
    });
}

#[test]
fn a_hook_finds_other_repositories_as_it_would_without_us() {
    let scene = Scene::new();
    let repo = scene.repository("mine", &[("f", "1\n")]);
    let other = scene.repository("other", &[("f", "1\n")]);
    scene.git(&other, &["commit", "-q", "--allow-empty", "-m", "of the other"]);
    hook(&repo, "pre-commit", "git -C ../other log -1 --format=%s > told");
    scene.daemon("git: { trusted: [mine] }", json!({}), async |asker| {
        put(&repo, "f", "22\n");
        asker.ok("git.commit", &repo, json!({ "message": "m", "all": true })).await;
        assert_eq!(fs::read_to_string(repo.join("told")).unwrap(), "of the other\n");
        scene.git(&repo, &["config", "core.worktree", "../../elsewhere"]);
        let status = asker.ok("git.status", &repo, json!({})).await;
        assert_eq!(status["entries"].as_array().map(Vec::len), Some(1), "{status}");
    });
}

#[test]
fn where_a_trusted_repository_is_damaged_none_around_it_is_changed() {
    let scene = Scene::new();
    let around = scene.repository("around", &[("o", "1\n"), ("in/i", "1\n")]);
    let repo = scene.repository("around/in", &[]);
    fs::remove_file(repo.join(".git/HEAD")).unwrap();
    put(&repo, "i", "22\n");
    let before = scene.git(&around, &["rev-parse", "HEAD"]);
    scene.daemon("git: { trusted: [around/in] }", json!({}), async |asker| {
        asker.refused("git.status", &repo, json!({})).await;
        asker.refused("git.commit", &repo, json!({ "message": "m", "all": true })).await;
    });
    assert_eq!(scene.git(&around, &["rev-parse", "HEAD"]), before);
}

#[test]
fn what_a_filter_would_change_is_not_stored_without_it() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n"), (".gitattributes", "*.up filter=upper\n")]);
    scene.git(&repo, &["config", "filter.upper.clean", "tr a-z A-Z"]);
    scene.daemon("", json!({}), async |asker| {
        put(&repo, "a.up", "loud\n");
        put(&repo, "f", "2\n");
        for input in [json!({ "all": true }), json!({ "paths": ["a.up"] })] {
            let (code, why) = asker.refused("git.add", &repo, input).await;
            assert_eq!((code, why.contains("'upper' of 'a.up'")), (Code::Forbidden, true), "{why}");
        }
        asker.ok("git.commit", &repo, json!({ "message": "m", "paths": ["f"] })).await;
    });
}

/// A repository with a filter for `*.up`, with different files in `other` and `later`; `plain` has none.
fn filtered(scene: &Scene) -> PathBuf {
    let files = [("f", "1\n"), ("a.up", "QUIET\n"), (".gitattributes", "*.up filter=upper\n")];
    let repo = scene.repository("app", &files);
    for (branch, files) in [
        ("other", &[("a.up", "LOUD\n")][..]),
        ("later", &[("sub/.gitattributes", "*.low filter=upper\n"), ("sub/a.low", "x\n")]),
        ("plain", &[("f", "2\n")]),
    ] {
        scene.git(&repo, &["switch", "-q", "-c", branch, "main"]);
        files.iter().for_each(|(name, text)| put(&repo, name, text));
        scene.git(&repo, &["add", "-A"]);
        scene.git(&repo, &["commit", "-q", "-m", branch]);
    }
    scene.git(&repo, &["switch", "-q", "main"]);
    scene.git(&repo, &["config", "filter.upper.clean", "tr a-z A-Z"]);
    scene.git(&repo, &["config", "filter.upper.smudge", "tr A-Z a-z"]);
    repo
}

#[test]
fn what_a_filter_would_change_is_not_checked_out_without_it() {
    let scene = Scene::new();
    let repo = filtered(&scene);
    scene.daemon("", json!({}), async |asker| {
        let switch = |name: &str| json!({ "action": "switch", "name": name });
        for (name, path) in [("other", "a.up"), ("later", "sub/a.low")] {
            let (code, why) = asker.refused("git.branch", &repo, switch(name)).await;
            let expected = format!("'upper' of '{path}'");
            assert_eq!((code, why.contains(&expected)), (Code::Forbidden, true), "{name}: {why}");
            assert_eq!(scene.git(&repo, &["branch", "--show-current"]), "main");
        }
        assert_eq!(fs::read_to_string(repo.join("a.up")).unwrap(), "QUIET\n");
        asker.ok("git.branch", &repo, switch("plain")).await;
        assert_eq!(fs::read_to_string(repo.join("f")).unwrap(), "2\n");
    });
}

#[test]
fn what_a_filter_would_change_is_not_put_aside_or_brought_back_without_it() {
    let scene = Scene::new();
    let repo = filtered(&scene);
    let count = || scene.git(&repo, &["stash", "list"]).lines().count();
    scene.daemon("", json!({}), async |asker| {
        let (push, pop) = (json!({ "action": "push" }), json!({ "action": "pop" }));
        let untracked = json!({ "action": "push", "untracked": true, "paths": ["new.up"] });
        let refused = async |input: &Value, path: &str| {
            let (code, why) = asker.refused("git.stash", &repo, input.clone()).await;
            let expected = format!("'upper' of '{path}'");
            assert_eq!((code, why.contains(&expected)), (Code::Forbidden, true), "{input}: {why}");
        };
        put(&repo, "a.up", "changed\n");
        put(&repo, "f", "changed\n");
        refused(&push, "a.up").await;
        assert_eq!(
            (fs::read_to_string(repo.join("a.up")).unwrap().as_str(), count()),
            ("changed\n", 0)
        );
        asker.ok("git.stash", &repo, json!({ "action": "push", "paths": ["f"] })).await;
        asker.ok("git.stash", &repo, pop.clone()).await;
        scene.git(&repo, &["stash", "push", "-q"]);
        refused(&pop, "a.up").await;
        assert_eq!(count(), 1, "it is still there");
        scene.git(&repo, &["stash", "drop", "-q"]);
        put(&repo, "new.up", "new\n");
        refused(&untracked, "new.up").await;
        scene.git(&repo, &["stash", "push", "-q", "--include-untracked", "new.up"]);
        refused(&pop, "new.up").await;
        assert_eq!((repo.join("new.up").exists(), count()), (false, 1));
    });
}

/// A hook that never ends, and its child.
fn endless(scene: &Scene) -> PathBuf {
    let repo = scene.repository("slow", &[("f", "1\n")]);
    hook(
        &repo,
        "pre-commit",
        "setsid sleep 1000 & echo $! > .git/escaped; echo $$ > .git/hook; sleep 1000",
    );
    put(&repo, "f", "2\n");
    repo
}

fn lives(repo: &Path, name: &str) -> bool {
    let text = fs::read_to_string(repo.join(".git").join(name)).unwrap();
    let pid = text.trim().parse().unwrap();
    proctor_sys::proc::stat(pid).is_some_and(|stat| !stat.is_dead())
}

#[test]
fn what_takes_too_long_is_ended_with_all_that_it_started() {
    let scene = Scene::new();
    let repo = endless(&scene);
    scene.daemon("git: { trusted: [slow], timeout: 3 }", json!({}), async |asker| {
        let (code, why) =
            asker.refused("git.commit", &repo, json!({ "message": "m", "all": true })).await;
        assert_eq!((code, why.as_str()), (Code::Timeout, "git commit took longer than 3 s"));
        assert!(!lives(&repo, "hook") && !lives(&repo, "escaped"));
    });
}

#[test]
fn what_is_cancelled_is_ended_with_all_that_it_started() {
    let scene = Scene::new();
    let repo = endless(&scene);
    scene.daemon("git: { trusted: [slow] }", json!({}), async |asker| {
        let begun = json!({ "message": "m", "all": true, "background": true });
        let begun = asker.ok("git.commit", &repo, begun).await;
        until("the hook runs", || {
            fs::read_to_string(repo.join(".git/hook")).is_ok_and(|pid| pid.ends_with('\n'))
        })
        .await;
        asker.call("operation.cancel", json!({ "operation": begun["operation"] })).await.unwrap();
        until("it is gone", || !lives(&repo, "hook") && !lives(&repo, "escaped")).await;
    });
}

#[test]
fn who_is_ended_in_the_middle_leaves_no_lock() {
    let scene = Scene::new();
    let repo = filtered(&scene);
    let (lock, began) = (repo.join(".git/index.lock"), repo.join(".git/began"));
    let smudge = |command: &str| scene.git(&repo, &["config", "filter.upper.smudge", command]);
    let switch = |name: &str| json!({ "action": "switch", "name": name });
    for cancelled in [false, true] {
        let keys = if cancelled { "trusted: [app]" } else { "trusted: [app], timeout: 2" };
        scene.daemon(&format!("git: {{ {keys} }}"), json!({}), async |asker| {
            smudge("ls .git/index.lock > .git/began; sleep 1000");
            let mut other = switch("other");
            if cancelled {
                other["background"] = json!(true);
                let begun = asker.ok("git.branch", &repo, other).await;
                until("its filter runs", || fs::read(&began).is_ok_and(|it| !it.is_empty())).await;
                let cancel = json!({ "operation": begun["operation"] });
                asker.call("operation.cancel", cancel).await.unwrap();
                until("the lock is gone", || !lock.exists()).await;
            } else {
                let (code, why) = asker.refused("git.branch", &repo, other).await;
                assert_eq!(code, Code::Timeout, "{why}");
                assert!(!lock.exists(), "nobody can work there any more");
                let staged = scene.git(&repo, &["diff", "--cached", "--name-only"]);
                assert_eq!(staged, "", "it went on without its filter");
            }
            let held = fs::read_to_string(&began).unwrap();
            assert_eq!(held, ".git/index.lock\n", "git holds it while the filter runs");
            fs::remove_file(&began).unwrap();
            smudge("cat");
            asker.ok("git.branch", &repo, switch("plain")).await;
            asker.ok("git.branch", &repo, switch("main")).await;
        });
    }
}

#[test]
fn what_a_partial_clone_lacks_comes_by_an_open_protocol_only() {
    let scene = Scene::new();
    let source = scene.repository("source", &[("f", "1\n")]);
    put(&source, "f", "2\n");
    scene.git(&source, &["commit", "-q", "-a", "-m", "second"]);
    scene.git(&source, &["config", "uploadpack.allowFilter", "true"]);
    scene.git(&source, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let url = format!("file://{}", source.display());
    let clone =
        ["-c", "protocol.file.allow=always", "clone", "-q", "--filter=blob:none", &url, "partial"];
    scene.git(&scene.root, &clone);
    let partial = scene.root.join("partial");
    let old = json!({ "rev": "HEAD~1", "path": "f" });
    let ask = |keys: &str, expected: Option<&str>| {
        scene.daemon(keys, json!({}), async |asker| {
            let mut input: Value = old.clone();
            input["repo"] = json!(partial);
            let answer = asker.call("git.show", input).await;
            let text =
                answer.ok().map(|answer| answer["file"]["text"].as_str().unwrap().to_owned());
            assert_eq!(text.as_deref(), expected, "{keys}");
        });
    };
    ask("", None);
    ask("git: { protocols: [https] }", None);
    // It would be written there.
    ask("roots: [{ path: ., write: false }]\n  git: { protocols: [file] }", None);
    ask("git: { protocols: [file] }", Some("1\n"));
    // The program at the other end is called on this machine, and for git the first value counts.
    let began = scene.root.join("began");
    let evil = scene.root.join("evil");
    script(&evil, &format!("touch '{}'; exec git-upload-pack \"$@\"", began.display()));
    scene.git(&partial, &["config", "remote.origin.uploadpack", evil.to_str().unwrap()]);
    scene.daemon("git: { protocols: [file] }", json!({}), async |asker| {
        asker.0.engine.without_git_fence();
        let (code, why) = asker.refused("git.show", &partial, json!({ "rev": "HEAD" })).await;
        let said = why.contains("its remote.origin.uploadpack is a program");
        assert_eq!((code, said), (Code::Forbidden, true), "{why}");
        assert!(!began.exists(), "it was run");
    });
}
