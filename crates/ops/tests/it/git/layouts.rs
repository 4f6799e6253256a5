//! Repositories of unusual shapes that plain git supports: we support them, too, and refuse those that git refuses.

use super::scene::{Scene, put};
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// A folder of work trees around a bare repository.
fn bare(scene: &Scene) -> (PathBuf, PathBuf) {
    let source = scene.repository("source", &[("f", "1\n")]);
    let project = scene.root.join("project");
    fs::create_dir(&project).unwrap();
    let clone = ["clone", "-q", "--bare", source.to_str().unwrap(), ".bare"];
    scene.git(&project, &clone);
    put(&project, ".git", "gitdir: ./.bare\n");
    scene.git(&project, &["worktree", "add", "-q", "-b", "topic", "topic"]);
    let tree = project.join("topic");
    (project, tree)
}

#[test]
fn what_needs_a_work_tree_is_refused_where_there_is_none() {
    for keys in ["", "git: { trusted: [project] }"] {
        let scene = Scene::new();
        let (project, tree) = bare(&scene);
        let plain = scene.plain(&project, &["status"]);
        assert!(!plain.status.success(), "git itself refuses that");
        let before = scene.git(&project, &["rev-parse", "main", "topic"]);
        scene.daemon(keys, json!({}), async |caller| {
            for (name, input) in [
                ("git.status", json!({})),
                ("git.diff", json!({})),
                ("git.diff", json!({ "staged": true })),
                ("git.diff", json!({ "from": "main" })),
                ("git.blame", json!({ "path": "f" })),
                ("git.add", json!({ "all": true })),
                ("git.commit", json!({ "message": "m", "all": true })),
                ("git.commit", json!({ "message": "m", "paths": ["f"] })),
                ("git.restore", json!({ "paths": ["f"] })),
                ("git.branch", json!({ "action": "switch", "name": "main" })),
                ("git.stash", json!({ "action": "push" })),
                ("git.resolve", json!({})),
            ] {
                let (code, why) = caller.refused(name, &project, input).await;
                assert_eq!(code, Code::BadInput, "{name}: {why}");
                let named = format!("name one of its work trees ({})", tree.display());
                assert!(why.contains("it is bare") && why.contains(&named), "{name}: {why}");
            }
            let log = caller.ok("git.log", &project, json!({})).await;
            assert_eq!(log["commits"][0]["subject"], "first");
            caller.ok("git.show", &project, json!({ "rev": "main", "path": "f" })).await;
            caller.ok("git.diff", &project, json!({ "from": "main", "to": "topic" })).await;
            let branches = caller.ok("git.branch", &project, json!({})).await;
            assert_eq!(branches["branches"].as_array().map(Vec::len), Some(2), "{branches}");
            assert_eq!(scene.git(&project, &["rev-parse", "main", "topic"]), before);
            put(&tree, "f", "2\n");
            caller.ok("git.commit", &tree, json!({ "message": "m", "all": true })).await;
            assert_eq!(scene.git(&tree, &["status", "--short"]), "");
        });
    }
}

#[test]
fn what_is_gone_or_was_never_made_is_in_nobodys_way() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n"), ("sub/g", "1\n")]);
    put(&repo, ".git/objects/info/alternates", "/nonexistent/objects\n../../gone/objects\n");
    fs::create_dir(repo.join("sub/.git")).unwrap();
    let (plain, sub) = (scene.git(&repo.join("sub"), &["rev-parse", "HEAD"]), repo.join("sub"));
    scene.daemon("", json!({}), async |caller| {
        put(&repo, "sub/g", "2\n");
        let status = caller.ok("git.status", &sub, json!({})).await;
        assert_eq!(status["entries"][0]["path"], "sub/g", "{status}");
        let log = caller.ok("git.log", &sub, json!({})).await;
        assert_eq!(log["commits"][0]["hash"], json!(plain));
        caller.ok("git.commit", &sub, json!({ "message": "m", "all": true })).await;
        assert_eq!(scene.git(&repo, &["status", "--short"]), "");
    });
}
