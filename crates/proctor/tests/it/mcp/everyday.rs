//! Everyday requests to assistants, through the real `proctor mcp`.

use crate::support::{LIMIT, pid, service, services, status, up, wait_state, web};
use proctor_testkit::{
    Conversation, Home, ToolReply, alive, children, free_port, kill9, running, victim, wait_until,
};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::time::Duration;

/// Returns a command that runs the victim with these arguments.
fn command(args: &str) -> String {
    format!("{} {args}", victim().display())
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
    // Run as a command instead, it is ended in time, and its output is reported.
    let told = conversation.call(
        "run_command",
        json!({ "command": command("--lines 1000000000 --every 1"), "timeout_seconds": 1 }),
    );
    assert_eq!(told.facts["success"], false, "{told:#?}");
    assert!(told.text.contains("line 1"), "{}", told.text);
}

#[test]
fn what_runs_is_listed_with_where_it_is_and_where_its_output_goes_on() {
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    let port = free_port();
    let start = json!({ "name": "dev", "command": command(&format!("--http {port} --lines 3")), "lease": "1h" });
    conversation.ok("start_process", start);
    conversation.ok("wait_for_process", json!({ "names": ["dev"], "port": port }));
    let listed = conversation.ok("list_processes", json!({}));
    let service = &listed.facts["services"][0];
    assert_eq!(service["pid"], pid(&home, "dev"));
    assert_eq!(
        (&service["ports"], &service["url"]),
        (&json!([port]), &json!(format!("http://localhost:{port}")))
    );
    assert_eq!(service["owner"], "claude-code");
    assert!(service["lease_seconds_left"].as_u64().is_some_and(|left| left <= 3600), "{service:#}");
    wait_until("its lines are there", LIMIT, || {
        let read = conversation.ok("get_process_logs", json!({ "services": ["dev"] }));
        read.text.contains("line 3\n")
    });
    let cursor =
        conversation.ok("list_processes", json!({})).facts["services"][0]["log_cursor"].clone();
    let news =
        conversation.ok("get_process_logs", json!({ "services": ["dev"], "cursor": cursor }));
    assert!(!news.text.contains("line "), "{}", news.text);
}

#[test]
fn a_long_list_is_gone_on_with_and_nothing_is_missed_or_told_twice() {
    let all: Vec<String> =
        (10..70).map(|number| service(&format!("s{number}"), &[], "autostart: false")).collect();
    let home = up(&services(&all));
    let mut conversation = Conversation::begin(&home, "claude-code");
    let names = |told: &ToolReply| -> Vec<String> {
        let listed = told.facts["services"].as_array().unwrap();
        listed.iter().map(|service| service["name"].as_str().unwrap().to_owned()).collect()
    };
    let first = conversation.ok("list_processes", json!({}));
    assert!(first.text.contains("continue after: s59"), "{}", first.text);
    let rest = conversation
        .ok("list_processes", json!({ "after": first.facts["next"], "state": ["stopped"] }));
    assert!(rest.facts.get("more").is_none_or(|more| *more == false), "{:#}", rest.facts);
    let seen = [names(&first), names(&rest)].concat();
    assert_eq!(seen, (10..70).map(|number| format!("s{number}")).collect::<Vec<_>>());
    let running = conversation.ok("list_processes", json!({ "state": ["running"] }));
    assert_eq!(names(&running), [""; 0], "what is not wanted takes no place on the page");
}

#[test]
fn a_page_that_is_asked_to_be_too_large_loses_nothing() {
    let home = up(&web(&["--lines", "5000"], ""));
    home.ok(["wait", "web", "--log", "line 5000"]);
    let mut conversation = Conversation::begin(&home, "claude-code");
    let mut input = json!({ "services": ["web"], "since": "1h", "max_bytes": 10_000_000 });
    let mut seen = 0;
    for _ in 0..100 {
        let told = conversation.ok("get_process_logs", input.clone());
        for line in told.text.lines().filter_map(|line| line.split("line ").nth(1)) {
            seen += 1;
            assert_eq!(line, seen.to_string());
        }
        input =
            json!({ "services": ["web"], "cursor": told.facts["cursor"], "max_bytes": 10_000_000 });
        if told.facts["more"] != true {
            break;
        }
    }
    assert_eq!(seen, 5000);
}

#[test]
fn why_it_failed_is_one_question() {
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    let command = "sh -c 'echo setting up; echo TypeError: x is undefined >&2; exit 3'";
    conversation.call(
        "start_process",
        json!({ "name": "web", "command": command, "restart_policy": "never" }),
    );
    conversation.call("wait_for_process", json!({ "names": ["web"], "until": "exit" }));
    let told = conversation.ok("get_process_status", json!({ "names": ["web"] }));
    assert!(
        told.text.contains("exit code 3") && told.text.contains("TypeError: x is undefined"),
        "{}",
        told.text
    );
    assert!(
        told.facts["services"][0]["output"].to_string().contains("TypeError: x is undefined"),
        "a client may show the facts alone: {}",
        told.facts
    );
}

#[test]
fn a_client_that_follows_tasks_gets_one_for_what_takes_long() {
    let home = Home::new();
    let mut conversation = Conversation::silent(&home, &[]);
    let capabilities = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let arguments = json!({ "command": "sh -c 'sleep 6; echo done'", "timeout_seconds": 60 });
    let begun = conversation
        .ask("tools/call", json!({ "name": "run_command", "arguments": arguments, "_meta": meta }));
    assert_eq!(begun["resultType"], "task", "{begun:#}");
    let id = begun["taskId"].as_str().or(begun["task"]["taskId"].as_str()).unwrap().to_owned();
    wait_until("the task is over", LIMIT, || {
        let task = conversation.ask("tasks/get", json!({ "taskId": id, "_meta": meta }));
        task["status"] == "completed" && task["result"]["_meta"]["proctor/facts"]["exit_code"] == 0
    });
}

#[test]
fn a_stop_leaves_neither_children_nor_ports() {
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    let port = free_port();
    // It listens, has a child in its own session, and both ignore SIGTERM.
    let server = command(&format!("--http {port} --setsid --ignore-term"));
    conversation.ok("start_process", json!({ "name": "dev", "command": server }));
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
    assert!(first.facts.get("items").is_none(), "lines appear once, in the text: {first:?}");
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
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    // Whether it still runs at the response depends on the load of the machine.
    conversation.call(
        "start_process",
        json!({ "name": "web", "command": command("--exit-after 300 --exit 3"), "restart_policy": "never" }),
    );
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
fn a_wait_that_names_no_goal_waits_until_ready() {
    let home = Home::new();
    let mut conversation = Conversation::begin(&home, "claude-code");
    let crashing = json!({ "name": "bad", "command": "sh -c 'echo broken; exit 7'" });
    conversation.call("start_process", crashing);
    let told = conversation.call("wait_for_process", json!({ "names": ["bad"], "timeout": "1s" }));
    assert_eq!(told.facts["reached"], false, "{told:#?}");
    assert!(told.text.contains("broken") && told.text.contains("exit code 7"), "{}", told.text);
    let told = conversation.call("run_command", json!({ "command": "true", "timeout": "soon" }));
    assert!(told.is_error && told.text.starts_with("timeout: "), "{}", told.text);
}

#[test]
fn instructions_name_only_tools_that_are_offered() {
    let home = Home::new();
    let mut conversation = Conversation::silent(&home, &["--toolsets", "logs,git"]);
    let client = json!({ "name": "test", "version": "1" });
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let told = conversation.ask("initialize", hello)["instructions"].as_str().unwrap().to_owned();
    assert!(told.contains("get_process_logs") && told.contains("git_status"), "{told}");
    assert!(!told.contains("start_process") && !told.contains("read_file"), "{told}");
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
    let me = format!("(pid {})", std::process::id());
    // A process forked by another test has our descriptors, too, until it executes its program.
    wait_until("we are named", LIMIT, || {
        let told = conversation.call("apply_config", json!({ "config": "proctor.yaml" }));
        assert!(told.is_error, "{told:#?}");
        told.text.contains(&me)
    });
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
    // A change is never repeated: a caller during a replacement of the keeper learns that the result is unknown.
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
    // The conversation continues meanwhile and afterwards.
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
    // Before the subscription, nothing is sent.
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
    assert!(listed.len() < 48 << 10, "{} bytes", listed.len());
}
