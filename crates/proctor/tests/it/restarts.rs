//! Restarts: their causes, delays, limits, and the state after the last one.

use crate::support::{LIMIT, lines, marks, pid, service, services, shell, status, up, wait_state};
use proctor_testkit::{Home, kill9, wait_until};

/// A home with these services, of which some fail to start.
fn crashing(all: &[String]) -> Home {
    let home = Home::new();
    home.write("proctor.yaml", &services(all));
    // On a very busy machine even a program that ends at once may live long enough to count as started.
    home.run(["up", "-d"]);
    home
}

#[test]
fn arguments_of_a_restart_hold_until_the_next_stop_restart_or_change_of_the_file() {
    let config =
        |prefix| services(&[service("web", &["--lines", "1", "--line-prefix", prefix], "")]);
    let home = up(&config("old "));
    wait_until("a line", LIMIT, || lines(&home, "web", &[]) == ["old line 1"]);
    home.ok(["restart", "web", "--args", "--lines 1 --line-prefix 'new and \"quoted\" '"]);
    let expected = ["old line 1", "new and \"quoted\" line 1"];
    wait_until("the new line", LIMIT, || lines(&home, "web", &[]) == expected);
    // Also for the restart after a crash, and for the next daemon.
    kill9(home.daemon_pid());
    kill9(pid(&home, "web"));
    wait_until("a third line", LIMIT, || lines(&home, "web", &[]).len() == 3);
    assert_eq!(lines(&home, "web", &[])[2], expected[1]);
    let shown = status(&home, "web")["args_override"].as_str().unwrap_or_default().to_owned();
    assert!(shown.contains("new and"), "{shown}");
    let settings = home.json(["config", "web"])["settings"].to_string();
    assert!(settings.contains("restart --args of web"), "{settings}");

    let next = |count: usize| {
        wait_until("the next line", LIMIT, || lines(&home, "web", &[]).len() == count);
        lines(&home, "web", &[])[count - 1].clone()
    };
    home.ok(["restart", "web"]);
    assert_eq!(next(4), "old line 1", "a restart without arguments uses the configured ones");
    assert!(status(&home, "web")["args_override"].is_null());

    let give = |count| {
        home.ok(["restart", "web", "--args", "--lines 1 --line-prefix 'given '"]);
        assert_eq!(next(count), "given line 1");
    };
    give(5);
    let given = pid(&home, "web");
    home.ok(["up", "-d"]);
    assert_eq!(pid(&home, "web"), given, "an unchanged file ends nothing");
    home.write("proctor.yaml", &config("changed "));
    home.ok(["up", "-d"]);
    assert_eq!(next(6), "changed line 1");
    give(7);
    home.ok(["stop", "web"]);
    home.ok(["start", "web"]);
    assert_eq!(next(8), "changed line 1");
}

#[test]
fn what_a_person_stopped_stays_stopped_under_every_policy() {
    let policies = ["always", "on_failure", "never", "one_shot"];
    let all = policies.map(|policy| service(policy, &[], &format!("restart_policy: {policy}")));
    let home = up(&services(&all));
    let mut stop = vec!["stop"];
    stop.extend(policies);
    home.ok(stop);
    let stopped = |when: &str| {
        for policy in policies {
            let now = status(&home, policy);
            assert_eq!(
                (&now["state"], &now["wish"]),
                (&"stopped".into(), &"down".into()),
                "{when}"
            );
            assert_eq!(now["restarts"], 0, "{when}: {now:#}");
        }
    };
    stopped("at once");
    crate::survival::kill_proctor(&home);
    home.ok(["daemon", "start"]);
    stopped("after both of Proctor's processes died");
    home.ok(["daemon", "stop"]);
    home.ok(["daemon", "start"]);
    stopped("after an orderly end");
}

#[test]
fn a_service_that_a_new_proctor_brings_back_is_never_called_stopped() {
    let home = up(&services(&[service("web", &[], "")]));
    home.ok(["daemon", "stop"]);
    let counts = home.json(["daemon", "start"])["services"].clone();
    assert!(counts.get("stopped").is_none() && counts.get("failed").is_none(), "{counts}");
    assert!(counts["starting"] == 1 || counts["running"] == 1, "{counts}");
    for filter in [["--state", "failed"], ["--owner", "nobody"]] {
        let told = home.ok([["list"].as_slice(), &filter].concat());
        assert_eq!(told, "no service matches\n", "{filter:?}");
    }
}

#[test]
fn waits_grow_from_crash_to_crash_up_to_the_longest() {
    // Each run prints the time and ends. The interval is at least the delay, however busy the machine is.
    let script = "read up idle < /proc/uptime; echo $up; exit 1";
    let keys = "max_restarts: 5\nrestart: { delay: 100, backoff: 3, max_delay: 500, jitter: 0 }";
    let home = crashing(&[shell("web", script, keys)]);
    wait_state(&home, "web", "failed");
    let times: Vec<f64> = lines(&home, "web", &[]).iter().map(|up| up.parse().unwrap()).collect();
    let waits: Vec<f64> = times.windows(2).map(|two| (two[1] - two[0]) * 1000.0).collect();
    assert_eq!(waits.len(), 5, "{times:?}");
    /// Unit of the kernel's clock in milliseconds.
    const TICK: f64 = 10.0;
    for (at_least, wait) in [100.0, 300.0, 500.0, 500.0, 500.0].into_iter().zip(&waits) {
        assert!(*wait > at_least - 2.0 * TICK, "{wait} instead of {at_least}: {waits:?}");
    }
}

#[test]
fn status_says_what_comes_next_and_why() {
    let crash = ["--exit", "7"];
    let home = crashing(&[
        service("patient", &crash, "restart: { delay: 60000, jitter: 0 }"),
        service("cooling", &crash, "max_restarts: 0\nrestart: { cool_off: 90m }"),
        service("finished", &crash, "max_restarts: 1\nrestart: { delay: 1 }"),
    ]);
    for (name, state, key, expected) in [
        ("patient", "backoff", "next", &["restart in ", "s"][..]),
        ("cooling", "cooling", "next", &["retry in ", "h"]),
        ("cooling", "cooling", "why", &["too many restarts"]),
        ("finished", "failed", "why", &["gave up after 1 restart"]),
    ] {
        let now = wait_state(&home, name, state);
        let text = now[key].as_str().unwrap_or_default();
        for part in expected {
            assert!(text.contains(part), "{name}: {key} is {text:?}");
        }
        let shown = home.ok(["status", name]);
        assert!(shown.contains(expected[0]) && shown.contains("exit code 7"), "{shown}");
    }
}

#[test]
fn a_stable_run_begins_the_waits_anew() {
    let brief = ["--exit-after", "60", "--exit", "1"];
    let ladder = |stable| {
        format!(
            "max_restarts: 1000\nrestart: {{ delay: 20, backoff: 100, max_delay: 1h, jitter: 0, stable_after: {stable} }}"
        )
    };
    let home = crashing(&[
        service("stable", &brief, &ladder("10")),
        service("shaky", &brief, &ladder("1h")),
    ]);
    wait_until("many restarts", LIMIT, || status(&home, "stable")["restarts"].as_u64() > Some(5));
    // Its second delay is two seconds, its third more than three minutes.
    let shaky = status(&home, "shaky");
    assert!(shaky["restarts"].as_u64() <= Some(2), "{shaky:#}");
}

#[test]
fn restarts_are_counted_within_the_window_only() {
    let brief = ["--exit-after", "120", "--exit", "1"];
    let window = |length| format!("max_restarts: 2\nrestart: {{ delay: 0, window: {length} }}");
    let home = crashing(&[
        service("forgiven", &brief, &window("100")),
        service("counted", &brief, &window("1h")),
    ]);
    wait_until("many restarts", LIMIT, || status(&home, "forgiven")["restarts"].as_u64() > Some(4));
    let counted = wait_state(&home, "counted", "failed");
    assert_eq!(counted["restarts"], 2);
}

#[test]
fn after_a_cool_off_it_is_tried_again_until_it_works() {
    let home = Home::new();
    let cure = home.path().join("cure");
    let script = format!("test -e '{}' || exit 1; exec sleep 1000", cure.display());
    let keys = "max_restarts: 1\nrestart: { delay: 1, cool_off: 50 }";
    home.write("proctor.yaml", &services(&[shell("web", &script, keys)]));
    home.fail(["up", "-d"]);
    wait_until("more tries than the budget has", LIMIT, || {
        status(&home, "web")["restarts"].as_u64() > Some(4)
    });
    std::fs::write(&cure, "").unwrap();
    wait_state(&home, "web", "running");
}

#[test]
fn a_program_that_cannot_be_run_is_told_with_its_path_and_the_reason() {
    let home = Home::new();
    // It exists and is executable, so only the kernel can detect that it is not a program.
    let program = home.write("bin/tool", "\u{7f}ELF, or so it says");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let text = program.display().to_string();
    home.write(
        "proctor.yaml",
        &format!("supervisor:\n  services:\n    web:\n      command: [{text:?}]\n      restart_policy: never\n"),
    );
    let (_, said) = home.fail(["up", "-d"]);
    let failed = wait_state(&home, "web", "failed");
    let exit = &failed["last_exit"];
    assert_eq!(exit["kind"], "spawn_failed", "{failed:#}");
    let shown = home.ok(["status", "web"]);
    for (who, text) in [
        ("up", said.as_str()),
        ("status", &shown),
        ("--json status", exit["text"].as_str().unwrap()),
    ] {
        for expected in [program.display().to_string().as_str(), "Exec format error"] {
            assert!(text.contains(expected), "{who}: {expected} is missing: {text}");
        }
    }
    // The log has the time and the number.
    let ended = marks(&home, "web").pop().unwrap();
    assert_eq!(ended.0, "exited");
    assert!(ended.2.contains("could not be started") && ended.2.contains('8'), "{ended:?}");
}

/// Returns descriptors and threads of a process, and its resident pages.
fn held(pid: u32) -> (usize, usize, u64) {
    let count = |folder: &str| std::fs::read_dir(format!("/proc/{pid}/{folder}")).unwrap().count();
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    (count("fd"), count("task"), pages.split(' ').nth(1).unwrap().parse().unwrap())
}

#[test]
fn thousands_of_restarts_leave_nothing_behind_in_the_keeper() {
    const MIB_OF_PAGES: u64 = 256;
    /// A busy machine makes a few dozen in a second.
    const RESTART_DEADLINE: std::time::Duration = std::time::Duration::from_secs(120);
    let keys = "restart_policy: always\nmax_restarts: unlimited\nrestart: { delay: 0 }";
    let home = crashing(&[service("web", &["--exit", "1"], keys)]);
    let keeper = home.keeper_pid();
    // The window of the restart limit fills first; that memory is kept on purpose.
    let crash_until = |restarts: u64| {
        wait_until("restarts", RESTART_DEADLINE, || {
            status(&home, "web")["restarts"].as_u64() >= Some(restarts)
        });
        home.ok(["stop", "web"]);
        held(keeper)
    };
    let (fds, threads, pages) = crash_until(1100);
    home.ok(["start", "--no-wait", "web"]);
    let after = crash_until(2100);
    assert_eq!((after.0, after.1), (fds, threads));
    assert!(after.2 < pages + MIB_OF_PAGES, "{pages} pages became {}", after.2);
}

#[test]
fn a_row_of_crashes_without_waits_is_no_start() {
    let home = Home::new();
    let keys = "max_restarts: unlimited\nrestart: { delay: 0 }";
    home.write("proctor.yaml", &services(&[service("web", &["--exit", "3"], keys)]));
    // Whichever run exists at the end of the wait, it is one of many.
    for words in [["up", "-d", "--timeout", "1"], ["restart", "web", "--timeout", "1"]] {
        let (code, said) = home.fail(words);
        assert!(code == 4 && said.contains("crashed: exit code 3"), "{words:?}: {code} {said}");
    }
}
