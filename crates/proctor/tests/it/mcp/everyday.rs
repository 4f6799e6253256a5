//! What people ask assistants to do all day, through the real `proctor mcp`.

use crate::support::{LIMIT, pid, status, up, wait_state, web};
use proctor_testkit::{
    Conversation, Home, alive, children, free_port, kill9, running, victim, wait_until,
};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::Duration;

/// A command that is the victim with these arguments.
fn command(args: &str) -> String {
    format!("{} {args}", victim().display())
}

/// A program that listens on a port and says so, in a child of its own session that ignores SIGTERM.
fn server(port: u16) -> Value {
    let script = format!(
        "import socket,os,signal,sys,time\n\
         s=socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1',{port})); s.listen()\n\
         if os.fork()==0:\n os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)\n\
         print('listening', flush=True); time.sleep(1000)"
    );
    json!(format!("python3 -c {}", shell_word(&script)))
}

fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[test]
fn a_server_outlives_its_conversation_and_the_next_one_finds_it() {
    let home = Home::new();
    let mut first = Conversation::begin(&home, "claude-code");
    let started =
        first.ok("start_process", json!({ "name": "dev", "command": command("--lines 3") }));
    let old = started.facts["services"][0]["pid"].clone();
    assert!(first.end().success(), "it ends with its input");
    let mut second = Conversation::begin(&home, "cursor");
    let listed = second.ok("list_processes", json!({}));
    assert_eq!(listed.facts["services"][0]["name"], "dev");
    assert_eq!(listed.facts["services"][0]["pid"], old, "the same process");
    second.ok("stop_process", json!({ "names": ["dev"] }));
    assert!(!alive(u32::try_from(old.as_u64().unwrap()).unwrap()));
}

#[test]
fn a_conversation_that_is_killed_stops_nothing() {
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    conversation.ok("start_process", json!({ "name": "dev", "command": command("") }));
    let pid = pid(&home, "dev");
    kill9(conversation.pid());
    drop(conversation);
    assert!(alive(pid) && status(&home, "dev")["state"] == "running");
}

#[test]
fn starting_a_server_that_never_ends_does_not_hang_the_call() {
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    let told = conversation.ok(
        "start_process",
        json!({ "name": "dev", "command": command("--lines 1000000000 --every 1") }),
    );
    assert_eq!(told.facts["services"][0]["state"], "running");
    // Run as a command instead, it is ended in time, and what it said until then is told.
    let told = conversation.call(
        "run_command",
        json!({ "command": command("--lines 1000000000 --every 1"), "timeout_seconds": 1 }),
    );
    assert_eq!(told.facts["success"], false, "{told:#?}");
    assert!(told.text.contains("line 1"), "{}", told.text);
}

#[test]
fn a_stop_leaves_neither_children_nor_ports() {
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    let port = free_port();
    conversation.ok("start_process", json!({ "name": "dev", "command": server(port) }));
    wait_until("it listens", LIMIT, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    let main = pid(&home, "dev");
    wait_until("its child is there", LIMIT, || !children(main).is_empty());
    let children = children(main);
    conversation.ok("stop_process", json!({ "names": ["dev"] }));
    assert!(!children.iter().any(|child| alive(*child)), "{children:?}");
    assert!(std::net::TcpListener::bind(("127.0.0.1", port)).is_ok(), "the port is free again");
}

#[test]
fn output_is_read_once() {
    let home = up(&web(&["--lines", "100"], ""));
    let mut conversation = Conversation::begin(&home, "claude-code");
    let read = |conversation: &mut Conversation, more: Value| {
        let mut input = json!({ "services": ["web"] });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        conversation.ok("get_process_logs", input)
    };
    wait_until("all is written", LIMIT, || {
        read(&mut conversation, json!({})).text.contains("line 100\n")
    });
    let first = read(&mut conversation, json!({}));
    assert!(first.facts.get("items").is_none(), "lines are told once, in the text: {first:?}");
    let cursor = first.facts["cursor"].clone();
    let again = read(&mut conversation, json!({ "cursor": cursor }));
    assert!(!again.text.contains("line "), "{}", again.text);
    assert!(again.bytes < 400, "{} bytes to say that nothing is new", again.bytes);
}

#[test]
fn twenty_conversations_share_one_daemon() {
    let home = Home::new();
    let mut all: Vec<Conversation> =
        (0..20).map(|number| Conversation::begin(&home, &format!("client-{number}"))).collect();
    for conversation in &mut all {
        conversation.ok("list_processes", json!({}));
    }
    let path = home.path().display().to_string();
    assert_eq!(running(&["__keeper", &path]).len(), 1);
    assert_eq!(running(&["__daemon", &path]).len(), 1);
    for conversation in all {
        assert!(conversation.end().success());
    }
    let path = home.path().display().to_string();
    assert_eq!(running(&["mcp", &path]), [0; 0], "none stays behind");
}

#[test]
fn running_is_true_and_a_crash_is_noticed() {
    let home = up(&web(&["--exit-after", "300", "--exit", "3"], "restart_policy: never"));
    let mut conversation = Conversation::begin(&home, "claude-code");
    let told =
        conversation.call("wait_for_process", json!({ "names": ["web"], "until": "stopped" }));
    assert_eq!(told.facts["reached"], true, "{told:#?}");
    let told = conversation.call("get_process_status", json!({ "names": ["web"] }));
    let service = &told.facts["services"][0];
    assert_eq!((&service["state"], &service["last_exit"]["code"]), (&json!("failed"), &json!(3)));
    let told = conversation.ok("get_events", json!({ "services": ["web"] }));
    assert!(told.text.contains("exit code 3") || told.text.contains("exited"), "{}", told.text);
}

#[test]
fn only_what_was_named_is_stopped() {
    let home = up(&web(&[], ""));
    let mut conversation = Conversation::begin(&home, "claude-code");
    conversation.ok("start_process", json!({ "name": "web2", "command": command("") }));
    let mut stranger = std::process::Command::new(victim()).spawn().unwrap();
    let (web, other) = (pid(&home, "web"), pid(&home, "web2"));
    conversation.ok("stop_process", json!({ "names": ["web2"] }));
    assert!(alive(web) && !alive(other) && alive(stranger.id()));
    let told = conversation.call("stop_process", json!({ "names": [stranger.id().to_string()] }));
    assert!(told.is_error && told.text.contains("remedy: list_processes"), "{}", told.text);
    assert!(alive(stranger.id()));
    kill9(stranger.id());
    stranger.wait().unwrap();
}

#[test]
fn a_port_that_is_taken_is_named_with_who_holds_it() {
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = holder.local_addr().unwrap().port();
    home.write("proctor.yaml", &web(&[], &format!("port: {port}")));
    let told = conversation.call("apply_config", json!({ "config": "proctor.yaml" }));
    assert!(told.is_error, "{told:#?}");
    assert!(told.text.contains(&format!("(pid {})", std::process::id())), "{}", told.text);
}

#[test]
fn the_daemon_is_killed_and_the_conversation_goes_on() {
    let home = up(&web(&["--lines", "100000000", "--every", "5"], ""));
    let mut conversation = Conversation::begin(&home, "claude-code");
    let before = conversation.ok("get_process_status", json!({ "names": ["web"] }));
    let cursor =
        conversation.ok("get_process_logs", json!({ "services": ["web"] })).facts["cursor"].clone();
    for victim in [home.daemon_pid(), home.keeper_pid()] {
        kill9(victim);
        let after = conversation.ok("get_process_status", json!({ "names": ["web"] }));
        assert_eq!(after.facts["services"][0]["pid"], before.facts["services"][0]["pid"]);
    }
    let news =
        conversation.ok("get_process_logs", json!({ "services": ["web"], "cursor": cursor }));
    assert!(news.text.contains("line "), "{}", news.text);
    // A change is never made twice: who asks for one while the keeper is replaced is told that nobody knows.
    wait_until("it can be changed again", LIMIT, || {
        let told = conversation.call("restart_process", json!({ "names": ["web"] }));
        assert!(!told.is_error || told.text.contains("remedy: "), "{}", told.text);
        !told.is_error
    });
    wait_state(&home, "web", "running");
}

#[test]
fn waiting_tells_how_it_goes_and_can_be_given_up() {
    let home = up(&web(&[], ""));
    let mut conversation = Conversation::begin(&home, "claude-code");
    let arguments = json!({ "names": ["web"], "until": "stopped", "timeout": 40 });
    let params = json!({ "name": "wait_for_process", "arguments": arguments, "_meta": { "progressToken": "p" } });
    let id = conversation.request("tools/call", params);
    let said = conversation.heard(LIMIT).unwrap();
    assert_eq!(said["method"], "notifications/progress");
    assert_eq!(said["params"]["message"], "web is running");
    conversation.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }));
    // The conversation goes on meanwhile and afterwards.
    conversation.ok("list_processes", json!({}));
    assert!(!conversation.notifications.iter().any(|message| message["id"] == id));
}

#[test]
fn a_change_of_a_resource_is_told() {
    let home = up(&web(&[], ""));
    let mut conversation = Conversation::begin(&home, "claude-code");
    let listed = conversation.ask("resources/list", json!({}));
    let uris: Vec<&str> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["uri"].as_str().unwrap())
        .collect();
    assert_eq!(
        uris,
        ["proctor://services", "proctor://services/web/status", "proctor://services/web/logs"]
    );
    conversation.ask("resources/subscribe", json!({ "uri": "proctor://services/web/status" }));
    // Until it is watched, nothing is told.
    let told = (0..20).any(|_| {
        home.ok(["restart", "web"]);
        let heard = conversation.heard(Duration::from_secs(3));
        heard.is_some_and(|it| it["params"]["uri"] == "proctor://services/web/status")
    });
    assert!(told, "a restart changes the status");
    let read =
        conversation.ask("resources/read", json!({ "uri": "proctor://services/web/status" }));
    let text = read["contents"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap()["services"][0]["name"], "web");
    conversation.ask("resources/unsubscribe", json!({ "uri": "proctor://services/web/status" }));
    home.ok(["start", "--name", "other", "--", victim().to_str().unwrap()]);
    let changed = "notifications/resources/list_changed";
    let told = (0..20).filter_map(|_| conversation.heard(LIMIT)).any(|it| it["method"] == changed);
    assert!(told, "a service more is a resource more");
}

#[test]
fn names_are_completed_and_prompts_know_what_is() {
    let home = up(&web(&["--lines", "3"], ""));
    let mut conversation = Conversation::begin(&home, "claude-code");
    let complete = json!({
        "ref": { "type": "ref/prompt", "name": "diagnose_process" }, "argument": { "name": "name", "value": "w" },
    });
    let completed = conversation.ask("completion/complete", complete);
    assert_eq!(completed["completion"]["values"], json!(["web"]));
    let prompt = conversation
        .ask("prompts/get", json!({ "name": "diagnose_process", "arguments": { "name": "web" } }));
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("web is running") && text.contains("restart_process"), "{text}");
}

#[test]
fn what_outlasts_a_client_is_followed_by_its_id() {
    let home = Home::new();
    let mut conversation = Conversation::begin_with(&home, "claude-code", &["--patience", "1"]);
    let begun =
        conversation.ok("run_command", json!({ "command": "sleep 3", "timeout_seconds": 60 }));
    let operation = begun.facts["operation"].as_str().unwrap().to_owned();
    assert!(begun.text.contains("get_operation"), "{}", begun.text);
    let mut rounds = 0;
    let ended = loop {
        let told = conversation.ok("get_operation", json!({ "operation": operation }));
        rounds += 1;
        if told.facts["state"] != "running" {
            break told;
        }
        assert!(rounds < 60, "{told:#?}");
    };
    assert_eq!(ended.facts["state"], "succeeded", "{ended:#?}");
    assert_eq!(ended.facts["result"]["exit_code"], 0);
}

#[test]
fn the_list_of_tools_is_short_and_the_same_for_everybody() {
    let home = Home::new();
    let tools = |client: &str| {
        let mut conversation = Conversation::begin(&home, client);
        conversation.ask("tools/list", json!({}))["tools"].to_string()
    };
    let listed = tools("a");
    assert_eq!(listed, tools("b"));
    assert!(listed.len() < 40 << 10, "{} bytes", listed.len());
}
