//! Everyday use of git, and its responses.

use super::scene::{Scene, put};
use proctor_ops::error::Code;
use serde_json::{Value, json};
use std::fs;

fn paths(entries: &Value) -> Vec<&str> {
    entries.as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap()).collect()
}

#[test]
fn a_switch_writes_over_nothing_that_is_not_stored() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n")]);
    scene.git(&repo, &["switch", "-q", "-c", "topic"]);
    put(&repo, "local.env", "theirs\n");
    scene.git(&repo, &["add", "local.env"]);
    scene.git(&repo, &["commit", "-q", "-m", "topic"]);
    scene.git(&repo, &["switch", "-q", "main"]);
    put(&repo, "local.env", "mine\n");
    put(&repo, ".git/info/exclude", "local.env\n");
    scene.daemon("", json!({}), async |caller| {
        let switch = json!({ "action": "switch", "name": "topic" });
        let (code, why) = caller.refused("git.branch", &repo, switch).await;
        assert_eq!((code, why.contains("local.env")), (Code::Conflict, true), "{why}");
    });
    assert_eq!(fs::read_to_string(repo.join("local.env")).unwrap(), "mine\n");
}

#[test]
fn changes_are_seen_added_and_committed() {
    let scene = Scene::new();
    let repo = scene
        .repository("app", &[("a", "1\n"), ("b", "1\n"), ("old name", "x\n".repeat(9).as_str())]);
    put(&repo, "a", "2\n");
    put(&repo, "b", "2\n");
    put(&repo, "new/with \"odd\"\nname", "n\n");
    fs::rename(repo.join("old name"), repo.join("new name")).unwrap();
    scene.daemon("", json!({}), async |caller| {
        let status = caller.ok("git.status", &repo, json!({})).await;
        assert_eq!((&status["branch"], &status["clean"]), (&json!("main"), &json!(false)));
        assert_eq!(status["root"], json!(repo));
        let expected = ["a", "b", "old name", "new name", "new/with \"odd\"\nname"];
        assert_eq!(paths(&status["entries"]), expected);
        assert_eq!(status["entries"][0]["unstaged"], "modified");

        let added = caller.ok("git.add", &repo, json!({ "paths": ["new", "a"] })).await;
        assert_eq!(added["added"], json!(["a", "new/with \"odd\"\nname"]));
        let staged = caller.ok("git.diff", &repo, json!({ "staged": true, "stat": true })).await;
        assert_eq!(paths(&staged["files"]), ["a", "new/with \"odd\"\nname"]);

        let only = json!({ "message": "only b\n\nwith a body", "paths": ["b"] });
        let made = caller.ok("git.commit", &repo, only).await;
        assert_eq!(
            (&made["committed"], &made["files"], &made["branch"]),
            (&json!(true), &json!(1), &json!("main"))
        );
        assert_eq!(made["commit"]["body"], "with a body");
        assert_eq!(
            scene.git(&repo, &["show", "--name-only", "--format=%an %ae %s"]),
            "Owner owner@example.org only b\n\nb"
        );

        caller.ok("git.add", &repo, json!({ "all": true })).await;
        let renamed = caller.ok("git.status", &repo, json!({})).await;
        let renamed =
            renamed["entries"].as_array().unwrap().iter().find(|it| it["path"] == "new name");
        assert_eq!(
            renamed.unwrap(),
            &json!({ "path": "new name", "from": "old name", "staged": "renamed" })
        );
        assert_eq!(caller.ok("git.commit", &repo, json!({ "message": "all" })).await["files"], 3);
        put(&repo, "a", "3\n");
        let unstaged = caller.ok("git.commit", &repo, json!({ "message": "again" })).await;
        assert_eq!(unstaged, json!({ "committed": false, "unstaged": 1 }));
        caller.ok("git.restore", &repo, json!({ "paths": ["a"] })).await;
        let nothing =
            caller.ok("git.commit", &repo, json!({ "message": "again", "all": true })).await;
        assert_eq!(nothing, json!({ "committed": false }));
        assert_eq!(caller.ok("git.status", &repo, json!({})).await["clean"], true);
    });
}

/// Another git command finds these.
#[test]
fn files_that_git_does_not_know_are_those_of_its_own_status() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("kept/a", "1\n"), (".gitignore", "*.o\nout/\n!out.o\n")]);
    for path in ["new", "deep/er/x", "deep/y.o", "out/z", "out.o", "kept/b c", "kept/.gitignore"] {
        put(&repo, path, "x\n");
    }
    put(&repo, "kept/.gitignore", "hidden\n");
    put(&repo, "kept/hidden", "x\n");
    put(&repo, ".git/info/exclude", "excluded\n");
    put(&repo, "excluded", "x\n");
    put(&repo, "intended", "x\n");
    scene.git(&repo, &["add", "--intent-to-add", "intended"]);
    scene.git(&repo, &["init", "-q", "nested"]);
    put(&repo, "nested/inner", "x\n");
    fs::create_dir(repo.join("empty")).unwrap();
    std::os::unix::fs::symlink("/etc", repo.join("link")).unwrap();
    let of_git = |words: &[&str]| {
        let command = ["status", "--porcelain", "--untracked-files=all", "-z", "--"];
        let said = scene.git(&repo, &[&command, words].concat());
        let paths = said.split('\0').filter_map(|line| line.strip_prefix("?? "));
        paths.map(str::to_owned).collect::<Vec<_>>()
    };
    scene.daemon("", json!({}), async |caller| {
        let subjects: [&[&str]; 3] = [&[], &["kept", "deep/er"], &["nested"]];
        for words in subjects {
            let status = caller.ok("git.status", &repo, json!({ "paths": words })).await;
            let mut unknown = status["entries"].clone();
            unknown.as_array_mut().unwrap().retain(|entry| entry["untracked"] == true);
            assert_eq!(paths(&unknown), of_git(words), "{words:?}");
        }
        let without = caller.ok("git.status", &repo, json!({ "no_untracked": true })).await;
        assert_eq!(paths(&without["entries"]), ["intended"]);
        let ignored = caller.ok("git.status", &repo, json!({ "ignored": true })).await;
        let found = paths(&ignored["entries"]).into_iter().filter(|path| path.ends_with(".o"));
        assert_eq!(found.collect::<Vec<_>>(), ["out.o", "deep/y.o"]);
    });
    assert_eq!(of_git(&[]).len(), 7);
}

#[test]
fn a_commit_is_amended_and_written_for_somebody_else() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n")]);
    scene.daemon("", json!({}), async |caller| {
        put(&repo, "a", "2\n");
        let input = json!({ "message": "-m --amend", "all": true, "author": "J. Doe <j@x.org>" });
        caller.ok("git.commit", &repo, input).await;
        assert_eq!(
            scene.git(&repo, &["log", "--format=%an|%cn|%s"]),
            "J. Doe|Owner|-m --amend\nOwner|Owner|first"
        );
        put(&repo, "a", "3\n");
        caller.ok("git.commit", &repo, json!({ "amend": true, "all": true })).await;
        caller.ok("git.commit", &repo, json!({ "amend": true, "message": "better" })).await;
        assert_eq!(scene.git(&repo, &["log", "--format=%an|%s"]), "J. Doe|better\nOwner|first");
        assert_eq!(scene.git(&repo, &["show", "HEAD:a"]), "3");
        let (code, why) =
            caller.refused("git.commit", &repo, json!({ "message": "x", "author": "J" })).await;
        assert_eq!((code, why.contains("Name <address>")), (Code::BadInput, true), "{why}");
        assert_eq!(caller.refused("git.commit", &repo, json!({})).await.0, Code::BadInput);
    });
}

#[test]
fn commits_are_found_by_what_they_are() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n")]);
    for number in 2..=6 {
        put(&repo, "a", &format!("{number}\n"));
        let date = format!("2026-01-0{number}T12:00:00Z");
        let author = if number % 2 == 0 { "Even <e@x>" } else { "Odd <o@x>" };
        let message = format!("change {number}");
        scene.git(
            &repo,
            &["commit", "-q", "-a", "-m", &message, "--author", author, "--date", &date],
        );
    }
    scene.git(&repo, &["mv", "a", "b"]);
    scene.git(&repo, &["commit", "-q", "-m", "rename"]);
    scene.git(&repo, &["tag", "v1", "HEAD~2"]);
    scene.daemon("", json!({}), async |caller| {
        let subjects = async |input: Value| {
            let log = caller.ok("git.log", &repo, input).await;
            let commits = log["commits"].as_array().unwrap().clone();
            commits.iter().map(|it| it["subject"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            subjects(json!({ "author": "^even" })).await,
            ["change 6", "change 4", "change 2"]
        );
        assert_eq!(subjects(json!({ "grep": "change [23]" })).await, ["change 3", "change 2"]);
        assert_eq!(subjects(json!({ "rev": "v1", "limit": 2 })).await, ["change 5", "change 4"]);
        assert_eq!(subjects(json!({ "paths": ["b"] })).await, ["rename"]);
        assert_eq!(subjects(json!({ "paths": ["b"], "follow": true })).await.len(), 7);
        assert_eq!(subjects(json!({ "since": "2020-01-01" })).await.len(), 7);
        assert_eq!(subjects(json!({ "until": "2020-01-01" })).await.len(), 0);
        let (mut all, mut input) = (Vec::new(), json!({ "limit": 3 }));
        loop {
            let page = caller.ok("git.log", &repo, input.clone()).await;
            all.extend(
                page["commits"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|it| it["hash"].as_str().unwrap().to_owned()),
            );
            if page.get("cursor").is_none() {
                break;
            }
            input["cursor"] = page["cursor"].clone();
        }
        assert_eq!(all.join("\n"), scene.git(&repo, &["log", "--format=%H"]));
        assert_eq!(
            caller.refused("git.log", &repo, json!({ "rev": "nothing" })).await.0,
            Code::NotFound
        );
    });
}

#[test]
fn commits_files_and_lines_are_shown_as_they_were() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("src/a", "one\n\ttwo\n")]);
    fs::write(repo.join("bin"), b"\xff").unwrap();
    scene.git(&repo, &["add", "-A"]);
    scene.git(&repo, &["commit", "-q", "--amend", "-m", "first"]);
    put(&repo, "src/a", "one\n\ttwo\nthree\n");
    scene.git(&repo, &["commit", "-q", "-a", "-m", "second"]);
    put(&repo, "src/a", "one\n\ttwo\nthree\nfour\n");
    scene.daemon("", json!({}), async |caller| {
        let shown = caller.ok("git.show", &repo, json!({})).await;
        assert_eq!(shown["commit"]["subject"], "second");
        assert!(shown["diff"].as_str().unwrap().ends_with("+three\n"));
        let first = caller.ok("git.show", &repo, json!({ "rev": "HEAD~1", "stat": true })).await;
        assert_eq!(paths(&first["files"]), ["bin", "src/a"]);
        let file = caller.ok("git.show", &repo, json!({ "rev": "HEAD~1", "path": "src/a" })).await;
        assert_eq!(
            (&file["file"]["text"], &file["file"]["size"]),
            (&json!("one\n\ttwo\n"), &json!(9))
        );
        let bytes = caller.ok("git.show", &repo, json!({ "path": "bin" })).await;
        assert_eq!(bytes["file"]["bytes"], "/w==");
        assert_eq!(
            caller.refused("git.show", &repo, json!({ "path": "src" })).await.0,
            Code::BadInput
        );
        assert_eq!(
            caller.refused("git.show", &repo, json!({ "path": "no" })).await.0,
            Code::NotFound
        );

        let blame = caller.ok("git.blame", &repo, json!({ "path": "src/a" })).await;
        let runs = blame["runs"].as_array().unwrap();
        assert_eq!(
            runs.iter().map(|run| run["line"].as_u64().unwrap()).collect::<Vec<_>>(),
            [1, 3, 4]
        );
        assert_eq!(runs[0]["lines"], json!(["one", "\ttwo"]));
        assert_eq!((&runs[1]["subject"], runs[2].get("hash")), (&json!("second"), None));
        let part = caller
            .ok(
                "git.blame",
                &repo,
                json!({ "path": "src/a", "rev": "HEAD", "line": 2, "limit": 1 }),
            )
            .await;
        assert_eq!((&part["runs"][0]["lines"], &part["next_line"]), (&json!(["\ttwo"]), &json!(3)));
        let beyond = json!({ "path": "src/a", "line": 99 });
        let (code, why) = caller.refused("git.blame", &repo, beyond).await;
        assert_eq!((code, why.as_str()), (Code::BadInput, "line: 'src/a' has 4 lines"));
        put(&repo, "bin", "");
        let nothing = caller.ok("git.blame", &repo, json!({ "path": "bin" })).await;
        assert_eq!(nothing, json!({ "runs": [] }));
    });
}

#[test]
fn files_are_brought_back() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n"), ("b", "1\n"), ("c", "1\n")]);
    put(&repo, "a", "2\n");
    scene.git(&repo, &["commit", "-q", "-a", "-m", "second"]);
    scene.daemon("", json!({}), async |caller| {
        put(&repo, "a", "3\n");
        fs::remove_file(repo.join("b")).unwrap();
        let back = caller.ok("git.restore", &repo, json!({ "paths": ["a", "b"] })).await;
        assert_eq!(back["restored"], json!(["a", "b"]));
        assert_eq!(fs::read_to_string(repo.join("a")).unwrap(), "2\n");
        put(&repo, "c", "9\n");
        caller.ok("git.add", &repo, json!({ "paths": ["c"] })).await;
        let unstaged =
            caller.ok("git.restore", &repo, json!({ "paths": ["."], "staged": true })).await;
        assert_eq!(unstaged["restored"], json!(["c"]));
        assert_eq!(fs::read_to_string(repo.join("c")).unwrap(), "9\n");
        let both = json!({ "paths": ["."], "staged": true, "worktree": true });
        caller.ok("git.restore", &repo, both).await;
        assert_eq!(caller.ok("git.status", &repo, json!({})).await["clean"], true);
        let older =
            caller.ok("git.restore", &repo, json!({ "paths": ["a"], "from": "HEAD~1" })).await;
        assert_eq!(older["restored"], json!(["a"]));
        assert_eq!(fs::read_to_string(repo.join("a")).unwrap(), "1\n");
        let (code, _) = caller.refused("git.restore", &repo, json!({ "paths": ["no-such"] })).await;
        assert_eq!(code, Code::NotFound);
        assert_eq!(
            caller.refused("git.restore", &repo, json!({ "paths": [] })).await.0,
            Code::BadInput
        );
    });
}

#[test]
fn branches_are_listed_made_and_checked_out() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n")]);
    scene.git(&repo, &["worktree", "add", "-q", "-b", "side", "../side"]);
    scene.daemon("", json!({}), async |caller| {
        let made = json!({ "action": "create", "name": "topic/one", "switch": true });
        assert_eq!(caller.ok("git.branch", &repo, made.clone()).await["name"], "topic/one");
        assert_eq!(caller.refused("git.branch", &repo, made).await.0, Code::AlreadyExists);
        let list = caller.ok("git.branch", &repo, json!({})).await;
        let current =
            list["branches"].as_array().unwrap().iter().find(|it| it["current"] == true).unwrap();
        assert_eq!(current["name"], "topic/one");
        assert_eq!(list["worktrees"][1]["path"], json!(scene.root.join("side")));
        put(&repo, "a", "2\n");
        let (code, _) = caller
            .refused("git.branch", &repo, json!({ "action": "switch", "name": "side" }))
            .await;
        assert_eq!(code, Code::Conflict, "it is checked out elsewhere");
        caller.ok("git.branch", &repo, json!({ "action": "switch", "name": "main" })).await;
        assert_eq!(
            caller
                .refused("git.branch", &repo, json!({ "action": "switch", "name": "no" }))
                .await
                .0,
            Code::NotFound
        );
        assert_eq!(
            caller.refused("git.branch", &repo, json!({ "action": "create" })).await.0,
            Code::BadInput
        );
    });
}

#[test]
fn changes_are_put_aside_and_brought_back() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n")]);
    scene.daemon("", json!({}), async |caller| {
        put(&repo, "a", "2\n");
        put(&repo, "new", "n\n");
        let pushed = json!({ "action": "push", "message": "half done", "untracked": true });
        let pushed = caller.ok("git.stash", &repo, pushed).await;
        assert_eq!(
            (&pushed["done"], &pushed["stashes"][0]["message"]),
            (&json!(true), &json!("On main: half done"))
        );
        assert!(!repo.join("new").exists());
        assert_eq!(caller.ok("git.stash", &repo, json!({ "action": "push" })).await["done"], false);
        assert_eq!(caller.ok("git.status", &repo, json!({})).await["stashes"], 1);
        let popped = caller.ok("git.stash", &repo, json!({ "action": "pop" })).await;
        assert_eq!((&popped["done"], &popped["stashes"]), (&json!(true), &json!([])));
        assert_eq!(fs::read_to_string(repo.join("a")).unwrap(), "2\n");
        caller.ok("git.stash", &repo, json!({ "action": "push", "paths": ["a"] })).await;
        put(&repo, "a", "3\n");
        caller.ok("git.commit", &repo, json!({ "message": "three", "all": true })).await;
        let clash = caller.ok("git.stash", &repo, json!({ "action": "pop" })).await;
        assert_eq!((&clash["done"], &clash["conflicts"]), (&json!(false), &json!(["a"])));
        caller.ok("git.stash", &repo, json!({ "action": "drop", "number": 0 })).await;
        assert_eq!(
            caller.refused("git.stash", &repo, json!({ "action": "drop" })).await.0,
            Code::NotFound
        );
    });
}

#[test]
fn tags_are_listed_made_and_gone() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("a", "1\n")]);
    scene.git(&repo, &["commit", "-q", "--allow-empty", "-m", "second"]);
    scene.daemon("", json!({}), async |caller| {
        caller
            .ok("git.tag", &repo, json!({ "action": "create", "name": "v1", "rev": "HEAD~1" }))
            .await;
        caller
            .ok(
                "git.tag",
                &repo,
                json!({ "action": "create", "name": "v2", "message": "two\n\nmore" }),
            )
            .await;
        let tags = caller.ok("git.tag", &repo, json!({})).await;
        let v2 = tags["tags"].as_array().unwrap().iter().find(|tag| tag["name"] == "v2").unwrap();
        assert_eq!((&v2["annotated"], &v2["subject"]), (&json!(true), &json!("two")));
        assert_eq!(v2["hash"], scene.git(&repo, &["rev-parse", "HEAD"]));
        for name in ["v1", "v2"] {
            caller.ok("git.tag", &repo, json!({ "action": "delete", "name": name })).await;
        }
        assert_eq!(caller.ok("git.tag", &repo, json!({})).await, json!({}));
    });
}

#[test]
fn a_repository_is_found_and_what_is_none_is_told() {
    let scene = Scene::new();
    let repo = scene.repository("app", &[("deep/er/a", "1\n")]);
    fs::create_dir(scene.root.join("plain")).unwrap();
    scene.daemon("", json!({}), async |caller| {
        let deep = caller.ok("git.status", &repo.join("deep/er"), json!({})).await;
        assert_eq!(deep["root"], json!(repo));
        let from_here = json!({ "base_dir": repo.join("deep") });
        assert_eq!(caller.call("git.status", from_here).await.unwrap()["root"], json!(repo));
        let relative = json!({ "base_dir": scene.root, "repo": "app" });
        assert_eq!(caller.call("git.status", relative).await.unwrap()["root"], json!(repo));
        for (folder, code) in [
            (scene.root.join("plain"), Code::NotFound),
            (scene.outside.clone(), Code::Forbidden),
            (scene.root.join("nowhere"), Code::NotFound),
            (repo.join("deep/er/a"), Code::BadInput),
        ] {
            assert_eq!(
                caller.refused("git.status", &folder, json!({})).await.0,
                code,
                "{folder:?}"
            );
        }
        // A repository without commits counts.
        let empty = scene.root.join("empty");
        fs::create_dir(&empty).unwrap();
        scene.git(&empty, &["init", "-q"]);
        put(&empty, "x", "x\n");
        assert_eq!(caller.ok("git.log", &empty, json!({})).await["commits"], json!([]));
        assert_eq!(caller.ok("git.status", &empty, json!({})).await.get("head"), None);
        assert_eq!(
            caller.ok("git.commit", &empty, json!({ "message": "m" })).await["committed"],
            false
        );
        caller.ok("git.add", &empty, json!({ "all": true })).await;
        assert_eq!(caller.ok("git.commit", &empty, json!({ "message": "m" })).await["files"], 1);
    });
}

#[test]
fn line_endings_are_kept_as_the_repository_says() {
    let scene = Scene::new();
    let repo = scene
        .repository("app", &[(".gitattributes", "*.txt text eol=crlf\n"), ("a.txt", "1\r\n2\r\n")]);
    put(&repo, "a.txt", "1\r\n2\r\n3\r\n");
    scene.daemon("", json!({}), async |caller| {
        caller.ok("git.commit", &repo, json!({ "message": "m", "paths": ["a.txt"] })).await;
        let stored = scene.plain(&repo, &["cat-file", "blob", "HEAD:a.txt"]).stdout;
        assert_eq!(stored, b"1\n2\n3\n", "as git itself stores it");
        put(&repo, "a.txt", "x");
        caller.ok("git.restore", &repo, json!({ "paths": ["a.txt"] })).await;
        assert_eq!(fs::read(repo.join("a.txt")).unwrap(), b"1\r\n2\r\n3\r\n");
    });
}
