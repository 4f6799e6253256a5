//! Merges and rebases with conflicts, resolved file by file.

use super::scene::{Scene, put};
use proctor_ops::error::Code;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[test]
fn a_merge_is_settled_file_by_file_and_finished() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    scene.plain(&repo, &["merge", "other"]);
    scene.daemon("", json!({}), async |caller| {
        let status = caller.ok("git.status", &repo, json!({})).await;
        assert_eq!(status["state"]["kind"], "merge");
        assert_eq!(status["entries"][0]["conflict"], "both_modified");
        let list = caller.ok("git.resolve", &repo, json!({})).await;
        let names: Vec<_> =
            list["conflicts"].as_array().unwrap().iter().map(|it| &it["path"]).collect();
        assert_eq!(names, ["f", "gone"]);
        assert!(list["conflicts"][1].get("ours").is_none(), "our side deleted it");
        let (code, _) = caller.refused("git.commit", &repo, json!({ "message": "x" })).await;
        assert_eq!(code, Code::Conflict);
        let content = json!({ "action": "done", "path": "f", "content": "1\nboth\n3\n" });
        let left = caller.ok("git.resolve", &repo, content).await;
        assert_eq!(left["conflicts"].as_array().unwrap().len(), 1);
        assert_eq!(fs::read_to_string(repo.join("f")).unwrap(), "1\nboth\n3\n");
        let early = caller.ok("git.resolve", &repo, json!({ "action": "continue" })).await;
        assert_eq!((&early["stopped"], &early["conflicts"]), (&json!(true), &left["conflicts"]));
        caller.ok("git.resolve", &repo, json!({ "action": "theirs", "path": "gone" })).await;
        let done = caller.ok("git.resolve", &repo, json!({ "action": "continue" })).await;
        assert_eq!(done, json!({ "conflicts": [] }));
        assert_eq!(scene.git(&repo, &["log", "-1", "--format=%B"]), "Merge branch 'other'");
        assert_eq!(scene.git(&repo, &["show", "HEAD:gone"]), "changed");
        assert_eq!(
            caller.refused("git.resolve", &repo, json!({ "action": "continue" })).await.0,
            Code::NotFound
        );
        assert_eq!(
            caller.refused("git.resolve", &repo, json!({ "action": "ours" })).await.0,
            Code::BadInput
        );
    });
}

#[test]
fn a_side_that_deleted_a_file_can_be_taken() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    scene.plain(&repo, &["merge", "other"]);
    scene.daemon("", json!({}), async |caller| {
        caller.ok("git.resolve", &repo, json!({ "action": "ours", "path": "gone" })).await;
        assert!(!repo.join("gone").exists());
        caller.ok("git.resolve", &repo, json!({ "action": "ours", "path": "f" })).await;
        assert_eq!(fs::read_to_string(repo.join("f")).unwrap(), "1\nours\n3\n");
        let (code, _) =
            caller.refused("git.resolve", &repo, json!({ "action": "ours", "path": "kept" })).await;
        assert_eq!(code, Code::NotFound);
        caller.ok("git.resolve", &repo, json!({ "action": "abort" })).await;
        assert_eq!(caller.ok("git.status", &repo, json!({})).await["clean"], true);
    });
}

#[test]
fn differences_are_told_while_files_have_conflicts() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    scene.plain(&repo, &["merge", "other"]);
    put(&repo, "kept", "changed\n");
    scene.daemon("", json!({}), async |caller| {
        for stat in [false, true] {
            let diff = caller.ok("git.diff", &repo, json!({ "stat": stat })).await;
            let files: Vec<_> = diff["files"].as_array().unwrap().iter().collect();
            let told: Vec<_> = files.iter().map(|it| (&it["path"], &it["change"])).collect();
            let [f, gone, kept] = ["f", "gone", "kept"].map(|name| json!(name));
            let [conflict, modified] = ["conflict", "modified"].map(|name| json!(name));
            assert_eq!(told, [(&f, &conflict), (&gone, &conflict), (&kept, &modified)]);
        }
        let whole = caller.ok("git.diff", &repo, json!({})).await;
        let expected = scene.git(&repo, &["diff"]) + "\n";
        assert!(expected.contains("\n@@@ -1,3 -1,3 +1,7 @@@\n"), "{expected}");
        assert_eq!(whole["diff"], expected);
        let page = caller.ok("git.diff", &repo, json!({ "max_bytes": 256 })).await;
        let rest = json!({ "cursor": page["cursor"] });
        let rest = caller.ok("git.diff", &repo, rest).await;
        let [begin, end] = [&page, &rest].map(|page| page["diff"].as_str().unwrap());
        assert_eq!(format!("{begin}{end}"), expected);
        let kept = caller.ok("git.diff", &repo, json!({ "paths": ["kept"] })).await;
        assert!(kept["diff"].as_str().unwrap().ends_with("+changed\n"));
    });
}

#[test]
fn a_rebase_is_settled_and_goes_on() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    scene.git(&repo, &["switch", "-q", "other"]);
    put(&repo, "more", "m\n");
    scene.git(&repo, &["add", "more"]);
    scene.git(&repo, &["commit", "-q", "-m", "more"]);
    scene.plain(&repo, &["rebase", "main"]);
    scene.daemon("", json!({}), async |caller| {
        let status = caller.ok("git.status", &repo, json!({})).await;
        let state = json!({ "kind": "rebase", "branch": "other", "step": 1, "steps": 2 });
        assert_eq!((&status["state"], status.get("branch")), (&state, None));
        let (code, _) =
            caller.refused("git.commit", &repo, json!({ "message": "x", "paths": ["kept"] })).await;
        assert_eq!(code, Code::Conflict);
        for path in ["f", "gone"] {
            caller.ok("git.resolve", &repo, json!({ "action": "theirs", "path": path })).await;
        }
        let done = caller.ok("git.resolve", &repo, json!({ "action": "continue" })).await;
        assert_eq!(done, json!({ "conflicts": [] }));
        assert_eq!(scene.git(&repo, &["log", "--format=%s"]), "more\ntheirs\nours\nfirst");
        assert_eq!(scene.git(&repo, &["symbolic-ref", "--short", "HEAD"]), "other");
    });
}

#[test]
fn a_cherry_pick_goes_on_or_back() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    scene.plain(&repo, &["cherry-pick", "other"]);
    scene.daemon("", json!({}), async |caller| {
        caller.ok("git.resolve", &repo, json!({ "action": "abort" })).await;
        assert_eq!(scene.git(&repo, &["log", "--format=%s"]), "ours\nfirst");
        scene.plain(&repo, &["cherry-pick", "other"]);
        let list = caller.ok("git.resolve", &repo, json!({})).await;
        assert_eq!(list["state"]["kind"], "cherry_pick");
        for path in ["f", "gone"] {
            caller.ok("git.resolve", &repo, json!({ "action": "theirs", "path": path })).await;
        }
        caller.ok("git.resolve", &repo, json!({ "action": "continue" })).await;
        assert_eq!(scene.git(&repo, &["log", "--format=%s"]), "theirs\nours\nfirst");
    });
}

/// Starts a cherry-pick of two commits; the first has a conflict.
fn picking(scene: &Scene, repo: &Path) {
    scene.git(repo, &["switch", "-q", "other"]);
    put(repo, "more", "m\n");
    scene.git(repo, &["add", "more"]);
    scene.git(repo, &["commit", "-q", "-m", "more"]);
    scene.git(repo, &["switch", "-q", "main"]);
    scene.plain(repo, &["cherry-pick", "main..other"]);
}

#[test]
fn what_is_left_of_a_cherry_pick_goes_on_after_a_commit_by_hand() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    picking(&scene, &repo);
    scene.daemon("", json!({}), async |caller| {
        for path in ["f", "gone"] {
            caller.ok("git.resolve", &repo, json!({ "action": "theirs", "path": path })).await;
        }
        caller.ok("git.commit", &repo, json!({ "message": "by hand" })).await;
        let status = caller.ok("git.status", &repo, json!({})).await;
        assert_eq!(status["state"]["kind"], "cherry_pick");
        put(&repo, "kept", "changed\n");
        let part = json!({ "message": "x", "paths": ["kept"] });
        assert_eq!(caller.refused("git.commit", &repo, part).await.0, Code::Conflict);
        caller.ok("git.restore", &repo, json!({ "paths": ["kept"] })).await;
        let done = caller.ok("git.resolve", &repo, json!({ "action": "continue" })).await;
        assert_eq!(done, json!({ "conflicts": [] }));
        assert_eq!(scene.git(&repo, &["log", "--format=%s"]), "more\nby hand\nours\nfirst");
    });
}

#[test]
fn what_is_under_way_is_seen_where_references_are_in_tables() {
    let scene = Scene::new();
    let files = scene.clashing("files");
    picking(&scene, &files);
    scene.git(&files, &["cherry-pick", "--abort"]);
    if !scene.plain(&files, &["refs", "migrate", "--ref-format=reftable"]).status.success() {
        return;
    }
    scene.daemon("", json!({}), async |caller| {
        for (words, kind) in [
            (["cherry-pick", "other~1"].as_slice(), "cherry_pick"),
            (&["revert", "--no-commit", "main"], "revert"),
            (&["merge", "other"], "merge"),
        ] {
            scene.plain(&files, words);
            let listed = caller.ok("git.resolve", &files, json!({})).await;
            assert_eq!(listed["state"]["kind"], kind);
            let part = json!({ "message": "x", "paths": ["kept"] });
            assert_eq!(caller.refused("git.commit", &files, part).await.0, Code::Conflict);
            caller.ok("git.resolve", &files, json!({ "action": "abort" })).await;
            assert_eq!(caller.ok("git.resolve", &files, json!({})).await.get("state"), None);
        }
    });
}

#[test]
fn a_side_of_a_submodule_is_its_commit_and_that_of_a_file_its_bytes() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let sub = scene.repository("app/sub", &[("s", "1\n")]);
    let [base, theirs, ours] = ["base", "theirs", "ours"].map(|side| {
        if side != "base" {
            scene.git(&sub, &["switch", "-q", "-c", side, "main"]);
            scene.git(&sub, &["commit", "-q", "--allow-empty", "-m", side]);
        }
        scene.git(&sub, &["rev-parse", "HEAD"])
    });
    for (side, from, commit, text) in [
        ("base", "main", &base, "1\n"),
        ("theirs", "base", &theirs, "2\n"),
        ("ours", "base", &ours, "3\r\n"),
    ] {
        scene.git(&repo, &["switch", "-q", "-c", side, from]);
        put(&repo, "f", text);
        scene.git(&repo, &["add", "f"]);
        scene.git(&repo, &["update-index", "--add", "--cacheinfo", "160000", commit, "sub"]);
        scene.git(&repo, &["commit", "-q", "-m", side]);
    }
    let bytes = scene.git(&repo, &["rev-parse", "HEAD:f"]);
    scene.plain(&repo, &["merge", "theirs"]);
    scene.git(&repo, &["config", "core.autocrlf", "input"]);
    scene.daemon("", json!({}), async |caller| {
        for (action, path, expected) in [
            ("theirs", "sub", format!("160000 {theirs} 0\tsub")),
            ("ours", "f", format!("100644 {bytes} 0\tf")),
        ] {
            caller.ok("git.resolve", &repo, json!({ "action": action, "path": path })).await;
            assert_eq!(scene.git(&repo, &["ls-files", "-s", path]), expected);
        }
        assert_eq!(scene.git(&sub, &["rev-parse", "HEAD"]), ours, "it is left alone");
        assert_eq!(fs::read(repo.join("f")).unwrap(), b"3\r\n");
    });
}

#[test]
fn a_file_whose_name_is_no_text_is_listed_and_settled() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[]);
    let (name, base64) = (OsStr::from_bytes(b"b\xff"), "Yv8=");
    for (branch, from, text) in
        [("base", "main", "b"), ("other", "base", "o"), ("ours", "base", "u")]
    {
        scene.git(&repo, &["switch", "-q", "-c", branch, from]);
        fs::write(repo.join(name), text).unwrap();
        scene.git(&repo, &["add", "-A"]);
        scene.git(&repo, &["commit", "-q", "-m", branch]);
    }
    let read = || fs::read_to_string(repo.join(name)).unwrap();
    scene.daemon("", json!({}), async |caller| {
        for (input, expected) in [
            (json!({ "action": "theirs" }), "o"),
            (json!({ "action": "done", "content": "both" }), "both"),
        ] {
            scene.plain(&repo, &["merge", "other"]);
            let listed = caller.ok("git.resolve", &repo, json!({})).await;
            assert_eq!(listed["conflicts"][0]["bytes"], base64);
            let mut input = input;
            input["bytes"] = json!(base64);
            assert_eq!(caller.ok("git.resolve", &repo, input).await["conflicts"], json!([]));
            assert_eq!(read(), expected);
            caller.ok("git.resolve", &repo, json!({ "action": "abort" })).await;
        }
        for bad in [json!({ "bytes": "?" }), json!({ "bytes": base64, "path": "x" })] {
            let mut input = bad;
            input["action"] = json!("ours");
            assert_eq!(caller.refused("git.resolve", &repo, input).await.0, Code::BadInput);
        }
    });
}
