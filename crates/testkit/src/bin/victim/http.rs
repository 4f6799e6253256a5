//! A tiny HTTP/1.1 server on the loopback address, for health checks to find well or ill.
//!
//! One connection after another, one answer each, the request read up to its empty line and otherwise not looked at.

use crate::output;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// A request head longer than this is cut off.
const LONGEST_HEAD: usize = 8192;
/// A client that sends nothing for this long is left.
const PATIENCE: Duration = Duration::from_secs(5);
/// What follows when `--http-fail-after` has been reached.
const ILL: u16 = 500;

/// Listen before this returns; answer in the background. Port 0 takes a free one and prints `http PORT`.
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
                // A client that went away is its own affair.
                let _gone = stream.and_then(|stream| answer(stream, status));
            }
        })
        .map(drop)
        .map_err(|why| format!("cannot start a thread: {why}"))
}

fn answer(mut stream: TcpStream, status: u16) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST_HEAD {
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
