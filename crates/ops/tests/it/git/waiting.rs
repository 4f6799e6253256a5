//! FIFOs in the place of files that git opens: named within moments, wherever they are. A git that is only slow goes on.

use super::scene::{Scene, put};
use super::vectors::script;
use proctor_ops::error::Code;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Ends the call with another error. A slow machine needs a small part of it.
const TIMEOUT: &str = "timeout: 45";

/// A file of the repository, an operation that opens it, and its input.
const INSIDE: [(&str, &str, &str); 14] = [
    (".git/HEAD", "git.status", "{}"),
    (".git/index", "git.status", "{}"),
    (".git/config", "git.status", "{}"),
    (".git/packed-refs", "git.log", "{}"),
    (".git/info/exclude", "git.status", "{}"),
    (".git/info/attributes", "git.diff", "{}"),
    (".git/info/grafts", "git.log", "{}"),
    (".git/shallow", "git.log", "{}"),
    (".git/objects/info/alternates", "git.log", "{}"),
    (".git/logs/refs/stash", "git.stash", r#"{"action":"list"}"#),
    (".git/COMMIT_EDITMSG", "git.commit", r#"{"message":"x","all":true}"#),
    (".git/logs/HEAD", "git.commit", r#"{"message":"x","all":true}"#),
    (".git/refs/heads/main", "git.log", "{}"),
    (".git/refs/tags/one", "git.tag", "{}"),
];

/// Places in a repository that is not trusted. Elsewhere in its `.git` a FIFO is refused before git is called.
const REFERENCES: [(&str, &str, &str); 3] = [
    (".git/refs/heads/main", "git.status", "{}"),
    (".git/refs/tags/one", "git.tag", "{}"),
    (".git/logs/refs/stash", "git.stash", r#"{"action":"list"}"#),
];

fn repository(scene: &Scene, name: &str) -> PathBuf {
    let repo = scene.repository(name, &[("f", "1\n")]);
    scene.git(&repo, &["tag", "one"]);
    put(&repo, "f", "2\n");
    scene.git(&repo, &["stash", "push", "-q"]);
    scene.git(&repo, &["pack-refs"]);
    scene.git(&repo, &["update-ref", "refs/heads/main", "HEAD"]);
    put(&repo, "f", "3\n");
    repo
}

fn make_fifo(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs `body` while a FIFO is in the place of this file.
async fn with_fifo<T>(path: &Path, body: impl AsyncFnOnce() -> T) -> T {
    let aside = path.with_file_name("aside-for-a-moment");
    let was_there = fs::rename(path, &aside).is_ok();
    make_fifo(path);
    let came = body().await;
    fs::remove_file(path).unwrap();
    if was_there {
        fs::rename(&aside, path).unwrap();
    }
    came
}

#[test]
fn a_fifo_anywhere_in_a_repository_is_named() {
    let scene = Scene::new();
    let (mine, plain) = (repository(&scene, "mine"), repository(&scene, "plain"));
    let keys = format!("git: {{ trusted: [mine], {TIMEOUT} }}");
    scene.daemon(&keys, json!({}), async |caller| {
        let all = INSIDE.map(|row| (&mine, row)).into_iter();
        let all = all.chain(REFERENCES.map(|row| (&plain, row)));
        let mut wrong = Vec::new();
        for (repo, (file, operation, input)) in all {
            let path = repo.join(file);
            let input: Value = serde_json::from_str(input).unwrap();
            let asked = async || caller.call(operation, with_repo(&input, repo)).await;
            match with_fifo(&path, asked).await {
                Err(error) if is_named(error.code, &error.message, &path) => {}
                other => wrong.push(format!("{operation} {}: {other:?}", path.display())),
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        for repo in [&mine, &plain] {
            let commits = scene.git(repo, &["rev-list", "--count", "HEAD"]);
            assert_eq!(commits, "1", "nothing was committed in {}", repo.display());
            assert!(!repo.join(".git/index.lock").exists());
            caller.ok("git.commit", repo, json!({ "message": "x", "all": true })).await;
        }
    });
}

fn with_repo(input: &Value, repo: &Path) -> Value {
    let mut input = input.clone();
    input["repo"] = json!(repo);
    input
}

fn is_named(code: Code, why: &str, path: &Path) -> bool {
    let named = why.contains(&format!("{} is a FIFO", path.display()));
    code == Code::Conflict && named && why.contains("remove it")
}

#[test]
fn a_fifo_that_a_setting_names_and_one_of_the_owner_are_named() {
    let scene = Scene::new();
    let repo = repository(&scene, "app");
    let (included, own) = (repo.join("settings"), scene.home.join(".gitconfig"));
    let keys = format!("git: {{ {TIMEOUT} }}");
    scene.daemon(&keys, json!({}), async |caller| {
        let refused = async || caller.refused("git.status", &repo, json!({})).await;
        let (code, why) = with_fifo(&own, refused).await;
        assert!(is_named(code, &why, &own), "{why}");
        scene.git(&repo, &["config", "include.path", "../settings"]);
        let (code, why) = with_fifo(&included, refused).await;
        assert!(is_named(code, &why, &included), "{why}");
        // Opened, because somebody is at its other end, who writes nothing.
        let held = async || {
            let _ends = File::options().read(true).write(true).open(&included).unwrap();
            refused().await
        };
        let (code, why) = with_fifo(&included, held).await;
        assert!(is_named(code, &why, &included), "{why}");
        caller.ok("git.status", &repo, json!({})).await;
    });
}

#[test]
fn a_git_that_waits_for_its_own_subprocesses_and_hooks_goes_on() {
    let scene = Scene::new();
    let repo = repository(&scene, "mine");
    let fifo = scene.root.join("fifo");
    make_fifo(&fifo);
    // Longer than two looks, the hook waits at a FIFO of its own, git for the hook, and git at a pipe for its filter.
    let lines = "(sleep 1; echo x > 'FIFO') & read line < 'FIFO'";
    script(
        &repo.join(".git/hooks/pre-commit"),
        &lines.replace("FIFO", &fifo.display().to_string()),
    );
    put(&repo, ".gitattributes", "f filter=slow\n");
    scene.git(&repo, &["config", "filter.slow.clean", "sleep 1; cat"]);
    let keys = format!("git: {{ trusted: [mine], {TIMEOUT} }}");
    scene.daemon(&keys, json!({}), async |caller| {
        caller.ok("git.commit", &repo, json!({ "message": "x", "all": true })).await;
    });
}
