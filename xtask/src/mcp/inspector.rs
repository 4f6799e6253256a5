//! The Inspector's command line: it lists every tool of `proctor mcp` without a warning, then calls
//! each.

use super::Tried;
use crate::served::Served;
use crate::step::output;
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// It supports both.
const ERAS: [&str; 2] = ["legacy", "modern"];

const CONFIG: &str = "\
supervisor:
  port: off
  http: { port: off }
  services:
    web: { command: [sleep, '100000'] }
    other: { command: [sleep, '100000'] }
";

/// Every tool with an effective input, in an order in which each is possible. `$operation` is a
/// pending operation; the last calls end what they use.
const CALLS: &[(&str, &str)] = &[
    ("list_processes", "{}"),
    ("get_process_status", r#"{"names": ["web"]}"#),
    ("wait_for_process", r#"{"names": ["web"], "timeout": 20}"#),
    ("start_process", r#"{"name": "job", "command": "sleep 100000", "lease": "1h"}"#),
    ("renew_lease", r#"{"name": "job"}"#),
    ("restart_process", r#"{"names": ["job"]}"#),
    ("signal_process", r#"{"name": "job", "signal": "CONT"}"#),
    ("stop_process", r#"{"names": ["job"]}"#),
    ("remove_process", r#"{"names": ["job"]}"#),
    ("add_process", r#"{"name": "added", "command": "sleep 100000"}"#),
    ("run_command", r#"{"command": "echo hello"}"#),
    ("list_operations", "{}"),
    ("get_operation", r#"{"operation": "$operation", "wait": 0}"#),
    ("cancel_operation", r#"{"operation": "$operation"}"#),
    ("restart_with_steps", r#"{"service": "web", "pre_commands": ["true"]}"#),
    ("apply_config", "{}"),
    ("reload_config", "{}"),
    ("get_config", "{}"),
    ("get_process_logs", r#"{"services": ["web"]}"#),
    ("write_file", r#"{"path": "inspected.txt", "content": "one\ntwo\n"}"#),
    ("edit_file", r#"{"path": "inspected.txt", "edits": [{"old": "one", "new": "1"}]}"#),
    (
        "change_in_file",
        r#"{"path": "inspected.txt", "find": "t(w)o", "replace": "$1", "regex": true}"#,
    ),
    (
        "apply_diff",
        r#"{"diff": "--- a/inspected.txt\n+++ b/inspected.txt\n@@ -1,2 +1,2 @@\n 1\n-w\n+W\n"}"#,
    ),
    ("undo_edit", r#"{"path": "inspected.txt"}"#),
    ("file_history", r#"{"path": "inspected.txt"}"#),
    ("make_folder", r#"{"path": "inspected"}"#),
    ("move_file", r#"{"path": "inspected.txt", "to": "inspected/x.txt"}"#),
    (
        "change_and_check",
        r#"{"service": "web", "files": [{"path": "checked.txt", "edits": [{"old": "", "new": "x"}]}]}"#,
    ),
    ("delete_file", r#"{"path": "inspected/x.txt"}"#),
    ("get_events", "{}"),
    ("read_file", r#"{"paths": ["proctor.yaml"]}"#),
    ("search_files", r#"{"pattern": "sleep"}"#),
    ("list_files", "{}"),
    ("find_files", r#"{"globs": ["*.yaml"]}"#),
    ("git_status", r#"{"repo": "app"}"#),
    ("git_diff", r#"{"repo": "app"}"#),
    ("git_log", r#"{"repo": "app"}"#),
    ("git_show", r#"{"repo": "app"}"#),
    ("git_blame", r#"{"repo": "app", "path": "a"}"#),
    ("git_add", r#"{"repo": "app", "all": true}"#),
    ("git_commit", r#"{"repo": "app", "message": "Second"}"#),
    ("git_restore", r#"{"repo": "app", "paths": ["a"], "from": "HEAD~1"}"#),
    ("git_branch", r#"{"repo": "app", "action": "create", "name": "topic"}"#),
    ("git_tag", r#"{"repo": "app"}"#),
    ("git_stash", r#"{"repo": "app"}"#),
    ("git_resolve", r#"{"repo": "app"}"#),
    ("check_health", "{}"),
    ("get_metrics", "{}"),
    ("get_daemon_status", "{}"),
    ("read_audit", "{}"),
    ("verify_audit", "{}"),
    ("create_token", r#"{"name": "inspector", "role": "viewer"}"#),
    ("list_tokens", "{}"),
    ("revoke_token", r#"{"name": "inspector"}"#),
    ("get_token_path", "{}"),
    ("get_mode", "{}"),
    ("switch_mode", r#"{"mode": "proxy"}"#),
    ("upgrade_daemon", "{}"),
    ("stop_daemon", "{}"),
    ("shut_down", "{}"),
];

struct Inspector {
    script: PathBuf,
    /// The configuration of the server, in the format of every client.
    config: PathBuf,
    served: Served,
}

pub(super) fn run(tried: &Tried) -> Result<()> {
    let served = Served::start(&tried.proctor, "inspector", CONFIG, &[])?;
    let server = json!({"mcpServers": {"proctor": {
        "command": tried.proctor,
        "args": ["--home", served.home, "mcp", "--toolsets", "all"],
    }}});
    repository(&served.home.join("app"))?;
    let config = served.home.join("inspector.json");
    std::fs::write(&config, server.to_string()).context("cannot write its configuration")?;
    let script = tried.installed.modules();
    let script = script.join("@modelcontextprotocol/inspector/clients/cli/build/index.js");
    let inspector = Inspector { script, config, served };
    let mut listed = BTreeSet::new();
    for era in ERAS {
        let tools = inspector.ask(tried, era, &["--method", "tools/list", "--strict"])?;
        let tools =
            tools["result"]["tools"].as_array().context("the list of tools is missing")?.clone();
        println!("-- {era}: {} tools, no warnings", tools.len());
        listed.extend(tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)));
    }
    let called: BTreeSet<String> = CALLS.iter().map(|(tool, _)| (*tool).to_owned()).collect();
    ensure!(
        listed == called,
        "tools that are listed but not called, or called but not listed: {:?}",
        listed.symmetric_difference(&called).collect::<Vec<_>>()
    );
    inspector.call_all(tried)
}

/// One commit, and an uncommitted file.
fn repository(folder: &Path) -> Result<()> {
    std::fs::create_dir(folder).context("cannot make a folder for a repository")?;
    let write = |name: &str| std::fs::write(folder.join(name), name).context("cannot write a file");
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).current_dir(folder).stdin(Stdio::null());
        output(git).map(drop)
    };
    git(&["init", "--quiet", "--template="])?;
    git(&["config", "user.name", "Inspector"])?;
    git(&["config", "user.email", "inspector@example.org"])?;
    write("a")?;
    git(&["add", "a"])?;
    git(&["commit", "--quiet", "--message=First"])?;
    write("b")
}

impl Inspector {
    fn call_all(&self, tried: &Tried) -> Result<()> {
        let words = ["execute", "--background", "--timeout", "1000", "--", "sleep", "1000"];
        let begun = self.served.json(&words)?;
        let operation = begun["operation"].as_str().context("no operation was started")?;
        for (index, (tool, input)) in CALLS.iter().enumerate() {
            let input = input.replace("$operation", operation);
            let words = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", &input];
            let answer = self.ask(tried, ERAS[index % ERAS.len()], &words)?;
            let answer = &answer["result"];
            let has_text = answer["content"].as_array().is_some_and(|content| !content.is_empty());
            let facts = answer.get("structuredContent").unwrap_or(&answer["_meta"]);
            ensure!(has_text && facts.is_object(), "{tool}: {answer:#}");
        }
        println!("-- {} calls, none of them an error", CALLS.len());
        Ok(())
    }

    /// Returns its result. Any output on stderr is a warning or worse.
    fn ask(&self, tried: &Tried, era: &str, words: &[&str]) -> Result<Value> {
        let mut command: Command = tried.installed.node(&self.script);
        command.arg("--config").arg(&self.config).args(["--server", "proctor"]);
        command.args(["--format", "json", "--protocol-era", era]).args(words);
        // It stores files in its home, and would warn that it has no safe place for secrets.
        command.env("HOME", &self.served.home).env("MCP_INSPECTOR_SECRET_STORE", "file");
        command.env("MCP_INSPECTOR_SECRET_KEY", "0123456789abcdef0123456789abcdef");
        // The conversation belongs to the folder that it begins in.
        command.stdin(Stdio::null()).current_dir(&self.served.home);
        let output = command.output().context("cannot run the Inspector")?;
        let (said, warned) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if !output.status.success() || !warned.is_empty() {
            bail!("{era} {}: {}\n{said}\n{warned}", words.join(" "), output.status);
        }
        serde_json::from_str(&said).with_context(|| format!("not JSON: {said}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `run` compares the names with the server's list.
    #[test]
    fn every_input_is_an_object() {
        for (name, input) in CALLS {
            assert!(serde_json::from_str::<Value>(input).unwrap().is_object(), "{name}: {input}");
        }
    }
}
