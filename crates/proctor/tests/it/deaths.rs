//! Deaths of Proctor's processes at awkward moments: output and exit are known afterwards.

use crate::support::{
    LIMIT, lines, marks, pid, replace_keeper, service, services, status, up, wait_state,
};
use proctor_testkit::{Home, alive, kill9, proctor, signal, victim, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// Returns true if the kernel reports an exit to processes other than the parent.
fn kernel_tells_exits() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.trim().parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15)
}

/// Checks the exit: exact if the kernel reports it, otherwise possibly `unknown`, but never invented.
#[track_caller]
fn check_exit(now: &Value, code: i64) {
    let exit = &now["last_exit"];
    if kernel_tells_exits() || exit["kind"] != "unknown" {
        assert_eq!((&exit["kind"], &exit["code"]), (&"code".into(), &code.into()), "{now:#}");
    }
}

/// A service that prints two lines, waits for a file, prints three more and exits with 7.
fn two_part(home: &Home) -> String {
    let go = home.path().join("go").display().to_string();
    let args = ["--lines", "2", "--wait-file", &go, "--lines", "3", "--exit", "7"];
    services(&[service("web", &args, "restart_policy: never")])
}

const ALL_LINES: [&str; 5] = ["line 1", "line 2", "line 1", "line 2", "line 3"];

#[test]
fn a_service_whose_keeper_died_tells_the_next_how_it_ended() {
    let home = Home::new();
    home.write("proctor.yaml", &two_part(&home));
    home.ok(["up", "-d"]);
    replace_keeper(&home);
    std::fs::write(home.path().join("go"), "").unwrap();
    check_exit(&wait_state(&home, "web", "failed"), 7);
    assert_eq!(lines(&home, "web", &[]), ALL_LINES);
}

#[test]
fn the_daemon_is_a_witness_of_what_happens_while_no_keeper_lives() {
    let home = Home::new();
    home.write("proctor.yaml", &two_part(&home));
    home.ok(["up", "-d"]);
    wait_until("its first lines", LIMIT, || lines(&home, "web", &[]).len() == 2);
    let (keeper, daemon, service) = (home.keeper_pid(), home.daemon_pid(), pid(&home, "web"));
    signal(daemon, Signal::STOP);
    kill9(keeper);
    wait_until("the keeper is gone", LIMIT, || !alive(keeper));
    kill9(home.guard_pid());
    // No process of Proctor runs now. The service writes its last output and ends.
    std::fs::write(home.path().join("go"), "").unwrap();
    wait_until("the service is gone", LIMIT, || !alive(service));
    signal(daemon, Signal::CONT);
    wait_until("the daemon has taken over", LIMIT, || home.run(["status", "web"]).status.success());
    check_exit(&wait_state(&home, "web", "failed"), 7);
    assert_eq!(lines(&home, "web", &[]), ALL_LINES);
    let ended = marks(&home, "web").pop().unwrap();
    assert_eq!(ended.0, "exited", "{ended:?}");
}

#[test]
fn a_session_works_though_the_keeper_dies_between_any_two_commands() {
    let home = Home::new();
    let config = |args: &[&str]| services(&[service("web", args, ""), service("db", &[], "")]);
    home.write("proctor.yaml", &config(&["--lines", "1"]));
    let victim = victim().display().to_string();
    home.ok(["up", "-d"]);
    let db = pid(&home, "db");
    let session: &[&[&str]] = &[
        &["stop", "web"],
        &["start", "web"],
        &["restart", "web", "--args", "--lines 2"],
        &["signal", "web", "CONT"],
        &["add", "extra", "--start", "--", &victim],
        &["stop", "extra"],
        &["remove", "extra", "--purge"],
        &["up", "-d"],
        &["config"],
        &["logs", "web"],
        &["daemon", "upgrade"],
        &["list"],
    ];
    for words in session {
        replace_keeper(&home);
        home.ok(*words);
        assert_eq!(pid(&home, "db"), db, "after {words:?}");
    }
    replace_keeper(&home);
    let web = status(&home, "web");
    assert_eq!((web["state"].as_str(), web["restarts"].as_u64()), (Some("running"), Some(0)));
    assert_eq!(home.json(["list"])["services"].as_array().unwrap().len(), 2);
    home.ok(["down"]);
    assert!(!alive(db));
}

/// Without a pause, a command meets Proctor at any moment of the takeover. It works, or asks for a retry; services are not
/// affected.
#[test]
fn a_command_during_a_takeover_works_or_asks_to_be_tried_again() {
    let home = up(&services(&[service("web", &[], "")]));
    let web = pid(&home, "web");
    for round in 0..10 {
        kill9(home.keeper_pid());
        for words in [&["status", "web"][..], &["start", "web"], &["daemon", "status"]] {
            wait_until("it is done", LIMIT, || {
                let output = home.run(words);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                match output.status.code() {
                    Some(0) => true,
                    Some(5) => {
                        !said.contains("help: ") && panic!("{words:?} gives no hint: {said}")
                    }
                    code => panic!("round {round}, {words:?}: {code:?} {said}"),
                }
            });
        }
        assert_eq!(pid(&home, "web"), web, "round {round}");
    }
    assert_eq!(status(&home, "web")["restarts"], 0);
}

#[test]
fn term_ends_the_keeper_in_order() {
    for ending in [Signal::TERM, Signal::INT] {
        let home = up(&services(&[
            service("polite", &["--lines", "1", "--term-exit", "0"], ""),
            service("stubborn", &["--ignore-term", "--double-fork"], "stop: { grace: 200 }"),
            service("stays", &[], "on_shutdown: leave"),
        ]));
        let (keeper, daemon) = (home.keeper_pid(), home.daemon_pid());
        let [polite, stubborn, stays] =
            ["polite", "stubborn", "stays"].map(|name| pid(&home, name));
        signal(keeper, ending);
        wait_until("it has ended", LIMIT, || !alive(keeper) && !alive(daemon));
        assert_eq!((alive(polite), alive(stubborn), alive(stays)), (false, false, true));
        let log = std::fs::read_to_string(home.path().join("logs/polite/stdout.00000001.log"));
        assert_eq!(log.unwrap(), "line 1\n");
        // They were wanted, and an end of Proctor does not change that.
        home.ok(["daemon", "start"]);
        for name in ["polite", "stubborn"] {
            wait_state(&home, name, "running");
        }
        assert_eq!(pid(&home, "stays"), stays);
        let ends: Vec<String> = marks(&home, "polite").into_iter().map(|mark| mark.2).collect();
        assert_eq!(ends, ["", "exit code 0", ""], "started, ended by itself, started");
    }
}

#[test]
fn an_upgrade_to_a_copy_elsewhere_runs_the_copy() {
    let home = up(&services(&[service("web", &["--lines", "1"], "")]));
    let (keeper, web) = (home.keeper_pid(), pid(&home, "web"));
    let copy = home.path().join("new version");
    // With `cp`, because a process forked by another test would have it open for writing, and it could not be executed.
    let copied = std::process::Command::new("cp").arg(proctor()).arg(&copy).status().unwrap();
    assert!(copied.success());
    let copy_text = copy.display().to_string();
    home.ok(["daemon", "upgrade", "--binary", &copy_text]);
    assert_eq!((home.keeper_pid(), pid(&home, "web")), (keeper, web));
    for pid in [home.keeper_pid(), home.daemon_pid()] {
        assert_eq!(std::fs::read_link(format!("/proc/{pid}/exe")).unwrap(), copy);
    }
    // Package managers replace a running file: the next daemon and the next keeper still start.
    std::fs::remove_file(&copy).unwrap();
    let daemon = home.daemon_pid();
    kill9(daemon);
    wait_until("a new daemon", LIMIT, || !alive(daemon) && home.run(["list"]).status.success());
    replace_keeper(&home);
    assert_eq!(pid(&home, "web"), web);
    home.ok(["daemon", "upgrade"]);
    let exe = std::fs::read_link(format!("/proc/{}/exe", home.keeper_pid())).unwrap();
    assert_eq!((exe, pid(&home, "web")), (proctor(), web));
}

/// The new program is slow: first it lets the service write its last output and end. It uses only shell builtins, because a child
/// of the shell could be taken for the service.
#[test]
fn what_a_service_says_that_ends_during_an_upgrade_is_stored() {
    let home = Home::new();
    home.write("proctor.yaml", &two_part(&home));
    home.ok(["up", "-d"]);
    wait_until("its first lines", LIMIT, || lines(&home, "web", &[]).len() == 2);
    let script = format!(
        "#!/bin/sh\n\
         [ \"$1\" = --version ] && exec {proctor} --version\n\
         : > {go}\n\
         while read -r line < /proc/{pid}/stat; do case $line in *') Z '*) break;; esac; done\n\
         exec {proctor} \"$@\"\n",
        proctor = proctor().display(),
        go = home.path().join("go").display(),
        pid = pid(&home, "web"),
    );
    let slow = home.write("slow", &script);
    std::fs::set_permissions(&slow, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.ok(["daemon", "upgrade", "--binary", &slow.display().to_string()]);
    let ended = wait_state(&home, "web", "failed");
    assert_eq!(ended["last_exit"]["code"], 7, "{ended:#}");
    assert_eq!(lines(&home, "web", &[]), ALL_LINES);
}

#[test]
fn an_upgrade_to_an_impostor_costs_no_service() {
    let home = up(&services(&[service("web", &["--lines", "100000000", "--every", "5"], "")]));
    let before = status(&home, "web");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo proctor 9.9.9\nexit 0\n";
    let impostor = home.write("impostor", script);
    std::fs::set_permissions(&impostor, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let (_, said) = home.fail(["daemon", "upgrade", "--binary", &impostor.display().to_string()]);
    assert!(said.contains("help: "), "{said}");
    home.ok(["daemon", "start"]);
    let after = status(&home, "web");
    for key in ["pid", "run", "state", "restarts"] {
        assert_eq!(before[key], after[key], "{key}");
    }
    let seen = lines(&home, "web", &[]).len();
    wait_until("more lines", LIMIT, || lines(&home, "web", &[]).len() > seen + 20);
    for (line, number) in lines(&home, "web", &[]).iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"));
    }
}
