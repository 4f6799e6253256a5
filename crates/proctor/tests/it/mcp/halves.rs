//! Some clients show a model only the structured half of a reply if there is one, others only the text. Each half has
//! everything that a
//! model needs.

use crate::files::put;
use crate::git::git;
use crate::support::{service, services};
use proctor_ops::tools::{TOOLS, Toolset};
use proctor_testkit::{Conversation, Home, ToolReply, victim};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

const META: &str = "io.modelcontextprotocol/";

/// A project with a service, a repository and a configuration.
fn home() -> Home {
    let home = Home::listening();
    std::fs::create_dir(home.path().join("app")).unwrap();
    put(&home, "proctor.yaml", services(&[service("web", &["--lines", "3"], "")]));
    put(&home, "a.txt", "alpha\nneedle in the hay\n");
    git(&home, &["init", "-q", "-b", "main", "--template="]);
    git(&home, &["config", "user.name", "Owner"]);
    git(&home, &["config", "user.email", "owner@example.org"]);
    git(&home, &["add", "-A"]);
    git(&home, &["commit", "-q", "-m", "First words"]);
    home
}

/// A call, and texts that a model needs from the reply.
type Step = (&'static str, Value, Vec<&'static str>);

fn steps() -> Vec<Step> {
    let jobs = format!("{} --lines 2", victim().display());
    let diff = "--- a/c.txt\n+++ b/c.txt\n@@ -1 +1 @@\n-two\n+three\n";
    let edit = |old: &str, new: &str| json!([{ "old": old, "new": new }]);
    vec![
        ("apply_config", json!({}), vec!["web", "proctor.yaml", "pid"]),
        ("list_processes", json!({}), vec!["web", "running", "log_cursor", "--lines 3"]),
        ("start_process", json!({ "name": "job", "command": jobs }), vec!["job", "pid"]),
        ("wait_for_process", json!({ "names": ["job"], "log": "line 2" }), vec!["job", "reached"]),
        ("get_process_status", json!({ "names": ["job"] }), vec!["job", "log_cursor", "--lines 2"]),
        ("get_process_logs", json!({ "names": ["job"] }), vec!["line 1", "line 2", "cursor"]),
        ("get_events", json!({ "names": ["job"] }), vec!["job", "running", "cursor"]),
        ("restart_process", json!({ "names": ["job"] }), vec!["job", "restarted", "pid"]),
        ("renew_lease", json!({ "names": ["job"], "lease": "1h" }), vec!["job"]),
        ("stop_process", json!({ "names": "job" }), vec!["job", "stopped"]),
        ("remove_process", json!({ "names": ["job"] }), vec!["job"]),
        (
            "run_command",
            json!({ "command": "echo said", "env": { "A": "b" } }),
            vec!["said", "exit_code=0"],
        ),
        ("get_config", json!({ "names": ["web"] }), vec!["services.web.command", "proctor.yaml"]),
        ("get_operation", json!({ "operation": "none" }), vec!["none", "not_found", "remedy"]),
        ("cancel_operation", json!({ "operation": "none" }), vec!["none", "not_found"]),
        ("read_file", json!({ "paths": ["a.txt"] }), vec!["alpha\nneedle in the hay\n", "sha256="]),
        ("search_files", json!({ "pattern": "needle" }), vec!["a.txt", "2:needle in the hay"]),
        ("list_files", json!({}), vec!["a.txt", "proctor.yaml"]),
        ("find_files", json!({ "globs": ["*.txt"] }), vec!["a.txt"]),
        (
            "write_file",
            json!({ "path": "b.txt", "content": "one\n" }),
            vec!["b.txt", "created", "sha256="],
        ),
        (
            "edit_file",
            json!({ "path": "b.txt", "edits": edit("one", "two") }),
            vec!["b.txt", "generation", "sha256="],
        ),
        ("move_file", json!({ "path": "b.txt", "to": "c.txt" }), vec!["c.txt"]),
        ("apply_diff", json!({ "diff": diff }), vec!["c.txt", "generation", "sha256="]),
        (
            "change_in_file",
            json!({ "path": "c.txt", "find": "three", "replace": "four" }),
            vec!["c.txt", "sha256="],
        ),
        ("undo_edit", json!({ "path": "c.txt" }), vec!["c.txt", "generation"]),
        ("delete_file", json!({ "path": "c.txt" }), vec!["c.txt", "deleted", "generation"]),
        ("make_folder", json!({ "path": "d/e" }), vec!["d/e"]),
        (
            "change_and_check",
            json!({ "name": "web", "files": [{ "path": "a.txt", "edits": edit("alpha", "beta") }] }),
            vec!["a.txt", "generation", "web"],
        ),
        ("git_status", json!({}), vec!["main", "a.txt", "modified"]),
        ("git_diff", json!({}), vec!["-alpha", "+beta"]),
        ("git_add", json!({ "paths": ["a.txt"] }), vec!["a.txt"]),
        (
            "git_commit",
            json!({ "message": "Second words" }),
            vec!["committed", "Second words", "main"],
        ),
        ("git_log", json!({}), vec!["First words", "Second words"]),
        ("git_show", json!({}), vec!["Second words", "+beta"]),
        ("git_blame", json!({ "path": "a.txt" }), vec!["Second words", "beta"]),
        ("git_branch", json!({}), vec!["main"]),
        ("git_tag", json!({ "action": "create", "name": "v1" }), vec!["v1"]),
        ("git_stash", json!({}), vec!["no stashes"]),
        ("git_resolve", json!({}), vec!["in progress"]),
        ("git_restore", json!({ "paths": ["a.txt"] }), vec!["no changes"]),
    ]
}

/// Makes a call in this era of the protocol.
fn call(conversation: &mut Conversation, era: &str, tool: &str, arguments: &Value) -> ToolReply {
    let mut params = json!({ "name": tool, "arguments": arguments });
    if era == "2026-07-28" {
        let client = json!({ "name": "test", "version": "1" });
        let fields = [
            ("protocolVersion", json!(era)),
            ("clientInfo", client),
            ("clientCapabilities", json!({})),
        ];
        let meta: Map<String, Value> =
            fields.into_iter().map(|(name, value)| (format!("{META}{name}"), value)).collect();
        params["_meta"] = Value::Object(meta);
    }
    ToolReply::of(&conversation.ask("tools/call", params))
}

/// Collects every text and number in a value.
fn leaves(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => found.push(number.to_string()),
        Value::String(text) => found.extend(text.lines().map(|line| line.trim().to_owned())),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(fields) => {
            let rounded = ["memory_bytes", "cpu_percent", "uptime_seconds", "lease_seconds_left"];
            let told_as_clock = ["at", "since", "started", "kind", "lease_seconds"];
            let exact = fields.iter().filter(|(name, _)| {
                !rounded.contains(&name.as_str()) && !told_as_clock.contains(&name.as_str())
            });
            exact.for_each(|(_, value)| leaves(value, found));
        }
    }
}

fn check(era: &str, (tool, arguments, needs): &Step, told: &ToolReply) {
    let structured = told.is_structured.then(|| told.facts.to_string().replace("\\\"", "\""));
    for need in needs {
        // The parts that a model with one half sees.
        let halves = [Some(told.text.clone()), structured.clone()];
        for half in halves.into_iter().flatten() {
            assert!(
                half.contains(need),
                "{era} {tool} {arguments}: no '{need}' in\n{half}\n{told:#?}"
            );
        }
    }
    if told.is_structured {
        let mut facts = Vec::new();
        leaves(&told.facts, &mut facts);
        for fact in facts {
            assert!(told.text.contains(&fact), "{era} {tool}: the text lacks '{fact}': {told:#?}");
        }
    }
}

#[test]
fn every_tool_tells_all_in_each_half_that_it_sends() {
    for era in ["2025-11-25", "2026-07-28"] {
        let home = home();
        let mut conversation = match era {
            "2026-07-28" => Conversation::silent(&home, &[]),
            _ => Conversation::begin(&home, "test"),
        };
        let mut called = BTreeSet::new();
        for step in steps() {
            let told = call(&mut conversation, era, step.0, &step.1);
            check(era, &step, &told);
            called.insert(step.0);
        }
        let offered = TOOLS.iter().filter(|tool| Toolset::USUAL.contains(&tool.set));
        assert_eq!(called, offered.map(|tool| tool.name).collect(), "{era}: every tool is driven");
        home.ok(["down"]);
    }
}

#[test]
fn no_reply_depends_on_the_name_of_the_client() {
    let home = home();
    let mut replies = BTreeSet::new();
    for client in ["claude-code", "codex-mcp-client", "Visual Studio Code", "gemini-cli"] {
        let mut conversation = Conversation::begin(&home, client);
        let read = conversation.ok("read_file", json!({ "paths": ["a.txt"] }));
        let listed = conversation.ok("list_files", json!({}));
        replies.insert((read.text, read.is_structured, listed.text, listed.is_structured));
    }
    assert_eq!(replies.len(), 1, "{replies:#?}");
}

#[test]
fn the_facts_of_a_tool_do_not_depend_on_the_content() {
    let home = home();
    put(&home, "2", "1\n2\n3\n");
    let mut assistant = Conversation::begin(&home, "assistant");
    let check = |told: &ToolReply, facts: &[&str]| {
        let last = told.text.split("── ").last().unwrap_or_default();
        for fact in facts {
            assert!(last.contains(fact), "'{fact}' is missing in: {}", told.text);
        }
    };
    for command in ["echo hello", "echo '0 errors'"] {
        let told = assistant.ok("run_command", json!({ "command": command }));
        check(&told, &[&format!("command={command}"), "exit_code=0", "execution_time_ms="]);
    }
    let told = assistant.call("run_command", json!({ "command": "echo 3; exit 3" }));
    assert!(told.is_error, "{}", told.text);
    check(&told, &["exit_code=3"]);
    let part = json!({ "path": "2", "from": 2, "lines": 1 });
    check(&assistant.ok("read_file", part), &["2: ", "from=2", "to=2"]);
}
