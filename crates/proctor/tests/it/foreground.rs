//! Commands that stay until something happens: `run`, `wait`, and signals to whole trees.

use crate::support::{LIMIT, lines, pid, service, services, shell, status, up, wait_state};
use proctor_testkit::{
    Home, alive, descendants_alive, finish, recorded, signal, victim, wait_for, wait_until,
};
use rustix::process::Signal;
use std::process::{Child, Output, Stdio};

fn begin(home: &Home, words: &[&str]) -> Child {
    home.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the output of a command that was told to end, with a deadline, because a hang is the tested failure.
fn ended(mut child: Child) -> Output {
    wait_until("the command has ended", LIMIT, || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

fn nothing_is_left(home: &Home) {
    assert!(home.json(["list"])["services"].as_array().unwrap().is_empty());
    let logs = std::fs::read_dir(home.path().join("logs")).unwrap().count();
    assert_eq!(logs, 0, "and no log");
}

#[test]
fn run_ends_as_its_program_does() {
    let home = Home::new();
    let victim = victim().display().to_string();
    for (args, code) in [
        (&["--exit", "0"][..], 0),
        (&["--exit", "255"], 255),
        (&["--signal-self", "TERM"], 143),
        (&["--signal-self", "KILL"], 137),
        (&["--signal-self", "SEGV"], 139),
    ] {
        let mut words = vec!["run", "--", &victim, "--lines", "1"];
        words.extend(args);
        let output = home.run(words);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "line 1\n", "{args:?}");
    }
    let (code, said) = home.fail(["run", "--", "no-such-program-here"]);
    assert!(code == 9 && said.contains("no-such-program-here"), "{code} {said}");
    nothing_is_left(&home);
}

#[test]
fn run_passes_on_every_byte_of_both_streams() {
    let home = Home::new();
    let script = "i=0; while [ $i -lt 20000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done; printf '\\377\\000end'";
    let output = home.run(["run", "--name", "job", "--", "/bin/sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0));
    let out: String = (0..20_000).map(|number| format!("out {number}\n")).collect();
    let expected = [out.as_bytes(), b"\xff\x00end"].concat();
    assert!(output.stdout.starts_with(&expected), "stdout differs ({} bytes)", output.stdout.len());
    let err: String = (0..20_000).map(|number| format!("err {number}\n")).collect();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.ends_with(&err), "stderr differs ({} bytes)", said.len());
    nothing_is_left(&home);
}

#[test]
fn an_interrupted_run_stops_the_whole_tree() {
    for ending in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = Home::new();
        let pids = home.path().join("pids");
        let (victim, text) = (victim().display().to_string(), pids.display().to_string());
        let words = [
            "run",
            "--name",
            "job",
            "--",
            &victim,
            "--pid-file",
            &text,
            "--fork",
            "2",
            "--setsid",
            "--lines",
            "1",
        ];
        let child = begin(&home, &words);
        wait_until("its family", LIMIT, || recorded(&pids).len() == 4);
        signal(child.id(), ending);
        let output = ended(child);
        assert_eq!(output.status.code(), Some(143), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(descendants_alive(&pids).is_empty(), "{ending:?}: {:?}", descendants_alive(&pids));
        nothing_is_left(&home);
    }
}

#[test]
fn a_second_interrupt_leaves_the_stop_to_proctor() {
    let home = Home::new();
    let pids = home.path().join("pids");
    let (victim, text) = (victim().display().to_string(), pids.display().to_string());
    let child = begin(
        &home,
        &["run", "--name", "job", "--", &victim, "--pid-file", &text, "--ignore-term"],
    );
    wait_until("it runs", LIMIT, || recorded(&pids).len() == 1);
    signal(child.id(), Signal::INT);
    wait_state(&home, "job", "stopping");
    signal(child.id(), Signal::INT);
    let output = ended(child);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(6) && said.contains("proctor remove job"), "{said}");
    assert_eq!(descendants_alive(&pids).len(), 1, "its grace is not over");
}

#[test]
fn a_run_outlives_the_death_of_daemon_and_keeper() {
    let home = Home::new();
    let go = home.path().join("go");
    let (victim, text) = (victim().display().to_string(), go.display().to_string());
    let child = begin(
        &home,
        &[
            "run",
            "--name",
            "job",
            "--",
            &victim,
            "--lines",
            "1",
            "--wait-file",
            &text,
            "--lines",
            "2",
            "--exit",
            "5",
        ],
    );
    wait_until("it runs", LIMIT, || {
        home.run(["status", "job"]).status.success() && lines(&home, "job", &[]).len() == 1
    });
    for who in [Home::daemon_pid, Home::keeper_pid] {
        let pid = who(&home);
        proctor_testkit::kill9(pid);
        wait_until("it is replaced", LIMIT, || {
            !alive(pid) && home.run(["status", "job"]).status.success()
        });
    }
    std::fs::write(&go, "").unwrap();
    let output = ended(child);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "line 1\nline 1\nline 2\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn wait_returns_when_it_is_so_and_says_when_it_cannot_be() {
    let home = Home::new();
    let go = home.path().join("go").display().to_string();
    home.write(
        "proctor.yaml",
        &services(&[
            service("job", &["--wait-file", &go, "--exit", "0"], "restart_policy: one_shot"),
            service("web", &[], ""),
            service("broken", &["--exit", "1"], "restart_policy: never"),
        ]),
    );
    home.fail(["up", "-d"]);
    wait_state(&home, "broken", "failed");
    for (words, expected) in [
        (&["web", "--until", "running"][..], 0),
        (&["web", "--until", "healthy"], 0),
        (&["web", "job", "--until", "settled"], 0),
        (&["broken", "--until", "stopped"], 0),
        (&["broken", "--until", "running"], 4),
        (&["web", "broken", "--until", "healthy"], 4),
        (&["job", "--until", "stopped", "--timeout", "0.2"], 6),
        (&["nobody"], 3),
        (&["web", "--timeout", "-1"], 2),
    ] {
        let mut all = vec!["wait"];
        all.extend(words);
        let output = home.run(&all);
        assert_eq!(
            output.status.code(),
            Some(expected),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    // It is woken, not polled: the wait started before the event.
    let mut waiting = begin(&home, &["wait", "job", "--until", "stopped", "--timeout", "30"]);
    assert!(waiting.try_wait().unwrap().is_none());
    std::fs::write(&go, "").unwrap();
    assert_eq!(ended(waiting).status.code(), Some(0));
}

#[test]
fn a_signal_goes_to_the_main_process_or_to_every_process_of_the_tree() {
    let script = "trap 'echo child' USR1; while :; do sleep 0.05; done";
    let script = format!(
        "(trap 'echo child' USR1; echo ready; while :; do sleep 0.05; done) & trap 'echo main' USR1; echo ready; {}",
        &script["trap 'echo child' USR1; ".len()..]
    );
    let home = up(&services(&[shell("web", &script, "stop: { grace: 200 }")]));
    let count = |word: &str| lines(&home, "web", &[]).iter().filter(|line| *line == word).count();
    wait_until("both are ready", LIMIT, || count("ready") == 2);
    home.ok(["signal", "web", "USR1"]);
    wait_until("main has it", LIMIT, || count("main") == 1);
    home.ok(["signal", "web", "10", "--tree"]);
    wait_until("both have it", LIMIT, || count("main") == 2 && count("child") == 1);
    assert_eq!(count("child"), 1, "the first one was for main alone");
    let (code, said) = home.fail(["signal", "web", "SIGNONSENSE"]);
    assert!(code == 2 && said.contains("SIGNONSENSE"), "{code} {said}");
}

#[test]
fn what_dies_of_a_signal_is_restarted_as_its_policy_says() {
    let home = up(&services(&[service("web", &[], "")]));
    let first = pid(&home, "web");
    home.ok(["signal", "web", "KILL"]);
    let next = wait_for("a new run", LIMIT, || {
        status(&home, "web")["pid"].as_u64().filter(|now| *now != u64::from(first))
    });
    assert!(alive(u32::try_from(next).unwrap()));
    assert_eq!(status(&home, "web")["restarts"], 1);
}

#[test]
fn a_command_that_waits_says_what_for() {
    let home = up(&services(&[service("slow", &["--term-delay", "1500"], "stop: { grace: 20s }")]));
    let mut command = home.command(["stop", "slow"]);
    let output = finish(&mut command, LIMIT);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("slow"), "{said}");
    assert!(said.contains("to stop"), "{said}");
}
