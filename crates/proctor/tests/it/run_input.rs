//! Standard input of `run`: complete, to its end, and never in the way of the program's own end.

use crate::support::{LIMIT, lines};
use proctor_testkit::{Home, alive, kill9, wait_for, wait_until};
use rustix::fs::{Mode, OFlags};
use rustix::pty::{self, OpenptFlags};
use std::fs::File;
use std::io::Write;
use std::process::{Child, Output, Stdio};

fn begin(home: &Home, words: &[&str]) -> Child {
    let mut command = home.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn ended(mut child: Child) -> Output {
    wait_until("the command has ended", LIMIT, || child.try_wait().unwrap().is_some());
    child.wait_with_output().unwrap()
}

#[test]
fn a_program_reads_all_that_is_piped_and_its_end() {
    let home = Home::new();
    home.ok(["daemon", "start"]);
    let text: String = (0..50_000).map(|number| format!("line {number}\n")).collect();
    let mut child = begin(&home, &["run", "--", "cat"]);
    let (mut input, sent) = (child.stdin.take().unwrap(), text.clone());
    let writer = std::thread::spawn(move || input.write_all(sent.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout == text.as_bytes(), "{} of {} bytes", output.stdout.len(), text.len());
    let left = std::fs::read_dir(home.path().join("run")).unwrap().flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().ends_with(".stdin"));
    assert_eq!(left.count(), 0, "an input is taken away");
}

#[test]
fn a_program_ends_while_its_input_stays_open() {
    let home = Home::new();
    let mut child = begin(&home, &["run", "--", "head", "-n", "1"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"first\nsecond\n").unwrap();
    let output = ended(child);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"first\n"[..]));
    drop(input);
    let (code, said) = home.fail(["run", "--name", "gone", "--", "no-such-program-here"]);
    assert_eq!(code, 9, "{said}");
    assert!(!home.path().join("run/gone.stdin").exists());
}

#[test]
fn a_program_reads_the_lines_that_are_typed_at_a_terminal() {
    let home = Home::new();
    let master = pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    pty::grantpt(&master).unwrap();
    pty::unlockpt(&master).unwrap();
    let name = pty::ptsname(&master, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name, flags, Mode::empty()).unwrap();
    let mut command = home.command(["run", "--", "sh"]);
    command.stdin(Stdio::from(terminal)).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The last byte is Ctrl-D.
    File::from(master.try_clone().unwrap()).write_all(b"echo typed\nexit 3\n\x04").unwrap();
    let output = ended(child);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(3), &b"typed\n"[..]),
        "{said}"
    );
    assert!(said.contains("reads the lines you type here"), "{said}");
}

#[test]
fn a_program_outlives_the_command_that_was_killed_and_reads_the_end() {
    let home = Home::new();
    let script = "while read line; do echo got $line; done; echo end; exec sleep 1000";
    let mut child = begin(&home, &["run", "--name", "job", "--", "/bin/sh", "-c", script]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"one\n").unwrap();
    let is_there = || home.run(["status", "job"]).status.success();
    wait_until("it has read", LIMIT, || is_there() && lines(&home, "job", &[]) == ["got one"]);
    let pid =
        wait_for("its pid", LIMIT, || home.json(["status", "job"])["services"][0]["pid"].as_u64());
    kill9(child.id());
    child.wait().unwrap();
    wait_until("it reads the end", LIMIT, || lines(&home, "job", &[]) == ["got one", "end"]);
    assert!(alive(u32::try_from(pid).unwrap()));
    home.ok(["remove", "job"]);
}
