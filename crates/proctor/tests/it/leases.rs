//! Leased services: they end when their lease expires, also if Proctor was dead at that moment, and not before.

use crate::support::{LIMIT, ask_as, lines, pid, service, services, start_of, status, up};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, alive, kill9, wait_until};
use serde_json::{Value, json};
use std::os::unix::fs::MetadataExt;

const A: Option<&str> = Some("assistant-a");

fn running() -> Home {
    let home = Home::new();
    home.ok(["daemon", "start"]);
    home
}

/// Starts a service of assistant a with this lease, and returns its pid.
#[track_caller]
fn leased(home: &Home, name: &str, lease: &str) -> u32 {
    let start = start_of(home, name, &["--lines", "1"], json!({ "lease": lease }));
    ask_as(home, A, "service.start", start).unwrap();
    pid(home, name)
}

#[track_caller]
fn is_there(home: &Home, name: &str) -> bool {
    let list = home.json(["list"]);
    list["services"].as_array().unwrap().iter().any(|service| service["name"] == name)
}

/// Returns the remaining time as a person sees it, who renews nothing.
#[track_caller]
fn left(home: &Home, name: &str) -> u64 {
    let status = status(home, name);
    status["lease_seconds_left"].as_u64().unwrap_or_else(|| panic!("no lease: {status:#}"))
}

/// Checks that it is gone with its processes, its lines are still there, and the reason is known.
#[track_caller]
fn check_ended(home: &Home, name: &str, process: u32) {
    wait_until("its lease is over", LIMIT, || !is_there(home, name));
    wait_until("its process is gone", LIMIT, || !alive(process));
    assert!(!lines(home, name, &[]).is_empty(), "its logs are kept");
    let events = home.json(["events", name]);
    let why = events["events"].as_array().unwrap().iter().find(|it| it["kind"] == "lease_over");
    assert!(why.is_some(), "{events:#}");
    let told = home.own_log();
    let told = told.lines().find(|line| line.contains("its lease expired")).unwrap();
    assert!(told.contains(name) && told.contains("assistant-a"), "{told}");
    let stored = std::fs::read_to_string(home.path().join("services.json")).unwrap();
    assert!(!stored.contains(&format!("\"{name}\"")), "{stored}");
}

#[test]
fn when_its_time_is_over_a_service_is_stopped_and_removed() {
    let home = running();
    let process = leased(&home, "web", "1s");
    check_ended(&home, "web", process);
    let many = json!({ "lease": "1s", "instances": 2, "start": true, "groups": ["crowd"] });
    let start = start_of(&home, "many", &["--lines", "1"], many);
    ask_as(&home, A, "service.add", start).unwrap();
    wait_until("all instances are gone", LIMIT, || !is_there(&home, "many@2"));
    assert!(!is_there(&home, "many@1"));
    // A person's service, too; only `proctor lease` renews that.
    home.ok(["start", "--name", "try", "--lease", "1s", "--", "/bin/sleep", "1000"]);
    wait_until("it is gone", LIMIT, || !is_there(&home, "try"));
}

#[test]
fn a_lease_ends_although_daemons_died_before() {
    let home = running();
    leased(&home, "kept", "1h");
    let process = leased(&home, "web", "3s");
    for _ in 0..2 {
        let daemon = home.daemon_pid();
        kill9(daemon);
        wait_until("another daemon", LIMIT, || home.daemon_pid() != daemon);
        assert_eq!(status(&home, "kept")["owner"], "assistant-a");
    }
    check_ended(&home, "web", process);
}

#[test]
fn what_ended_while_nobody_lived_is_removed_by_the_next_daemon() {
    let home = running();
    let process = leased(&home, "web", "30s");
    leased(&home, "kept", "1h");
    kill_proctor(&home);
    assert!(alive(process), "services outlive Proctor");
    let mut stored = stored(&home);
    // By the clock of this boot, all of it has expired, including a possible renewal.
    stored["added"]["web"]["lease"]["ends"] = json!(0);
    home.write("services.json", &stored.to_string());
    home.ok(["daemon", "start"]);
    check_ended(&home, "web", process);
    assert_eq!(status(&home, "kept")["state"], "running");
}

/// Returns the stored state without its checksum, as after an edit by hand.
fn stored(home: &Home) -> Value {
    let text = std::fs::read(home.path().join("services.json")).unwrap();
    let mut stored: Value = serde_json::from_slice(&text).unwrap();
    let fields = stored.as_object_mut().unwrap();
    fields.retain(|name, _| name != "sealed" && name != "checksum");
    stored
}

#[test]
fn its_owner_renews_it_by_using_it_and_nobody_else_does() {
    let home = running();
    leased(&home, "web", "1h");
    let file = || std::fs::metadata(home.path().join("services.json")).unwrap().ino();
    for (op, input) in [
        ("service.status", json!({ "names": ["web"] })),
        ("log.read", json!({ "services": ["web"] })),
        ("service.start", json!({ "names": ["web"] })),
    ] {
        wait_until("some of it is over", LIMIT, || left(&home, "web") < 3599);
        home.ok(["logs", "web"]);
        ask_as(&home, Some("assistant-b"), op, input.clone()).unwrap();
        ask_as(&home, A, "service.list", json!({})).unwrap();
        assert!(left(&home, "web") < 3599, "{op} of somebody else renewed it");
        ask_as(&home, A, op, input).unwrap();
        assert!(left(&home, "web") >= 3599, "{op} did not renew it");
    }
    // A second after its start the daemon has stored the end of the audit log; the waits above took longer.
    let written = file();
    let reads = (0..100).map(|_| ask_as(&home, A, "service.status", json!({ "names": ["web"] })));
    assert!(reads.into_iter().all(|answer| answer.is_ok()));
    assert_eq!(file(), written, "no reading is written down");
    home.ok(["restart", "web"]);
    assert_eq!(status(&home, "web")["owner"], "assistant-a", "a person's restart changes nothing");
}

#[test]
fn what_is_renewed_far_enough_is_written_down() {
    let home = running();
    let process = leased(&home, "web", "10s");
    let ends = || stored(&home)["added"]["web"]["lease"]["ends"].as_u64().unwrap();
    let first = ends();
    wait_until("more than a tenth was renewed", LIMIT, || {
        ask_as(&home, A, "service.status", json!({ "names": ["web"] })).unwrap();
        ends() > first
    });
    assert!(ends() - first > 1_000_000, "less than a tenth was written down");
    kill_proctor(&home);
    home.ok(["daemon", "start"]);
    assert_eq!(pid(&home, "web"), process);
}

#[test]
fn nothing_ends_while_its_owner_waits_for_it() {
    let home = running();
    let process = leased(&home, "web", "1s");
    let wait = json!({ "names": ["web"], "until": "stopped", "timeout": 3 });
    let waited = ask_as(&home, A, "service.wait", wait);
    assert!(waited.is_ok() && alive(process), "{waited:?}");
    check_ended(&home, "web", process);
}

#[test]
fn a_lease_is_set_renewed_and_taken_away() {
    let home = up(&services(&[service("filed", &[], "")]));
    leased(&home, "web", "1h");
    let lease = |input: Value| ask_as(&home, A, "service.lease", input);
    let set = lease(json!({ "name": "web", "lease": "2h" })).unwrap();
    let expected = json!({ "name": "web", "owner": "assistant-a", "lease_seconds_left": 7200 });
    assert_eq!(set["services"][0], expected);
    wait_until("some of it is over", LIMIT, || left(&home, "web") < 7200);
    let said = home.ok(["lease", "web"]);
    assert!(said.contains("web is removed in 2h 0m unless assistant-a uses it"), "{said}");
    assert!(home.ok(["lease", "web", "--none"]).contains("stays until it is removed"));
    assert_eq!(status(&home, "web").get("lease_seconds_left"), None);
    let (code, said) = home.fail(["lease", "web"]);
    assert!(code == 2 && said.contains("has no lease"), "{said}");
    let (code, said) = home.fail(["lease", "filed", "1h"]);
    assert!(code == 8 && said.contains("has no lease"), "{said}");
    for bad in ["0s", "soon", "400d"] {
        let (code, said) = home.fail(["lease", "web", bad]);
        assert!(code == 2 && said.contains("not a duration"), "{said}");
    }
    // Started again: unchanged, with the new lease.
    let process = leased(&home, "web", "30m");
    assert_eq!((left(&home, "web"), pid(&home, "web")), (1800, process));
    // Replaced by its owner without a lease, it keeps its lease; replaced by another caller, it has none.
    let start = |more| start_of(&home, "web", &["--lines", "2"], more);
    ask_as(&home, A, "service.start", start(json!({ "replace": true }))).unwrap();
    assert!(left(&home, "web") >= 1799);
    ask_as(&home, None, "service.start", start(json!({ "replace": true }))).unwrap();
    assert_eq!(status(&home, "web").get("lease_seconds_left"), None);
    assert_eq!(status(&home, "web").get("owner"), None);
}

/// Changes the stored lease of `web` while no Proctor lives, and starts one.
fn restart_with(home: &Home, change: impl FnOnce(&mut Value)) {
    kill_proctor(home);
    let mut stored = stored(home);
    change(&mut stored["added"]["web"]["lease"]);
    home.write("services.json", &stored.to_string());
    home.ok(["daemon", "start"]);
}

#[test]
fn a_clock_that_jumps_ends_nothing_early_and_a_reboot_gives_nobody_more() {
    let home = running();
    let process = leased(&home, "web", "1h");
    // The wall clock is years ahead, or behind: within a boot it is not used.
    for wall in [0_i64, 9_000_000_000_000_000] {
        restart_with(&home, |lease| lease["until"] = wall.into());
        assert!((3500..=3600).contains(&left(&home, "web")), "{wall}");
        assert_eq!(pid(&home, "web"), process);
    }
    // Another boot, in which the clock is behind.
    restart_with(&home, |lease| {
        lease["boot"] = "0123456789abcdef0123456789abcdef".into();
        lease["until"] = 9_000_000_000_000_000_i64.into();
    });
    assert!((3500..=3600).contains(&left(&home, "web")));
    // Another boot, long after its end.
    restart_with(&home, |lease| {
        lease["boot"] = "0123456789abcdef0123456789abcdef".into();
        lease["until"] = 0.into();
    });
    check_ended(&home, "web", process);
}

#[test]
fn what_was_over_at_a_reboot_is_not_started_again() {
    let home = running();
    let process = leased(&home, "web", "1h");
    kill_proctor(&home);
    kill9(process);
    wait_until("it is gone", LIMIT, || !alive(process));
    std::fs::remove_dir_all(home.path().join("run")).unwrap();
    let mut stored = stored(&home);
    stored["added"]["web"]["lease"]["boot"] = "".into();
    stored["added"]["web"]["lease"]["until"] = 0.into();
    home.write("services.json", &stored.to_string());
    home.ok(["daemon", "start"]);
    check_ended(&home, "web", process);
    assert_eq!(lines(&home, "web", &[]).len(), 1, "it ran once");
}
