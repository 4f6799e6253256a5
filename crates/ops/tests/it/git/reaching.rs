//! Files outside of the root that a configuration names: those of the repository are not read, those of the owner are.

use super::scene::{Scene, put};
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn a_configuration_includes_small_files_below_the_root_and_no_others() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let outside = scene.outside.join("kept").display().to_string();
    put(&repo, "more", "[user]\n\tname = Included\n");
    scene.daemon("", json!({}), async |caller| {
        for (name, value) in [
            ("include.path", outside.as_str()),
            ("include.path", "~/anything"),
            ("include.path", "~root/anything"),
            ("include.path", "/proc/self/environ"),
            ("includeIf.gitdir:/nowhere/.path", &outside),
            ("core.excludesFile", &outside),
            ("core.attributesFile", "/dev/zero"),
            ("mailmap.file", "~/mailmap"),
            ("log.newFile", &outside),
            ("diff.x.skipList", &outside),
            ("core.newTemplate", "/etc/passwd"),
        ] {
            fs::write(scene.home.join("mailmap"), "x").unwrap();
            fs::write(scene.home.join("anything"), "[a]\nb = c\n").unwrap();
            scene.plain(&repo, &["config", name, value]);
            let (code, why) = caller.refused("git.status", &repo, json!({})).await;
            assert_eq!(code, Code::Forbidden, "{name} {value}: {why}");
            assert!(!why.contains("kept\n"), "{why}");
            scene.plain(&repo, &["config", "--no-includes", "--unset-all", name]);
            let config = fs::read_to_string(repo.join(".git/config")).unwrap();
            assert!(!config.contains(value), "{config}");
        }
        scene.plain(&repo, &["config", "include.path", "../more"]);
        put(&repo, "f", "22\n");
        let made = caller.ok("git.commit", &repo, json!({ "message": "m", "paths": ["f"] })).await;
        assert_eq!(made["commit"]["author"], "Included", "{made}");
    });
}

/// Without the second line of defence: the file is not read, and its lines are not reported.
#[test]
fn a_list_of_revisions_to_ignore_is_not_read() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let outside = scene.outside.join("kept").display().to_string();
    scene.daemon("", json!({}), async |caller| {
        caller.0.engine.without_git_fence();
        for value in [&*outside, "f", "/etc/passwd"] {
            scene.git(&repo, &["config", "blame.ignoreRevsFile", value]);
            let told = scene.plain(&repo, &["blame", "f"]);
            assert!(!told.status.success(), "git reads it: {value}");
            let blame = caller.ok("git.blame", &repo, json!({ "path": "f" })).await;
            assert!(!blame.to_string().contains("kept"), "{value}: {blame}");
        }
    });
}

#[test]
fn a_template_is_not_read_into_the_repository() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    scene.plain(&repo, &["merge", "other"]);
    fs::remove_file(repo.join(".git/MERGE_MSG")).unwrap();
    let template = scene.outside.join("kept").display().to_string();
    scene.git(&repo, &["config", "commit.template", &template]);
    scene.daemon("", json!({}), async |caller| {
        for path in ["f", "gone"] {
            caller.ok("git.resolve", &repo, json!({ "action": "ours", "path": path })).await;
        }
        let going = json!({ "action": "continue", "repo": repo });
        let _ = caller.call("git.resolve", going).await;
        let message = fs::read_to_string(repo.join(".git/COMMIT_EDITMSG")).unwrap_or_default();
        assert!(!message.contains("kept"), "{message}");
    });
}

#[test]
fn what_the_owner_includes_is_read_wherever_it_is() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    let dots = scene.home.parent().unwrap().join("dots");
    put(
        &dots,
        "git",
        "[user]\n\tname = Included\n\temail = i@x\n[core]\n\texcludesFile = ~/left-out\n",
    );
    put(&dots, "left-out", "*.o\n");
    put(&dots, "empty", "");
    symlink(dots.join("left-out"), scene.home.join("left-out")).unwrap();
    let included = format!(
        "[include]\n\tpath = {0}/git\n\tpath = {0}/empty\n[includeIf \"gitdir:{1}/\"]\n\tpath = more\n",
        dots.display(),
        scene.root.display()
    );
    put(&dots, "gitconfig", &included);
    fs::remove_file(scene.home.join(".gitconfig")).unwrap();
    symlink(dots.join("gitconfig"), scene.home.join(".gitconfig")).unwrap();
    put(&scene.home, "more", "[user]\n\temail = more@x\n");
    put(&dots, "more", "[user]\n\temail = more@x\n");
    put(&repo, "a.o", "");
    put(&repo, "f", "22\n");
    scene.daemon("", json!({}), async |caller| {
        let made = caller.ok("git.commit", &repo, json!({ "message": "m", "all": true })).await;
        let who = (made["commit"]["author"].as_str(), made["commit"]["email"].as_str());
        assert_eq!(who, (Some("Included"), Some("more@x")), "{made}");
        let status = caller.ok("git.status", &repo, json!({})).await;
        assert_eq!(status["clean"], true, "{status}");
    });
}

#[test]
fn an_owner_without_a_home_has_no_configuration() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n")]);
    put(&repo, "f", "22\n");
    let nowhere = json!({ "HOME": "/dev/null", "XDG_CONFIG_HOME": "/dev/null" });
    scene.daemon("", nowhere, async |caller| {
        let status = caller.ok("git.status", &repo, json!({})).await;
        assert_eq!(status["entries"].as_array().map(Vec::len), Some(1), "{status}");
    });
}
