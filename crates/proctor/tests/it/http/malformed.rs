//! Bytes that are not valid HTTP are rejected, and the daemon still works.

use super::{owner, two};
use crate::control::admin;
use crate::support::LIMIT;
use proctor_testkit::{Home, Response, exchange, wait_until};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

/// Returns the response to these bytes from a client that then closes its sending side.
fn said(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    drop(stream.write_all(bytes));
    drop(stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    answer
}

#[track_caller]
fn still_well(home: &Home, daemon: u32) {
    assert_eq!(owner(home).get("/api/v1/services").status, 200);
    assert_eq!(home.daemon_pid(), daemon, "it is the same daemon");
}

#[test]
fn requests_that_can_be_read_in_two_ways_are_refused() {
    let home = two();
    let (port, daemon) = (home.port("http"), home.daemon_pid());
    let head = "GET /api/v1/services HTTP/1.1\r\n";
    let post = "POST /api/v1/service/list HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    let token = format!("Authorization: Bearer {}\r\n", admin(&home));
    for request in [
        format!("{head}\r\n"),
        format!("{head}Host: localhost\r\nHost: localhost\r\n\r\n"),
        format!("{head}Host: localhost\r\nHost: evil.example\r\n\r\n"),
        format!("{head}Host: \r\n\r\n"),
        format!("{head}Host: a b\r\n\r\n"),
        format!("{head}Host: user@localhost\r\n\r\n"),
        format!("{head}Host: localhost\r\n{token}{token}\r\n"),
        format!(
            "{head}Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://localhost\r\n\r\n"
        ),
        "GET http://evil.example/api/v1/services HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
        "GET http://evil.example/api/v1/services HTTP/1.1\r\nHost: evil.example\r\n\r\n".into(),
        "GET /api/v1/services HTTP/1.0\r\n\r\n".into(),
        "GET /api/v1/services\r\n\r\n".into(),
        "GET  /api/v1/services HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
        "GET /api/v1/services/%ff HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
        "GET /api/v1/services?state=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
        "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n".into(),
        format!("{head}Host: localhost\r\nX: a\0b\r\n\r\n"),
        format!("{head}Host: localhost\r\n folded: x\r\n\r\n"),
        format!("{head}Host : localhost\r\n\r\n"),
        format!("{post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}"),
        format!("{post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{{}}"),
        format!("{post}Content-Length: -2\r\n\r\n{{}}"),
        format!("{post}Content-Length: 99999999999999999999\r\n\r\n{{}}"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\n-2\r\n{{}}\r\n0\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{{}}"),
        format!("{post}Transfer-Encoding: gzip\r\n\r\n{{}}"),
        format!("{post}Content-Length: 1\r\n\r\n{{"),
        format!("{post}Content-Length: 4\r\n\r\n{{}}}}"),
    ] {
        let answer = said(port, request.as_bytes());
        if !answer.is_empty() {
            let answer = Response::parse(&answer).unwrap();
            assert!((400..500).contains(&answer.status), "{request:?}: {}", answer.status);
            assert!(!answer.text().contains("services"), "{request:?}: {}", answer.text());
        }
    }
    still_well(&home, daemon);
}

#[test]
fn a_body_is_not_waited_for_when_its_sender_may_do_nothing_with_it() {
    let home = two();
    let viewer = home.json(["token", "create", "eyes"])["secret"].as_str().unwrap().to_owned();
    for path in
        ["/api/v1/service/add", "/api/v1/services/web/stop", "/dashboard/api/system/restart"]
    {
        for (header, expected) in
            [(String::new(), 401), (format!("Authorization: Bearer {viewer}\r\n"), 403)]
        {
            let mut stream = TcpStream::connect(("127.0.0.1", home.port("http"))).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\n{header}Connection: close\r\n\
                 Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).unwrap();
            let mut answer = Vec::new();
            drop(stream.read_to_end(&mut answer));
            assert_eq!(Response::parse(&answer).unwrap().status, expected, "{path}");
        }
    }
    wait_until("two refusals with what the path names", LIMIT, || {
        let refused = home.json(["audit", "read", "--target", "web"]);
        refused["entries"].as_array().unwrap().len() == 2
    });
}

#[test]
fn bytes_of_every_length_and_kind_are_survived() {
    let home = two();
    let (port, daemon) = (home.port("http"), home.daemon_pid());
    let request = format!(
        "POST /api/v1/service/list HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: 17\r\nConnection: close\r\n\r\n{{\"no_usage\":true}}",
        admin(&home)
    );
    for end in 0..request.len() {
        said(port, &request.as_bytes()[..end]);
    }
    let whole = Response::parse(&exchange(port, request.as_bytes()));
    let whole = whole.unwrap();
    assert_eq!(whole.status, 200, "the whole request is fine: {}", whole.text());
    for (at, byte) in (0..request.len())
        .step_by(3)
        .zip([0, 0x0a, 0x0d, 0x20, 0x7f, 0x80, 0xff, b'%'].into_iter().cycle())
    {
        let mut bytes = request.clone().into_bytes();
        bytes[at] = byte;
        let answer = said(port, &bytes);
        if let Ok(answer) = Response::parse(&answer) {
            assert!(answer.status < 500, "byte {byte:#x} at {at}: {}", answer.text());
        }
    }
    for length in [1, 2, 100, 8 << 10, 32 << 10, 33 << 10, 1 << 20] {
        for byte in [0, b'\n', b'A', 0xff] {
            said(port, &vec![byte; length]);
        }
        said(
            port,
            format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(length)).as_bytes(),
        );
        said(
            port,
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(length))
                .as_bytes(),
        );
    }
    still_well(&home, daemon);
}

#[test]
fn bodies_that_are_no_text_are_refused() {
    let home = two();
    let client = owner(&home).header("Content-Type", "application/json");
    for body in [
        &b"\xff\xfe"[..],
        b"{\"names\":[\"\xff\"]}",
        b"\"\\ud800\"",
        b"nul",
        b"{\"a\":1,}",
        b"[[[[",
        b"\x00",
    ] {
        let response = client.send("POST", "/api/v1/service/status", body);
        assert_eq!((response.status, response.json()["code"].as_str()), (400, Some("bad_input")));
    }
}

#[test]
fn requests_sent_at_once_are_answered_in_their_order() {
    let home = two();
    let port = home.port("http");
    let one =
        |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
    let all = [
        one("/health", ""),
        one("/api/v1/services/nope", ""),
        one("/api/v1/services/web", "Connection: close\r\n"),
        one("/health", ""),
    ];
    let text = String::from_utf8_lossy(&exchange(port, all.concat().as_bytes())).into_owned();
    let statuses: Vec<&str> = text.split("HTTP/1.1 ").skip(1).map(|part| &part[..3]).collect();
    assert_eq!(statuses, ["200", "404", "200"], "{text}");
}
