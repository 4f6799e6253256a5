//! The victim's handling of signals, memory, descriptors and the network, and its reports about
//! itself.

use crate::support::{End, LIMIT, Victim, printed, send, status_field};
use proctor_testkit::{alive, free_port, victim, wait_until};
use rustix::process::{Resource, Signal, getrlimit};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Checks the end of a victim with these flags after these signals.
#[track_caller]
fn check(args: &[&str], signals: &[Signal], end: End) {
    let mut victim = Victim::start(args);
    for &signal in signals {
        send(victim.child.id(), signal);
    }
    assert_eq!(victim.end(), end, "{args:?} after {signals:?}");
}

#[test]
fn signals_end_a_victim_as_its_flags_say() {
    check(&[], &[Signal::TERM], End::Signal(15));
    // Not INT or HUP: a test in the background, or under nohup, inherits them ignored.
    check(&[], &[Signal::USR1], End::Signal(10));
    check(&["--term-exit", "4"], &[Signal::TERM], End::Code(4));
    check(&["--term-exit", "4"], &[Signal::USR1], End::Signal(10));
    check(&["--term-exit", "4", "--term-delay", "20"], &[Signal::TERM], End::Code(4));
    check(&["--term-delay", "20"], &[Signal::TERM, Signal::TERM], End::Signal(15));
    check(
        &["--ignore-term"],
        &[Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL],
        End::Signal(9),
    );
}

#[test]
fn ignored_signals_change_nothing() {
    let mut victim = Victim::start(&["--ignore-term"]);
    let pid = victim.child.id();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        send(pid, signal);
        // Seen means delivered: no signal is pending.
        wait_until("delivery", LIMIT, || pending(pid) == 0);
        assert!(alive(pid), "alive after {signal:?}");
    }
    assert_eq!(victim.child.try_wait().unwrap(), None);
}

fn pending(pid: u32) -> u64 {
    let mask = |name| u64::from_str_radix(&status_field(pid, name).unwrap(), 16).unwrap();
    mask("SigPnd") | mask("ShdPnd")
}

#[test]
fn term_delay_is_not_before() {
    let mut victim = Victim::start(&["--term-exit", "0", "--term-delay", "60"]);
    let begin = Instant::now();
    send(victim.child.id(), Signal::TERM);
    assert_eq!(victim.end(), End::Code(0));
    assert!(begin.elapsed() >= Duration::from_millis(60), "{:?}", begin.elapsed());
}

#[test]
fn stop_self_stops_until_it_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let done = folder.path().join("done");
    let mut child = Command::new(victim())
        .args(["--stop-self", "--touch"])
        .arg(&done)
        .args(["--exit", "0"])
        .spawn()
        .unwrap();
    let stopped = || status_field(child.id(), "State").is_some_and(|state| state.starts_with('T'));
    wait_until("the victim to stop itself", LIMIT, stopped);
    assert!(!done.exists());
    send(child.id(), Signal::CONT);
    assert!(child.wait().unwrap().success());
    assert!(done.exists());
}

#[test]
fn eaten_memory_is_resident() {
    let victim = Victim::start(&["--eat", "40"]);
    let resident = status_field(victim.child.id(), "VmRSS").unwrap();
    let kibibytes: u64 = resident.split(' ').next().unwrap().parse().unwrap();
    assert!(kibibytes >= 40 * 1024, "{resident}");
}

#[test]
fn descriptors_are_those_it_was_started_with() {
    let lines = printed(
        Command::new(victim())
            .args(["--pid-file", "/dev/null", "--print-fds", "--exit", "0"])
            .stdin(Stdio::null()),
    );
    assert_eq!(lines[0], "fd 0 /dev/null");
    assert!(lines[1].starts_with("fd 1 pipe:") && lines[2].starts_with("fd 2 pipe:"), "{lines:?}");
    let leaked = inheritable();
    assert_eq!(lines.len(), 3 + leaked, "{lines:?}");
}

/// Descriptors above 2 that this test process inherited and passes on; none, unless its parent
/// leaks.
fn inheritable() -> usize {
    let folder = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let passed_on = |number: &u32| {
        let info =
            std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        flags.is_some_and(|flags| {
            u32::from_str_radix(flags.trim(), 8).is_ok_and(|flags| flags & 0o2_000_000 == 0)
        })
    };
    numbers.filter(|&number| number > 2).filter(passed_on).count()
}

#[test]
fn an_open_descriptor_is_reported() {
    let lines = printed(
        Command::new("/bin/sh")
            .args(["-c", "exec \"$0\" --print-fds --exit 0 7</dev/null"])
            .arg(victim()),
    );
    assert!(lines.contains(&"fd 7 /dev/null".to_owned()), "{lines:?}");
}

#[test]
fn identity_is_what_the_kernel_says() {
    let script =
        "umask 027; ulimit -c 0; ulimit -n 100; trap '' USR1 HUP; exec \"$0\" --print-ids --exit 0";
    let lines = printed(Command::new("/bin/sh").args(["-c", script]).arg(victim()));
    let field = |name: &str| {
        lines.iter().find(|line| line.split(' ').next() == Some(name)).unwrap().clone()
    };
    assert_eq!(field("uid"), format!("uid {}", rustix::process::getuid().as_raw()));
    assert_eq!(
        field("effective_gid"),
        format!("effective_gid {}", rustix::process::getegid().as_raw())
    );
    assert_eq!(field("parent"), format!("parent {}", std::process::id()));
    let own = |name: &str| status_field(std::process::id(), name).unwrap();
    assert_eq!(field("process_group"), format!("process_group {}", own("NSpgid")));
    assert_eq!(field("session"), format!("session {}", own("NSsid")));
    assert_eq!(field("umask"), "umask 0027");
    assert_eq!(field("ignored"), format!("ignored {}", ignored_with(&[1, 10])));
    assert_eq!(field("blocked"), "blocked");
    assert_eq!(
        field("nice"),
        format!("nice {}", rustix::process::getpriority_process(None).unwrap())
    );
    assert!(lines.contains(&"limit core 0 0".to_owned()), "{lines:?}");
    assert!(lines.contains(&"limit nofile 100 100".to_owned()), "{lines:?}");
    let stack = getrlimit(Resource::Stack)
        .maximum
        .map_or("unlimited".to_owned(), |limit| limit.to_string());
    assert!(
        lines.iter().any(|line| line.starts_with("limit stack ") && line.ends_with(&stack)),
        "{lines:?}"
    );
    for name in ["pid", "gid", "effective_uid", "groups", "oom_score_adj"] {
        field(name);
    }
}

/// These signals and those that are ignored anyway.
fn ignored_with(signals: &[i32]) -> String {
    let around =
        u64::from_str_radix(&status_field(std::process::id(), "SigIgn").unwrap(), 16).unwrap();
    let ignored = |number: &i32| signals.contains(number) || around >> (number - 1) & 1 == 1;
    // The signals that the victim does not report.
    let numbers = (1..=64).filter(ignored).filter(|number| ![13, 32, 33].contains(number));
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn get(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn http_answers_with_the_status_that_was_asked_for() {
    for (args, statuses) in [
        (vec![], ["200 OK", "200 OK", "200 OK"]),
        (vec!["--http-status", "503"], ["503 Service Unavailable"; 3]),
        (vec!["--http-fail-after", "2"], ["200 OK", "200 OK", "500 Internal Server Error"]),
        (vec!["--http-status", "302", "--http-fail-after", "0"], ["500 Internal Server Error"; 3]),
    ] {
        let port = free_port();
        let text = port.to_string();
        let mut flags = vec!["--http", text.as_str()];
        flags.extend(&args);
        let _victim = Victim::start(&flags);
        for status in statuses {
            let answer = get(port);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{args:?}: {answer}");
            let body = answer.split("\r\n\r\n").nth(1).unwrap();
            assert!(answer.contains(&format!("Content-Length: {}\r\n", body.len())), "{answer}");
        }
    }
}

#[test]
fn http_on_port_zero_tells_its_port() {
    let mut victim = Victim::start_with(&["--http", "0"], Stdio::piped());
    let mut line = String::new();
    BufReader::new(victim.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().strip_prefix("http ").unwrap().parse().unwrap();
    assert!(get(port).starts_with("HTTP/1.1 200 OK\r\n"));
}
