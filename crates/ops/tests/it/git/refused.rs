//! Refusals before anything starts, and unchanged state after a failure.

use super::scene::{Scene, put};
use super::vectors::script;
use proctor_engine::files::{ExpectedState, WriteRequest};
use proctor_ops::error::Code;
use serde_json::json;
use std::fs;

/// Git reads such a file to its end in every command.
#[test]
fn a_repository_names_no_file_without_end() {
    let scene = Scene::new();
    let outside = scene.outside.join("kept").display().to_string();
    let repo = scene.repository("app", &[("f", "1\n"), ("own", "*.o\n")]);
    let large = fs::File::create(repo.join("large")).unwrap();
    large.set_len(1 << 30).unwrap();
    let owner = scene.root.with_file_name("home").join(".gitconfig");
    let text = fs::read_to_string(&owner).unwrap();
    fs::write(&owner, format!("{text}[core]\n excludesFile = {outside}\n")).unwrap();
    put(&repo, "kept", "as the owner says\n");
    scene.daemon("", json!({}), async |caller| {
        let files = ["core.attributesFile", "core.excludesFile", "mailmap.file"];
        for (name, file) in
            files.into_iter().flat_map(|name| ["/dev/zero", "large", &outside].map(|it| (name, it)))
        {
            scene.git(&repo, &["config", name, file]);
            for (operation, input) in [
                ("git.status", json!({})),
                ("git.log", json!({})),
                ("git.blame", json!({ "path": "f" })),
                ("git.commit", json!({ "message": "m", "paths": ["f"] })),
            ] {
                let (code, why) = caller.refused(operation, &repo, input).await;
                let said = why.contains("not a small file below");
                assert_eq!((code, said), (Code::Forbidden, true), "{name} {file}: {why}");
            }
            scene.git(&repo, &["config", "--unset", name]);
        }
        fs::remove_file(repo.join("large")).unwrap();
        let clean = async || caller.ok("git.status", &repo, json!({})).await["clean"].clone();
        assert_eq!(clean().await, true, "the owner's own file counts, wherever it is");
        put(&repo, "x.o", "o\n");
        assert_eq!(clean().await, false);
        fs::remove_file(repo.join("kept")).unwrap();
        for file in ["own", "none"] {
            scene.git(&repo, &["config", "core.excludesFile", file]);
            assert_eq!(clean().await, file == "own", "{file}");
        }
    });
}

#[test]
fn a_commit_of_files_that_fails_stages_nothing() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n"), ("gone", "1\n"), ("other", "1\n")]);
    put(&repo, "f", "2\n");
    put(&repo, "new", "n\n");
    put(&repo, "other", "2\n");
    fs::remove_file(repo.join("gone")).unwrap();
    scene.git(&repo, &["add", "other"]);
    let status = || scene.git(&repo, &["status", "--porcelain"]);
    let before = status();
    let hook = repo.join(".git/hooks/pre-commit");
    scene.daemon("git: { trusted: [app] }", json!({}), async |caller| {
        let request = json!({ "message": "m", "paths": ["f", "new", "gone"] });
        script(&hook, "exit 1");
        let (code, why) = caller.refused("git.commit", &repo, request.clone()).await;
        assert_eq!((code, why.contains("a hook may have")), (Code::Failed, true), "{why}");
        assert_eq!(status(), before);
        let check = r#"test "$(git diff --cached --name-only | tr '\n' ' ')" = 'f gone new '"#;
        script(&hook, check);
        let made = caller.ok("git.commit", &repo, request).await;
        assert_eq!(made["files"], 3);
        assert_eq!(status(), "M  other", "it is still staged");
        assert!(!repo.join(".git/proctor-index").exists());
    });
}

#[test]
fn a_commit_of_everything_that_fails_stages_nothing() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n"), ("gone", "1\n"), ("staged", "1\n")]);
    let status = || scene.git(&repo, &["status", "--porcelain"]);
    let hook = repo.join(".git/hooks/pre-commit");
    let request = json!({ "message": "m", "all": true });
    scene.daemon("git: { trusted: [app] }", json!({}), async |caller| {
        put(&repo, "staged", "2\n");
        scene.git(&repo, &["add", "staged"]);
        put(&repo, "staged", "1\n");
        let nothing = caller.ok("git.commit", &repo, request.clone()).await;
        assert_eq!(nothing["committed"], false);
        assert_eq!(status(), "MM staged", "as it was");
        put(&repo, "f", "2\n");
        put(&repo, "new", "n\n");
        fs::remove_file(repo.join("gone")).unwrap();
        let before = status();
        script(&hook, "exit 1");
        caller.refused("git.commit", &repo, request.clone()).await;
        assert_eq!(status(), before);
        script(&hook, "echo 3 > f && git add f");
        let made = caller.ok("git.commit", &repo, request.clone()).await;
        assert_eq!(made["files"], 2);
        assert_eq!(status(), "?? new", "what the hook made of it is committed and in the index");
        assert_eq!(scene.git(&repo, &["show", "HEAD:f"]), "3");
        fs::remove_file(&hook).unwrap();
        scene.git(&repo, &["switch", "-q", "-c", "other", "HEAD~1"]);
        put(&repo, "f", "theirs\n");
        scene.git(&repo, &["commit", "-q", "-a", "-m", "theirs"]);
        scene.plain(&repo, &["merge", "main"]);
        put(&repo, "f", "theirs\n");
        let merged = caller.ok("git.commit", &repo, request).await;
        assert_eq!(merged["commit"]["parents"].as_array().unwrap().len(), 2, "{merged}");
        assert_eq!(status(), "?? new");
        assert!(!repo.join(".git/proctor-index").exists());
    });
}

#[test]
fn what_cannot_be_committed_is_refused_before_anything_is_changed_for_it() {
    let scene = Scene::new();
    let files = [("f", "1\n"), ("kept.o", "k\n"), (".gitattributes", "*.up filter=upper\n")];
    let repo = scene.repository("app", &files);
    put(&repo, ".gitignore", "*.o\n");
    scene.git(&repo, &["config", "filter.upper.clean", "tr a-z A-Z"]);
    scene.daemon("", json!({}), async |caller| {
        for (path, expected) in [
            ("f", None),
            ("new", None),
            ("kept.o", None),
            ("new.o", Some("'new.o' is ignored")),
            ("a.up", Some("the filter 'upper' of 'a.up'")),
        ] {
            let engine = &caller.0.engine;
            let written = WriteRequest { content: b"x".into(), ..WriteRequest::default() };
            let planned = ExpectedState { dry_run: true, ..ExpectedState::default() };
            let planned = engine.files().write(format!("app/{path}"), written, planned).await;
            let (mut repository, paths) =
                engine.repository_of(engine.files(), &[planned.unwrap()]).await.unwrap();
            let why = repository.check_commit("m", &paths).await.err().map(|why| why.to_string());
            let said = why.as_deref().map(|why| expected.is_some_and(|text| why.contains(text)));
            assert_eq!(said, expected.map(|_| true), "{path}: {why:?}");
        }
    });
}
