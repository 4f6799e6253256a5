//! Removed files of a living or dead Proctor: no service is doubled or forgotten.

use crate::support::{LIMIT, lines, pid, service, services, status, up, wait_state};
use crate::survival::kill_proctor;
use proctor_testkit::{Home, alive, kill9, running, wait_until, with_variable};
use std::path::Path;
use std::process::Stdio;

const NAMES: [&str; 3] = ["talker", "quiet", "stopped"];

/// Two services that run, and one that was stopped.
fn three() -> Home {
    let home = up(&services(&[
        service("talker", &["--lines", "100000000", "--every", "2"], ""),
        service("quiet", &["--setsid", "--print-env"], ""),
        service("stopped", &[], ""),
    ]));
    home.ok(["stop", "stopped"]);
    home
}

/// Returns process and run of the running ones.
fn running_ones(home: &Home) -> Vec<serde_json::Value> {
    let of = |name: &str| {
        let status = status(home, name);
        serde_json::json!([status["pid"], status["run"], status["restarts"]])
    };
    NAMES[..2].iter().map(|name| of(name)).collect()
}

/// Checks for one keeper, one instance of each service, the stopped one still stopped, every line stored, and a working home.
#[track_caller]
fn check_same(home: &Home, before: &[serde_json::Value]) {
    for name in &NAMES[..2] {
        wait_state(home, name, "running");
    }
    assert_eq!(running_ones(home), before);
    assert_eq!(status(home, "stopped")["state"], "stopped");
    let home_text = home.path().display().to_string();
    wait_until("one keeper", LIMIT, || running(&["__keeper", &home_text]).len() == 1);
    // The quiet one has a child in its own session.
    assert_eq!(with_variable(&format!("PROCTOR_HOME={home_text}")).len(), 3);
    let seen = lines(home, "talker", &[]).len();
    wait_until("more lines", LIMIT, || lines(home, "talker", &[]).len() > seen + 20);
    for (line, number) in lines(home, "talker", &[]).iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"));
    }
}

/// Checks that the home works: a crash leads to a restart with the right environment, and a stop ends the tree.
#[track_caller]
fn check_works(home: &Home) {
    let old = pid(home, "quiet");
    kill9(old);
    wait_until("it is restarted", LIMIT, || {
        let now = status(home, "quiet");
        now["state"] == "running" && now["pid"] != old
    });
    let environment = format!("env HOME={}", home.path().display());
    wait_until("its environment", LIMIT, || {
        lines(home, "quiet", &[]).iter().filter(|line| **line == environment).count() == 2
    });
    let talker = pid(home, "talker");
    home.ok(["stop", "talker"]);
    assert!(!alive(talker));
    home.ok(["down"]);
    let left = with_variable(&format!("PROCTOR_HOME={}", home.path().display()));
    assert_eq!(left, [0; 0]);
}

fn remove(path: &Path) {
    let removed = match path.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
    // A keeper that recreates it meanwhile is the tested behaviour.
    if let Err(error) = removed
        && !matches!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty)
    {
        panic!("{}: {error}", path.display());
    }
}

/// Removes these while Proctor lives; then Proctor dies, too.
fn check_removed_under_us(paths: &[&str]) {
    let home = three();
    let before = running_ones(&home);
    for path in paths {
        remove(&home.path().join(path));
    }
    home.ok(["daemon", "start"]);
    wait_until("it answers", LIMIT, || home.run(["list"]).status.success());
    check_same(&home, &before);
    kill_proctor(&home);
    home.ok(["daemon", "start"]);
    check_same(&home, &before);
    check_works(&home);
}

#[test]
fn the_runtime_folder_is_removed_under_a_living_keeper() {
    check_removed_under_us(&["run"]);
}

#[test]
fn the_locks_are_removed_under_a_living_keeper() {
    check_removed_under_us(&["run/keeper.lock", "keeper.lock"]);
}

#[test]
fn the_socket_is_removed_under_a_living_keeper() {
    check_removed_under_us(&["run/proctor.sock"]);
}

#[test]
fn all_that_is_written_of_services_is_removed_under_a_living_keeper() {
    check_removed_under_us(&["run/services", "run/env", "run/boot"]);
}

#[test]
fn a_second_keeper_does_not_get_in_although_the_first_cannot_see_that_its_folder_is_gone() {
    let home = three();
    let before = running_ones(&home);
    let (keeper, daemon) = (home.keeper_pid(), home.daemon_pid());
    for pid in [keeper, daemon] {
        proctor_testkit::signal(pid, rustix::process::Signal::STOP);
    }
    remove(&home.path().join("run"));
    let (_, said) = home.fail(["daemon", "start"]);
    assert!(said.contains(&format!("another keeper (pid {keeper})")), "{said}");
    // Nor one that somebody starts without asking, as the guard does.
    let mut second = std::process::Command::new(proctor_testkit::proctor());
    second.args(["__keeper", "--foreground", "--state"]).arg(home.path());
    second.arg("--runtime").arg(home.path().join("run"));
    let output = proctor_testkit::finish(&mut second, LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("another keeper (pid {keeper})")), "{said}");
    // The keeper last: it ends this daemon as soon as it sees what happened.
    for pid in [daemon, keeper] {
        proctor_testkit::signal(pid, rustix::process::Signal::CONT);
    }
    wait_until("it answers", LIMIT, || home.run(["list"]).status.success());
    assert_eq!(home.keeper_pid(), keeper);
    check_same(&home, &before);
    assert!(home.own_log().contains("was deleted: writing it again"), "{}", home.own_log());
    check_works(&home);
}

/// Removes these while no Proctor lives: running services are found again.
fn check_removed_behind_us(paths: &[&str]) {
    let home = three();
    let before = running_ones(&home);
    kill_proctor(&home);
    for path in paths {
        remove(&home.path().join(path));
    }
    home.ok(["daemon", "start"]);
    check_same(&home, &before);
    check_works(&home);
}

#[test]
fn the_runtime_folder_is_removed_while_nobody_lives() {
    check_removed_behind_us(&["run"]);
}

#[test]
fn a_services_folder_is_removed_while_nobody_lives() {
    check_removed_behind_us(&["run/services/talker", "run/services/quiet/state"]);
}

#[test]
fn a_boot_that_never_was_makes_nobody_forget_what_runs() {
    let home = three();
    let before = running_ones(&home);
    kill_proctor(&home);
    std::fs::write(home.path().join("run/boot"), [7; 16]).unwrap();
    home.ok(["daemon", "start"]);
    check_same(&home, &before);
    check_works(&home);
}

#[test]
fn fifty_that_want_to_take_over_at_once_are_one_that_does() {
    let home = three();
    let before = running_ones(&home);
    kill_proctor(&home);
    let start = |_| {
        let mut command = home.command(["daemon", "start"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<_> = (0..50).map(start).collect();
    for one in all {
        let output = one.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    check_same(&home, &before);
}
