//! Folders replaced by links: the link targets are neither read, nor removed, nor committed.

use super::scene::{Scene, put};
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Replaces a folder with a link.
fn replace(repo: &Path, folder: &str, target: &Path) {
    fs::remove_dir_all(repo.join(folder)).unwrap();
    symlink(target, repo.join(folder)).unwrap();
}

#[test]
fn who_wrote_a_file_is_not_asked_of_what_a_link_leads_to() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("d/kept", "mine\n"), ("f", "1\n2\n")]);
    replace(&repo, "d", &scene.outside);
    put(&repo, "f", "1\nnew\n");
    symlink("f", repo.join("l")).unwrap();
    scene.git(&repo, &["add", "l"]);
    scene.daemon("", json!({}), async |caller| {
        for path in ["d/kept", "l"] {
            let (code, why) = caller.refused("git.blame", &repo, json!({ "path": path })).await;
            assert_eq!((code, why.contains("link")), (Code::BadInput, true), "{why}");
        }
        let then = json!({ "path": "d/kept", "rev": "HEAD" });
        let then = caller.ok("git.blame", &repo, then).await;
        assert_eq!(then["runs"][0]["lines"], json!(["mine"]));
        let now = caller.ok("git.blame", &repo, json!({ "path": "f" })).await;
        let [first, second] = &now["runs"].as_array().unwrap()[..] else { panic!("{now}") };
        assert_eq!((&first["lines"], first["author"].as_str()), (&json!(["1"]), Some("Owner")));
        assert_eq!((&second["lines"], second.get("hash")), (&json!(["new"]), None));
        let about = (second["author"].as_str(), second["subject"].as_str());
        assert_eq!(about, (Some("Not Committed Yet"), Some("Version of f from f")));
        put(&repo, "f", "");
        let empty = caller.ok("git.blame", &repo, json!({ "path": "f" })).await;
        assert_eq!(empty["runs"], json!([]));
        let (code, why) = caller.refused("git.blame", &repo, json!({ "path": "none" })).await;
        assert_eq!(code, Code::NotFound, "{why}");
    });
}

#[test]
fn a_side_that_deleted_a_file_deletes_no_other() {
    let scene = Scene::new();
    let files = [("d/f", "1\n"), ("e/f", "1\n"), (".gitignore", "data\n")];
    let repo = scene.repository("app", &files);
    scene.git(&repo, &["switch", "-q", "-c", "other"]);
    scene.git(&repo, &["rm", "-q", "-r", "d", "e"]);
    scene.git(&repo, &["commit", "-q", "-m", "theirs"]);
    scene.git(&repo, &["switch", "-q", "main"]);
    put(&repo, "d/f", "ours\n");
    put(&repo, "e/f", "ours\n");
    scene.git(&repo, &["commit", "-q", "-a", "-m", "ours"]);
    scene.plain(&repo, &["merge", "other"]);
    put(&repo, "data/f", "precious\n");
    replace(&repo, "d", Path::new("data"));
    scene.daemon("", json!({}), async |caller| {
        for path in ["d/f", "e/f"] {
            caller.ok("git.resolve", &repo, json!({ "action": "theirs", "path": path })).await;
        }
    });
    assert_eq!(fs::read_to_string(repo.join("data/f")).unwrap(), "precious\n");
    assert!(!repo.join("e").exists(), "the folder is empty");
    assert_eq!(scene.git(&repo, &["ls-files"]), ".gitignore");
}

#[test]
fn a_conflict_in_a_folder_that_became_a_link_is_settled_as_deleted() {
    let scene = Scene::new();
    let files = ["done/f", "add/f", "all/f"];
    let repo = scene.repository("app", &files.map(|file| (file, "1\n")));
    scene.git(&repo, &["switch", "-q", "-c", "other"]);
    for file in files {
        put(&repo, file, "theirs\n");
    }
    scene.git(&repo, &["commit", "-q", "-a", "-m", "theirs"]);
    scene.git(&repo, &["switch", "-q", "main"]);
    for file in files {
        put(&repo, file, "ours\n");
    }
    scene.git(&repo, &["commit", "-q", "-a", "-m", "ours"]);
    scene.plain(&repo, &["merge", "other"]);
    put(&scene.outside, "f", "precious\n");
    for folder in ["done", "add", "all"] {
        replace(&repo, folder, &scene.outside);
    }
    scene.daemon("", json!({}), async |caller| {
        caller.ok("git.resolve", &repo, json!({ "action": "done", "path": "done/f" })).await;
        caller.ok("git.add", &repo, json!({ "paths": ["add/f"] })).await;
        caller.ok("git.add", &repo, json!({ "all": true })).await;
    });
    assert_eq!(scene.git(&repo, &["ls-files"]), "add\nall\ndone");
    assert_eq!(fs::read_to_string(scene.outside.join("f")).unwrap(), "precious\n");
}

#[test]
fn a_folder_that_became_a_link_is_staged_as_git_would() {
    let scene = Scene::new();
    let repos = ["one", "two"].map(|name| {
        let repo = scene.repository(name, &[("d/x", "1\n2\n3\n"), ("kept", "k\n")]);
        put(&repo, "e/x", "1\n2\n3\n");
        replace(&repo, "d", Path::new("e"));
        repo
    });
    let [one, two] = &repos;
    scene.git(one, &["add", "--all"]);
    scene.daemon("", json!({}), async |caller| {
        let added = caller.ok("git.add", two, json!({ "all": true })).await;
        assert_eq!(added["added"], json!(["d/x", "d", "e/x"]));
    });
    let index = ["ls-files", "--stage"];
    assert_eq!(scene.git(two, &index), scene.git(one, &index));
}

#[test]
fn what_a_link_leads_to_is_not_committed() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("d/kept", "mine\n"), ("f", "1\n")]);
    replace(&repo, "d", &scene.outside);
    let tree = || scene.git(&repo, &["ls-tree", "-r", "--name-only", "HEAD"]);
    scene.daemon("", json!({}), async |caller| {
        let commit = async |path: &str| {
            let request = json!({ "message": "m", "paths": [path] });
            caller.ok("git.commit", &repo, request).await["committed"].clone()
        };
        assert_eq!(commit("d/kept").await, json!(true));
        assert_eq!(tree(), "f");
        assert_eq!(commit("d").await, json!(true));
        assert_eq!(tree(), "d\nf", "the link itself");
        assert_eq!(commit("d").await, json!(false));
        assert_eq!(caller.ok("git.status", &repo, json!({})).await["clean"], true);
    });
    scene.check_outside("afterwards");
}
