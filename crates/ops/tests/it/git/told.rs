//! Responses in cases in which git itself would report little, or wait forever.

use super::scene::{Scene, put};
use super::vectors::script;
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::time::{Duration, Instant};

/// Default of `git.timeout`, which a wait for a pipe would take.
const GIT_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn a_path_is_told_as_it_was_given() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    scene.daemon("", json!({}), async |caller| {
        for (name, input) in [
            ("git.restore", json!({ "paths": ["no-such"] })),
            ("git.stash", json!({ "action": "push", "paths": ["no-such"] })),
        ] {
            let (code, why) = caller.refused(name, &repo, input).await;
            let expected = "there is no 'no-such' among the files that git knows";
            assert_eq!((code, why.as_str()), (Code::NotFound, expected), "{name}");
        }
    });
}

#[test]
fn nothing_is_put_aside_before_the_first_commit_and_that_is_told() {
    let scene = Scene::new();
    let repo = scene.root.join("empty");
    fs::create_dir(&repo).unwrap();
    scene.git(&repo, &["init", "-q"]);
    put(&repo, "f", "1\n");
    scene.git(&repo, &["add", "f"]);
    scene.daemon("", json!({}), async |caller| {
        let (code, why) = caller.refused("git.stash", &repo, json!({ "action": "push" })).await;
        assert_eq!(
            (code, why.contains("before the first commit")),
            (Code::Conflict, true),
            "{why}"
        );
    });
}

#[test]
fn a_list_of_submodules_that_is_no_file_is_not_waited_for() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let (list, pipe) = (repo.join(".gitmodules"), scene.root.join("pipe"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    put(&repo, "f", "2\n");
    scene.daemon("", json!({}), async |caller| {
        symlink(&pipe, &list).unwrap();
        let push = json!({ "action": "push" });
        for what in ["a link", "a pipe"] {
            let (code, why) = caller.refused("git.stash", &repo, push.clone()).await;
            let said = why.contains(".gitmodules: it is not a regular file");
            assert_eq!((code, said), (Code::Forbidden, true), "{what}: {why}");
            fs::remove_file(&list).unwrap();
            if what == "a link" {
                fs::rename(&pipe, &list).unwrap();
            }
        }
        caller.ok("git.stash", &repo, push).await;
    });
}

#[test]
fn a_git_that_is_gone_is_looked_for_again() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let own = scene.outside.with_file_name("bin").join("git");
    let found = Command::new("sh").args(["-c", "command -v git"]).output().unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    let install = || script(&own, &format!("exec {} \"$@\"", found.trim()));
    scene.daemon("", json!({ "PATH": own.parent() }), async |caller| {
        for _ in 0..2 {
            let (code, why) = caller.refused("git.status", &repo, json!({})).await;
            assert_eq!((code, why.as_str()), (Code::ProgramMissing, "git is not installed"));
            install();
            caller.ok("git.status", &repo, json!({})).await;
            fs::remove_file(&own).unwrap();
        }
    });
}

#[test]
fn a_pipe_that_git_would_read_is_named_and_not_waited_for() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n"), ("deep/er/g", "1\n")]);
    put(&repo, "f", "2\n");
    let read = [
        (".gitattributes", "git.diff", json!({})),
        ("deep/er/.gitignore", "git.status", json!({})),
        ("deep/.gitignore", "git.add", json!({ "all": true })),
        (".mailmap", "git.log", json!({})),
    ];
    scene.daemon("", json!({}), async |caller| {
        for (pipe, operation, input) in read {
            let path = repo.join(pipe);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            let begun = Instant::now();
            let (code, why) = caller.refused(operation, &repo, input.clone()).await;
            let said = why.contains(&format!("{pipe} is a FIFO"));
            assert_eq!((code, said), (Code::Conflict, true), "{operation} {pipe}: {why}");
            assert!(begun.elapsed() < GIT_TIMEOUT / 2, "{operation}: {:?}", begun.elapsed());
            fs::remove_file(&path).unwrap();
            if operation == "git.add" {
                let staged = scene.git(&repo, &["diff", "--cached", "--name-only"]);
                assert_eq!(staged, "", "a look at the pipe let git go on");
            }
            caller.ok(operation, &repo, input).await;
        }
        // A pipe with any other name does not concern git.
        assert!(Command::new("mkfifo").arg(repo.join("control")).status().unwrap().success());
        caller.ok("git.status", &repo, json!({})).await;
    });
}

#[test]
fn a_git_that_is_too_old_is_refused_with_the_oldest_that_is_not() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let own = scene.outside.with_file_name("bin").join("git");
    script(&own, "echo git version 2.31.8");
    scene.daemon("", json!({ "PATH": own.parent() }), async |caller| {
        let (code, why) = caller.refused("git.status", &repo, json!({})).await;
        let said = why.ends_with("is version 2.31.8; Proctor needs git 2.32 or newer");
        assert_eq!((code, said), (Code::ProgramMissing, true), "{why}");
    });
}
