//! Errors name the problem, and a next step that exists.

use super::{app, put};
use proctor_testkit::{Conversation, Home};
use serde_json::{Value, json};

fn some() -> Home {
    let home = app("");
    put(&home, "a.txt", "one item\ntwo\n");
    put(&home, "docs/b.txt", "three\n");
    home
}

#[test]
fn each_cause_has_its_own_words() {
    let home = some();
    let missing = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+new\n";
    for (words, code, expected) in [
        (vec!["apply-diff", "fix.diff"], 2, "'diff' is not a unified diff"),
        (vec!["apply-diff", "fix.diff"], 2, "`- < fix.diff`"),
        (vec!["apply-diff", missing], 1, "'fuzz'"),
        (vec!["search", "x", "--type", "nosuch"], 2, "ripgrep's type names"),
        (vec!["search", "it(e"], 2, "set 'literal'"),
        (vec!["search", "x", "--glob", "["], 2, "before a literal ["),
        (vec!["find", "["], 2, "before a literal ["),
        (vec!["change", "a.txt", "it(e", "x", "-e"], 2, "omit 'regex'"),
        (vec!["change", "a.txt", "it(e)m", "th$1ng", "-e"], 2, "write ${1}ng for group 1"),
        (vec!["change", "a.txt", "zzz", "x"], 1, "text not found"),
        (vec!["change", "a.txt", "one  item", "x"], 1, "line 1, with different whitespace"),
        (vec!["list", "a.txt"], 2, "'a.txt' is not a folder"),
        (vec!["list", "a.txt"], 2, "`proctor file read`"),
        (vec!["move", "a.txt", "docs"], 8, "'docs/a.txt'"),
        (vec!["move", "a.txt", "docs", "--replace"], 8, "'docs/a.txt'"),
        (vec!["read", "a.txt", "--from", "300"], 2, "'a.txt' has 2 lines"),
        (vec!["edit", "a.txt", "--old", "two"], 2, "an empty 'new' deletes"),
        (vec!["undo", "a.txt", "7"], 3, "no earlier generation 7"),
    ] {
        let (exit, said) = home.fail([vec!["file"], words.clone()].concat());
        assert!(exit == code && said.contains(expected), "{words:?}: {exit} {said}");
    }
    assert_eq!(std::fs::read(home.path().join("app/a.txt")).unwrap(), b"one item\ntwo\n");
    home.ok(["file", "move", "a.txt", "docs/"]);
    assert_eq!(home.ok(["file", "read", "docs/a.txt"]), "one item\ntwo\n");
}

#[test]
fn one_of_several_that_cannot_be_read_is_an_error_and_the_others_are_there() {
    let home = some();
    let said = home.run(["file", "read", "a.txt", "nosuch"]);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, all) = (text(&said.stdout), text(&said.stdout) + &text(&said.stderr));
    assert_eq!(said.status.code(), Some(3), "{all}");
    assert!(out.contains("one item") && all.contains("error: 'nosuch' does not exist"), "{all}");
}

#[test]
fn an_assistant_is_told_of_fields() {
    let home = some();
    let mut assistant = Conversation::begin(&home, "assistant");
    let mut refused = |tool: &str, input: Value| {
        let told = assistant.call(tool, input);
        assert!(told.is_error, "{tool}: {}", told.text);
        told.text
    };
    let said =
        refused("edit_file", json!({ "path": "a.txt", "old_string": "a", "new_string": "b" }));
    assert!(said.contains("'edits', each with 'old' and 'new'"), "{said}");
    assert!(refused("apply_diff", json!({})).contains("give a unified diff"));
    let diff = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+new\n";
    let said = refused("undo_edit", json!({ "path": "a.txt" }));
    assert!(!said.contains("file_history"), "{said}");
    let said = refused("apply_diff", json!({ "diff": diff }));
    assert!(said.contains("'fuzz'"), "{said}");
}
