//! The guard: whichever process of Proctor is killed, one is left, and output and exits of runs are known afterwards.

use crate::support::{LIMIT, lines, pid, service, services, shell, status, up, wait_state, web};
use proctor_testkit::{Home, alive, finish, kill9, running, signal, wait_until};
use rustix::process::Signal;
use std::collections::BTreeMap;

/// Lines of one run in [`nothing_is_lost_of_runs_that_end_while_neither_keeper_nor_daemon_lives`].
const LINES: usize = 200;
const SERVICES: usize = 6;

/// Kills keeper and daemon, so only the guard is left. Returns the keeper's pid.
#[track_caller]
fn kill_both(home: &Home) -> u32 {
    let (keeper, daemon) = (home.keeper_pid(), home.daemon_pid());
    // Stopped first, so it does not see the keeper die and become one.
    signal(daemon, Signal::STOP);
    kill9(keeper);
    kill9(daemon);
    keeper
}

/// Waits for a keeper that no command has started.
#[track_caller]
fn wait_for_keeper_after(home: &Home, old: u32) {
    wait_until("a keeper by itself", LIMIT, || home.living_keeper().is_some_and(|now| now != old));
}

/// Returns true if the kernel reports an exit to processes other than the parent.
fn kernel_tells_exits() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15)
}

/// The number of rounds is bounded, and set with `GUARD_ROUNDS`.
#[test]
fn nothing_is_lost_of_runs_that_end_while_neither_keeper_nor_daemon_lives() {
    let rounds = std::env::var("GUARD_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let home = Home::new();
    let (go, ended) = (home.path().join("go"), home.path().join("ended"));
    let script = format!(
        "while [ ! -e {go} ]; do sleep 0.02; done; i=0; \
         while [ $i -lt {LINES} ]; do echo \"$PROCTOR_RUN line $i\"; i=$((i+1)); done; \
         echo \"$PROCTOR_RUN\" >> {ended}",
        go = go.display(),
        ended = ended.display(),
    );
    let keys = "restart_policy: always\nmax_restarts: unlimited\nrestart: { delay: 0 }";
    let names: Vec<String> = (0..SERVICES).map(|n| format!("s{n}")).collect();
    let all: Vec<String> = names.iter().map(|name| shell(name, &script, keys)).collect();
    home.write("proctor.yaml", &services(&all));
    home.ok(["up", "-d"]);
    for round in 1..=rounds {
        for name in &names {
            wait_state(&home, name, "running");
        }
        let keeper = kill_both(&home);
        std::fs::write(&go, "").unwrap();
        let count = || std::fs::read_to_string(&ended).unwrap_or_default().lines().count();
        wait_until("all have ended", LIMIT, || count() >= round * SERVICES);
        std::fs::remove_file(&go).unwrap();
        wait_for_keeper_after(&home, keeper);
    }
    // Runs that started before the gate was closed may still be active.
    home.ok(["down"]);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    home.ok(["daemon", "start"]);
    for line in names.iter().flat_map(|name| lines(&home, name, &[])) {
        *seen.entry(line).or_default() += 1;
    }
    let ended = std::fs::read_to_string(&ended).unwrap();
    let written = ended.lines().flat_map(|run| (0..LINES).map(move |i| format!("{run} line {i}")));
    let wrong: Vec<String> = written.filter(|line| seen.get(line) != Some(&1)).collect();
    assert!(wrong.is_empty(), "{} lines lost or doubled: {:?}", wrong.len(), wrong.first());
}

#[test]
fn how_a_run_ended_while_neither_keeper_nor_daemon_lived_is_known() {
    let home = Home::new();
    let go = home.path().join("go").display().to_string();
    let args = ["--lines", "2", "--wait-file", &go, "--lines", "3", "--exit", "7"];
    home.write("proctor.yaml", &web(&args, "restart_policy: never"));
    home.ok(["up", "-d"]);
    wait_until("its first lines", LIMIT, || lines(&home, "web", &[]).len() == 2);
    let web = pid(&home, "web");
    let keeper = kill_both(&home);
    std::fs::write(home.path().join("go"), "").unwrap();
    wait_until("the service is gone", LIMIT, || !alive(web));
    wait_for_keeper_after(&home, keeper);
    let now = wait_state(&home, "web", "failed");
    let exit = &now["last_exit"];
    if kernel_tells_exits() || exit["kind"] != "unknown" {
        assert_eq!(exit["code"], 7, "{now:#}");
    }
    assert_eq!(lines(&home, "web", &[]), ["line 1", "line 2", "line 1", "line 2", "line 3"]);
}

#[test]
fn a_guard_that_dies_is_replaced_by_one_that_holds_the_same() {
    let home = up(&services(&[service("web", &["--lines", "1"], ""), service("db", &[], "")]));
    let held = |guard: u32| {
        let held = std::fs::read_dir(format!("/proc/{guard}/fd")).unwrap().flatten();
        let held = held.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let mut held: Vec<String> = held.map(|path| path.display().to_string()).collect();
        held.retain(|path| path.contains("/run/services/") || path.contains("pidfd"));
        held.sort();
        held
    };
    let first = home.guard_pid();
    wait_until("it holds two runs", LIMIT, || held(first).len() == 6);
    let before = held(first);
    kill9(first);
    wait_until("another", LIMIT, || !alive(first) && home.guard_pid() != first);
    let second = home.guard_pid();
    wait_until("it holds the same", LIMIT, || held(second) == before);
    // A restart leaves nothing of the old run behind.
    home.ok(["restart", "web"]);
    wait_until("it holds the new run", LIMIT, || held(second).len() == 6 && held(second) != before);
    home.ok(["stop", "web"]);
    wait_until("it holds one run", LIMIT, || held(second).len() == 3);
}

/// Has a failpoint for every moment in which the keeper of an upgrade can die.
#[test]
fn somebody_is_left_when_the_keeper_is_killed_in_an_upgrade() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&["--lines", "100000000", "--every", "2"], ""));
    std::fs::create_dir(home.path().join("failpoints")).unwrap();
    let mut command = home.command(["up", "-d"]);
    command.env("PROCTOR_FAILPOINTS", home.path().join("failpoints"));
    assert!(finish(&mut command, LIMIT).status.success());
    let before = status(&home, "web");
    let points = [
        "upgrade.asked",
        "upgrade.stopped",
        "upgrade.stored",
        "upgrade.pass",
        "upgrade.exec",
        "keeper.begin",
        "keeper.locked",
        "takeover.begin",
        "takeover.done",
        "daemon.spawn",
    ];
    for point in points {
        let keeper = home.keeper_pid();
        home.write(&format!("failpoints/{point}"), "kill 1");
        // With a fault there may be no response.
        let _ = home.run(["daemon", "upgrade"]);
        let hit = home.path().join(format!("failpoints/{point}.hit"));
        wait_until(&format!("{point} is passed"), LIMIT, || hit.exists());
        wait_for_keeper_after(&home, keeper);
        let after = status(&home, "web");
        for key in ["pid", "run", "restarts"] {
            assert_eq!(before[key], after[key], "{point}: {key}");
        }
    }
    let seen = lines(&home, "web", &[]);
    for (line, number) in seen.iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"));
    }
}

#[test]
fn an_orderly_end_ends_the_guard_and_nobody_comes_back() {
    for words in [["daemon", "stop"].as_slice(), &["down"]] {
        let home =
            up(&services(&[service("web", &[], ""), service("stays", &[], "on_shutdown: leave")]));
        let (guard, keeper) = (home.guard_pid(), home.keeper_pid());
        home.ok(words);
        let own = |role| running(&[role, &home.path().display().to_string()]);
        if words == ["down"] && alive(keeper) {
            // A service was left running, so Proctor stays.
            assert!(alive(guard));
            continue;
        }
        wait_until("all have ended", LIMIT, || {
            ["__guard", "__keeper", "__daemon"].iter().all(|role| own(role).is_empty())
        });
        assert!(!home.path().join("run/guard.sock").exists());
        let (_, said) = home.fail(["list"]);
        assert!(said.contains("Proctor is not running"), "{said}");
    }
}

/// The guard would start its own program.
#[test]
fn an_upgrade_replaces_the_guard() {
    let home = up(&web(&[], ""));
    let (web, guard) = (pid(&home, "web"), home.guard_pid());
    let copy = home.path().join("copy");
    std::fs::copy(proctor_testkit::proctor(), &copy).unwrap();
    home.ok(["daemon", "upgrade", "--binary", &copy.display().to_string()]);
    wait_until("another guard", LIMIT, || !alive(guard) && home.guard_pid() != guard);
    let program = std::fs::read_link(format!("/proc/{}/exe", home.guard_pid())).unwrap();
    assert_eq!(program, copy);
    assert_eq!(pid(&home, "web"), web);
}

#[test]
fn processes_say_what_they_are() {
    let home = up(&web(&[], ""));
    let all = [
        ("proctor: keeper", home.keeper_pid()),
        ("proctor: daemon", home.daemon_pid()),
        ("proctor: guard", home.guard_pid()),
    ];
    for (title, pid) in all {
        let read = |file| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        assert_eq!(read("cmdline").split('\0').next(), Some(title));
        assert_eq!(read("comm"), "proctor\n", "{title}");
    }
    // One that took over, and one that was replaced in place.
    crate::support::replace_keeper(&home);
    home.ok(["daemon", "upgrade"]);
    let keeper = home.keeper_pid();
    let line = std::fs::read_to_string(format!("/proc/{keeper}/cmdline")).unwrap();
    assert!(line.starts_with("proctor: keeper\0"), "{line}");
}
