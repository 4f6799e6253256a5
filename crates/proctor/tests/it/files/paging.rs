//! Responses in pages, several files in one, and work that ends with its waiter.

use super::{app, put, token};
use crate::control::Control;
use proctor_testkit::{Conversation, Home, Http, wait_until};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn several_files_are_described_each_by_itself() {
    let home = app("");
    put(&home, "unix.txt", "one\ntwo\n");
    put(&home, "dos.txt", "eins\r\nzwei\r\n");
    put(&home, "wide.txt", b"\xff\xfea\0\n\0");
    put(&home, "old.txt", b"gr\xfc\xdfe\n");
    let mut control = Control::known(&home, &token(&home, "operator"));
    let paths = ["unix.txt", "none.txt", "dos.txt", "wide.txt", "old.txt"];
    let answer = control.ask(&json!({ "op": "file.read", "input": { "paths": paths } }));
    let files = answer["data"]["files"].as_array().unwrap();
    let about = |file: &Value| {
        let word = |field: &str| file[field].as_str().unwrap_or("-").to_owned();
        [word("path"), word("encoding"), word("line_endings"), word("text")].join(" ")
    };
    assert_eq!(
        files.iter().map(about).collect::<Vec<_>>(),
        [
            "unix.txt utf-8 lf one\ntwo\n",
            "none.txt - - -",
            "dos.txt utf-8 crlf eins\r\nzwei\r\n",
            "wide.txt utf-16le lf a\n",
            "old.txt unknown-8bit lf gr\u{fffd}\u{fffd}e\n",
        ]
    );
    assert_eq!(files[1]["error"]["code"], "not_found");
    assert_eq!((&files[4]["lossy"], &files[0]["lines"]), (&json!(true), &json!(2)));
}

/// Returns every page of a response over HTTP.
fn pages(http: &Http, path: &str, input: &Value) -> Vec<Value> {
    let (mut input, mut pages) = (input.clone(), Vec::new());
    loop {
        let answer = http.post(path, &input);
        assert_eq!(answer.status, 200, "{path} {input}: {:?}", answer.json());
        let page = answer.json();
        let inner = page.get("files").map_or(&page, |files| &files[0]);
        let cursor = page.get("cursor").or(inner.get("cursor")).cloned();
        pages.push(page);
        match cursor {
            Some(cursor) => input["cursor"] = cursor,
            None => return pages,
        }
    }
}

#[test]
fn pages_make_the_whole_and_a_changed_file_is_noticed() {
    let home = app("");
    let text: String = (0..5000).map(|line| format!("line {line}\n")).collect();
    put(&home, "long.txt", &text);
    for number in 0..60 {
        put(&home, &format!("many/file_{number:02}"), "word\nword\n");
    }
    let http = Http::at(home.port("http")).token(&token(&home, "operator"));
    let read = pages(
        &http,
        "/api/v1/file/read",
        &json!({ "paths": ["long.txt"], "from": 11, "lines": 4000, "max_bytes": 5000 }),
    );
    let told: String = read.iter().map(|page| page["files"][0]["text"].as_str().unwrap()).collect();
    let wanted: String = text.lines().skip(10).take(4000).map(|line| format!("{line}\n")).collect();
    assert!(told == wanted && read.len() > 5, "{} pages", read.len());
    let listed = pages(&http, "/api/v1/file/list", &json!({ "path": "many", "most": 7 }));
    let names = |pages: &[Value], field: &str| -> Vec<String> {
        let items = pages.iter().flat_map(|page| page[field].as_array().unwrap());
        items.map(|item| item["path"].as_str().unwrap().to_owned()).collect()
    };
    let all: Vec<String> = (0..60).map(|number| format!("many/file_{number:02}")).collect();
    assert_eq!(names(&listed, "entries"), all);
    let found = pages(&http, "/api/v1/file/find", &json!({ "globs": ["file_*"], "most": 11 }));
    assert_eq!(names(&found, "found"), all);
    let searched = pages(&http, "/api/v1/file/search", &json!({ "pattern": "word", "most": 13 }));
    let matches: u64 = searched.iter().map(|page| page["matches"].as_u64().unwrap()).sum();
    assert_eq!((matches, searched.len()), (120, 10));
    let cursor = &read[0]["files"][0]["cursor"];
    put(&home, "long.txt", "other\n");
    let stale = http.post("/api/v1/file/read", &json!({ "paths": ["long.txt"], "cursor": cursor }));
    assert_eq!((stale.status, &stale.json()["code"]), (412, &json!("stale")), "{:?}", stale.json());
}

/// Random letters and a worst-case expression: no shortcut helps, and it takes a minute or more.
const SLOW: &str = "a[ab]{60}[^ab]";

fn letters() -> String {
    let mut state: u64 = 12345;
    let mut text = String::new();
    for _ in 0..120_000 {
        for _ in 0..2 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let word = state ^ (state >> 29);
            text.extend((0..64).map(|bit| if word >> bit & 1 == 0 { 'a' } else { 'b' }));
        }
        text.push('\n');
    }
    text
}

/// Returns true if the daemon reads that file now.
fn reads(home: &Home, name: &str) -> bool {
    let folder = format!("/proc/{}/fd", home.daemon_pid());
    let open = std::fs::read_dir(folder).unwrap().flatten();
    open.flat_map(|entry| std::fs::read_link(entry.path())).any(|path| path.ends_with(name))
}

#[test]
fn who_stops_waiting_ends_the_search() {
    const SOON: Duration = Duration::from_secs(15);
    let home = app("");
    put(&home, "large", letters());
    let begun = || wait_until("the search to begin", SOON, || reads(&home, "app/large"));
    let over = || wait_until("the search to be given up", SOON, || !reads(&home, "app/large"));
    let mut person = home.command(["file", "search", SLOW]).stdout(Stdio::null()).spawn().unwrap();
    begun();
    person.kill().unwrap();
    person.wait().unwrap();
    over();
    let mut assistant = Conversation::begin(&home, "assistant");
    let call = json!({ "name": "search_files", "arguments": { "pattern": SLOW } });
    let id = assistant.request("tools/call", call);
    begun();
    assistant.say(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id }
    }));
    over();
    assert!(assistant.ok("search_files", json!({ "pattern": "xyz" })).text.contains("nothing"));
}
