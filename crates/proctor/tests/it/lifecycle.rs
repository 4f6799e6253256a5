//! Services start, stay up, restart, stop.

use crate::support::{LIMIT, lines, pid, service, status, up, wait_state, web};
use proctor_testkit::{Home, alive, free_port, kill9, victim, wait_until};

#[test]
fn a_service_starts_runs_and_stops() {
    let home = up(&web(&["--lines", "1"], ""));
    let running = wait_state(&home, "web", "running");
    let pid = running["pid"].as_u64().unwrap() as u32;
    assert!(alive(pid));
    assert_eq!(running["restarts"], 0);
    assert!(
        running["processes"].as_u64() >= Some(1) && running["memory_bytes"].as_u64() > Some(0),
        "{running:#}"
    );
    home.ok(["start", "web"]);
    assert_eq!(crate::support::pid(&home, "web"), pid, "starting what runs changes nothing");
    home.ok(["stop", "web"]);
    let stopped = status(&home, "web");
    assert_eq!((stopped["state"].as_str(), alive(pid)), (Some("stopped"), false));
    assert_eq!(stopped["last_exit"]["signal"], 15, "{stopped:#}");
    home.ok(["stop", "web"]);
}

#[test]
fn restart_makes_a_new_run_and_uses_no_budget() {
    let home = up(&web(&[], "max_restarts: 1"));
    let mut last = pid(&home, "web");
    for _ in 0..4 {
        home.ok(["restart", "web"]);
        let now = pid(&home, "web");
        assert_ne!(now, last);
        last = now;
    }
    let status = status(&home, "web");
    assert_eq!((status["state"].as_str(), status["restarts"].as_u64()), (Some("running"), Some(0)));
}

#[test]
fn a_crashed_service_is_started_again_at_once() {
    let home = up(&web(&[], ""));
    let first = pid(&home, "web");
    kill9(first);
    wait_until("a new run", LIMIT, || {
        let now = status(&home, "web");
        now["state"] == "running" && now["pid"] != first
    });
    let now = status(&home, "web");
    assert_eq!((now["restarts"].as_u64(), now["last_exit"]["signal"].as_i64()), (Some(1), Some(9)));
}

#[test]
fn a_crash_loop_ends_as_failed_and_a_person_can_start_it_again() {
    let config = web(&["--exit", "3"], "max_restarts: 3\nrestart: { delay: 10, max_delay: 20 }");
    let home = Home::new();
    home.write("proctor.yaml", &config);
    // The start itself fails, and says so, unless the machine is so busy that the first run outlives the wait.
    check_crash_is_told(&home.run(["up", "-d"]));
    let failed = wait_state(&home, "web", "failed");
    assert_eq!(
        (failed["restarts"].as_u64(), failed["last_exit"]["code"].as_i64()),
        (Some(3), Some(3))
    );
    check_crash_is_told(&home.run(["start", "web"]));
    let again = wait_state(&home, "web", "failed");
    assert_eq!(again["restarts"], 6, "the budget was forgiven and spent again");
}

#[track_caller]
fn check_crash_is_told(output: &std::process::Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("proctor logs web"), "{said}");
}

#[test]
fn policies_decide_what_follows_an_exit() {
    let config = format!(
        "supervisor:\n  services:\n{}{}{}{}{}",
        service("once", &["--exit", "0"], "restart_policy: one_shot"),
        service("broken", &["--exit", "4"], "restart_policy: never"),
        service("fine", &["--exit", "42"], "success_exit_codes: [0, 42]"),
        service(
            "eager",
            &["--exit", "0"],
            "restart_policy: always\nmax_restarts: 2\nrestart: { delay: 1 }"
        ),
        service(
            "cooled",
            &["--exit", "1"],
            "max_restarts: 1\nrestart: { delay: 1, cool_off: 60000 }"
        ),
    );
    let home = Home::new();
    home.write("proctor.yaml", &config);
    home.fail(["up", "-d"]);
    for (name, state, restarts) in [
        ("once", "stopped", 0),
        ("broken", "failed", 0),
        ("fine", "stopped", 0),
        ("eager", "failed", 2),
        ("cooled", "cooling", 1),
    ] {
        let now = wait_state(&home, name, state);
        assert_eq!(now["restarts"], restarts, "{now:#}");
    }
}

#[test]
fn an_ad_hoc_service_is_started_kept_and_removed() {
    let home = Home::new();
    let command = format!("{} --print-env --lines 1", victim().display());
    let said = home.run(["start", "--name", "job", "--command", &command, "--env", "PORT=3000"]);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success(), "{told}");
    assert!(told.contains("started Proctor"), "the daemon's start is said: {told}");
    wait_until("its output", LIMIT, || {
        lines(&home, "job", &[]).iter().any(|line| line == "env PORT=3000")
    });
    home.ok(["daemon", "stop"]);
    home.ok(["daemon", "start"]);
    wait_state(&home, "job", "running");
    home.ok(["remove", "job"]);
    let (code, said) = home.fail(["status", "job"]);
    assert_eq!(code, 3, "{said}");
}

#[test]
fn instances_and_groups_are_named_together() {
    let port = free_port();
    let keys = format!("instances: 3\nport: {port}\ngroups: [front]");
    let config = format!(
        "supervisor:\n  services:\n{}{}",
        service("web", &["--print-env"], &keys),
        service("db", &[], "groups: [back]"),
    );
    let home = up(&config);
    assert_eq!(home.json(["list"])["services"].as_array().unwrap().len(), 4);
    home.ok(["stop", "web"]);
    for name in ["web@1", "web@2", "web@3"] {
        assert_eq!(status(&home, name)["state"], "stopped");
    }
    assert_eq!(status(&home, "db")["state"], "running");
    home.ok(["start", "web@2"]);
    wait_until("its output", LIMIT, || {
        lines(&home, "web@2", &[]).contains(&format!("env PORT={}", port + 1))
    });
    assert!(lines(&home, "web@2", &[]).contains(&"env PROCTOR_INSTANCE=2".to_owned()));
    home.ok(["stop", "front", "back"]);
    let all = home.json(["list"]);
    assert!(all["services"].as_array().unwrap().iter().all(|s| s["state"] == "stopped"), "{all:#}");
}

#[test]
fn a_missing_program_is_named_and_nothing_changes() {
    let home = up(&web(&[], ""));
    let (code, said) = home.fail(["start", "--name", "ghost", "--command", "no-such-program --x"]);
    assert!(code != 0 && said.contains("no-such-program"), "{said}");
    assert_eq!(home.json(["list"])["services"].as_array().unwrap().len(), 1, "nothing was added");
}

#[test]
fn a_program_that_vanished_is_reported_with_path_and_reason() {
    let home = Home::new();
    let program = home.write("bin/tool", "#!/bin/sh\nexec sleep 1000\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let config = format!(
        "supervisor:\n  services:\n    web:\n      command: [{program:?}]\n      restart: {{ delay: 60000 }}\n"
    );
    home.write("proctor.yaml", &config);
    home.ok(["up", "-d"]);
    std::fs::remove_file(&program).unwrap();
    kill9(pid(&home, "web"));
    // The first backoff lasts a minute: `restart` starts at once.
    wait_state(&home, "web", "backoff");
    let (_, said) = home.fail(["restart", "web"]);
    assert!(said.contains(&program.display().to_string()), "{said}");
}

#[test]
fn signals_reach_the_main_process_or_the_whole_tree() {
    let home = up(&web(&["--term-exit", "9"], "restart_policy: never"));
    home.ok(["signal", "web", "SIGTERM"]);
    let ended = wait_state(&home, "web", "failed");
    assert_eq!(ended["last_exit"]["code"], 9);
    let (code, said) = home.fail(["signal", "web", "TERM"]);
    assert_eq!(code, 4, "{said}");
}

#[test]
fn a_service_that_had_to_be_killed_can_be_started_again() {
    let home = up(&web(&["--ignore-term"], "stop: { grace: 100 }"));
    for _ in 0..3 {
        home.ok(["stop", "web"]);
        assert_eq!(status(&home, "web")["last_exit"]["signal"], 9);
        home.ok(["start", "web"]);
    }
    assert_eq!(status(&home, "web")["restarts"], 0);
}
