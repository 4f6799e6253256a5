//! Paths are relative to the caller's folder, and a path means the same file for writing and for reading.

use super::{app, put};
use crate::support::ask;
use proctor_testkit::{Conversation, Home};
use serde_json::json;
use std::path::Path;

/// Returns the output of a successful command in this folder.
#[track_caller]
fn ok(home: &Home, folder: &str, words: &[&str]) -> String {
    let said = home.command(words).current_dir(home.path().join(folder)).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(said.status.success(), "{folder} {words:?}: {}", text(&said.stderr));
    text(&said.stdout)
}

#[track_caller]
fn fail(home: &Home, folder: &str, words: &[&str]) -> String {
    let said = home.command(words).current_dir(home.path().join(folder)).output().unwrap();
    assert!(!said.status.success(), "{folder} {words:?}");
    String::from_utf8_lossy(&said.stderr).into_owned()
}

fn shop() -> Home {
    let home = app("");
    put(&home, "readme.md", "of all\n");
    put(&home, "docs/readme.md", "of the docs\n");
    put(&home, "src/prices.py", "price = 1\n");
    home
}

#[test]
fn a_file_is_what_it_is_in_the_shell() {
    let home = shop();
    let there = |path: &str| home.path().join("app").join(path).exists();
    let text = |path: &str| std::fs::read_to_string(home.path().join("app").join(path)).unwrap();
    assert_eq!(ok(&home, "app/docs", &["file", "read", "readme.md"]), "of the docs\n");
    assert_eq!(ok(&home, "app/src", &["file", "read", "../docs/readme.md"]), "of the docs\n");
    assert_eq!(ok(&home, "app/docs", &["file", "read", "app:readme.md"]), "of all\n");
    assert_eq!(ok(&home, "app", &["file", "read", "readme.md"]), "of all\n");
    assert_eq!(ok(&home, "", &["file", "read", "docs/readme.md"]), "of the docs\n");
    ok(&home, "app/docs", &["file", "delete", "readme.md"]);
    assert!(there("readme.md") && !there("docs/readme.md"));
    ok(&home, "app/docs", &["file", "undo", "readme.md"]);
    ok(&home, "app/docs", &["file", "write", "notes.md", "--content", "x\n"]);
    assert!(there("docs/notes.md") && !there("notes.md"));
    ok(&home, "app/docs", &["file", "edit", "notes.md", "--old", "x", "--new", "y"]);
    ok(&home, "app/src", &["file", "change", "../docs/notes.md", "y", "z"]);
    assert_eq!(text("docs/notes.md"), "z\n");
    ok(&home, "app/docs", &["file", "make-folder", "deep/er"]);
    ok(&home, "app/docs", &["file", "move", "notes.md", "deep/er/n.md"]);
    assert_eq!(text("docs/deep/er/n.md"), "z\n");
    let known = ok(&home, "app/docs/deep", &["file", "history", "er/n.md"]);
    assert!(known.contains("file.move"), "{known}");
    for outside in ["../../outside", "../../../../../etc/passwd", "app:../x"] {
        let said = fail(&home, "app/docs", &["file", "read", outside]);
        assert!(said.contains(outside) && said.contains("root"), "{said}");
    }
}

#[test]
fn a_folder_is_where_one_stands_and_what_is_said_can_be_said_again() {
    let home = shop();
    let found = ok(&home, "app/src", &["file", "search", "price"]);
    assert_eq!(found, "app:src/prices.py\n1:price = 1\n");
    assert_eq!(ok(&home, "app/src", &["file", "read", "app:src/prices.py"]), "price = 1\n");
    assert_eq!(ok(&home, "app/docs", &["file", "search", "price", "."]), "");
    let short = |flag| ok(&home, "app/src", &["file", "search", "PRICE", "-i", flag]);
    assert_eq!(
        (short("-l").as_str(), short("-c").as_str()),
        ("app:src/prices.py\n", "app:src/prices.py: 1\n")
    );
    let both =
        ok(&home, "app/docs", &["file", "search", "of|price", "../src", ".", "--tell", "files"]);
    assert_eq!(both, "app:src/prices.py\napp:docs/readme.md\n");
    assert_eq!(ok(&home, "app/docs", &["file", "find", "*.md"]), "app:docs/readme.md\n");
    assert_eq!(ok(&home, "app/src", &["file", "list"]), "prices.py  10 B\n");
    assert_eq!(ok(&home, "app", &["file", "find", "*.py"]), "src/prices.py\n");
    assert_eq!(ok(&home, "", &["file", "find", "*.py"]), "src/prices.py\n");
}

#[test]
fn a_diff_has_its_names_from_the_top_as_git_writes_them() {
    let home = shop();
    let diff = "--- a/src/prices.py\n+++ b/src/prices.py\n@@ -1 +1 @@\n-price = 1\n+price = 2\n";
    ok(&home, "app/docs", &["file", "apply-diff", diff]);
    let diff = "--- a/prices.py\n+++ b/prices.py\n@@ -1 +1 @@\n-price = 2\n+price = 3\n";
    ok(&home, "app/src", &["file", "apply-diff", diff, "--path", "."]);
    assert_eq!(ok(&home, "app/src", &["file", "read", "prices.py"]), "price = 3\n");
}

/// A home with two roots side by side.
fn two() -> Home {
    let home = Home::new();
    for path in ["app/a.txt", "manual/b.txt", "manual/deep/c.txt"] {
        let path = home.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "hello\n").unwrap();
    }
    home.write("proctor.yaml", "supervisor:\n  roots: [app, manual]\n  services: {}\n");
    home.ok(["up", "-d"]);
    home
}

#[test]
fn with_several_roots_all_of_them_are_searched_unless_one_is_stood_in() {
    let home = two();
    let all = "app:a.txt\nmanual:b.txt\nmanual:deep/c.txt\n";
    assert_eq!(ok(&home, "", &["file", "search", "hello", "--tell", "files"]), all);
    assert_eq!(ok(&home, "", &["file", "find", "*.txt"]), all);
    assert_eq!(ok(&home, "manual/deep", &["file", "find", "*.txt"]), "manual:deep/c.txt\n");
    assert_eq!(ok(&home, "app", &["file", "read", "a.txt"]), "hello\n");
    assert_eq!(ok(&home, "app", &["file", "read", "../manual/b.txt"]), "hello\n");
    assert!(fail(&home, "", &["file", "read", "a.txt"]).contains("which root?"));
    assert_eq!(ok(&home, "", &["file", "list"]).lines().count(), 2, "the roots");
    let here = ok(&home, "app", &["file", "list"]);
    assert!(here.starts_with("app: ") && here.ends_with("\na.txt  6 B\n"), "{here}");
    assert_eq!(here.lines().count(), 2, "{here}");
    // Page by page, across the border between them.
    for (operation, input) in [
        ("file.search", json!({ "pattern": "hello", "most": 1 })),
        ("file.find", json!({ "globs": ["*.txt"], "most": 1 })),
        ("file.search", json!({ "pattern": "hello", "tell": "files", "most": 2 })),
    ] {
        let (mut input, mut told) = (input, String::new());
        loop {
            let answer = ask(&home, operation, &input);
            told += &answer["ok"].to_string();
            match answer["ok"]["cursor"].as_str() {
                Some(cursor) => input["cursor"] = json!(cursor),
                None => break,
            }
        }
        for path in all.lines() {
            assert_eq!(told.matches(path).count(), 1, "{operation}: {path} in\n{told}");
        }
    }
}

#[test]
fn for_who_does_not_say_where_they_stand_nothing_is_different() {
    let home = shop();
    let docs = home.path().join("app/docs");
    let read = |folder: &Path, from_base: bool| {
        let input = json!({ "paths": ["readme.md"], "base_dir": folder, "from_base": from_base });
        ask(&home, "file.read", &input)["ok"]["files"][0]["text"].clone()
    };
    assert_eq!(read(&docs, true), "of the docs\n");
    assert_eq!(read(&docs, false), "of all\n");
    assert_eq!(read(home.path(), true), "of all\n");
    let mut assistant = Conversation::begin(&home, "assistant");
    let told = assistant.ok("read_file", json!({ "paths": ["readme.md"] }));
    assert!(told.text.contains("of all"), "{}", told.text);
}
