//! Input of `proctor mcp`: everything is answered or ignored, nothing breaks the conversation, and its end is an end.

use crate::support::{LIMIT, up, web};
use proctor_testkit::{Conversation, Home, alive, children, kill9, wait_until};
use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// More than the maximum of a message.
const TOO_LONG: usize = 17 << 20;

/// Nesting far beyond real messages.
const DEEP: usize = 200_000;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;

/// Metadata that a request of the newer era must have.
fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn begin() -> (Home, Conversation) {
    let home = Home::new();
    let conversation = Conversation::begin(&home, "test");
    (home, conversation)
}

#[track_caller]
fn goes_on(conversation: &mut Conversation) {
    assert!(!conversation.ask("tools/list", json!({}))["tools"].as_array().unwrap().is_empty());
}

/// Checks that these bytes get this error, and that the conversation continues.
#[track_caller]
fn check(conversation: &mut Conversation, bytes: &[u8], code: i64) -> Value {
    conversation.say_bytes(bytes);
    conversation.say_bytes(b"\n");
    let answer = conversation.heard(LIMIT).expect("an answer, not silence");
    assert_eq!(answer["error"]["code"], code, "{answer:#}");
    goes_on(conversation);
    answer
}

#[test]
fn a_line_that_is_too_long_is_answered_and_the_conversation_goes_on() {
    let (_home, mut conversation) = begin();
    let long = "x".repeat(TOO_LONG);
    let call =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": { "name": long } });
    check(&mut conversation, call.to_string().as_bytes(), INVALID_REQUEST);
    check(&mut conversation, long.as_bytes(), INVALID_REQUEST);
    // Just below the maximum, it is an ordinary request.
    let path = "x".repeat(15 << 20);
    let told = conversation.call("get_process_status", json!({ "names": [path] }));
    assert!(told.is_error && told.bytes < 100_000, "{} bytes", told.bytes);
}

#[test]
fn too_long_before_the_beginning_is_no_end_either() {
    let home = Home::new();
    let mut conversation = Conversation::silent(&home, &[]);
    conversation.say_bytes(&[b'x'; TOO_LONG]);
    conversation.say_bytes(b"\nnonsense\n");
    for code in [INVALID_REQUEST, PARSE_ERROR] {
        assert_eq!(conversation.heard(LIMIT).unwrap()["error"]["code"], code);
    }
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    assert_eq!(conversation.ask("initialize", hello)["protocolVersion"], "2025-11-25");
}

#[test]
fn what_is_no_message_is_answered_and_the_conversation_goes_on() {
    let (_home, mut conversation) = begin();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    check(&mut conversation, format!("[{request},{request}]").as_bytes(), INVALID_REQUEST);
    check(&mut conversation, b"[]", INVALID_REQUEST);
    check(&mut conversation, b"17", INVALID_REQUEST);
    check(&mut conversation, b"null", INVALID_REQUEST);
    check(&mut conversation, b"{", PARSE_ERROR);
    check(&mut conversation, b"tools/list", PARSE_ERROR);
    check(&mut conversation, br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}}"#, PARSE_ERROR);
    let broken = [br#"{"jsonrpc":"2.0","id":1,"method":""#.as_slice(), b"\xff\xfe\"}"].concat();
    check(&mut conversation, &broken, PARSE_ERROR);
    check(&mut conversation, &b"[".repeat(DEEP), PARSE_ERROR);
    check(&mut conversation, &br#"{"a":"#.repeat(DEEP), PARSE_ERROR);
    let other = br#"{"jsonrpc":"1.0","id":"mine","method":"tools/list"}"#;
    assert_eq!(check(&mut conversation, other, INVALID_REQUEST)["id"], "mine");
    let wrong = br#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":[]}"#;
    conversation.say_bytes(wrong);
    conversation.say_bytes(b"\n");
    let answer = conversation.heard(LIMIT).unwrap();
    assert!(answer["id"] == 9 && answer["error"].is_object(), "{answer:#}");
    goes_on(&mut conversation);
}

#[test]
fn what_wants_no_answer_gets_none() {
    let (_home, mut conversation) = begin();
    for line in [
        "",
        "   ",
        "\r",
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":99,"error":{"code":-1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/nonsense","params":{"x":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":4711}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        r#"{"hello":"there"}"#,
    ] {
        conversation.say_bytes(format!("{line}\n").as_bytes());
    }
    goes_on(&mut conversation);
    assert_eq!(conversation.notifications, [] as [Value; 0], "nothing came but the answer");
}

#[test]
fn lines_may_end_as_on_other_systems_and_come_in_pieces() {
    let (_home, mut conversation) = begin();
    let request = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/list" }).to_string();
    for byte in request.bytes().chain(*b"\r\n") {
        conversation.say_bytes(&[byte]);
    }
    assert_eq!(conversation.heard(LIMIT).unwrap()["id"], "a");
    let other = request.replace("\"a\"", "\"b\"");
    conversation.say_bytes(format!("\u{feff}{request}\n{other}\n").as_bytes());
    let mut ids = [(); 2].map(|()| conversation.heard(LIMIT).unwrap()["id"].clone());
    ids.sort_by_key(Value::to_string);
    assert_eq!(ids, ["a", "b"]);
}

#[test]
fn both_eras_may_speak_through_one_pipe() {
    let (_home, mut conversation) = begin();
    let new = meta("2026-07-28");
    let listed = conversation.ask("tools/list", json!({ "_meta": new }));
    assert_eq!(listed["resultType"], "complete", "the newer era says so");
    let listed = conversation.ask("tools/list", json!({}));
    assert!(listed.get("resultType").is_none(), "the older does not");
    let found = conversation.ask("server/discover", json!({ "_meta": new }));
    assert!(found["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    goes_on(&mut conversation);
}

#[test]
fn a_pipe_that_begins_with_the_newer_era_needs_no_handshake() {
    let home = Home::new();
    let mut conversation = Conversation::silent(&home, &[]);
    let new = meta("2026-07-28");
    conversation.ask("server/discover", json!({ "_meta": new }));
    let params = json!({ "name": "list_processes", "arguments": {}, "_meta": new });
    assert_eq!(conversation.ask("tools/call", params)["isError"], false);
    // The protocol version is not known yet.
    let id = conversation.request("tools/list", json!({}));
    assert_eq!(conversation.answer(id)["error"]["code"], -32602);
    let id = conversation.request("tools/list", json!({ "_meta": meta("1999-01-01") }));
    let refused = conversation.answer(id);
    assert_eq!(refused["error"]["data"]["requested"], "1999-01-01", "{refused:#}");
    assert!(refused["error"]["data"]["supported"].as_array().unwrap().len() > 1);
    let params = json!({ "name": "list_processes", "arguments": {}, "_meta": new });
    assert_eq!(conversation.ask("tools/call", params)["isError"], false);
}

#[test]
fn every_revision_is_spoken_and_an_unknown_one_is_answered_with_one_that_is() {
    let home = Home::new();
    for (asked, spoken) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("nonsense", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let mut conversation = Conversation::silent(&home, &[]);
        let hello = json!({ "protocolVersion": asked, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        assert_eq!(conversation.ask("initialize", hello)["protocolVersion"], spoken, "{asked}");
        goes_on(&mut conversation);
    }
}

#[test]
fn it_ends_when_there_is_nothing_to_hear() {
    let home = Home::new();
    assert!(Conversation::silent(&home, &[]).end().success(), "closed at once");
    let mut half = Conversation::silent(&home, &[]);
    half.say_bytes(br#"{"jsonrpc":"2.0","id":1,"#);
    assert!(half.end().success(), "in the middle of a line");
    let conversation = Conversation::begin(&home, "test");
    assert!(conversation.end().success());
    let status = home.command(["mcp"]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.unwrap().success(), "nothing to hear, nowhere to say it");
}

#[test]
fn somebody_who_speaks_something_else_is_told_what_this_is() {
    let home = Home::new();
    let mut command = home.command(["mcp"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("Model Context Protocol"), "{said}");
}

/// Makes an exchange through these descriptors.
fn exchange(home: &Home, stdin: Stdio, stdout: Stdio, mut ours: File, answers: File) {
    let mut command = home.command(["mcp"]);
    let mut child = command.stdin(stdin).stdout(stdout).spawn().unwrap();
    drop(command);
    let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello });
    writeln!(ours, "{hello}").unwrap();
    let mut answers = BufReader::new(answers);
    let mut answer = || {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap_or_else(|why| panic!("{why}: '{line}'"))
    };
    assert_eq!(answer()["result"]["protocolVersion"], "2025-11-25");
    // It waits for input, however long that takes.
    home.command(["list"]).output().unwrap();
    assert!(child.try_wait().unwrap().is_none(), "it has ended");
    writeln!(ours, "{}", json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" })).unwrap();
    assert_eq!(answer()["id"], 2);
    drop(ours);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_socket_does_as_well_as_a_pipe_also_one_that_does_not_block() {
    let home = Home::new();
    for flags in [SocketFlags::CLOEXEC, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK] {
        let pair = || {
            let kind = SocketType::STREAM;
            rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None).unwrap()
        };
        let ((ours, stdin), (answers, stdout)) = (pair(), pair());
        for end in [&ours, &answers] {
            rustix::fs::fcntl_setfl(end, OFlags::empty()).unwrap();
        }
        exchange(&home, stdin.into(), stdout.into(), ours.into(), answers.into());
    }
}

#[test]
fn a_fifo_with_a_name_does_as_well_and_a_file_is_read_to_its_end() {
    let home = Home::new();
    let (say, hear) = (home.path().join("say"), home.path().join("hear"));
    for path in [&say, &hear] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
    }
    // Both directions at once, because opening would wait for the other side.
    let both = |path| File::options().read(true).write(true).open(path).unwrap();
    let (hold_say, hold_hear) = (both(&say), both(&hear));
    let (stdin, stdout) =
        (File::open(&say).unwrap(), File::options().write(true).open(&hear).unwrap());
    let (ours, answers) =
        (File::options().write(true).open(&say).unwrap(), File::open(&hear).unwrap());
    drop((hold_say, hold_hear));
    exchange(&home, stdin.into(), stdout.into(), ours, answers);
    let script = home.path().join("script");
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    std::fs::write(&script, format!("{ping}\n{ping}\n")).unwrap();
    let mut command = home.command(["mcp"]);
    let output = command.stdin(File::open(&script).unwrap()).output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), 2);
}

#[test]
fn a_client_that_is_gone_in_the_middle_of_a_call_leaves_nothing() {
    let home = up(&web(&[], ""));
    let daemon = home.daemon_pid();
    let open = || std::fs::read_dir(format!("/proc/{daemon}/fd")).unwrap().count();
    let before = open();
    for _ in 0..5 {
        let mut conversation = Conversation::begin(&home, "test");
        let wait = json!({ "name": "wait_for_process", "arguments": { "names": ["web"], "until": "stopped", "timeout": 40 } });
        conversation.request("tools/call", wait);
        wait_until("the wait is under way", LIMIT, || {
            let list = home.json(["operation", "list"]);
            list["operations"].as_array().unwrap().iter().any(|one| one["state"] == "running")
        });
        kill9(conversation.pid());
        drop(conversation);
        wait_until("nobody waits any more", LIMIT, || {
            let list = home.json(["operation", "list"]);
            !list["operations"].as_array().unwrap().iter().any(|one| one["state"] == "running")
        });
    }
    wait_until("no descriptor is left", LIMIT, || open() <= before);
    assert!(alive(home.daemon_pid()) && children(home.daemon_pid()).is_empty());
}
