//! Files with a filter, in repositories whose filters are not run: operations that would store or restore them without it are
//! refused, wherever the attributes come from.

use super::scene::{Asker, Scene, put};
use super::vectors::{program, script};
use proctor_ops::error::Code;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn commit(scene: &Scene, repo: &Path, branch: &str, files: &[(&str, &str)]) {
    files.iter().for_each(|(name, text)| put(repo, name, text));
    scene.git(repo, &["add", "-A"]);
    scene.git(repo, &["commit", "-q", "-m", branch]);
}

/// A repository with a configured filter that no file uses yet.
fn repository(scene: &Scene) -> PathBuf {
    let repo = scene.repository("app", &[("f", "1\n"), ("a.up", "QUIET\n")]);
    scene.git(&repo, &["switch", "-q", "-c", "topic"]);
    commit(scene, &repo, "topic", &[(".gitattributes", "*.up filter=upper\n"), ("a.up", "LOUD\n")]);
    scene.git(&repo, &["switch", "-q", "main"]);
    configure(scene, &repo);
    repo
}

fn configure(scene: &Scene, repo: &Path) {
    scene.git(repo, &["config", "filter.upper.clean", "tr a-z A-Z"]);
    scene.git(repo, &["config", "filter.upper.smudge", "tr A-Z a-z"]);
    scene.git(repo, &["config", "filter.upper.required", "true"]);
}

async fn refused(asker: &Asker, name: &str, repo: &Path, input: Value) {
    let (code, why) = asker.refused(name, repo, input.clone()).await;
    let named = why.contains("the filter 'upper' of");
    assert_eq!((code, named), (Code::Forbidden, true), "{name} {input}: {why}");
}

#[test]
fn attributes_that_come_with_the_files_count() {
    let scene = Scene::new();
    let repo = repository(&scene);
    scene.daemon("", json!({}), async |asker| {
        let quiet = || assert_eq!(fs::read_to_string(repo.join("a.up")).unwrap(), "QUIET\n");
        let switch = |name: &str| json!({ "action": "switch", "name": name });
        refused(&asker, "git.branch", &repo, switch("topic")).await;
        for staged in [false, true] {
            let all =
                json!({ "paths": ["."], "from": "topic", "staged": staged, "worktree": true });
            refused(&asker, "git.restore", &repo, all).await;
        }
        quiet();
        let index = json!({ "paths": ["a.up"], "from": "topic", "staged": true });
        asker.ok("git.restore", &repo, index).await;
        scene.git(&repo, &["reset", "-q", "--hard"]);
        // Only the index requests it: git reads that when it restores files.
        put(&repo, ".gitattributes", "*.up filter=upper\n");
        scene.git(&repo, &["add", ".gitattributes"]);
        put(&repo, ".gitattributes", "\n");
        let from = json!({ "paths": ["a.up"], "from": "topic" });
        refused(&asker, "git.restore", &repo, from).await;
        quiet();
        scene.git(&repo, &["reset", "-q", "--hard"]);
        scene.git(&repo, &["switch", "-q", "--orphan", "new"]);
        refused(&asker, "git.branch", &repo, switch("topic")).await;
        asker.ok("git.branch", &repo, switch("main")).await;
        quiet();
    });
}

/// Every installed git can act as an older one, which reports the attributes of an index only.
#[test]
fn an_older_git_tells_the_attributes_that_come_with_the_files_too() {
    let scene = Scene::new();
    let repo = repository(&scene);
    let own = scene.outside.with_file_name("bin").join("git");
    let found = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let older = "case \"$1\" in version) echo git version 2.34.1; exit;; esac";
    script(&own, &format!("{older}\nexec {} \"$@\"", found.trim()));
    scene.daemon("", json!({ "PATH": own.parent() }), async |asker| {
        let switch = |name: &str| json!({ "action": "switch", "name": name });
        refused(&asker, "git.branch", &repo, switch("topic")).await;
        assert_eq!(fs::read_to_string(repo.join("a.up")).unwrap(), "QUIET\n");
        scene.git(&repo, &["branch", "plain"]);
        asker.ok("git.branch", &repo, switch("plain")).await;
        assert!(!repo.join(".git/proctor-attributes").exists(), "an index is left behind");
    });
}

/// Without its filter, a file that was only touched looks changed.
#[test]
fn what_may_not_be_different_is_marked() {
    let scene = Scene::new();
    let attributes = (".gitattributes", "*.up filter=upper\n");
    let repo = scene.repository("app", &[attributes, ("f", "1\n"), ("gone.up", "X\n")]);
    configure(&scene, &repo);
    commit(&scene, &repo, "filtered", &[("a.up", "loud\n")]);
    fs::File::open(repo.join("a.up")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    put(&repo, "f", "2\n");
    fs::remove_file(repo.join("gone.up")).unwrap();
    let marked = |answer: &Value, list: &str| {
        let all = answer[list].as_array().unwrap().clone();
        let told = all.iter().map(|it| (it["path"].clone(), it["filtered"] == json!(true)));
        told.collect::<Vec<_>>()
    };
    let found =
        [("a.up", true), ("f", false), ("gone.up", false)].map(|(path, is)| (json!(path), is));
    scene.daemon("", json!({}), async |asker| {
        let status = asker.ok("git.status", &repo, json!({})).await;
        assert_eq!(marked(&status, "entries"), found);
        for from in [Value::Null, json!("HEAD")] {
            let diff = asker.ok("git.diff", &repo, json!({ "from": from })).await;
            assert_eq!(marked(&diff, "files"), found);
        }
        let shown = asker.ok("git.show", &repo, json!({})).await;
        assert_eq!(marked(&shown, "files"), [(json!("a.up"), false)], "as it is stored");
    });
    scene.daemon("git: { trusted: [app] }", json!({}), async |asker| {
        let status = asker.ok("git.status", &repo, json!({})).await;
        assert_eq!(marked(&status, "entries"), found[1..]);
    });
}

#[test]
fn new_files_that_bring_their_attributes_are_not_brought_back() {
    let scene = Scene::new();
    let repo = repository(&scene);
    put(&repo, "sub/.gitattributes", "b filter=upper\n");
    put(&repo, "sub/b", "B\n");
    scene.git(&repo, &["-c", "filter.upper.smudge=cat", "stash", "push", "-q", "-u"]);
    scene.daemon("", json!({}), async |asker| {
        refused(&asker, "git.stash", &repo, json!({ "action": "pop" })).await;
        assert!(!repo.join("sub").exists());
    });
}

/// Two commits to rebase on `main`: the first has a conflict, the second has these files.
fn rebase(scene: &Scene, name: &str, files: &[(&str, &str)]) -> PathBuf {
    let kept = [("f", "1\n"), ("a.up", "QUIET\n"), (".gitattributes", "*.up filter=upper\n")];
    let repo = scene.repository(name, &kept);
    scene.git(&repo, &["switch", "-q", "-c", "topic"]);
    commit(scene, &repo, "first", &[("f", "theirs\n")]);
    commit(scene, &repo, "second", files);
    scene.git(&repo, &["switch", "-q", "main"]);
    commit(scene, &repo, "ours", &[("f", "ours\n")]);
    scene.git(&repo, &["switch", "-q", "topic"]);
    scene.plain(&repo, &["rebase", "main"]);
    put(&repo, "f", "both\n");
    scene.git(&repo, &["add", "f"]);
    configure(scene, &repo);
    repo
}

#[test]
fn what_is_under_way_goes_neither_on_nor_back_where_a_filter_is_needed() {
    let scene = Scene::new();
    let (on, back) = (json!({ "action": "continue" }), json!({ "action": "abort" }));
    let needed = rebase(&scene, "needed", &[("a.up", "LOUD\n")]);
    let brought = rebase(&scene, "brought", &[(".gitattributes", "f filter=upper\n")]);
    let twins = ["one", "two"].map(|name| rebase(&scene, name, &[("other", "2\n")]));
    scene.daemon("", json!({}), async |asker| {
        refused(&asker, "git.resolve", &needed, on.clone()).await;
        refused(&asker, "git.resolve", &needed, back.clone()).await;
        assert_eq!(fs::read_to_string(needed.join("a.up")).unwrap(), "QUIET\n");
        assert!(needed.join(".git/rebase-merge").exists(), "it is still under way");
        refused(&asker, "git.resolve", &brought, back.clone()).await;
        // If no filtered file is touched, nothing blocks it.
        asker.ok("git.resolve", &twins[0], on.clone()).await;
        assert_eq!(scene.git(&twins[0], &["log", "-1", "--format=%s"]), "second");
        asker.ok("git.resolve", &twins[1], back.clone()).await;
        assert_eq!(fs::read_to_string(twins[1].join("f")).unwrap(), "theirs\n");
    });
    scene.daemon("git: { trusted: [needed] }", json!({}), async |asker| {
        asker.ok("git.resolve", &needed, on).await;
        assert_eq!(fs::read_to_string(needed.join("a.up")).unwrap(), "loud\n");
    });
}

#[test]
fn a_filter_of_the_system_counts_like_one_of_the_owner_and_is_not_run_either() {
    let scene = Scene::new();
    let (evil, mark) = program(&scene, "system");
    let system = scene.home.join("system");
    let text = format!(
        "[user]\n\tname = Everybody\n[filter \"large\"]\n\tclean = {evil}\n\tprocess = {evil}\n\trequired = true\n\
         [core]\n\tfsmonitor = {evil}\n\texcludesFile = {}\n",
        scene.home.join("ignored").display(),
    );
    fs::write(&system, text).unwrap();
    fs::write(scene.home.join("ignored"), "*.tmp\n").unwrap();
    fs::write(scene.home.join(".gitconfig"), "[user]\n\temail = owner@example.org\n").unwrap();
    let owner = ["-c", "user.name=Owner", "commit", "-q", "-m", "first"];
    let repo = scene.root.join("app");
    fs::create_dir(&repo).unwrap();
    put(&repo, ".gitattributes", "*.bin filter=large\n");
    scene.git(&repo, &["init", "-q", "-b", "main", "--template="]);
    scene.git(&repo, &["add", "-A"]);
    scene.git(&repo, &owner);
    put(&repo, "a.bin", "raw\n");
    put(&repo, "a.tmp", "1\n");
    put(&repo, "f", "1\n");
    scene.daemon("", json!({ "GIT_CONFIG_SYSTEM": system }), async |asker| {
        let status = asker.ok("git.status", &repo, json!({})).await;
        let names: Vec<_> = status["entries"].as_array().unwrap().iter().collect();
        assert_eq!(names.len(), 2, "what it ignores is ignored: {status}");
        for (name, input) in [
            ("git.add", json!({ "paths": ["a.bin"] })),
            ("git.commit", json!({ "message": "m", "paths": ["a.bin"] })),
        ] {
            let (code, why) = asker.refused(name, &repo, input).await;
            assert_eq!(
                (code, why.contains("'large' of 'a.bin'")),
                (Code::Forbidden, true),
                "{why}"
            );
        }
        asker.ok("git.commit", &repo, json!({ "message": "m", "paths": ["f"] })).await;
    });
    assert_eq!(scene.git(&repo, &["log", "-1", "--format=%an"]), "Everybody");
    assert!(!mark.exists(), "a program of the system's configuration was run");
}
