//! Commands of requests leave nothing behind, whatever their processes did with session, environment, parents and cgroup,
//! however they ended, with and without cgroups.

use crate::support::{LIMIT, services, shell};
use crate::trees::OtherGroup;
use proctor_testkit::{Home, alive, kill9, signal, wait_for, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::process::{Child, Stdio};

/// The ways of a process to get out of sight; each starts the script `stay`. `$1` is a cgroup of its own.
const ESCAPES: [(&str, &str); 6] = [
    ("a child", "/bin/sh ./stay &"),
    ("another session", "setsid -f /bin/sh ./stay"),
    ("another session, no environment", "env -i setsid -f /bin/sh ./stay"),
    ("two forks, no environment", "env -i setsid -f /bin/sh -c '/bin/sh ./stay &'"),
    ("another cgroup", "(echo 0 > $1/cgroup.procs; exec /bin/sh ./stay) &"),
    ("another cgroup and session, no environment", LEFT_ALL),
];

/// Two forks and a session between it and the command, in another cgroup and without a variable.
const LEFT_ALL: &str =
    "(echo 0 > $1/cgroup.procs; exec env -i setsid -f /bin/sh -c '/bin/sh ./stay &')";

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    ByItself,
    TimedOut,
    Cancelled,
    DaemonKilled,
    DaemonAndKeeperKilled,
}

const ENDINGS: [Ending; 5] = [
    Ending::ByItself,
    Ending::TimedOut,
    Ending::Cancelled,
    Ending::DaemonKilled,
    Ending::DaemonAndKeeperKilled,
];

/// A home that runs `sleep`, with and without cgroups, and the script `stay`: a process that ignores TERM and says who it is.
fn home(cgroups: bool) -> Home {
    let home = Home::new();
    home.write(
        "stay",
        "trap '' TERM\necho $$ > escaping && mv escaping escaped\nexec sleep 1000\n",
    );
    home.write("proctor.yaml", &services(&[shell("web", "sleep 1000", "")]));
    let mut up = home.command(["up", "-d"]);
    if !cgroups {
        up.env("PROCTOR_NO_CGROUPS", "1");
    }
    assert!(up.output().unwrap().status.success());
    home
}

fn escaped(home: &Home) -> Option<u32> {
    std::fs::read_to_string(home.path().join("escaped")).ok()?.trim().parse().ok()
}

fn notes(home: &Home) -> usize {
    std::fs::read_dir(home.path().join("run/commands")).map_or(0, Iterator::count)
}

/// A script that escapes and then ends, when the other process is there, or waits.
fn script(escape: &str, ends: bool) -> String {
    let then = if ends { "until [ -e escaped ]; do sleep 0.02; done" } else { "sleep 1000" };
    format!("{escape}\n{then}")
}

fn execute(home: &Home, timeout: &str, script: &str, group: &str) -> Child {
    let words = ["--json", "execute", "--timeout", timeout, "--", "sh", "-c", script, "sh", group];
    let mut command = home.command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn answer(client: Child) -> Value {
    serde_json::from_slice(&client.wait_with_output().unwrap().stdout).unwrap_or_default()
}

/// Run it and end it like this. Returns who escaped, and the answer, if there is one.
fn run(home: &Home, escape: &str, ending: Ending, group: &str) -> (u32, Value) {
    let _ = std::fs::remove_file(home.path().join("escaped"));
    let script = script(escape, ending == Ending::ByItself);
    if ending == Ending::TimedOut {
        return run_out_of_time(home, &script, group);
    }
    let client = execute(home, "1000", &script, group);
    let pid = wait_for("the escaped process", LIMIT, || escaped(home));
    let (daemon, keeper) = (home.daemon_pid(), home.keeper_pid());
    match ending {
        Ending::ByItself | Ending::TimedOut => {}
        Ending::Cancelled => {
            let running = home.json(["operation", "list", "--running"]);
            let id = running["operations"][0]["operation"].as_str().unwrap().to_owned();
            home.ok(["operation", "cancel", &id]);
        }
        Ending::DaemonKilled => kill9(daemon),
        Ending::DaemonAndKeeperKilled => {
            signal(daemon, Signal::STOP);
            kill9(keeper);
            kill9(daemon);
        }
    }
    (pid, answer(client))
}

/// With more time until it is enough to escape in, however slow the machine is.
fn run_out_of_time(home: &Home, script: &str, group: &str) -> (u32, Value) {
    for seconds in [1, 4, 16, 64] {
        let answer = answer(execute(home, &seconds.to_string(), script, group));
        if let Some(pid) = escaped(home) {
            return (pid, answer);
        }
    }
    panic!("nothing escaped: {script}");
}

fn check(home: &Home, case: &str, escape: &str, ending: Ending, group: &str) {
    let (pid, answer) = run(home, escape, ending, group);
    let case = format!("{case}, {ending:?}");
    match ending {
        // Who has an answer knows that nothing is left.
        Ending::ByItself | Ending::TimedOut => {
            assert!(!alive(pid), "{case}: {pid} lives\n{answer:#}\n{}", home.own_log());
            assert!(answer.to_string().contains(&format!("(pid {pid})")), "{case}: {answer:#}");
        }
        Ending::Cancelled | Ending::DaemonKilled | Ending::DaemonAndKeeperKilled => {
            wait_until(&format!("{case}: {pid} is gone"), LIMIT, || !alive(pid));
        }
    }
    wait_until(&format!("{case}: no note is left"), LIMIT, || notes(home) == 0);
}

/// Every way to escape with every way to end.
fn check_all(cgroups: bool) {
    let name = format!("p-command-{}-{cgroups}", std::process::id());
    let group = OtherGroup::make(&name);
    let group_path = group.as_ref().map_or(String::new(), |group| group.0.display().to_string());
    let home = home(cgroups);
    for (how, escape) in ESCAPES {
        if group.is_none() && escape.contains("$1") {
            continue;
        }
        for ending in ENDINGS {
            check(&home, &format!("{how}, cgroups {cgroups}"), escape, ending, &group_path);
        }
    }
    home.ok(["down"]);
}

#[test]
fn a_command_leaves_nothing_however_it_ends_with_cgroups() {
    check_all(true);
}

#[test]
fn a_command_leaves_nothing_however_it_ends_without_cgroups() {
    check_all(false);
}

#[test]
fn a_proctor_that_ends_right_after_its_daemon_was_killed_leaves_nothing() {
    for cgroups in [true, false] {
        for end in ["down", "daemon stop"] {
            let home = home(cgroups);
            let (pid, _) = run(&home, ESCAPES[2].1, Ending::DaemonKilled, "");
            home.ok(end.split(' '));
            assert!(!alive(pid), "{end}, cgroups {cgroups}: {pid} lives\n{}", home.own_log());
            assert_eq!(notes(&home), 0, "{end}, cgroups {cgroups}");
        }
    }
}

#[test]
fn the_commands_of_a_workflow_leave_nothing() {
    for cgroups in [true, false] {
        let home = home(cgroups);
        for key in ["--pre-command", "--post-command"] {
            let _ = std::fs::remove_file(home.path().join("escaped"));
            let script = script(ESCAPES[3].1, true).replace('\n', "; ");
            home.write("escape", &script);
            let answer = home.json(["custom-restart", "web", key, "sh ./escape"]);
            assert_eq!(answer["overall_success"], true, "{answer:#}");
            let pid = escaped(&home).unwrap();
            assert!(!alive(pid), "{key}, cgroups {cgroups}: {pid} lives\n{}", home.own_log());
        }
    }
}

#[test]
fn a_command_that_others_run_beside_keeps_its_processes() {
    for cgroups in [true, false] {
        let home = home(cgroups);
        let client = execute(&home, "1000", &script(ESCAPES[3].1, false), "");
        let pid = wait_for("the escaped process", LIMIT, || escaped(&home));
        home.ok(["execute", "--", "true"]);
        assert!(alive(pid), "another command ended it");
        kill9(home.daemon_pid());
        wait_until("it is gone", LIMIT, || !alive(pid));
        answer(client);
    }
}

#[test]
fn the_cgroup_of_a_command_goes_with_it() {
    let home = home(true);
    if home.json(["daemon", "status"])["tracking"] == "processes" {
        return;
    }
    let told = home.json(["execute", "--", "sh", "-c", "grep ^0:: /proc/self/cgroup"]);
    let group = told["stdout"].as_str().unwrap().trim().trim_start_matches("0::").to_owned();
    assert!(group.rsplit('/').next().unwrap().starts_with('+'), "{group}");
    for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        let folder = format!("{mount}{group}");
        assert!(!std::path::Path::new(&folder).exists(), "{folder}");
    }
}
