//! Thousands of connections that say nothing, or never end what they say: others work on, and what is taken is bounded.

use super::load::{Used, size};
use crate::support::{LIMIT, web};
use proctor_testkit::{Home, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// Connections that a port may keep, and those it has told to go.
const MOST_KEPT: u64 = 512 + 64;

/// Of the daemon, for all that it keeps of such a crowd: a few KiB for each connection.
const MOST_MEMORY: u64 = 16 << 20;

/// A single crowd for all the ports; `CROWD` makes it larger.
fn crowd() -> usize {
    let size = size("CROWD", 1500);
    let limit = getrlimit(Resource::Nofile);
    let needed = Some(size + 1000);
    if limit.current < needed {
        setrlimit(Resource::Nofile, Rlimit { current: needed.min(limit.maximum), ..limit })
            .unwrap();
    }
    usize::try_from(size).unwrap()
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    match (&mut &*stream).read(&mut [0; 64]) {
        Ok(length) => length > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

#[track_caller]
fn check(begin: &[u8], then: &[u8]) {
    let home = Home::listening();
    home.write("proctor.yaml", &web(&[], ""));
    home.ok(["up", "-d"]);
    let port = home.port("tcp");
    let daemon = home.daemon_pid();
    let before = Used::by(daemon);
    let connect = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // It may be gone already.
        drop(stream.write_all(begin));
        stream
    };
    let mut all: Vec<TcpStream> = (0..crowd()).map(|_| connect()).collect();
    for stream in &mut all {
        drop(stream.write_all(then));
    }
    home.ok(["status", "web", "--check"]);
    let during = Used::by(daemon);
    assert!(during.descriptors <= before.descriptors + MOST_KEPT, "{before:?} {during:?}");
    assert!(during.memory_peak <= before.memory_peak + MOST_MEMORY, "{before:?} {during:?}");
    let mut newcomer = TcpStream::connect(("127.0.0.1", port)).unwrap();
    newcomer.set_read_timeout(Some(LIMIT)).unwrap();
    newcomer.write_all(b"\"Status\"\nquit\n").unwrap();
    let mut answer = String::new();
    newcomer.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("{\"success\":true"), "{answer}");
    let first = &all[..all.len().saturating_sub(usize::try_from(MOST_KEPT).unwrap())];
    wait_until("those who came first are gone", LIMIT, || !first.iter().any(is_open));
    assert_eq!(home.daemon_pid(), daemon, "it is the same daemon");
    drop(all);
    wait_until("no descriptor is left", LIMIT, || {
        Used::by(daemon).descriptors <= before.descriptors
    });
}

#[test]
fn a_crowd_that_says_nothing_keeps_nobody_out() {
    check(b"", b"");
}

#[test]
fn a_crowd_that_never_ends_its_line_keeps_nobody_out() {
    check(b"{\"op\":\"service.sta", b"tus");
}

#[test]
fn a_crowd_of_lines_that_are_almost_too_long_takes_bounded_memory() {
    check(&[b'x'; 8 << 10], &[b'x'; 8 << 10]);
}
