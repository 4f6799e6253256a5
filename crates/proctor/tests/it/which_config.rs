//! Choice of the configuration: one rule for `up`, `daemon start` and a keeper in the foreground, with a printed result.

use crate::support::{LIMIT, service, services, web};
use proctor_testkit::{Home, finish, free_port, signal, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;

const COMMANDS: [&[&str]; 2] = [&["up", "-d"], &["daemon", "start"]];

/// A home with three configurations, none of them in the folder of its commands.
fn three_files() -> Home {
    let home = Home::new();
    for name in ["one", "two", "three"] {
        home.write(&format!("{name}/proctor.yaml"), &services(&[service(name, &[], "")]));
    }
    std::fs::create_dir_all(home.path().join("three/below")).unwrap();
    home
}

/// Checks that both commands of an empty home run this service, and print the part of the rule.
#[track_caller]
fn check(folder: &str, variables: &[(&str, &str)], expected: &str, rule: &str) {
    for words in COMMANDS {
        let home = three_files();
        let mut command = home.command(words);
        command.current_dir(home.path().join(folder));
        for (name, value) in variables {
            let path = home.path().join(value);
            let value = if path.exists() { path.display().to_string() } else { (*value).into() };
            command.env(name, value);
        }
        let output = finish(&mut command, LIMIT);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?} {variables:?}: {said}");
        let line = said.lines().find(|line| line.starts_with("configuration: "));
        let line = line.unwrap_or_else(|| panic!("{words:?} names no configuration: {said}"));
        assert!(line.ends_with(rule), "{words:?} {variables:?}: {line}");
        assert_eq!(names(&home), [expected], "{words:?} {variables:?}");
    }
}

fn names(home: &Home) -> Vec<String> {
    let list = home.json(["list"]);
    let name = |it: &Value| it["name"].as_str().unwrap().to_owned();
    list["services"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn up_and_daemon_start_follow_one_rule() {
    let (one, two) = ("one/proctor.yaml", "two/proctor.yaml");
    check(".", &[("PROCTOR_CONFIG", one)], "one", "(PROCTOR_CONFIG)");
    check(".", &[("MAGICTUNNEL_CONFIG", two)], "two", "(MAGICTUNNEL_CONFIG)");
    let both = [("PROCTOR_CONFIG", one), ("MAGICTUNNEL_CONFIG", two)];
    check("three", &both, "one", "(PROCTOR_CONFIG)");
    check("three", &[], "three", "(in this folder)");
    check("three/below", &[], "three", "(the nearest in a parent folder)");
    let target = ("SUPERVISOR_TARGET_CMD", "sleep 1000");
    check(".", &[target], "target", "(no file was found)");
    check("three", &[target], "three", "(in this folder)");
}

#[test]
fn up_where_there_is_no_file_names_the_project_that_it_starts() {
    let home = three_files();
    home.ok(["up", "-d", "--config", "one/proctor.yaml"]);
    home.ok(["down"]);
    let output = home.run(["up", "-d"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let path = home.path().join("one/proctor.yaml");
    let line = format!("configuration: {} (the last one of this home", path.display());
    assert!(output.status.success() && said.contains(&line), "{said}");
    home.ok(["down"]);
    let mut command = home.command(["up", "-d"]);
    let output = finish(command.env("SUPERVISOR_TARGET_CMD", "sleep 1000"), LIMIT);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(names(&home), ["target"], "a variable counts before the last project");
}

#[test]
fn daemon_start_brings_back_what_ran_and_leaves_stopped_what_was_stopped() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&[], ""));
    home.ok(["up", "-d"]);
    home.ok(["stop", "web"]);
    home.ok(["daemon", "stop"]);
    home.ok(["daemon", "start"]);
    assert_eq!(home.json(["list"])["services"][0]["state"], "stopped");
}

#[test]
fn the_port_of_the_environment_counts_for_daemon_start() {
    let (home, port) = (Home::new(), free_port());
    let output =
        finish(home.command(["daemon", "start"]).env("SUPERVISOR_PORT", port.to_string()), LIMIT);
    assert!(output.status.success());
    assert_eq!(home.port("tcp"), port);
}

#[test]
fn a_keeper_in_the_foreground_follows_the_same_rule() {
    let home = three_files();
    let said = std::fs::File::create(home.path().join("said")).unwrap();
    let mut keeper = home
        .command(["daemon", "start", "--foreground"])
        .env("PROCTOR_CONFIG", "one/proctor.yaml")
        .stdout(Stdio::null())
        .stderr(said)
        .spawn()
        .unwrap();
    wait_until("the service runs", LIMIT, || {
        let output = home.run(["--json", "list"]);
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        list["services"][0]["state"] == "running"
    });
    wait_until("it is said", LIMIT, || {
        let said = std::fs::read_to_string(home.path().join("said")).unwrap();
        said.contains("/one/proctor.yaml (PROCTOR_CONFIG)")
    });
    assert_eq!(names(&home), ["one"]);
    signal(keeper.id(), Signal::TERM);
    assert!(keeper.wait().unwrap().success());
}

#[test]
fn another_spelling_of_the_same_file_restarts_nothing() {
    let home = three_files();
    let up = |folder: &str, file: &str| {
        let mut command = home.command(["up", "-d", "--config", file]);
        command.current_dir(home.path().join(folder));
        let output = finish(&mut command, LIMIT);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        crate::support::pid(&home, "three")
    };
    let first = up("three", "proctor.yaml");
    assert_eq!(up("three/below", "../proctor.yaml"), first);
    assert_eq!(up("one", "../three/below/../proctor.yaml"), first);
}
