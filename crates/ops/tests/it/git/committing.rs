//! Commits next to other users of the repository, and their content.

use super::scene::{Scene, copy, put};
use super::trusted::until;
use super::vectors::script;
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn names(repo: &Path) -> Vec<String> {
    let entries = fs::read_dir(repo.join(".git")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Checks that nothing is staged, changed or left behind, and that the index is not locked.
#[track_caller]
fn check_clean(scene: &Scene, repo: &Path, what: &str) {
    assert_eq!(scene.git(repo, &["status", "--porcelain"]), "", "{what}");
    let left: Vec<String> = names(repo)
        .into_iter()
        .filter(|name| name.contains("proctor") || name.ends_with(".lock"))
        .collect();
    assert_eq!(left, [""; 0], "{what}");
}

#[test]
fn nobody_else_has_the_index_until_a_commit_is_in_it() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n"), ("g", "1\n")]);
    let take = "(set -C; : > .git/index.lock) 2> .git/said && echo taken > .git/said; exit 0";
    script(&repo.join(".git/hooks/pre-commit"), take);
    scene.daemon("git: { trusted: [app] }", json!({}), async |caller| {
        for input in [json!({ "paths": ["f"] }), json!({ "all": true })] {
            let mut commit = input.clone();
            commit["message"] = json!("m");
            put(&repo, "f", &format!("{input}\n"));
            assert_eq!(caller.ok("git.commit", &repo, commit).await["files"], 1);
            let said = fs::read_to_string(repo.join(".git/said")).unwrap();
            assert!(said.contains("cannot create .git/index.lock"), "{input}: {said}");
            check_clean(&scene, &repo, &input.to_string());
        }
    });
}

/// As in plain git: a named file is committed, unless it is excluded from the work tree.
#[test]
fn a_file_that_is_named_is_committed_although_git_was_told_not_to_look_at_it() {
    let scene = Scene::new();
    let files = ["f", "g", "gone", "sparse"].map(|name| (name, "1\n"));
    let repo = scene.repository("app", &files);
    for (flag, name) in
        [("--assume-unchanged", "f"), ("--assume-unchanged", "gone"), ("--skip-worktree", "sparse")]
    {
        scene.git(&repo, &["update-index", flag, name]);
    }
    scene.daemon("", json!({}), async |caller| {
        let commit = async |paths: &[&str]| {
            let input = json!({ "message": "m", "paths": paths });
            caller.ok("git.commit", &repo, input).await["files"].clone()
        };
        assert_eq!(commit(&["f"]).await, json!(null), "it is as it was");
        for name in ["f", "g", "sparse"] {
            put(&repo, name, "2\n");
        }
        fs::remove_file(repo.join("gone")).unwrap();
        assert_eq!(commit(&["g", "f"]).await, json!(2));
        assert_eq!(scene.git(&repo, &["show", "HEAD:f"]), "2");
        assert_eq!(commit(&["gone"]).await, json!(1));
        assert_eq!(commit(&["sparse"]).await, json!(null));
        assert_eq!(scene.git(&repo, &["ls-files"]), "f\ng\nsparse");
        check_clean(&scene, &repo, "all that was named");
    });
}

#[test]
fn a_commit_waits_for_somebody_at_work_and_is_made_or_refused() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let lock = repo.join(".git/index.lock");
    scene.daemon("", json!({}), async |caller| {
        let (over, held) = (Arc::new(AtomicBool::new(false)), lock.clone());
        let stop = Arc::clone(&over);
        // Like an editor that polls for changes.
        let editor = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if fs::File::create_new(&held).is_ok() {
                    std::thread::yield_now();
                    fs::remove_file(&held).unwrap();
                }
                std::thread::yield_now();
            }
        });
        for number in 0..4 {
            put(&repo, "f", &format!("{number}\n"));
            let which = if number % 2 == 0 { json!(["f"]) } else { json!([]) };
            let commit = json!({ "message": "m", "paths": which, "all": number % 2 == 1 });
            let made = caller.ok("git.commit", &repo, commit).await;
            assert_eq!(made["files"], 1, "{number}");
        }
        over.store(true, Ordering::Relaxed);
        editor.join().unwrap();
        check_clean(&scene, &repo, "among others");

        fs::write(&lock, "").unwrap();
        put(&repo, "f", "last\n");
        let before = scene.git(&repo, &["rev-parse", "HEAD"]);
        let commit = json!({ "message": "m", "paths": ["f"] });
        let (code, why) = caller.refused("git.commit", &repo, commit).await;
        assert_eq!((code, why.contains("if no git runs there, remove it")), (Code::Conflict, true));
        assert!(lock.exists(), "it is somebody else's");
        assert_eq!(scene.git(&repo, &["rev-parse", "HEAD"]), before);
        let (_, same) = caller.refused("git.add", &repo, json!({ "paths": ["f"] })).await;
        assert_eq!(same, why);
    });
}

#[test]
fn a_lock_that_a_killed_daemon_left_is_in_nobody_s_way() {
    let scene = Scene::new();
    let [first, second] = ["first", "second"].map(|name| scene.repository(name, &[("f", "1\n")]));
    let notes = scene.place.home.held_indexes();
    fs::create_dir_all(&notes).unwrap();
    fs::write(notes.join("1"), first.join(".git").as_os_str().as_encoded_bytes()).unwrap();
    for repo in [&first, &second] {
        fs::write(repo.join(".git/index.lock"), "proctor\n").unwrap();
        fs::write(repo.join(".git/proctor-next"), "half").unwrap();
        put(repo, "f", "2\n");
    }
    scene.daemon("", json!({}), async |caller| {
        caller.ok("git.add", &second, json!({ "paths": ["f"] })).await;
        caller.ok("git.commit", &second, json!({ "message": "m" })).await;
        check_clean(&scene, &second, "by the next change");
        until("the daemon has tidied up", || !first.join(".git/index.lock").exists()).await;
        scene.git(&first, &["commit", "-q", "-a", "-m", "m"]);
        check_clean(&scene, &first, "by the next daemon");
    });
}

#[test]
fn a_commit_is_made_although_a_hook_behind_it_does_not_end() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    script(&repo.join(".git/hooks/post-commit"), "exec sleep 1000");
    put(&repo, "f", "2\n");
    scene.daemon("git: { trusted: [app], timeout: 2 }", json!({}), async |caller| {
        let commit = json!({ "message": "second", "paths": ["f"] });
        let made = caller.ok("git.commit", &repo, commit).await;
        assert_eq!(made["commit"]["subject"], "second");
        check_clean(&scene, &repo, "its index is that of the commit");
    });
}

/// A hook that a cancelled commit has to end, and the state afterwards.
#[test]
fn a_commit_that_is_cancelled_is_made_with_its_index_or_not_at_all() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let reached = repo.join(".git/reached");
    scene.daemon("git: { trusted: [app] }", json!({}), async |caller| {
        for (hook, count) in [("pre-commit", "1"), ("post-commit", "2"), ("post-commit", "3")] {
            let file = repo.join(".git/hooks").join(hook);
            script(&file, "touch .git/reached; exec sleep 1000");
            put(&repo, "f", &format!("{hook} {count}\n"));
            let which = if count == "2" { json!(["f"]) } else { json!([]) };
            let commit =
                json!({ "message": "m", "paths": which, "all": count != "2", "background": true });
            let begun = caller.ok("git.commit", &repo, commit).await;
            until("its hook runs", || reached.exists()).await;
            let ended = caller.call("operation.cancel", begun).await.unwrap();
            assert_eq!(ended["state"], "cancelled", "{ended}");
            until("nobody has the index", || !repo.join(".git/index.lock").exists()).await;
            assert_eq!(scene.git(&repo, &["rev-list", "--count", "HEAD"]), count, "{hook}");
            if hook == "pre-commit" {
                assert_eq!(scene.git(&repo, &["status", "--porcelain"]), " M f");
                scene.git(&repo, &["restore", "f"]);
            }
            check_clean(&scene, &repo, hook);
            fs::remove_file(&file).unwrap();
            fs::remove_file(&reached).unwrap();
        }
    });
}

#[test]
fn what_was_staged_of_files_in_a_commit_is_as_they_are() {
    let scene = Scene::new();
    let plain = scene.repository("plain", &[("a", "1\n"), ("f", "1\n"), ("g", "1\n")]);
    for (name, text) in [("f", "wrong\n"), ("n", "x\n"), ("g", "2\n")] {
        put(&plain, name, text);
    }
    scene.git(&plain, &["add", "-A"]);
    put(&plain, "f", "1\n");
    fs::remove_file(plain.join("n")).unwrap();
    put(&plain, "a", "2\n");
    let ours = scene.root.join("ours");
    copy(&plain, &ours);
    scene.git(&plain, &["commit", "-q", "-m", "m", "a", "f", "n"]);
    scene.daemon("", json!({}), async |caller| {
        let commit = json!({ "message": "m", "paths": ["a", "f", "n"] });
        assert_eq!(caller.ok("git.commit", &ours, commit).await["files"], 1);
    });
    for words in [&["status", "--porcelain"][..], &["ls-files", "-s"], &["ls-tree", "HEAD"]] {
        assert_eq!(scene.git(&ours, words), scene.git(&plain, words), "{words:?}");
    }
    assert_eq!(scene.git(&ours, &["status", "--porcelain"]), "M  g");
}

#[test]
fn what_a_hook_stages_or_amends_in_a_commit_of_files_stays() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n"), ("g", "1\n"), ("gone", "gone\n")]);
    put(&repo, "g", "2\n");
    scene.git(&repo, &["add", "g"]);
    put(&repo, "f", "2\n");
    let amend = "echo 1 > amended; git add amended; git commit -q --amend --no-edit";
    let stage = "echo 1 > staged; git add staged; git rm -q gone";
    let once = format!("[ -e .git/once ] && exit; touch .git/once; {amend}; {stage}");
    script(&repo.join(".git/hooks/post-commit"), &once);
    scene.daemon("git: { trusted: [app] }", json!({}), async |caller| {
        let commit = json!({ "message": "m", "paths": ["f"] });
        assert_eq!(caller.ok("git.commit", &repo, commit).await["files"], 2);
    });
    let changed = scene.git(&repo, &["diff", "--name-only", "HEAD~1", "HEAD"]);
    assert_eq!(changed, "amended\nf");
    let staged = scene.git(&repo, &["status", "--porcelain"]);
    assert_eq!(staged, "M  g\nD  gone\nA  staged");
}

#[test]
fn only_a_merge_is_committed_without_a_change() {
    let scene = Scene::new();
    let bisected = scene.repository("bisected", &[("f", "1\n")]);
    for text in ["2\n", "3\n", "4\n"] {
        put(&bisected, "f", text);
        scene.git(&bisected, &["commit", "-q", "-a", "-m", text]);
    }
    let edited = scene.root.join("edited");
    copy(&bisected, &edited);
    scene.git(&bisected, &["bisect", "start", "HEAD", "HEAD~3"]);
    let edit = ["-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "HEAD~2"];
    scene.git(&edited, &edit);
    let merged = scene.clashing("merged");
    scene.git(&merged, &["merge", "-q", "--no-commit", "-s", "ours", "other"]);
    scene.daemon("", json!({}), async |caller| {
        for (repo, kind) in [(&bisected, "bisect"), (&edited, "rebase")] {
            let before = scene.git(repo, &["rev-parse", "HEAD"]);
            assert_eq!(caller.ok("git.status", repo, json!({})).await["state"]["kind"], kind);
            let made = caller.ok("git.commit", repo, json!({ "message": "m" })).await;
            assert_eq!(made, json!({ "committed": false }), "{kind}");
            assert_eq!(scene.git(repo, &["rev-parse", "HEAD"]), before, "{kind}");
        }
        let made = caller.ok("git.commit", &merged, json!({ "message": "m" })).await;
        assert_eq!((&made["committed"], &made["files"]), (&json!(true), &json!(0)));
        assert_eq!(made["commit"]["parents"].as_array().unwrap().len(), 2);
    });
}

/// A file that became a folder, or vice versa, is added and committed as in git itself.
#[test]
fn a_file_may_become_a_folder_and_a_folder_a_file() {
    let scene = Scene::new();
    let model = scene.repository("model", &[("file", "1\n"), ("folder/a", "1\n"), ("z", "1\n")]);
    fs::remove_file(model.join("file")).unwrap();
    put(&model, "file/new", "2\n");
    fs::remove_dir_all(model.join("folder")).unwrap();
    put(&model, "folder", "2\n");
    let look = |repo: &Path| {
        let stored = scene.git(repo, &["ls-tree", "-r", "HEAD"]);
        (stored, scene.git(repo, &["ls-files", "-s"]), scene.git(repo, &["status", "--short"]))
    };
    scene.daemon("", json!({}), async |caller| {
        for path in ["file/new", "file", "folder", "folder/a", "."] {
            let [plain, ours, at_once] = ["plain", "ours", "at_once"].map(|name| {
                let repo = scene.root.join(format!("{name}-{}", path.replace('/', "-")));
                copy(&model, &repo);
                repo
            });
            scene.git(&plain, &["add", "--", path]);
            caller.ok("git.add", &ours, json!({ "paths": [path] })).await;
            assert_eq!(look(&ours), look(&plain), "{path}");
            // Nothing else is staged; with the path, git itself does not handle some of these.
            scene.git(&plain, &["commit", "-q", "-m", "m"]);
            let commit = json!({ "message": "m", "paths": [path] });
            caller.ok("git.commit", &ours, commit.clone()).await;
            assert_eq!(look(&ours), look(&plain), "{path}");
            caller.ok("git.commit", &at_once, commit).await;
            assert_eq!(look(&at_once), look(&plain), "{path} without adding it first");
        }
    });
}

#[test]
fn a_repository_inside_is_left_out_of_a_commit_and_named() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    scene.repository("app/nested", &[("inner", "1\n")]);
    scene.daemon("", json!({}), async |caller| {
        let commit = json!({ "message": "m", "paths": ["nested/"] });
        let made = caller.ok("git.commit", &repo, commit).await;
        assert_eq!(made, json!({ "committed": false, "left_out": ["nested/"] }));
        put(&repo, "f", "2\n");
        let made = caller.ok("git.commit", &repo, json!({ "message": "m", "paths": ["."] })).await;
        assert_eq!((&made["files"], &made["left_out"]), (&json!(1), &json!(["nested/"])));
    });
}

#[test]
fn a_commit_of_somebody_else_is_not_taken_for_one_that_was_refused() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let theirs = "git commit -q --no-verify --allow-empty -m theirs; echo refused >&2; exit 1";
    script(&repo.join(".git/hooks/pre-commit"), theirs);
    put(&repo, "g", "2\n");
    scene.git(&repo, &["add", "g"]);
    scene.daemon("git: { trusted: [app] }", json!({}), async |caller| {
        let (_, why) = caller.refused("git.commit", &repo, json!({ "message": "ours" })).await;
        assert!(why.contains("refused"), "{why}");
    });
    assert_eq!(scene.git(&repo, &["log", "-1", "--format=%s"]), "theirs");
}
