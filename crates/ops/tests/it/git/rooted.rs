//! Repositories in use: those below a declared root, with the rights of the root.

use super::scene::{Asker, Scene, put};
use proctor_ops::error::Code;
use serde_json::{Value, json};

#[test]
fn a_read_only_root_is_looked_at_and_nothing_in_it_is_changed() {
    let scene = Scene::new();
    let (app, docs) = (
        scene.repository("app", &[("a", "1\n")]),
        scene.repository("docs/book", &[("a", "1\n"), ("sub/b", "2\n")]),
    );
    put(&app, "a", "2\n");
    put(&docs, "a", "2\n");
    let roots = "roots: [{ path: app, name: code }, { path: docs, write: false }]";
    scene.daemon(roots, json!({}), async |caller| {
        let root =
            async |input: Value| caller.call("git.status", input).await.unwrap()["root"].clone();
        assert_eq!(root(json!({})).await, json!(app), "the first root");
        for named in ["docs:book", "docs:book/sub", "docs:book/sub/.."] {
            assert_eq!(root(json!({ "repo": named })).await, json!(docs), "{named}");
            let elsewhere = json!({ "repo": named, "base_dir": app });
            assert_eq!(root(elsewhere).await, json!(docs), "{named}");
        }
        assert_eq!(root(json!({ "base_dir": docs.join("sub"), "repo": ".." })).await, json!(docs));
        // A caller elsewhere means the folders below the roots.
        let away = json!({ "base_dir": scene.outside, "repo": "code:." });
        assert_eq!(root(away).await, json!(app));
        assert_eq!(root(json!({ "base_dir": scene.outside })).await, json!(app));
        for (name, input) in [
            ("git.add", json!({ "all": true })),
            ("git.commit", json!({ "message": "m", "all": true })),
            ("git.restore", json!({ "paths": ["a"] })),
            ("git.branch", json!({ "action": "create", "name": "x" })),
            ("git.branch", json!({ "action": "switch", "name": "main" })),
            ("git.branch", json!({ "action": "delete", "name": "main" })),
            ("git.tag", json!({ "action": "create", "name": "x" })),
            ("git.tag", json!({ "action": "delete", "name": "x" })),
            ("git.stash", json!({ "action": "push" })),
            ("git.stash", json!({ "action": "pop" })),
            ("git.stash", json!({ "action": "drop" })),
            ("git.resolve", json!({ "action": "ours", "path": "a" })),
            ("git.resolve", json!({ "action": "abort" })),
        ] {
            let (code, why) = caller.refused(name, &docs, input.clone()).await;
            assert_eq!(code, Code::Forbidden, "{name} {input}: {why}");
            assert!(why.contains("is read-only"), "{name} {input}: {why}");
        }
        assert_eq!(scene.git(&docs, &["status", "--porcelain"]), " M a");
        for (name, input) in [
            ("git.diff", json!({})),
            ("git.log", json!({})),
            ("git.show", json!({})),
            ("git.blame", json!({ "path": "a" })),
            ("git.branch", json!({})),
            ("git.tag", json!({})),
            ("git.stash", json!({})),
            ("git.resolve", json!({})),
        ] {
            caller.ok(name, &docs, input).await;
        }
        assert_eq!(
            caller.call("git.add", json!({ "all": true })).await.unwrap()["added"],
            json!(["a"])
        );
        // Only folders below a root, regardless of name prefixes.
        for other in ["docs:..", "docs:../app", "book", "code:../docs/book"] {
            let answer = caller.call("git.status", json!({ "repo": other })).await;
            assert!(answer.is_err(), "{other}: {answer:?}");
        }
    });
}

#[test]
fn a_repository_in_a_read_only_root_is_not_changed_by_way_of_another() {
    let scene = Scene::new();
    let book = scene.repository("docs/book", &[("a", "1\n")]);
    let work = scene.root.join("work");
    scene.git(&book, &["worktree", "add", "-q", "--detach", work.to_str().unwrap()]);
    for repo in [&book, &work] {
        put(repo, "a", "2\n");
    }
    let roots = "roots: [{ path: ., name: all }, { path: docs, write: false }]";
    scene.daemon(roots, json!({}), async |caller| {
        for named in ["all:docs/book", "docs:book", "all:work"] {
            let input = json!({ "repo": named, "all": true });
            let refused = caller.call("git.add", input).await.unwrap_err();
            let read_only = refused.message.contains("is read-only");
            assert_eq!((refused.code, read_only), (Code::Forbidden, true), "{named}: {refused:?}");
            caller.call("git.status", json!({ "repo": named })).await.unwrap();
        }
    });
    let roots = "roots: [{ path: ., name: all, write: false }, { path: docs }]";
    scene.daemon(roots, json!({}), async |caller| {
        let added = caller.call("git.add", json!({ "repo": "docs:book", "all": true })).await;
        assert_eq!(added.unwrap()["added"], json!(["a"]), "the nearer root counts");
    });
}

#[test]
fn a_repository_around_a_root_is_used_if_the_owner_trusts_it() {
    let scene = Scene::new();
    let repo = scene.repository("all", &[("one/a", "1\n"), ("two/b", "1\n")]);
    let inside = "roots: [all/one]";
    scene.daemon(inside, json!({}), async |caller| {
        let refused = caller.call("git.status", json!({})).await.unwrap_err();
        assert_eq!(refused.code, Code::NotFound, "{refused:?}");
    });
    scene.daemon(&format!("{inside}\n  git: {{ trusted: [all] }}"), json!({}), async |caller| {
        let status = caller.call("git.status", json!({})).await.unwrap();
        assert_eq!(status["root"], json!(repo));
    });
}

#[test]
fn paths_begin_at_the_top_unless_they_are_said_to_begin_elsewhere() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("f", "1\n"), ("sub/f", "1\n")]);
    let restored = async |caller: &Asker, input: Value| {
        for path in ["f", "sub/f"] {
            put(&repo, path, "2\n");
        }
        let mut input = input;
        input["paths"] = json!(["f"]);
        caller.call("git.restore", input).await.unwrap()["restored"].clone()
    };
    scene.daemon("", json!({}), async |caller| {
        let (sub, elsewhere) = (repo.join("sub"), scene.root.clone());
        for (input, expected) in [
            (json!({ "base_dir": sub }), "f"),
            (json!({ "base_dir": sub, "from_base": true }), "sub/f"),
            (json!({ "base_dir": sub, "from_base": true, "repo": repo }), "sub/f"),
            (json!({ "base_dir": elsewhere, "from_base": true, "repo": "app" }), "f"),
            (json!({ "base_dir": sub, "repo": "app" }), "f"),
            (json!({ "base_dir": scene.outside, "repo": "app" }), "f"),
        ] {
            assert_eq!(restored(&caller, input.clone()).await, json!([expected]), "{input}");
        }
        let missing = json!({ "base_dir": sub, "repo": "nowhere" });
        let error = caller.call("git.status", missing).await.unwrap_err();
        assert_eq!(
            (error.code, error.message.as_str()),
            (Code::NotFound, "'app/sub/nowhere' does not exist")
        );
        let up = json!({ "base_dir": sub, "from_base": true, "path": "../../f" });
        assert_eq!(caller.call("git.blame", up).await.unwrap_err().code, Code::BadInput);
    });
}

#[test]
fn from_another_folder_a_root_is_looked_at_and_named_and_nothing_is_changed() {
    let scene = Scene::new();
    let (app, docs) =
        (scene.repository("app", &[("a", "1\n")]), scene.repository("docs", &[("a", "1\n")]));
    put(&app, "a", "2\n");
    let outside = &scene.outside;
    scene.git(outside, &["init", "-q"]);
    scene.daemon("roots: [app, docs]", json!({}), async |caller| {
        for (name, input) in [
            ("git.status", json!({})),
            ("git.diff", json!({})),
            ("git.log", json!({})),
            ("git.show", json!({})),
            ("git.blame", json!({ "path": "a" })),
            ("git.branch", json!({})),
            ("git.tag", json!({})),
            ("git.stash", json!({})),
            ("git.resolve", json!({})),
        ] {
            for (base, told) in [(outside, Some(&app)), (&docs, None), (&scene.root, Some(&app))] {
                let mut input = input.clone();
                (input["base_dir"], input["from_base"]) = (json!(base), json!(true));
                let answer = caller.call(name, input).await.unwrap();
                assert_eq!(answer.get("repository"), told.map(|top| json!(top)).as_ref(), "{name}");
            }
        }
        for (name, input) in [
            ("git.add", json!({ "all": true })),
            ("git.commit", json!({ "message": "m", "all": true })),
            ("git.restore", json!({ "paths": ["."] })),
            ("git.branch", json!({ "action": "create", "name": "x" })),
            ("git.tag", json!({ "action": "create", "name": "x" })),
            ("git.stash", json!({ "action": "push" })),
            ("git.resolve", json!({ "action": "abort" })),
        ] {
            for (base, repo, code) in [
                (outside, None, Code::BadInput),
                (&scene.root, None, Code::BadInput),
                (outside, Some("."), Code::Forbidden),
                (outside, Some("app"), Code::Forbidden),
            ] {
                let mut input = input.clone();
                (input["base_dir"], input["from_base"]) = (json!(base), json!(true));
                if let Some(repo) = repo {
                    input["repo"] = json!(repo);
                }
                let refused = caller.call(name, input.clone()).await.unwrap_err();
                assert_eq!(refused.code, code, "{name} {input}: {refused:?}");
                let help = refused.help.unwrap_or_default();
                assert!(help.contains(&format!("app ({})", app.display())), "{help}");
            }
        }
        assert_eq!(scene.git(&app, &["status", "--porcelain"]), " M a");
        let named = json!({ "base_dir": outside, "repo": "app:.", "all": true });
        let added = caller.call("git.add", named).await.unwrap();
        assert_eq!(added, json!({ "added": ["a"] }), "who names it need not be told");
        let nobodys = caller.call("git.restore", json!({ "paths": ["a"], "staged": true })).await;
        assert_eq!(nobodys.unwrap()["restored"], json!(["a"]), "who stands nowhere");
    });
    scene.daemon("roots: [app]", json!({}), async |caller| {
        let above = json!({ "base_dir": scene.root, "from_base": true, "paths": ["."] });
        let restored = caller.call("git.restore", above).await.unwrap();
        assert_eq!(restored, json!({ "restored": ["a"], "repository": app }), "the only one here");
    });
}
