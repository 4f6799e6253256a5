//! Many assistants at once: one shared daemon, a thin process for each, and a slot for each within the limit.

use super::web::{client, home, list, session};
use crate::files::token;
use crate::support::{up, web};
use proctor_testkit::{Conversation, Http, running};
use serde_json::json;

const CROWD: usize = 50;

/// More than the maximum.
const TOO_MANY: usize = 300;

/// Maximum private memory of a process in KiB: some 600 were measured; a server in other languages takes a hundred times that.
const THIN: u64 = 4 << 10;

/// Returns the memory that this process alone has written to, in KiB.
fn own_memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn fifty_conversations_cost_one_daemon_and_fifty_thin_processes() {
    let home = up(&web(&[], ""));
    let daemon = home.daemon_pid();
    let before = own_memory(daemon);
    let mut all: Vec<Conversation> = (0..CROWD).map(|_| Conversation::silent(&home, &[])).collect();
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    // All requests first, then all responses.
    for conversation in &mut all {
        conversation.request("initialize", hello.clone());
        conversation.request("tools/list", json!({}));
        conversation.request(
            "tools/call",
            json!({ "name": "get_process_status", "arguments": { "names": ["web"] } }),
        );
    }
    for conversation in &mut all {
        for id in 1..=3 {
            let answer = conversation.answer(id);
            assert!(answer["error"].is_null() && answer["result"]["isError"] != true, "{answer:#}");
        }
    }
    let path = home.path().display().to_string();
    assert_eq!(running(&["__daemon", &path]), [daemon]);
    for conversation in &all {
        let memory = own_memory(conversation.pid());
        assert!(memory < THIN, "{memory} KiB for one conversation");
    }
    let grown = own_memory(daemon).saturating_sub(before);
    assert!(grown < CROWD as u64 * 200, "the daemon has grown by {grown} KiB");
    for conversation in all {
        assert!(conversation.end().success());
    }
    assert_eq!(running(&["mcp", &path]), [0; 0], "none stays behind");
}

#[test]
fn idle_sessions_make_room_and_nobody_locks_others_out() {
    let home = home();
    let other = client(&home).without("Authorization").token(&token(&home, "viewer"));
    let first = session(&other);
    let daemon = home.daemon_pid();
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
    let mut sessions: Vec<Http> = Vec::new();
    for _ in 0..TOO_MANY {
        let response = client(&home).post("/mcp", &hello);
        let id = response.header("mcp-session-id").filter(|_| response.status == 200);
        let id = id.unwrap_or_else(|| panic!("{}: {}", response.status, response.text()));
        let client = client(&home).header("Mcp-Session-Id", id);
        sessions.push(client.header("MCP-Protocol-Version", "2025-11-25"));
    }
    assert_eq!(list(&first).status, 200, "a flood of another caller ended it");
    assert_eq!(list(&session(&other)).status, 200, "a flood of another caller kept it out");
    for session in sessions.iter().rev().take(2) {
        assert_eq!(list(session).status, 200, "the newest are there");
        assert_eq!(session.send("DELETE", "/mcp", b"").status, 204);
    }
    assert_eq!(list(&session(&client(&home))).status, 200);
    assert_eq!(home.daemon_pid(), daemon, "it is the same daemon");
}
