//! A tiny HTTP/1.1 server on the loopback address, a target for health checks.
//!
//! It serves one connection at a time with one response each. It reads the request up to its empty
//! line and ignores the content.

use crate::output;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// A longer request head is cut off.
const MAX_HEAD_BYTES: usize = 8192;
/// Timeout of a client that sends nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Status after `--http-fail-after` responses.
const ILL: u16 = 500;

/// Listens before it returns; responds in the background. Port 0 takes a free one and prints `http
/// PORT`.
pub(crate) fn serve(port: u16, status: u16, fail_after: Option<u64>) -> Result<(), String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .map_err(|why| format!("cannot listen on 127.0.0.1:{port}: {why}"))?;
    if port == 0 {
        let chosen =
            listener.local_addr().map_err(|why| format!("cannot tell the port: {why}"))?.port();
        output::write_stdout(format!("http {chosen}\n").as_bytes())?;
    }
    std::thread::Builder::new()
        .name("http".into())
        .spawn(move || {
            let healthy = fail_after.unwrap_or(u64::MAX);
            for (answered, stream) in (0..).zip(listener.incoming()) {
                let status = if answered < healthy { status } else { ILL };
                // A client that disconnected does not matter.
                let _gone = stream.and_then(|stream| answer(stream, status));
            }
        })
        .map(drop)
        .map_err(|why| format!("cannot start a thread: {why}"))
}

fn answer(mut stream: TcpStream, status: u16) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        match stream.read(&mut piece)? {
            0 => break,
            read => head.extend_from_slice(&piece[..read]),
        }
    }
    let body = format!("status {status}\n");
    let head = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        reason(status),
        body.len()
    );
    stream.write_all((head + &body).as_bytes())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        302 => "Found",
        404 => "Not Found",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
