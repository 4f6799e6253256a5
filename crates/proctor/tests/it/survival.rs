//! Nothing dies with us: services, their output and their state outlive any process of Proctor.

use crate::support::{LIMIT, lines, pid, status, up, web};
use proctor_testkit::{Home, alive, kill9, signal, wait_until, with_variable};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::Signal;

/// A service that prints numbered lines for as long as it lives.
fn counting() -> Home {
    let home = up(&web(&["--lines", "100000000", "--every", "2"], ""));
    wait_until("some lines", LIMIT, || lines(&home, "web", &[]).len() > 20);
    home
}

/// Checks that every line of the service is stored, once, in order.
#[track_caller]
fn check_continuity(home: &Home, at_least: usize) {
    wait_until("more lines", LIMIT, || lines(home, "web", &[]).len() >= at_least);
    for (line, number) in lines(home, "web", &[]).iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"));
    }
}

/// Kills the processes of `whom` with SIGKILL, then checks: same process, same run, no line missing.
fn check(whom: fn(&Home) -> Vec<u32>) {
    let home = counting();
    let before = status(&home, "web");
    for _ in 0..3 {
        let victims = whom(&home);
        let seen = lines(&home, "web", &[]).len();
        for pid in &victims {
            kill9(*pid);
        }
        wait_until("they are gone", LIMIT, || !victims.iter().any(|pid| alive(*pid)));
        // If both died, this starts Proctor again.
        home.ok(["daemon", "start"]);
        let after = status(&home, "web");
        for key in ["pid", "run", "state", "restarts"] {
            assert_eq!(before[key], after[key], "{key}\n{}", home.own_log());
        }
        check_continuity(&home, seen + 20);
    }
    assert_eq!(running_copies(&home), 1);
}

/// Returns the number of service processes of this home.
fn running_copies(home: &Home) -> usize {
    with_variable(&format!("PROCTOR_HOME={}", home.path().display())).len()
}

/// Kills keeper, daemon and guard so none can take over, and waits until all are gone.
pub(crate) fn kill_proctor(home: &Home) {
    let (keeper, others) = (home.keeper_pid(), [home.daemon_pid(), home.guard_pid()]);
    // The keeper first and the others stopped, so they do not see it die and replace it.
    others.iter().for_each(|pid| signal(*pid, Signal::STOP));
    kill9(keeper);
    others.iter().for_each(|pid| kill9(*pid));
    // A dead process is not enough: another thread of it may still hold the lock.
    let lock =
        std::fs::File::options().read(true).write(true).open(home.path().join("run/keeper.lock"));
    let lock = lock.unwrap();
    let free = || fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    wait_until("Proctor is gone", LIMIT, free);
}

#[test]
fn killing_the_daemon_changes_nothing() {
    check(|home| vec![home.daemon_pid()]);
}

#[test]
fn killing_the_keeper_changes_nothing() {
    check(|home| vec![home.keeper_pid()]);
}

#[test]
fn killing_both_changes_nothing() {
    check(|home| vec![home.keeper_pid(), home.daemon_pid()]);
}

#[test]
fn the_keeper_restarts_a_crashed_service_while_the_daemon_is_down() {
    let home = up(&web(&[], ""));
    let (daemon, first) = (home.daemon_pid(), pid(&home, "web"));
    // Stopped, not killed, because it would be replaced at once.
    signal(daemon, Signal::STOP);
    kill9(first);
    let marker = home.path().join("run/services/web");
    wait_until("a new run", LIMIT, || {
        let runs = std::fs::read_dir(&marker).unwrap().flatten();
        runs.filter(|e| e.path().extension().is_some_and(|x| x == "out")).count() == 1
            && !alive(first)
    });
    kill9(daemon);
    wait_until("it runs", LIMIT, || status(&home, "web")["state"] == "running");
    assert_ne!(pid(&home, "web"), first);
}

#[test]
fn a_service_that_ends_while_no_keeper_lives_is_not_doubled_or_forgotten() {
    let home = up(&web(&["--lines", "3"], "restart_policy: never"));
    wait_until("its lines", LIMIT, || lines(&home, "web", &[]).len() == 3);
    let service = pid(&home, "web");
    kill_proctor(&home);
    kill9(service);
    wait_until("it is gone", LIMIT, || !alive(service));
    home.ok(["daemon", "start"]);
    let now = status(&home, "web");
    assert_eq!(now["state"], "failed", "{now:#}");
    // If its new parent has not reaped it yet, the kernel still knows.
    let exit = &now["last_exit"];
    assert!(exit["kind"] == "unknown" || exit["signal"] == 9, "never invented: {now:#}");
    assert_eq!(running_copies(&home), 0);
}

#[test]
fn after_killing_the_keeper_a_stop_still_ends_the_whole_tree() {
    let home = Home::new();
    let pids = home.path().join("pids");
    let text = pids.display().to_string();
    let config = web(
        &["--pid-file", &text, "--double-fork", "--fork", "2", "--ignore-term"],
        "stop: { grace: 200 }",
    );
    home.write("proctor.yaml", &config);
    home.ok(["up", "-d"]);
    wait_until("the family", LIMIT, || proctor_testkit::recorded(&pids).len() >= 4);
    let keeper = home.keeper_pid();
    kill9(keeper);
    wait_until("a new keeper", LIMIT, || home.living_keeper().is_some_and(|now| now != keeper));
    home.ok(["stop", "web"]);
    let left = proctor_testkit::descendants_alive(&pids);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn wishes_survive_a_reboot() {
    let config = format!(
        "supervisor:\n  services:\n{}{}",
        crate::support::service("wanted", &[], ""),
        crate::support::service("unwanted", &[], ""),
    );
    let home = up(&config);
    home.ok(["stop", "unwanted"]);
    let wanted = pid(&home, "wanted");
    // Simulates a reboot: no process and no runtime directory.
    kill_proctor(&home);
    kill9(wanted);
    wait_until("all are gone", LIMIT, || !alive(wanted));
    std::fs::remove_dir_all(home.path().join("run")).unwrap();
    home.ok(["daemon", "start"]);
    crate::support::wait_state(&home, "wanted", "running");
    assert_eq!(status(&home, "unwanted")["state"], "stopped");
}

#[test]
fn a_command_that_finds_services_of_a_dead_proctor_takes_over_and_says_so() {
    for words in [&["list"][..], &["status", "web"], &["daemon", "status"], &["logs", "web"]] {
        let home = up(&web(&["--lines", "1"], ""));
        let before = pid(&home, "web");
        kill_proctor(&home);
        let output = home.run(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("Proctor")).collect();
        assert!(matches!(lines[..], [line] if line.starts_with("Proctor had died")), "{said}");
        assert_eq!(pid(&home, "web"), before);
        let again = home.run(words);
        assert!(!String::from_utf8_lossy(&again.stderr).contains("had died"), "once is enough");
    }
}

#[test]
fn after_an_end_in_order_a_command_that_looks_starts_nothing() {
    let home = up(&web(&[], "on_shutdown: leave"));
    let service = pid(&home, "web");
    home.ok(["daemon", "stop"]);
    assert!(alive(service), "it was to be left");
    let (code, said) = home.fail(["list"]);
    assert!(code == 5 && said.contains("Proctor is not running"), "{said}");
}

#[test]
fn a_restart_that_was_pending_when_all_died_is_taken_over_by_any_command() {
    let home = up(&web(&[], "restart: { delay: 3600000, max_delay: 3600000 }"));
    kill9(pid(&home, "web"));
    crate::support::wait_state(&home, "web", "backoff");
    kill_proctor(&home);
    let output = home.run(["status", "web"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("has taken over"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert_eq!(status(&home, "web")["state"], "backoff");
}
