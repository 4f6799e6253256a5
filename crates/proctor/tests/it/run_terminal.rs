//! `run` at a terminal: the program has a terminal of its own, its keys and its size, and ours is as before afterwards.

use crate::support::{LIMIT, lines};
use proctor_testkit::{Home, Pty, alive, kill9, signal, wait_for, wait_until};
use rustix::process::Signal;
use std::process::Stdio;

fn begin(home: &Home, script: &str) -> Pty {
    Pty::start(&home.command(["run", "--name", "job", "--", "/bin/sh", "-c", script]), None)
}

fn pid(home: &Home) -> u32 {
    let pid = wait_for("its pid", LIMIT, || {
        let status = home.run(["--json", "status", "job"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).ok()?;
        status["services"][0]["pid"].as_u64()
    });
    u32::try_from(pid).unwrap()
}

#[test]
fn a_program_at_a_terminal_has_a_terminal_and_its_lines_are_stored() {
    let home = Home::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size; printf 'name? '; read name; \
                  echo hello $name; echo bad >&2; read more; exit 7";
    let mut terminal = begin(&home, script);
    terminal.wait_to_show("24 80\r\nname? ", LIMIT);
    assert!(!terminal.is_as_before(), "keys are for the program");
    terminal.type_keys("you\r");
    terminal.wait_to_show("hello you\r\nbad\r\n", LIMIT);
    wait_until("its lines are stored", LIMIT, || {
        lines(&home, "job", &[]) == ["24 80", "name? you", "hello you", "bad"]
    });
    terminal.type_keys("\r");
    assert_eq!(terminal.exit_code(LIMIT), Some(7), "{}", terminal.shown());
    assert!(terminal.is_as_before());
    let left = std::fs::read_dir(home.path().join("run")).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("job."));
    assert_eq!(left.count(), 0, "an offer is taken away");
}

#[test]
fn keys_and_sizes_are_for_the_program() {
    let home = Home::new();
    let script = "trap 'echo interrupted' INT; trap 'stty size' WINCH; echo ready; \
                  while ! read line; do :; done; cat; echo end of input";
    let mut terminal = begin(&home, script);
    terminal.wait_to_show("ready\r\n", LIMIT);
    terminal.type_keys("\x03");
    terminal.wait_to_show("interrupted\r\n", LIMIT);
    terminal.resize(30, 100);
    // Some shells run a trap only when a read has ended.
    wait_until("the new size", LIMIT, || {
        let job = home.json(["status", "job"])["services"][0]["pid"].as_u64().unwrap();
        let tty = std::fs::File::open(format!("/proc/{job}/fd/0")).unwrap();
        rustix::termios::tcgetwinsize(tty).unwrap().ws_col == 100
    });
    terminal.type_keys("x\r");
    terminal.wait_to_show("30 100\r\n", LIMIT);
    terminal.type_keys("y\r");
    terminal.wait_to_show("y\r\ny\r\n", LIMIT);
    terminal.type_keys("\x04");
    assert_eq!(terminal.exit_code(LIMIT), Some(0), "{}", terminal.shown());
    terminal.wait_to_show("end of input\r\n", LIMIT);
}

#[test]
fn a_signal_to_the_command_stops_the_program_and_leaves_the_terminal_as_before() {
    for sent in [Signal::TERM, Signal::HUP, Signal::QUIT] {
        let home = Home::new();
        let mut terminal = begin(&home, "echo ready; exec sleep 1000");
        terminal.wait_to_show("ready", LIMIT);
        let program = pid(&home);
        wait_until("the terminal is in use", LIMIT, || !terminal.is_as_before());
        signal(terminal.pid(), sent);
        assert_eq!(terminal.exit_code(LIMIT), Some(143), "{sent:?}: {}", terminal.shown());
        assert!(terminal.is_as_before() && !alive(program), "{sent:?}");
    }
}

#[test]
fn a_program_keeps_its_terminal_when_keeper_and_daemon_are_killed() {
    let home = Home::new();
    let script = "while read line; do echo got $line; done; exit 5";
    let mut terminal = begin(&home, script);
    let program = pid(&home);
    let keeper = home.keeper_pid();
    kill9(home.daemon_pid());
    kill9(keeper);
    terminal.type_keys("one\r");
    terminal.wait_to_show("got one\r\n", LIMIT);
    wait_until("a new keeper", LIMIT, || home.living_keeper().is_some_and(|now| now != keeper));
    terminal.type_keys("two\r");
    terminal.wait_to_show("got two\r\n", LIMIT);
    wait_until("its lines are stored", LIMIT, || {
        lines(&home, "job", &[]) == ["one", "got one", "two", "got two"]
    });
    assert_eq!(pid(&home), program);
    terminal.type_keys("\x04");
    assert_eq!(terminal.exit_code(LIMIT), Some(5), "{}", terminal.shown());
}

#[test]
fn a_program_is_hung_up_when_the_command_is_killed() {
    let home = Home::new();
    let mut terminal = begin(&home, "echo ready; exec sleep 1000");
    terminal.wait_to_show("ready", LIMIT);
    let program = pid(&home);
    kill9(terminal.pid());
    assert_eq!(terminal.exit_code(LIMIT), None);
    wait_until("it was hung up", LIMIT, || !alive(program));
    wait_until("that is known", LIMIT, || {
        home.json(["status", "job"])["services"][0]["last_exit"]["signal"] == 1
    });
    home.ok(["remove", "job"]);
}

#[test]
fn a_standard_error_that_goes_elsewhere_stays_apart() {
    let home = Home::new();
    let path = home.path().join("errors");
    let errors = Stdio::from(std::fs::File::create(&path).unwrap());
    let script = "test -t 0 && test -t 1 && ! test -t 2 && echo shown; echo bad >&2";
    let command = home.command(["run", "--name", "job", "--", "/bin/sh", "-c", script]);
    let mut terminal = Pty::start(&command, Some(errors));
    assert_eq!(terminal.exit_code(LIMIT), Some(0));
    terminal.wait_to_show("shown\r\n", LIMIT);
    let errors = std::fs::read_to_string(&path).unwrap();
    assert!(errors.ends_with("bad\n") && !terminal.shown().contains("bad"), "{errors}");
}
