//! Thousands of connections that send nothing, or never finish: others still work, and resources are bounded.

use super::load::{Used, size};
use crate::support::{LIMIT, web};
use proctor_testkit::{Home, wait_until};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

/// Maximum connections of a port, those told to leave, and a few other descriptors.
const MAX_CONNECTIONS: u64 = 512 + 64 + 8;

/// Maximum memory of the daemon for such a crowd: 32 KiB for each connection, and allocator overhead.
const MAX_MEMORY_BYTES: u64 = 24 << 20;

/// Size of the crowd for all ports; `CROWD` makes it larger.
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
    loop {
        match (&mut &*stream).read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[track_caller]
fn check(front: &str, begin: &[u8], then: &[u8]) {
    let home = Home::listening();
    home.write("proctor.yaml", &web(&[], ""));
    home.ok(["up", "-d"]);
    let port = home.port(front);
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
    assert!(during.descriptors <= before.descriptors + MAX_CONNECTIONS, "{before:?} {during:?}");
    assert!(during.memory_peak <= before.memory_peak + MAX_MEMORY_BYTES, "{before:?} {during:?}");
    let mut newcomer = TcpStream::connect(("127.0.0.1", port)).unwrap();
    newcomer.set_read_timeout(Some(LIMIT)).unwrap();
    let (asked, expected) = match front {
        "tcp" => ("\"Status\"\nquit\n", "{\"success\":true"),
        _ => (
            "GET /api/v1/services HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
        ),
    };
    newcomer.write_all(asked.as_bytes()).unwrap();
    let mut answer = String::new();
    newcomer.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with(expected), "{answer}");
    let first = &all[..all.len().saturating_sub(usize::try_from(MAX_CONNECTIONS).unwrap())];
    wait_until("those who came first are gone", LIMIT, || !first.iter().any(is_open));
    assert_eq!(home.daemon_pid(), daemon, "it is the same daemon");
    drop(all);
    wait_until("no descriptor is left", LIMIT, || {
        Used::by(daemon).descriptors <= before.descriptors
    });
}

#[test]
fn a_crowd_that_says_nothing_keeps_nobody_out() {
    check("tcp", b"", b"");
    check("http", b"", b"");
}

#[test]
fn a_crowd_that_never_ends_its_line_keeps_nobody_out() {
    check("tcp", b"{\"op\":\"service.sta", b"tus");
}

#[test]
fn a_crowd_of_lines_that_are_almost_too_long_takes_bounded_memory() {
    check("tcp", &[b'x'; 8 << 10], &[b'x'; 8 << 10]);
}

#[test]
fn a_crowd_that_never_ends_its_head_or_its_body_keeps_nobody_out() {
    check("http", b"GET /api/v1/services HTTP/1.1\r\nHost: local", b"host\r\nX: ");
    let head =
        b"POST /api/v1/service/list HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{";
    check("http", head, b"\"state\":");
}

#[test]
fn a_crowd_of_heads_and_bodies_that_are_almost_too_large_takes_bounded_memory() {
    let mut head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ".to_vec();
    head.resize(16 << 10, b'x');
    check("http", &head, &[b'x'; 8 << 10]);
    let mut body =
        b"POST /api/v1/service/list HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n"
            .to_vec();
    body.resize(32 << 10, b'x');
    check("http", &body, &[b'x'; 16 << 10]);
}
