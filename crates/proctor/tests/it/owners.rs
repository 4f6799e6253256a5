//! Owners of processes: services that assistants start are theirs, are found again by the next conversation, and are
//! protected from
//! others.

use crate::support::{LIMIT, ask_as, lines, pid, service, services, start_of, status, up};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, alive, kill9, wait_until};
use serde_json::{Value, json};

const A: Option<&str> = Some("assistant-a");
const B: Option<&str> = Some("assistant-b");

fn running() -> Home {
    let home = Home::new();
    home.ok(["daemon", "start"]);
    home
}

#[track_caller]
fn names(home: &Home, client: Option<&str>, input: Value) -> Vec<String> {
    let list = ask_as(home, client, "service.list", input).unwrap();
    let all = list["services"].as_array().unwrap().iter();
    all.map(|service| service["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_an_assistant_started_is_its_own_whatever_dies() {
    let home = running();
    ask_as(&home, A, "service.start", start_of(&home, "web", &[], json!({}))).unwrap();
    ask_as(&home, B, "service.start", start_of(&home, "docs", &[], json!({}))).unwrap();
    ask_as(&home, None, "service.start", start_of(&home, "job", &[], json!({}))).unwrap();
    let before = pid(&home, "web");
    let check = || {
        assert_eq!(status(&home, "web")["owner"], "assistant-a");
        assert_eq!(status(&home, "job").get("owner"), None, "left out where there is none");
        assert_eq!(names(&home, A, json!({ "mine": true })), ["web"]);
        assert_eq!(names(&home, B, json!({ "mine": true })), ["docs"]);
        assert_eq!(names(&home, None, json!({ "mine": true })), ["job"]);
        assert_eq!(names(&home, B, json!({ "owner": "assistant-a" })), ["web"]);
        assert_eq!(names(&home, A, json!({})), ["docs", "job", "web"]);
        assert_eq!(home.json(["list", "--owner", "nobody"])["services"], json!([]));
        assert_eq!(pid(&home, "web"), before);
    };
    check();
    let daemon = home.daemon_pid();
    kill9(daemon);
    wait_until("another daemon", LIMIT, || home.daemon_pid() != daemon);
    check();
    kill_proctor(&home);
    home.ok(["daemon", "start"]);
    check();
    assert!(home.ok(["list"]).contains("OWNER"));
    assert!(home.ok(["status", "web"]).contains("assistant-a"));
    let both = ask_as(&home, A, "service.list", json!({ "mine": true, "owner": "x" })).unwrap_err();
    assert_eq!(both["code"], "bad_input");
}

#[test]
fn an_assistant_that_comes_back_is_told_that_it_runs() {
    let home = running();
    let start = |args: &[&str], more: Value| start_of(&home, "web", args, more);
    let first = ask_as(&home, A, "service.start", start(&["--lines", "1"], json!({}))).unwrap();
    assert_eq!(first["services"][0]["result"], "started");
    let before = pid(&home, "web");
    // Another shell, the same definition.
    let again = start(&["--lines", "1"], json!({ "environment": { "OTHER": "1" } }));
    let second = ask_as(&home, A, "service.start", again.clone()).unwrap();
    assert_eq!(second["services"][0]["result"], "already_running", "{second:#}");
    assert_eq!((pid(&home, "web"), lines(&home, "web", &[]).len()), (before, 1));

    let refused = |client, input: &Value, words: &str| {
        let error = ask_as(&home, client, "service.start", input.clone()).unwrap_err();
        assert_eq!(error["code"], "already_exists", "{error}");
        let said = format!("{} {}", error["message"], error["help"]);
        assert!(said.contains(words) && said.contains("replace: true"), "{said}");
    };
    let other = start(&["--lines", "2"], json!({}));
    refused(A, &other, "with another definition");
    refused(A, &start(&["--lines", "1"], json!({ "port": 4711 })), "with another definition");
    refused(B, &again, "assistant-a started it");
    refused(None, &again, "assistant-a started it");
    assert_eq!(pid(&home, "web"), before);

    ask_as(&home, A, "service.stop", json!({ "names": ["web"] })).unwrap();
    assert!(!alive(before));
    let third = ask_as(&home, A, "service.start", again).unwrap();
    assert_eq!(third["services"][0]["result"], "started");
    let mut replace = other;
    replace["replace"] = true.into();
    ask_as(&home, B, "service.start", replace).unwrap();
    assert_eq!(status(&home, "web")["owner"], "assistant-b", "whoever defines it anew has it");
    // The same for people, who have no owner name here.
    home.ok(["start", "--name", "job", "--", "/bin/sleep", "1000"]);
    let before = pid(&home, "job");
    assert!(home.ok(["start", "--name", "job", "--", "/bin/sleep", "1000"]).contains("already"));
    let (code, said) = home.fail(["start", "--name", "job", "--", "/bin/sleep", "2000"]);
    assert!(code == 8 && said.contains("another definition"), "{said}");
    let (code, said) = home.fail(["start", "job", "--command", "sleep 2000"]);
    assert!(code == 2 && said.contains("need the 'name'"), "{said}");
    assert_eq!(pid(&home, "job"), before);
}

#[test]
fn an_assistant_touches_only_what_it_may_and_the_audit_names_it() {
    let db = service("db", &[], "assistants: view");
    let text = services(&[service("web", &[], ""), db]);
    let home = up(&text.replace("supervisor:\n", "supervisor:\n  mcp: { control: own }\n"));
    ask_as(&home, A, "service.start", start_of(&home, "mine", &[], json!({}))).unwrap();
    let pids = || ["web", "db", "mine"].map(|name| pid(&home, name));
    let before = pids();
    let refused = |client, op: &str, input: Value, words: &str| {
        let error = ask_as(&home, client, op, input).unwrap_err();
        assert_eq!(error["code"], "forbidden", "{op}: {error}");
        assert!(error["message"].as_str().unwrap().contains(words), "{op}: {error}");
    };
    refused(A, "service.stop", json!({ "names": ["db"] }), "`assistants: view`");
    refused(A, "service.restart", json!({ "names": ["web"] }), "`supervisor.mcp.control: own`");
    refused(A, "service.stop", json!({ "names": ["all"] }), "db (`assistants: view`)");
    refused(A, "service.down", json!({}), "web");
    refused(A, "daemon.stop", json!({}), "web");
    refused(B, "service.signal", json!({ "name": "mine", "signal": "KILL" }), "mine");
    refused(B, "service.remove", json!({ "names": ["mine"] }), "mine");
    let config = home.write("proctor.yaml", &services(&[service("web", &[], "")]));
    refused(A, "service.up", json!({ "config": config }), "mcp.control");
    assert_eq!(pids(), before);
    ask_as(&home, A, "service.restart", json!({ "names": ["mine"] })).unwrap();
    ask_as(&home, A, "service.status", json!({ "names": ["db"] })).unwrap();
    assert_ne!(pid(&home, "mine"), before[2]);
    home.ok(["stop", "db"]);

    let audit = home.json(["audit", "read", "--who", "assistant-a", "-n", "1000"]);
    let entries = audit["entries"].as_array().unwrap();
    let told = |operation: &str, code: &str| {
        entries.iter().any(|entry| {
            entry["operation"] == operation
                && entry["code"] == code
                && entry["front"] == "mcp"
                && entry["client"] == "assistant-a"
        })
    };
    assert!(told("service.start", "ok") && told("service.stop", "forbidden"), "{audit:#}");
    assert!(entries.iter().all(|entry| entry["client"] == "assistant-a"));
    assert!(home.ok(["audit", "read"]).contains("mcp assistant-a"));
}

#[test]
fn assistants_do_no_more_than_their_role_and_people_what_they_like() {
    let text = services(&[service("web", &[], "")]);
    let home = up(&text.replace("supervisor:\n", "supervisor:\n  mcp: { role: operator }\n"));
    ask_as(&home, A, "service.restart", json!({ "names": ["web"] })).unwrap();
    for (op, input) in [
        ("service.start", start_of(&home, "new", &[], json!({}))),
        ("command.execute", json!({ "command": "true" })),
        ("token.list", json!({})),
    ] {
        let error = ask_as(&home, A, op, input.clone()).unwrap_err();
        assert_eq!(error["code"], "forbidden", "{op}: {error}");
        assert!(error["message"].as_str().unwrap().contains("`supervisor.mcp.role`"), "{error}");
        ask_as(&home, None, op, input).unwrap();
    }
}

#[test]
fn a_taken_port_is_named_with_who_holds_it_before_anything_starts() {
    let home = running();
    let start = start_of(&home, "web", &["--http", "0"], json!({}));
    ask_as(&home, A, "service.start", start).unwrap();
    wait_until("it listens", LIMIT, || !lines(&home, "web", &[]).is_empty());
    let line = lines(&home, "web", &[]).remove(0);
    let port: u16 = line.strip_prefix("http ").unwrap().parse().unwrap();
    let more = json!({ "port": port, "health_check_url": format!("http://127.0.0.1:{port}/") });
    let error = ask_as(&home, A, "service.start", start_of(&home, "second", &[], more.clone()));
    let error = error.unwrap_err();
    let holder = pid(&home, "web");
    assert_eq!(error["code"], "port_in_use", "{error}");
    let said = format!("port {port} is in use by victim (pid {holder}) of service 'web'");
    assert!(error["message"].as_str().unwrap().contains(&said), "{error}");
    assert!(error["help"].as_str().unwrap().contains("proctor stop web"), "{error}");
    let details = json!({ "port": port, "process": "victim", "pid": holder, "service": "web" });
    assert_eq!(error["details"], details);
    assert_eq!(names(&home, None, json!({})), ["web"], "nothing was changed");

    ask_as(&home, A, "service.stop", json!({ "names": ["web"] })).unwrap();
    let port = port.to_string();
    let started = start_of(&home, "second", &["--print-env", "--http", &port], more);
    ask_as(&home, A, "service.start", started).unwrap();
    let variable = format!("env PORT={port}");
    wait_until("it got its port", LIMIT, || lines(&home, "second", &[]).contains(&variable));
    wait_until("it is healthy", LIMIT, || status(&home, "second")["health"]["state"] == "healthy");
}
