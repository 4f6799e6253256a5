//! `up` in the foreground, and output without a reader: however it ends, its services end with it.

use crate::support::{LIMIT, service, web};
use proctor_testkit::{Home, children, proctor, signal, victim, wait_until};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

/// Starts a command in the foreground whose output we read.
#[track_caller]
fn begin(mut command: Command) -> (Child, BufReader<impl Read>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Reads until a line contains this.
#[track_caller]
fn read_until(output: &mut impl BufRead, expected: &str) -> String {
    let mut all = String::new();
    while !all.contains(expected) {
        let read = output.read_line(&mut all).unwrap();
        assert!(read > 0, "it ended before it said {expected}:\n{all}");
    }
    all
}

#[track_caller]
fn wait_for_end(child: &mut Child) -> Option<i32> {
    wait_until("it ends", LIMIT, || child.try_wait().unwrap().is_some());
    child.wait().unwrap().code()
}

/// The command started Proctor, so Proctor and its services end with it.
#[track_caller]
fn check_nothing_runs(home: &Home) {
    let (code, said) = home.fail(["list"]);
    assert_eq!(code, 5, "Proctor still runs: {said}");
}

#[test]
fn up_ends_in_order_on_every_signal_that_means_it() {
    for name in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = Home::new();
        home.write("proctor.yaml", &web(&["--lines", "1"], ""));
        let (mut child, mut output) = begin(home.command(["up"]));
        read_until(&mut output, "line 1");
        signal(child.id(), name);
        let rest = read_until(&mut output, "web was killed by SIGTERM");
        assert_eq!(wait_for_end(&mut child), Some(0), "after {name:?}: {rest}");
        check_nothing_runs(&home);
    }
}

#[test]
fn up_stops_what_it_started_when_nobody_reads_its_output() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&["--lines", "100000000", "--every", "5"], ""));
    let (mut child, mut output) = begin(home.command(["up"]));
    read_until(&mut output, "line 1");
    drop(output);
    wait_for_end(&mut child);
    check_nothing_runs(&home);
}

#[test]
fn run_leaves_nothing_when_nobody_reads_its_output() {
    let home = Home::new();
    home.ok(["daemon", "start"]);
    let program = victim().display().to_string();
    let words = ["run", "--", &program, "--lines", "100000000", "--every", "5"];
    let (mut child, mut output) = begin(home.command(words));
    read_until(&mut output, "line 1");
    drop(output);
    assert_eq!(wait_for_end(&mut child), Some(143), "as a shell says it");
    assert_eq!(home.json(["list"])["services"].as_array().unwrap().len(), 0);
}

#[test]
fn up_ends_without_an_error_when_somebody_else_ends_proctor() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&["--lines", "1"], ""));
    let (mut child, mut output) = begin(home.command(["up"]));
    read_until(&mut output, "line 1");
    home.ok(["down"]);
    assert_eq!(wait_for_end(&mut child), Some(0));
}

#[test]
fn names_before_lines_are_aligned_from_the_first_line_on() {
    let home = Home::new();
    let config = format!(
        "supervisor:\n  services:\n{}{}",
        service("a", &["--lines", "1"], ""),
        service("longer", &["--lines", "1"], ""),
    );
    home.write("proctor.yaml", &config);
    let (mut child, mut output) = begin(home.command(["up"]));
    let mut seen = read_until(&mut output, "a      | line 1\n");
    if !seen.contains("longer | line 1\n") {
        seen += &read_until(&mut output, "longer | line 1\n");
    }
    assert_eq!(seen.matches(" | line 1").count(), 2, "{seen}");
    let logs = home.ok(["logs", "-n", "9"]);
    assert!(logs.contains("a      | line 1") && logs.contains("longer | line 1"), "{logs}");
    signal(child.id(), Signal::INT);
    wait_for_end(&mut child);
}

#[test]
fn up_as_pid_1_stops_its_services_on_term() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&["--lines", "1"], ""));
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    unshare.arg(proctor()).arg("--home").arg(home.path()).arg("up").current_dir(home.path());
    let (mut child, mut output) = begin(unshare);
    let mut all = String::new();
    while !all.contains("line 1") {
        if output.read_line(&mut all).unwrap() == 0 {
            // Pid namespaces are not permitted here; the signals are tested above.
            return;
        }
    }
    signal(children(child.id())[0], Signal::TERM);
    read_until(&mut output, "web was killed by SIGTERM");
    assert_eq!(wait_for_end(&mut child), Some(0));
}

#[test]
fn up_ends_when_nothing_runs_any_more_and_says_whether_it_went_well() {
    for (exit, code, words) in [("0", 0, "all services are done"), ("3", 4, "failed: web")] {
        let home = Home::new();
        home.write(
            "proctor.yaml",
            &web(&["--lines", "1", "--exit", exit], "restart_policy: one_shot"),
        );
        let output = home.run(["up"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("line 1"));
        assert!(
            !home.run(["daemon", "status"]).status.success(),
            "Proctor, started for this, is gone"
        );
    }
}

/// Starts a command in the foreground whose notes we read.
#[track_caller]
fn begin_noting(mut command: Command) -> (Child, BufReader<impl Read>) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let notes = BufReader::new(child.stderr.take().unwrap());
    (child, notes)
}

#[test]
fn up_stops_what_it_shows_also_when_proctor_started_it_by_itself() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&[], ""));
    home.ok(["up", "-d"]);
    home.ok(["daemon", "stop"]);
    let (mut child, mut notes) = begin_noting(home.command(["up"]));
    read_until(&mut notes, "running web of");
    signal(child.id(), Signal::INT);
    read_until(&mut notes, "stopped");
    assert_eq!(wait_for_end(&mut child), Some(0));
    check_nothing_runs(&home);
}

#[test]
fn up_says_before_what_it_will_leave_running_and_at_the_end_what_came_meanwhile() {
    let home = Home::new();
    home.write("proctor.yaml", &web(&[], ""));
    let (mut first, mut notes) = begin_noting(home.command(["up"]));
    read_until(&mut notes, "Ctrl-C stops them");
    let both =
        format!("supervisor:\n  services:\n{}{}", service("web", &[], ""), service("new", &[], ""));
    home.write("proctor.yaml", &both);
    let (mut second, mut others) = begin_noting(home.command(["up"]));
    read_until(&mut others, "Ctrl-C stops new, and leaves web running");
    signal(first.id(), Signal::INT);
    read_until(&mut notes, "still running: new");
    assert_eq!(wait_for_end(&mut first), Some(0));
    signal(second.id(), Signal::INT);
    assert_eq!(wait_for_end(&mut second), Some(0));
    home.ok(["down"]);
}
