//! Proctor's own processes: one set for each home, replaced in place, ended in order, PID 1 if needed.

use crate::support::{LIMIT, lines, pid, service, status, up, wait_state, web};
use proctor_testkit::{Home, alive, children, kill9, proctor, running, signal, wait_until};
use rustix::process::Signal;
use std::process::{Command, Stdio};

#[test]
fn a_second_daemon_is_refused_and_the_first_goes_on() {
    let home = up(&web(&[], ""));
    let (keeper, service) = (home.keeper_pid(), pid(&home, "web"));
    let (_, said) = home.fail(["daemon", "start", "--foreground"]);
    assert!(said.contains(&keeper.to_string()) && said.contains("--home"), "{said}");
    home.ok(["daemon", "start"]);
    assert_eq!((home.keeper_pid(), pid(&home, "web")), (keeper, service));
}

#[test]
fn fifty_clients_start_one_daemon() {
    let home = Home::new();
    let clients: Vec<_> = (0..50)
        .map(|_| {
            home.command(["daemon", "start"])
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for client in clients {
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let keepers = running(&["__keeper", &home.path().display().to_string()]);
    assert_eq!(keepers, [home.keeper_pid()]);
}

#[test]
fn an_upgrade_in_place_keeps_pids_runs_and_lines() {
    let home = up(&web(&["--lines", "100000000", "--every", "2"], ""));
    let (keeper, before) = (home.keeper_pid(), status(&home, "web"));
    let daemon = home.daemon_pid();
    for _ in 0..3 {
        home.ok(["daemon", "upgrade"]);
    }
    assert_eq!(home.keeper_pid(), keeper, "the keeper keeps its pid");
    assert_ne!(home.daemon_pid(), daemon);
    let after = status(&home, "web");
    assert_eq!((&before["pid"], &before["run"]), (&after["pid"], &after["run"]));
    let seen = lines(&home, "web", &[]).len();
    wait_until("more lines", LIMIT, || lines(&home, "web", &[]).len() > seen + 20);
    for (line, number) in lines(&home, "web", &[]).iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"));
    }
    // Still our child, so its exact exit status is known.
    kill9(pid(&home, "web"));
    wait_until("a new run", LIMIT, || status(&home, "web")["restarts"] == 1);
    assert_eq!(status(&home, "web")["last_exit"]["signal"], 9);
}

#[test]
fn an_upgrade_to_something_that_is_no_proctor_is_refused() {
    let home = up(&web(&[], ""));
    let (keeper, service) = (home.keeper_pid(), pid(&home, "web"));
    for binary in ["/bin/true", "/no/such/file"] {
        home.fail(["daemon", "upgrade", "--binary", binary]);
    }
    assert_eq!((home.keeper_pid(), pid(&home, "web")), (keeper, service));
}

#[test]
fn an_orderly_end_stops_services_or_leaves_them() {
    let config = format!(
        "supervisor:\n  services:\n{}{}",
        service("stops", &[], ""),
        service("stays", &["--lines", "100000000", "--every", "5"], "on_shutdown: leave"),
    );
    let home = up(&config);
    let (stops, stays) = (pid(&home, "stops"), pid(&home, "stays"));
    let keeper = home.keeper_pid();
    home.ok(["daemon", "stop"]);
    wait_until("the keeper is gone", LIMIT, || !alive(keeper));
    assert_eq!((alive(stops), alive(stays)), (false, true));
    home.ok(["daemon", "start"]);
    assert_eq!(pid(&home, "stays"), stays, "it was taken over");
    wait_state(&home, "stops", "running");
    for (line, number) in lines(&home, "stays", &[]).iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"));
    }
    home.ok(["down"]);
    wait_until("all are gone", LIMIT, || !alive(stays));
}

#[test]
fn without_a_daemon_reading_says_so_and_starts_nothing() {
    let home = Home::new();
    for words in [&["list"][..], &["status", "web"], &["logs", "web"]] {
        let (code, said) = home.fail(words);
        assert_eq!(code, 5, "{said}");
        assert!(said.contains("proctor "), "a next step is named: {said}");
    }
    assert!(!home.path().join("run/keeper.lock").exists());
}

#[test]
fn as_pid_1_it_reaps_orphans_and_ends_on_term() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&["--double-fork"], "stop: { grace: 300 }"));
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .arg(proctor())
        .arg("--home")
        .arg(home.path());
    let mut child =
        match unshare.args(["daemon", "start", "--foreground"]).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => panic!("unshare (util-linux) cannot be run: {error}"),
        };
    let ready = || home.run(["daemon", "status"]).status.success();
    let ended = |child: &mut std::process::Child| child.try_wait().unwrap().is_some();
    wait_until("it is ready, or may not be made", LIMIT, || ended(&mut child) || ready());
    if ended(&mut child) {
        // Pid namespaces are not permitted here; other tests that orphan a process cover the same duties.
        return;
    }
    home.ok(["up", "-d"]);
    wait_state(&home, "web", "running");
    let keeper = home.json(["daemon", "status"])["keeper"]["pid"].as_u64();
    assert_eq!(keeper, Some(1), "the keeper is PID 1");
    for inner in children(child.id()) {
        signal(inner, Signal::TERM);
    }
    wait_until("it has ended", LIMIT, || ended(&mut child));
}

#[test]
fn a_daemon_can_be_started_with_its_configuration() {
    let home = Home::new();
    let config = home.write("conf/site.yaml", &web(&[], ""));
    let config = config.to_str().unwrap();
    home.ok(["daemon", "start", "--config", config, "--log-level", "debug"]);
    wait_state(&home, "web", "running");
    assert!(home.own_log().contains("DEBUG"), "{}", home.own_log());
    home.ok(["down"]);
    let mut foreground =
        home.command(["daemon", "start", "--foreground", "-c", config]).spawn().unwrap();
    wait_until("it answers", LIMIT, || home.run(["status", "web"]).status.success());
    wait_state(&home, "web", "running");
    home.ok(["down"]);
    assert!(foreground.wait().unwrap().success());
    let (code, said) = home.fail(["daemon", "start", "--log-level", "loud"]);
    assert!(code == 2 && said.contains("trace"), "{code} {said}");
}
