//! Tests of the command line as a process: its requests, its output on each stream, and its exit code.

use crate::script::{Daemon, line, never, now, report, service, unknown};
use proctor_ops::error::{Code, OpError};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the path of the example `command`, built with the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("examples/command");
    assert!(path.is_file(), "{} is missing: `cargo test` builds it", path.display());
    path
}

pub(crate) fn command(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.arg("--home").arg(home).args(words).env_clear().env("HOME", home);
    command.current_dir(home).stdin(Stdio::null());
    command
}

pub(crate) struct Said {
    code: i32,
    out: String,
    err: String,
}

fn run(daemon: &Daemon, words: &[&str]) -> Said {
    said(command(daemon.folder.path(), words))
}

pub(crate) fn said(mut command: Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said {
        code: output.status.code().unwrap_or(-1),
        out: text(&output.stdout),
        err: text(&output.stderr),
    }
}

#[test]
fn a_list_is_a_table_or_a_document() {
    let daemon =
        Daemon::answering("service.list", json!({ "services": [service("web", "running")] }));
    let text = run(&daemon, &["ls", "--state", "running"]);
    assert_eq!(
        (text.code, text.out.as_str()),
        (0, "NAME  STATE    COMMAND\nweb   running  npm run dev\n")
    );
    assert_eq!(daemon.input_of("service.list"), json!({ "state": ["running"] }));
    let document = run(&daemon, &["list", "--json"]);
    let parsed: Value = serde_json::from_str(&document.out).unwrap();
    assert_eq!(parsed["services"][0]["name"], "web");
}

/// A time zone file (RFC 9636) with a fixed offset of nine hours.
fn nine_hours_ahead() -> Vec<u8> {
    let counts = [0, 0, 0, 1, 0, 0, 0, 4];
    let seconds = (9 * 60 * 60_i32).to_be_bytes();
    let block = [&b"TZif2"[..], &[0; 31], &counts, &seconds, &[0, 0], b"XYZ\0"].concat();
    [&block[..], &block, b"\nXYZ-9\n"].concat()
}

#[test]
fn a_page_is_the_same_from_the_daemon_and_made_here_where_the_reader_is_elsewhere() {
    let mut web = service("web", "running");
    web["since"] = json!("2026-03-01T14:05:03Z");
    let answer = json!({ "generation": 1, "good": false, "services": [web] });
    let daemon = Daemon::answering("service.status", answer);
    let zones = tempfile::tempdir().unwrap();
    std::fs::create_dir(zones.path().join("Far")).unwrap();
    std::fs::write(zones.path().join("Far/East"), nine_hours_ahead()).unwrap();
    let shown = |zone: Option<&str>| {
        let mut status = command(daemon.folder.path(), &["status", "web", "--check"]);
        status.env("TZDIR", zones.path());
        if let Some(zone) = zone {
            status.env("TZ", zone);
        }
        let shown = said(status);
        assert_eq!(shown.code, 4, "{}", shown.err);
        shown.out
    };
    let here = shown(None);
    assert!(here.starts_with("web is running since 2026-03-01 14:05:03\n"), "{here}");
    assert_eq!(shown(Some("UTC")), here);
    assert_eq!(shown(Some("Far/East")), here.replace("14:05:03", "23:05:03"));
    assert_eq!(shown(Some("XYZ-9")), here.replace("14:05:03", "23:05:03"));
}

#[test]
fn errors_are_friendly_on_stderr_and_json_if_asked() {
    let daemon = Daemon::new(|_, _| {
        now(Err(OpError::new(Code::UnknownService, "no service or group 'wbe'")
            .help("did you mean 'web'?")))
    });
    let text = run(&daemon, &["stop", "wbe"]);
    assert_eq!((text.code, text.out.as_str()), (3, ""));
    assert_eq!(text.err, "error: no service or group 'wbe'\nhelp: did you mean 'web'?\n");
    let document = run(&daemon, &["--json", "stop", "wbe"]);
    let parsed: Value = serde_json::from_str(&document.err).unwrap();
    assert_eq!((document.code, &parsed["error"]["code"]), (3, &json!("unknown_service")));
    let misused = run(&daemon, &["stop", "--json"]);
    let parsed: Value = serde_json::from_str(&misused.err).unwrap();
    assert_eq!((misused.code, &parsed["error"]["code"]), (2, &json!("bad_input")));
}

#[test]
fn without_a_daemon_reading_says_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let nothing = said(command(home.path(), &["list"]));
    assert_eq!(nothing.code, 5);
    assert!(
        nothing.err.contains("Proctor is not running") && nothing.err.contains("proctor up"),
        "{}",
        nothing.err
    );
    std::fs::write(home.path().join("services.json"), "{}").unwrap();
    let known = said(command(home.path(), &["status"]));
    assert!(known.err.contains("proctor daemon start"), "{}", known.err);
    let refused = said(command(home.path(), &["start", "web"]));
    assert!(refused.code == 5 && refused.err.contains("cannot start Proctor"), "{}", refused.err);
    let ended = said(command(home.path(), &["down"]));
    assert_eq!((ended.code, ended.err.as_str()), (0, "Proctor is not running\n"));
}

#[test]
fn a_start_sends_where_the_caller_stands_and_a_crash_is_an_error() {
    let crashed = report("web", "backoff", "crashed", "crashed: exit code 1; restart in 0.2 s");
    let daemon =
        Daemon::answering("service.start", json!({ "settled": true, "services": [crashed] }));
    let mut start = command(daemon.folder.path(), &["start", "--name", "web", "--command", "x"]);
    start.env("GREETING", "hello");
    let told = said(start);
    assert_eq!((told.code, told.out.as_str()), (4, ""));
    assert_eq!(told.err, "web crashed: exit code 1; restart in 0.2 s\n");
    let input = daemon.input_of("service.start");
    assert_eq!(input["environment"]["GREETING"], "hello");
    let folder = daemon.folder.path().canonicalize().unwrap();
    assert_eq!(input["base_dir"], json!(folder.to_string_lossy()));
}

#[test]
fn quiet_says_nothing_when_all_is_well() {
    let stopped =
        json!({ "settled": true, "services": [report("web", "stopped", "stopped", "stopped")] });
    let daemon = Daemon::answering("service.stop", stopped);
    let loud = run(&daemon, &["stop", "web"]);
    assert_eq!((loud.code, loud.out.as_str()), (0, "web stopped\n"));
    let quiet = run(&daemon, &["-q", "stop", "web"]);
    assert_eq!((quiet.code, quiet.out + &quiet.err), (0, String::new()));
}

/// Returns two pages, then nothing more.
fn log(op: &str, input: &Value) -> Result<Value, OpError> {
    match (op, input.get("cursor").and_then(Value::as_str)) {
        ("log.read", None) => Ok(json!({
            "items": [line("web", "stdout", "one"), line("api", "stderr", "t\u{1b}[2Jwo")], "cursor": "1", "more": true,
        })),
        ("log.read", Some("1")) => {
            Ok(json!({ "items": [line("web", "stdout", "three")], "cursor": "2", "more": false }))
        }
        _ => Err(unknown(op)),
    }
}

#[test]
fn logs_are_read_page_by_page() {
    let daemon = Daemon::new(|op, input| now(log(op, input)));
    let text = run(&daemon, &["logs", "web", "api", "-n", "9"]);
    assert_eq!((text.code, text.out.as_str()), (0, "web | one\napi | t\\x1b[2Jwo\nweb | three\n"));
    let calls = daemon.calls();
    let calls: Vec<_> = calls.iter().filter(|call| call.0 == "log.read").collect();
    assert_eq!(calls[0].1, json!({ "services": ["web", "api"], "tail": 9, "tail_each": true }));
    let next = json!({ "services": ["web", "api"], "tail_each": true, "cursor": "1" });
    assert_eq!(calls[1].1, next);
    let document: Value = serde_json::from_str(&run(&daemon, &["logs", "--json"]).out).unwrap();
    assert_eq!(
        (document["items"].as_array().unwrap().len(), &document["cursor"]),
        (3, &json!("2"))
    );
}

#[test]
fn a_follower_gets_lines_as_json_and_waits_for_more() {
    let daemon =
        Daemon::new(|op, input| if input["cursor"] == "2" { never() } else { now(log(op, input)) });
    let mut follower = command(daemon.folder.path(), &["logs", "-f", "--json", "web"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    let texts: Vec<Value> = lines
        .take(3)
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap()["text"].clone())
        .collect();
    assert_eq!(texts, ["one", "t\u{1b}[2Jwo", "three"]);
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn up_finds_its_configuration_and_a_newcomer_is_told_what_to_write() {
    let started = report("clock", "running", "started", "started (pid 7)");
    let answer = json!({
        "source": "the built-in example", "example": true, "added": [], "changed": [], "removed": [],
        "settled": true, "services": [started],
    });
    let daemon = Daemon::answering("service.up", answer);
    let told = run(&daemon, &["up", "-d"]);
    assert_eq!((told.code, told.out.as_str()), (0, "clock started (pid 7)\n"));
    assert!(
        told.err.contains("proctor.yaml") && told.err.contains("command: npm run dev"),
        "{}",
        told.err
    );
    assert_eq!(daemon.input_of("service.up")["example"], true);

    std::fs::write(daemon.folder.path().join("proctor.yaml"), "").unwrap();
    let deep = daemon.folder.path().join("deep/er");
    std::fs::create_dir_all(&deep).unwrap();
    let mut up = command(daemon.folder.path(), &["up", "-d"]);
    said({
        up.current_dir(&deep);
        up
    });
    let file = daemon.folder.path().canonicalize().unwrap().join("proctor.yaml");
    assert_eq!(daemon.calls().last().unwrap().1["config"], json!(file.to_string_lossy()));

    let mut up = command(daemon.folder.path(), &["up", "-d"]);
    up.env("PROCTOR_CONFIG", "other.yaml");
    said(up);
    let other = daemon.folder.path().canonicalize().unwrap().join("other.yaml");
    assert_eq!(daemon.calls().last().unwrap().1["config"], json!(other.to_string_lossy()));
}

#[test]
fn up_in_the_foreground_follows_and_stops_what_it_started() {
    let daemon = Daemon::new(|op, input| match (op, input["cursor"].as_str()) {
        ("service.up", _) => now(Ok(json!({
            "source": "proctor.yaml", "example": false, "added": [], "changed": [], "removed": [], "settled": false,
            "services": [report("web", "starting", "asked", "asked"), report("db", "running", "already_running", "x")],
        }))),
        ("log.read", None) => now(Ok(
            json!({ "items": [line("web", "stdout", "ready")], "cursor": "1", "more": false }),
        )),
        ("log.read", _) if input["wait"] == 0 => {
            now(Ok(json!({ "items": [], "cursor": "2", "more": false })))
        }
        ("log.read", _) => never(),
        ("service.stop", _) => now(Ok(
            json!({ "settled": true, "services": [report("web", "stopped", "stopped", "stopped")] }),
        )),
        _ => now(Err(unknown(op))),
    });
    let mut up = command(daemon.folder.path(), &["up"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(up.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "web | ready\n");
    let pid = rustix::process::Pid::from_raw(i32::try_from(up.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let mut err = String::new();
    up.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(up.wait().unwrap().code(), Some(0), "{err}");
    assert_eq!(
        daemon.input_of("service.stop"),
        json!({ "names": ["web"] }),
        "what ran before is left alone"
    );
}

#[test]
fn run_keeps_streams_apart_and_exits_like_the_program() {
    let daemon = Daemon::new(|op, input| {
        let mut ended = service("x", "failed");
        ended["last_exit"] = json!({ "kind": "signal", "signal": 9, "text": "killed by SIGKILL", "at": "2026-03-01T14:05:03Z", "run": "5f0" });
        let mut exited = line("x", "stdout", "signal 9");
        exited["kind"] = json!("exited");
        match (op, input["cursor"].as_str()) {
            ("service.start", _) => now(Ok(json!({ "settled": false, "services": [] }))),
            ("log.read", None) => now(Ok(json!({
                "items": [line("x", "stdout", "out"), line("x", "stderr", "err"), exited], "cursor": "1", "more": false,
            }))),
            ("log.read", _) => never(),
            ("service.wait", _) => now(Ok(
                json!({ "reached": true, "hopeless": false, "generation": 1, "services": [ended] }),
            )),
            ("service.remove", _) => {
                now(Ok(json!({ "removed": ["x"], "purged": true, "stopping": [] })))
            }
            _ => now(Err(unknown(op))),
        }
    });
    let told = run(&daemon, &["run", "--name", "x", "--env", "A=b", "--", "prog", "--flag"]);
    assert_eq!((told.code, told.out.as_str()), (137, "out\n"), "{}", told.err);
    assert_eq!(told.err, "err\nx: killed by SIGKILL\n");
    let start = daemon.input_of("service.start");
    assert_eq!((&start["argv"], &start["env"]), (&json!(["prog", "--flag"]), &json!(["A=b"])));
    assert_eq!((&start["once"], &start["restart_policy"]), (&json!(true), &json!("never")));
    assert_eq!(daemon.input_of("service.remove"), json!({ "names": ["x"], "purge": true }));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let home = tempfile::tempdir().unwrap();
    let mut child = command(home.path(), &["completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""));
}

#[test]
fn help_names_exit_codes_and_a_mistake_has_a_suggestion() {
    let home = tempfile::tempdir().unwrap();
    let help = said(command(home.path(), &["--help"]));
    assert!(
        help.code == 0 && help.out.contains("Exit codes, and") && help.out.contains("completions"),
        "{}",
        help.out
    );
    let mistake = said(command(home.path(), &["strat"]));
    assert!(mistake.code == 2 && mistake.err.contains("start"), "{}", mistake.err);
}

#[test]
fn a_lost_connection_is_asked_again_for_questions_only() {
    let lost = |op: &'static str| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("run")).unwrap();
        let listener =
            proctor_sys::socket::listen(&folder.path().join("run/proctor.sock")).unwrap();
        let words = match op {
            "list" => vec!["list"],
            "write" => vec!["file", "write", "a", "--content", "b"],
            _ => vec!["stop", "web"],
        };
        let mut child = command(folder.path(), &words)
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Reads each request and hangs up. The last connection is refused by the end of the listener.
        // A plain request is retried in the usual way.
        let connections = if op == "list" { 3 } else { 1 };
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            BufReader::new(stream).read_line(&mut String::new()).unwrap();
        }
        drop(listener);
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(5), "{err}");
        err
    };
    assert!(lost("list").contains("the connection was lost before the response"));
    assert!(lost("stop").contains("may or may not have been carried out"));
    assert!(lost("write").contains("`proctor file undo PATH` restores it"));
}
