//! Merges and rebases that do not fit, settled file by file.

use super::scene::{Scene, put};
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;

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
