//! Checks `docs/mcp.md`: its commands work, and its text to paste is what is written.

use crate::control::{admin, listening};
use crate::docs::{Block, blocks, curl};
use crate::support::{service, services};
use proctor_testkit::{Home, Http, finish, proctor};
use serde_json::{Value, json};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Returns the blocks of the page.
fn shown(language: &str) -> Vec<Block> {
    let mut blocks = blocks(language);
    blocks.retain(|block| block.place.starts_with("mcp.md:"));
    blocks
}

/// A user with `proctor` in PATH, a work folder, and a running Proctor.
struct User {
    home: Home,
    programs: PathBuf,
}

impl User {
    fn new() -> User {
        let home = listening(&services(&[service("web", &["--lines", "2"], "")]));
        let programs = home.path().join("bin");
        for folder in [&programs, &home.path().join("work"), &home.path().join("user")] {
            std::fs::create_dir(folder).unwrap();
        }
        symlink(proctor(), programs.join("proctor")).unwrap();
        User { home, programs }
    }

    fn shell(&self, line: &str) -> Output {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", line])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.programs.display()))
            .env("HOME", self.home.path().join("user"))
            .env("PROCTOR_HOME", self.home.path())
            .current_dir(self.home.path().join("work"));
        finish(&mut command, LIMIT)
    }
}

#[test]
fn every_command_of_the_page_works() {
    let user = User::new();
    let (token, http) = (admin(&user.home), Http::at(user.home.port("http")));
    let mut tried = 0;
    for block in shown("console") {
        for line in block.text.lines() {
            let line = line.strip_prefix("$ ").unwrap_or_else(|| panic!("{}: {line}", block.place));
            tried += 1;
            if line.starts_with("curl ") {
                let status = curl(&line.replace("$TOKEN", &token), &http);
                assert_eq!(status, 200, "{}: {line}", block.place);
                continue;
            }
            let output = user.shell(line);
            assert!(output.status.success(), "{}: {line}: {output:?}", block.place);
            if line.ends_with("| proctor mcp") {
                check_conversation(&output);
            }
        }
    }
    assert!(tried >= 15, "only {tried} were found");
}

/// Checks for two responses, of which the second is the list.
fn check_conversation(output: &Output) {
    let text = String::from_utf8_lossy(&output.stdout);
    let answers: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), 2, "{text}");
    assert_eq!(answers[1]["result"]["structuredContent"]["services"][0]["name"], "web", "{text}");
}

#[test]
fn what_the_page_says_to_paste_is_what_is_written() {
    let user = User::new();
    let blocks: Vec<Block> = shown("json").into_iter().chain(shown("toml")).collect();
    let mut printed = Vec::new();
    for client in ["claude-code", "cursor", "vscode", "codex", "gemini", "zed"] {
        for way in ["", " --http"] {
            // Without PROCTOR_HOME, which would be passed on.
            let line = format!(
                "env -u PROCTOR_HOME proctor mcp install {client} --scope project --print{way}"
            );
            let output = user.shell(&line);
            if (client, way) == ("zed", " --http") {
                assert_eq!(output.status.code(), Some(2));
                continue;
            }
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(
                blocks.iter().any(|block| block.text == text),
                "{line} is not on the page:\n{text}"
            );
            printed.push(text);
        }
    }
    for block in blocks {
        assert!(
            printed.contains(&block.text),
            "{}: nobody prints this:\n{}",
            block.place,
            block.text
        );
    }
}

/// Calls a tool over HTTP, with nothing else known of the caller.
fn call(http: &Http, tool: &str, arguments: Value) -> Value {
    let http = http.header("Accept", "application/json, text/event-stream");
    let ask = |http: &Http, method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = http.post("/mcp", &body);
        let text = String::from_utf8(response.body.clone()).unwrap();
        let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        let answer = serde_json::from_str(data.unwrap_or(&text)).unwrap_or(Value::Null);
        (response, answer)
    };
    let client = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let (response, _) = ask(&http, "initialize", client);
    let session = response.header("mcp-session-id").unwrap().to_owned();
    let http = http.header("Mcp-Session-Id", &session);
    let (_, mut answer): (_, Value) =
        ask(&http, "tools/call", json!({ "name": tool, "arguments": arguments }));
    answer["result"].take()
}

#[test]
fn without_a_token_an_assistant_may_look_and_an_operator_may_start_what_is_defined() {
    let user = User::new();
    let http = Http::at(user.home.port("http"));
    assert_eq!(call(&http, "list_processes", json!({}))["isError"], false);
    assert_eq!(call(&http, "restart_process", json!({ "names": ["web"] }))["isError"], true);
    let made =
        user.home.json(["token", "create", "assistant", "--role", "operator", "--expires", "30d"]);
    let http = http.token(made["secret"].as_str().unwrap());
    assert_eq!(call(&http, "restart_process", json!({ "names": ["web"] }))["isError"], false);
    let new = json!({ "name": "new", "command": "sleep 1", "working_dir": "/tmp" });
    assert_eq!(call(&http, "start_process", new)["isError"], true);
}
