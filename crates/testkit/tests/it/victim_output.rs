//! Output of the victim, and its ends by itself.

use crate::support::{End, LIMIT, Victim, printed, run};
use proctor_testkit::{victim, wait_until};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[track_caller]
fn check(args: &str, stdout: &str, stderr: &str, end: End) {
    let words: Vec<&str> = args.split(' ').collect();
    let (out, err, how) = run(&words);
    assert_eq!(String::from_utf8_lossy(&out), stdout, "stdout of {args}");
    assert_eq!(String::from_utf8_lossy(&err), stderr, "stderr of {args}");
    assert_eq!(how, end, "end of {args}");
}

#[test]
fn a_victim_that_ends_by_itself_writes_and_ends_as_asked() {
    check("--exit 0", "", "", End::Code(0));
    check("--exit 7", "", "", End::Code(7));
    check("--exit-after 1", "", "", End::Code(0));
    check("--exit-after 1 --exit 3", "", "", End::Code(3));
    check("--signal-self KILL", "", "", End::Signal(9));
    check("--signal-self SIGSEGV", "", "", End::Signal(11));
    check("--signal-self PIPE", "", "", End::Signal(13));
    check("--signal-self 15", "", "", End::Signal(15));
    check("--signal-self TERM --exit-after 1", "", "", End::Signal(15));
    check("--lines 3 --exit 0", "line 1\nline 2\nline 3\n", "", End::Code(0));
    check("--exit 1 --lines 1", "line 1\n", "", End::Code(1));
    check("--lines 1 --lines 1 --exit 0", "line 1\nline 1\n", "", End::Code(0));
    check("--lines 2 --stderr --exit 0", "line 1\nline 2\n", "line 1\nline 2\n", End::Code(0));
    check("--line-prefix a: --lines 2 --exit 0", "a:line 1\na:line 2\n", "", End::Code(0));
    check("--raw 61620a --exit 0", "ab\n", "", End::Code(0));
    check("--long-line 5 --exit 0", "xxxxx\n", "", End::Code(0));
    check("--close-stdout --lines 2 --stderr --exit 0", "", "line 1\nline 2\n", End::Code(0));
    check("--lines 1 --reopen-stdout --exit 0", "line 1\nreopened\n", "", End::Code(0));
    check("--eat 3 --exit 0", "", "", End::Code(0));
}

#[test]
fn what_cannot_be_done_is_said_and_ends_with_97() {
    let refused = |args, why: &str| check(args, "", &format!("victim: {why}\n"), End::Code(97));
    refused("--unknown", "unknown flag --unknown");
    refused("--lines", "--lines needs a value");
    refused("--lines many", "--lines many: not a number that fits");
    refused("--exit 256", "--exit 256: not a number that fits");
    refused("--raw 6", "--raw 6: pairs of hexadecimal digits are needed");
    refused("--raw zz", "--raw zz: pairs of hexadecimal digits are needed");
    refused("--signal-self NONE", "unknown signal NONE");
    refused("--exit 1 --signal-self 9", "--exit and --signal-self: only one can be how it ends");
    refused(
        "--ignore-term --term-exit 1",
        "--ignore-term and --term-exit or --term-delay: TERM is ignored or answered",
    );
    refused(
        "--touch /nowhere/at/all",
        "cannot touch /nowhere/at/all: No such file or directory (os error 2)",
    );
}

#[test]
fn raw_bytes_are_written_as_they_are() {
    let (out, _, end) = run(&["--raw", "00ff1b5b0a80", "--exit", "0"]);
    assert_eq!((out.as_slice(), end), (&[0, 0xff, 0x1b, 0x5b, 0x0a, 0x80][..], End::Code(0)));
}

#[test]
fn a_long_line_has_the_length_that_was_asked_for() {
    let (out, _, _) = run(&["--long-line", "200000", "--exit", "0"]);
    assert_eq!(out.len(), 200_001);
    assert!(out[..200_000].iter().all(|&byte| byte == b'x') && out[200_000] == b'\n');
}

#[test]
fn every_spaces_the_lines_out() {
    let begin = Instant::now();
    check("--lines 4 --every 20 --exit 0", "line 1\nline 2\nline 3\nline 4\n", "", End::Code(0));
    assert!(begin.elapsed() >= Duration::from_millis(60), "{:?}", begin.elapsed());
}

#[test]
fn exit_after_is_not_before() {
    let begin = Instant::now();
    check("--exit-after 50", "", "", End::Code(0));
    assert!(begin.elapsed() >= Duration::from_millis(50), "{:?}", begin.elapsed());
}

#[test]
fn spam_is_numbered_without_a_gap_until_it_is_killed() {
    let mut victim = Victim::start_with(&["--spam"], Stdio::piped());
    let lines = BufReader::new(victim.child.stdout.take().unwrap()).lines();
    for (number, line) in (1..=50_000).zip(lines) {
        assert_eq!(line.unwrap(), format!("line {number}"));
    }
}

#[test]
fn spam_ends_when_nobody_takes_it() {
    let mut victim = Victim::start_with(&["--spam"], Stdio::piped());
    drop(victim.child.stdout.take());
    assert_eq!(victim.end(), End::Code(97));
}

#[test]
fn spam_ends_at_a_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    let victim = Victim::start_with(
        &["--spam", "--line-prefix", "p "],
        Stdio::from(File::create(&path).unwrap()),
    );
    wait_until("some spam", LIMIT, || std::fs::metadata(&path).unwrap().len() > 100_000);
    drop(victim);
    let mut text = std::fs::read_to_string(&path).unwrap();
    // SIGKILL also interrupts a write to a file, but only at a page boundary.
    if text.len().is_multiple_of(4096) {
        text.truncate(text.rfind('\n').unwrap() + 1);
    }
    assert!(text.ends_with('\n'), "torn: {:?}", text.lines().last());
    assert_eq!(text.lines().last().unwrap(), format!("p line {}", text.lines().count()));
}

#[test]
fn the_environment_and_working_directory_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = printed(
        Command::new(victim())
            .args(["--print-cwd", "--print-env", "--exit", "0"])
            .env_clear()
            .env("A", "1")
            .env("B", "two words")
            .current_dir(folder.path()),
    );
    let cwd = format!("cwd {}", folder.path().canonicalize().unwrap().display());
    // A victim with coverage counters adds variables to its environment.
    lines.retain(|line| !line.starts_with("env __LLVM_PROFILE"));
    assert_eq!(lines, [cwd.as_str(), "env A=1", "env B=two words"]);
}

#[test]
fn actions_happen_in_the_order_of_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let [touched, gate] = ["touched", "gate"].map(|name| folder.path().join(name));
    let mut child = Command::new(victim())
        .args(["--lines", "1", "--touch"])
        .arg(&touched)
        .arg("--wait-file")
        .arg(&gate)
        .args(["--raw", "656e640a", "--exit", "5"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the first actions", LIMIT, || touched.exists());
    assert!(child.try_wait().unwrap().is_none(), "it waits for its file");
    File::create(&gate).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"line 1\nend\n"[..], Some(5)));
}

#[test]
fn the_ready_file_holds_the_pid() {
    let victim = Victim::start(&[]);
    let ready = std::fs::read_to_string(victim.folder.path().join("ready")).unwrap();
    assert_eq!(ready, format!("{}\n", victim.child.id()));
}
