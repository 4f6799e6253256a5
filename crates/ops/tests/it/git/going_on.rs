//! Interrupted operations that name a program or a file elsewhere: git does not continue them.

use super::scene::{Scene, copy, put};
use super::vectors::program;
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Two commits of `other` to rebase on `main`; the first has a conflict.
fn two_steps(scene: &Scene, name: &str) -> PathBuf {
    let repo = scene.clashing(name);
    scene.git(&repo, &["switch", "-q", "other"]);
    put(&repo, "more", "m\n");
    scene.git(&repo, &["add", "more"]);
    scene.git(&repo, &["commit", "-q", "-m", "more"]);
    repo
}

fn rebase(scene: &Scene) -> PathBuf {
    let repo = two_steps(scene, "rebase");
    scene.plain(&repo, &["rebase", "main"]);
    repo
}

fn cherry_pick(scene: &Scene) -> PathBuf {
    let repo = two_steps(scene, "cherry-pick");
    scene.git(&repo, &["switch", "-q", "main"]);
    scene.plain(&repo, &["cherry-pick", "main..other"]);
    repo
}

/// Plants text that makes plain git run the alias `merge-evil` when it continues. Proctor refuses, and continues without it.
#[track_caller]
fn check(make: fn(&Scene) -> PathBuf, word: &str, plant: fn(&Path), mend: fn(&Path)) {
    let scene = Scene::new();
    let (evil, mark) = program(&scene, "strategy");
    let repo = make(&scene);
    put(&repo, "f", "settled\n");
    scene.git(&repo, &["add", "f"]);
    scene.git(&repo, &["rm", "-q", "--cached", "gone"]);
    scene.git(&repo, &["config", "alias.merge-evil", &format!("!{evil}")]);
    plant(&repo);
    let trial = scene.root.join("trial");
    copy(&repo, &trial);
    let said = scene.plain(&trial, &["-c", "core.editor=:", word, "--continue"]);
    assert!(mark.exists(), "it does not fire: {said:?}");
    fs::remove_file(&mark).unwrap();
    scene.daemon("", json!({}), async |caller| {
        caller.0.engine.without_git_fence();
        let go_on = json!({ "action": "continue" });
        let (code, why) = caller.refused("git.resolve", &repo, go_on.clone()).await;
        assert_eq!((code, why.contains("merge strategy 'evil'")), (Code::Forbidden, true), "{why}");
        mend(&repo);
        caller.ok("git.resolve", &repo, go_on).await;
        assert!(!mark.exists(), "it was run");
        assert_eq!(scene.git(&repo, &["log", "--format=%s"]), "more\ntheirs\nours\nfirst");
    });
}

#[test]
fn a_rebase_by_a_strategy_of_its_own_does_not_go_on() {
    check(
        rebase,
        "rebase",
        |repo| put(repo, ".git/rebase-merge/strategy", "evil\n"),
        |repo| put(repo, ".git/rebase-merge/strategy", "ort\n"),
    );
}

#[test]
fn a_cherry_pick_by_a_strategy_of_its_own_does_not_go_on() {
    check(
        cherry_pick,
        "cherry-pick",
        |repo| put(repo, ".git/sequencer/opts", "[options]\n\tSTRATEGY = evil\n"),
        |repo| fs::remove_file(repo.join(".git/sequencer/opts")).unwrap(),
    );
}

/// For git the first value of this setting counts, not the one that overrides it.
#[test]
fn a_strategy_for_all_merges_is_seen_too() {
    fn config(repo: &Path) -> (PathBuf, String) {
        let file = repo.join(".git/config");
        let text = fs::read_to_string(&file).unwrap();
        (file, text)
    }
    check(
        cherry_pick,
        "cherry-pick",
        |repo| {
            let (file, text) = config(repo);
            fs::write(file, format!("{text}[pull]\n\ttwohead = evil\n")).unwrap();
        },
        |repo| {
            let (file, text) = config(repo);
            fs::write(file, text.replace("twohead = evil", "twohead = ort")).unwrap();
        },
    );
}

#[test]
fn patches_that_are_applied_with_odd_options_do_not_go_on() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    let patch = scene.git(&repo, &["format-patch", "-1", "--stdout", "other"]);
    fs::write(scene.root.join("patch"), patch + "\n").unwrap();
    scene.plain(&repo, &["am", "-C2", "../patch"]);
    let elsewhere = scene.outside.join("made");
    put(&repo, "f", "settled\n");
    scene.git(&repo, &["add", "f"]);
    scene.daemon("", json!({}), async |caller| {
        caller.0.engine.without_git_fence();
        let file = repo.join(".git/rebase-apply/apply-opt");
        let honest = fs::read_to_string(&file).unwrap();
        assert!(honest.contains("-C2"), "{honest}");
        fs::write(&file, format!(" '--build-fake-ancestor={}'", elsewhere.display())).unwrap();
        let go_on = json!({ "action": "continue" });
        let (code, why) = caller.refused("git.resolve", &repo, go_on.clone()).await;
        assert_eq!((code, why.contains("build-fake-ancestor")), (Code::Forbidden, true), "{why}");
        fs::write(&file, honest).unwrap();
        caller.ok("git.resolve", &repo, go_on).await;
        assert_eq!(scene.git(&repo, &["log", "-1", "--format=%s"]), "theirs");
    });
    scene.check_outside("afterwards");
}

#[test]
fn a_bisect_goes_back_to_a_branch_and_to_nothing_else() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    scene.git(&repo, &["bisect", "start", "HEAD", "HEAD~1"]);
    put(&repo, "f", "not stored\n");
    let (start, back) = (repo.join(".git/BISECT_START"), json!({ "action": "abort" }));
    let honest = fs::read_to_string(&start).unwrap();
    scene.daemon("", json!({}), async |caller| {
        for odd in ["-f\n", "--recurse-submodules\n"] {
            fs::write(&start, odd).unwrap();
            let (code, why) = caller.refused("git.resolve", &repo, back.clone()).await;
            assert_eq!((code, why.contains("goes back to")), (Code::Forbidden, true), "{why}");
        }
        assert_eq!(fs::read_to_string(repo.join("f")).unwrap(), "not stored\n");
        fs::write(&start, honest).unwrap();
        caller.ok("git.resolve", &repo, back).await;
        assert_eq!(scene.git(&repo, &["branch", "--show-current"]), "main");
        assert_eq!(fs::read_to_string(repo.join("f")).unwrap(), "not stored\n");
    });
}
