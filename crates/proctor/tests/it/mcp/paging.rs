//! Following cursors shows everything once: a page ends before this front would have to cut it.

use crate::files::{app, put};
use crate::git::git;
use proctor_testkit::{Conversation, Home};
use serde_json::{Value, json};

/// Returns all output of a tool, page by page; `go_on` sets the arguments of the next page.
fn pages(
    home: &Home,
    (tool, mut arguments): (&str, Value),
    go_on: fn(&Value, &mut Value) -> bool,
) -> String {
    let mut assistant = Conversation::begin(home, "assistant");
    let (mut told, mut count) = (String::new(), 0);
    loop {
        let answer = assistant.ok(tool, arguments.clone());
        assert!(!answer.text.contains("truncated"), "{tool}: {}", answer.text);
        assert!(answer.facts.get("truncated").is_none(), "{tool}");
        told += &answer.text;
        count += 1;
        if !go_on(&answer.facts, &mut arguments) {
            assert!(count > 1 && count < 100, "{tool}: {count} pages");
            return told;
        }
        if answer.facts.get("cursor").is_some() {
            let said = answer.text.matches("more follows").count();
            assert_eq!(said, 1, "{tool}: {}", answer.text);
        }
    }
}

fn by_cursor(facts: &Value, arguments: &mut Value) -> bool {
    let cursor = facts.get("cursor").cloned();
    cursor.map(|cursor| arguments["cursor"] = cursor).is_some()
}

#[track_caller]
fn each_once(told: &str, what: impl IntoIterator<Item = String>) {
    for one in what {
        assert_eq!(told.matches(&one).count(), 1, "{one}");
    }
}

#[test]
fn every_match_and_every_name_is_seen_once() {
    let home = app("");
    let around = format!("{}\n", "around it there is a lot ".repeat(4)).repeat(11);
    let text: String = (0..200).map(|number| format!("needle {number}.\n{around}")).collect();
    put(&home, "long.txt", text);
    for number in 0..700 {
        put(&home, &format!("names/one-of-many-{number}-"), "");
    }
    let names = || (0..700).map(|number| format!("one-of-many-{number}-"));
    let all = |tool, arguments| pages(&home, (tool, arguments), by_cursor);
    let told = all("search_files", json!({ "pattern": "needle", "context": 5 }));
    each_once(&told, (0..200).map(|number| format!("needle {number}.")));
    each_once(&all("list_files", json!({ "path": "names" })), names());
    each_once(&all("find_files", json!({ "globs": ["one-*"], "limit": 5000 })), names());
}

#[test]
fn every_line_that_somebody_wrote_is_seen_once() {
    let home = app("");
    let text: String =
        (0..3000).map(|number| format!("line {number}. {}\n", "x".repeat(20))).collect();
    put(&home, "long.txt", text);
    git(&home, &["init", "-q", "-b", "main", "--template="]);
    git(&home, &["add", "-A"]);
    git(&home, &["commit", "-q", "-m", "First"]);
    let go_on = |facts: &Value, arguments: &mut Value| {
        let next = facts.get("next_line").cloned();
        next.map(|next| arguments["line"] = next).is_some()
    };
    let arguments = json!({ "path": "long.txt", "limit": 5000 });
    let told = pages(&home, ("git_blame", arguments), go_on);
    each_once(&told, (0..3000).map(|number| format!("line {number}. ")));
}
