//! A request is carried out exactly or refused; nothing else is done instead.

use super::scene::{Scene, put};
use proctor_ops::error::Code;
use serde_json::json;

#[test]
fn the_stash_that_is_named_is_the_one_that_goes() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "0\n")]);
    for name in ["one", "two", "three", "four"] {
        put(&repo, "a", name);
        scene.git(&repo, &["stash", "push", "-q", "-m", name]);
    }
    let left = || scene.git(&repo, &["stash", "list", "--format=%gs"]);
    scene.daemon("", json!({}), async |caller| {
        let hash = scene.git(&repo, &["rev-parse", "stash@{2}"]);
        let drop = json!({ "action": "drop", "paths": ["2"] });
        let dropped = caller.ok("git.stash", &repo, drop).await["dropped"].clone();
        assert_eq!((&dropped["message"], &dropped["hash"]), (&json!("On main: two"), &json!(hash)));
        caller.ok("git.stash", &repo, json!({ "action": "drop", "paths": ["stash@{0}"] })).await;
        assert_eq!(left(), "On main: three\nOn main: one");
        for input in [
            json!({ "action": "drop", "paths": ["nosuch"] }),
            json!({ "action": "pop", "paths": ["a"] }),
            json!({ "action": "pop", "message": "three" }),
            json!({ "action": "push", "number": 1 }),
            json!({ "paths": ["a"] }),
        ] {
            let (code, why) = caller.refused("git.stash", &repo, input.clone()).await;
            assert_eq!(code, Code::BadInput, "{input}: {why}");
        }
        let none = json!({ "action": "drop", "paths": ["7"] });
        assert_eq!(caller.refused("git.stash", &repo, none).await.0, Code::NotFound);
        assert_eq!(left(), "On main: three\nOn main: one");
        caller.ok("git.stash", &repo, json!({ "action": "pop", "paths": ["1"] })).await;
        assert_eq!(std::fs::read_to_string(repo.join("a")).unwrap(), "one");
    });
}

#[test]
fn fields_of_another_action_are_refused() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "0\n")]);
    scene.git(&repo, &["tag", "v1"]);
    let head = scene.git(&repo, &["rev-parse", "HEAD"]);
    scene.daemon("", json!({}), async |caller| {
        for (name, input, why) in [
            (
                "git.branch",
                json!({ "action": "switch", "name": "main", "from": "v1" }),
                "'from' can be used with 'create' only",
            ),
            (
                "git.branch",
                json!({ "from": "nosuch", "switch": true }),
                "'from' can be used with 'create' only",
            ),
            ("git.branch", json!({ "switch": true }), "'switch' can be used with 'create' only"),
            ("git.branch", json!({ "name": "topic" }), "'name' can be used with "),
            (
                "git.branch",
                json!({ "action": "create", "name": "x", "limit": 3 }),
                "'limit' can be used with 'list' only",
            ),
            ("git.tag", json!({ "name": "v2" }), "'name' can be used with "),
            (
                "git.tag",
                json!({ "action": "delete", "name": "v1", "rev": "HEAD" }),
                "'rev' can be used with 'create' only",
            ),
            (
                "git.tag",
                json!({ "action": "delete", "name": "v1", "message": "y" }),
                "'message' can be used with 'create' only",
            ),
        ] {
            let (code, said) = caller.refused(name, &repo, input.clone()).await;
            assert_eq!((code, said.starts_with(why)), (Code::BadInput, true), "{input}: {said}");
        }
        let gone = caller.ok("git.tag", &repo, json!({ "action": "delete", "name": "v1" })).await;
        assert_eq!(gone, json!({ "name": "v1", "hash": head, "deleted": true }));
    });
}

#[test]
fn a_path_that_stands_for_nothing_is_no_empty_answer() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("docs/readme.md", "1\n"), ("gone", "1\n")]);
    scene.git(&repo, &["rm", "-q", "gone"]);
    scene.git(&repo, &["commit", "-q", "-m", "second"]);
    put(&repo, ".git/info/exclude", "*.o\n");
    put(&repo, "x.o", "x");
    scene.daemon("", json!({}), async |caller| {
        for (name, input, code, expected) in [
            (
                "git.diff",
                json!({ "paths": ["HEAD~1"] }),
                Code::BadInput,
                "paths: 'HEAD~1' is a revision, not a path: use 'from' for it",
            ),
            (
                "git.diff",
                json!({ "paths": ["docs/raedme.md"] }),
                Code::NotFound,
                "no 'docs/raedme.md'",
            ),
            ("git.diff", json!({ "paths": ["docs", "dosc"] }), Code::NotFound, "no 'dosc'"),
            ("git.diff", json!({ "paths": ["gone"] }), Code::NotFound, "no 'gone'"),
            ("git.log", json!({ "paths": ["main"] }), Code::BadInput, "use 'rev' for it"),
            ("git.log", json!({ "paths": ["HEAD~1..main"] }), Code::BadInput, "is a revision"),
            ("git.log", json!({ "paths": ["nosuch"] }), Code::NotFound, "no 'nosuch'"),
            ("git.status", json!({ "paths": ["nosuch"] }), Code::NotFound, "no 'nosuch'"),
            (
                "git.status",
                json!({ "paths": ["main"] }),
                Code::BadInput,
                "is a revision, not a path",
            ),
            ("git.show", json!({ "rev": "HEAD:nosuch" }), Code::NotFound, "'nosuch' in HEAD"),
        ] {
            let (found, why) = caller.refused(name, &repo, input.clone()).await;
            assert_eq!((found, why.contains(expected)), (code, true), "{name} {input}: {why}");
        }
        for (name, input) in [
            ("git.diff", json!({ "paths": ["docs"] })),
            ("git.diff", json!({ "paths": ["."] })),
            ("git.diff", json!({ "paths": ["x.o"] })),
            ("git.diff", json!({ "paths": ["gone"], "from": "HEAD~1", "to": "HEAD~1" })),
            ("git.status", json!({ "paths": ["docs/readme.md", "x.o"] })),
            ("git.log", json!({ "paths": ["gone"], "author": "nobody" })),
            ("git.log", json!({ "paths": ["docs"], "grep": "nothing like it" })),
        ] {
            caller.ok(name, &repo, input).await;
        }
        let shown = caller.ok("git.show", &repo, json!({ "rev": "HEAD~1:docs/readme.md" })).await;
        assert_eq!(shown["file"]["text"], "1\n");
    });
}

#[test]
fn a_branch_goes_if_nothing_is_lost_with_it_or_by_force() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n")]);
    let head = scene.git(&repo, &["rev-parse", "HEAD"]);
    scene.git(&repo, &["branch", "merged"]);
    scene.git(&repo, &["switch", "-q", "-c", "own"]);
    scene.git(&repo, &["commit", "-q", "--allow-empty", "-m", "own"]);
    let own = scene.git(&repo, &["rev-parse", "HEAD"]);
    scene.git(&repo, &["switch", "-q", "main"]);
    scene.daemon("", json!({}), async |caller| {
        let delete = |name: &str| json!({ "action": "delete", "name": name });
        let gone = caller.ok("git.branch", &repo, delete("merged")).await;
        assert_eq!(gone, json!({ "name": "merged", "hash": head, "deleted": true }));
        for (input, code, expected) in [
            (delete("own"), Code::Conflict, "commits that are in no other branch"),
            (delete("main"), Code::Conflict, "main"),
            (delete("nosuch"), Code::NotFound, "branch 'nosuch'"),
            (json!({ "action": "delete" }), Code::BadInput, "'name'"),
            (json!({ "force": true }), Code::BadInput, "'force' can be used with 'delete' only"),
        ] {
            let (found, why) = caller.refused("git.branch", &repo, input.clone()).await;
            assert_eq!((found, why.contains(expected)), (code, true), "{input}: {why}");
        }
        let force = json!({ "action": "delete", "name": "own", "force": true });
        assert_eq!(caller.ok("git.branch", &repo, force).await["hash"], json!(own));
        assert_eq!(scene.git(&repo, &["branch", "--format=%(refname:short)"]), "main");
    });
}

#[test]
fn a_range_is_taken_as_git_takes_it() {
    let scene = Scene::new();
    let repo = scene.clashing("app");
    for number in 1..=3 {
        put(&repo, "more", &format!("{number}\n"));
        scene.git(&repo, &["add", "more"]);
        scene.git(&repo, &["commit", "-q", "-m", &format!("more {number}")]);
    }
    scene.daemon("", json!({}), async |caller| {
        for range in ["other..main", "other...main", "HEAD~1..", "main...other"] {
            let diff = caller.ok("git.diff", &repo, json!({ "from": range })).await;
            assert_eq!(diff["diff"], scene.git(&repo, &["diff", range]) + "\n", "{range}");
        }
        let (mut all, mut input) = (Vec::new(), json!({ "rev": "other..main", "limit": 1 }));
        loop {
            let page = caller.ok("git.log", &repo, input).await;
            all.push(page["commits"][0]["hash"].as_str().unwrap().to_owned());
            let Some(cursor) = page.get("cursor") else { break };
            input = json!({ "cursor": cursor, "limit": 1 });
        }
        assert_eq!(all.join("\n"), scene.git(&repo, &["rev-list", "other..main"]));
        for (name, input) in [
            ("git.diff", json!({ "from": "nosuch..main" })),
            ("git.diff", json!({ "from": "main..other", "to": "main" })),
            ("git.log", json!({ "rev": "main..nosuch" })),
        ] {
            assert_eq!(caller.refused(name, &repo, input).await.0, Code::NotFound);
        }
    });
}
