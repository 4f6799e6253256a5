//! The audit log: written before and after a change, verified, and required for every change.

use crate::support::{LIMIT, pid, service, services, status, up, web};
use proctor_testkit::{Home, finish, wait_until};
use serde_json::Value;
use std::path::PathBuf;

fn file(home: &Home) -> PathBuf {
    home.path().join("audit/00000001.jsonl")
}

/// Returns every record as it is written.
fn records(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(file(home)).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the operations of the audit log with their results.
#[track_caller]
fn entries(home: &Home, more: &[&str]) -> Vec<String> {
    let mut words = vec!["audit", "read", "-n", "1000"];
    words.extend(more);
    let answer = home.json(words);
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or("-").to_owned();
    let entries = answer["entries"].as_array().unwrap().iter();
    entries
        .filter(|entry| entry["mark"].is_null())
        .map(|entry| {
            let targets: Vec<&str> = entry["targets"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            format!("{} {} {}", text(entry, "operation"), targets.join(","), text(entry, "code"))
        })
        .collect()
}

#[test]
fn what_is_done_and_refused_is_written_down_once_each_and_reading_is_not() {
    let all: Vec<String> =
        (0..30).map(|n| service(&format!("s{n}"), &[], "autostart: false")).collect();
    let home = up(&services(&all));
    let config = home.path().join("proctor.yaml").display().to_string();
    home.ok(["start", "all"]);
    home.ok(["list"]);
    home.ok(["status", "s1"]);
    home.fail(["stop", "nobody"]);
    home.ok(["stop", "s1", "s2"]);
    let expected = [
        format!("service.up {config} ok"),
        "service.start all ok".into(),
        "service.stop nobody unknown_service".into(),
        "service.stop s1,s2 ok".into(),
    ];
    assert_eq!(entries(&home, &[]), expected);
    assert_eq!(entries(&home, &["--target", "s2"]), ["service.stop s1,s2 ok"]);
    assert_eq!(entries(&home, &["--code", "unknown_service"]).len(), 1);
    let uid = rustix::process::getuid().as_raw();
    let intent = records(&home).into_iter().find(|record| record["kind"] == "intent").unwrap();
    assert_eq!((&intent["who"], &intent["front"]), (&"local".into(), &"local".into()));
    assert_eq!(intent["uid"], uid);
    home.write(
        "proctor.yaml",
        &web(&[], "").replace("supervisor:", "supervisor:\n  security: { audit: { reads: true } }"),
    );
    home.ok(["up", "-d"]);
    home.ok(["list"]);
    assert!(entries(&home, &[]).contains(&"service.list  ok".to_owned()));
}

#[test]
fn whoever_alters_the_audit_is_found_out_with_or_without_a_daemon() {
    let home = up(&web(&[], ""));
    home.ok(["stop", "web"]);
    home.ok(["start", "web"]);
    assert!(home.ok(["audit", "verify"]).contains("the audit log is intact"));
    home.ok(["down"]);
    let said = home.json(["audit", "verify"]);
    assert_eq!((&said["intact"], &said["unfinished"]), (&true.into(), &serde_json::json!([])));
    assert!(home.living_keeper().is_none(), "verifying starts nothing");
    let good = std::fs::read_to_string(file(&home)).unwrap();
    std::fs::write(file(&home), good.replacen("service.stop", "service.list", 1)).unwrap();
    let output = home.run(["audit", "verify"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("00000001.jsonl:4: was altered"), "{said}");
    let shorter: Vec<&str> = good.lines().collect();
    std::fs::write(file(&home), shorter[..4].join("\n") + "\n").unwrap();
    let said = String::from_utf8(home.run(["audit", "verify"]).stdout).unwrap();
    assert!(said.contains("are missing at the end"), "{said}");
    // Every later daemon reports it.
    home.ok(["daemon", "start"]);
    wait_until("it is noticed", LIMIT, || {
        let said = String::from_utf8(home.run(["audit", "verify"]).stdout).unwrap();
        said.contains("are missing; a daemon noticed")
    });
}

#[test]
fn without_an_audit_nothing_but_stopping_is_done_and_reading_goes_on() {
    let home = up(&web(&[], ""));
    let (before, audit) = (pid(&home, "web"), home.path().join("audit"));
    let aside = home.path().join("aside");
    std::fs::rename(&audit, &aside).unwrap();
    for words in [&["restart", "web"][..], &["token", "create", "x"], &["signal", "web", "CONT"]] {
        let output = home.run(["--json"].iter().chain(words));
        let said: Value = serde_json::from_slice(&output.stderr).unwrap();
        assert_eq!(said["error"]["code"], "audit_unavailable", "{words:?}: {said}");
        let help = said["error"]["help"].as_str().unwrap();
        assert!(help.contains(&audit.display().to_string()), "{help}");
    }
    assert_eq!(pid(&home, "web"), before);
    let problems = home.json(["daemon", "status"])["problems"].to_string();
    assert!(problems.contains("the audit cannot be written"), "{problems}");
    let stopped = home.json(["stop", "web"]);
    assert!(stopped["unrecorded"][0].as_str().unwrap().contains("the audit cannot be written"));
    std::fs::rename(&aside, &audit).unwrap();
    wait_until("the stop is recorded", LIMIT, || {
        entries(&home, &["--operation", "service.stop"]) == ["service.stop web ok"]
    });
    let recorded = records(&home).into_iter().find(|record| record["operation"] == "service.stop");
    let recorded = recorded.unwrap();
    assert!(recorded["happened"].as_str() < recorded["at"].as_str(), "{recorded}");
    assert_eq!(home.json(["daemon", "status"])["problems"], serde_json::json!([]));
    assert_eq!(home.json(["audit", "verify"])["intact"], true);
    std::fs::remove_file(file(&home)).unwrap();
    home.fail(["start", "web"]);
    home.ok(["start", "web"]);
    let said = String::from_utf8(home.run(["audit", "verify"]).stdout).unwrap();
    assert!(said.contains("a daemon noticed"), "{said}");
}

/// A home with `web` up and failpoints that can be armed.
fn armed(point: &str, action: &str) -> Home {
    let home = Home::new();
    home.write("proctor.yaml", &web(&[], ""));
    std::fs::create_dir(home.path().join("failpoints")).unwrap();
    let mut command = home.command(["up", "-d"]);
    command.env("PROCTOR_FAILPOINTS", home.path().join("failpoints"));
    assert!(finish(&mut command, LIMIT).status.success());
    home.write(&format!("failpoints/{point}"), action);
    home
}

#[test]
fn a_daemon_killed_while_it_writes_leaves_a_line_that_the_next_one_marks() {
    for (pass, done) in [("kill 1", false), ("kill 2", true)] {
        let home = armed("audit.half", pass);
        home.run(["stop", "web", "--no-wait"]);
        wait_until("a new daemon has marked it", LIMIT, || {
            records(&home).iter().any(|record| record["kind"] == "torn")
        });
        let verdict = home.json(["audit", "verify"]);
        assert_eq!(verdict["intact"], true, "{verdict:#}");
        assert!(verdict["notes"].to_string().contains("its writer was killed"), "{verdict:#}");
        // The first line is the start, the second the end.
        assert_eq!(status(&home, "web")["wish"] == "down", done);
        let unfinished = verdict["unfinished"].as_array().unwrap().len();
        assert_eq!(unfinished, usize::from(done), "{verdict:#}");
        home.ok(["start", "web"]);
        assert_eq!(home.json(["audit", "verify"])["intact"], true);
    }
}

#[test]
fn what_was_begun_when_the_daemon_was_killed_is_visible() {
    let home = armed("audit.written", "kill 1");
    home.run(["restart", "web", "--no-wait"]);
    wait_until("a new daemon", LIMIT, || {
        records(&home).iter().filter(|record| record["kind"] == "started").count() == 2
    });
    assert_eq!(entries(&home, &["--code", "unfinished"]), ["service.restart web -"]);
    let said = home.ok(["audit", "verify"]);
    assert!(said.contains("without a result"), "{said}");
}

#[test]
fn a_line_that_cannot_be_written_refuses_one_change_and_no_other() {
    let home = armed("audit.begin", "error 1");
    let before = pid(&home, "web");
    let (_, said) = home.fail(["restart", "web"]);
    assert!(said.contains("the audit cannot be written"), "{said}");
    assert_eq!(pid(&home, "web"), before);
    home.ok(["restart", "web"]);
    assert_eq!(home.json(["audit", "verify"])["intact"], true);
}

#[test]
fn hostile_names_stay_in_their_line() {
    let home = up(&web(&[], ""));
    for name in ["a\nb", "\u{1b}[2J", "\u{9b}31m", "\u{202e}", "x\",\"hash\":\"0\"}"] {
        home.fail(["stop", name]);
    }
    let text = std::fs::read(file(&home)).unwrap();
    let plain = |byte: &u8| *byte == b'\n' || (0x20..0x7f).contains(byte);
    assert!(text.iter().all(plain), "{}", String::from_utf8_lossy(&text));
    assert_eq!(home.json(["audit", "verify"])["intact"], true);
    let page = home.ok(["audit", "read"]);
    assert!(!page.contains('\u{1b}') && !page.contains('\u{9b}'), "{page:?}");
}

#[test]
fn an_audit_that_is_removed_with_its_head_is_missed() {
    let home = up(&web(&[], ""));
    home.ok(["stop", "web"]);
    assert_eq!(home.json(["audit", "verify"])["intact"], true);
    home.ok(["daemon", "stop"]);
    std::fs::remove_dir_all(home.path().join("audit")).unwrap();
    std::fs::remove_file(home.path().join("audit.head")).unwrap();
    let missed = || {
        let said = String::from_utf8(home.run(["audit", "verify"]).stdout).unwrap();
        said.contains("records 1 to ") && said.contains("are missing")
    };
    assert!(missed(), "without a daemon");
    home.ok(["daemon", "start"]);
    home.ok(["start", "web"]);
    assert!(missed(), "after the next daemon");
}
