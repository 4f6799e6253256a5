//! Output of the victim. Writes whole lines in single writes of at most [`PIPE_ATOMIC`] bytes, so
//! that a torn line in a log was torn by the program that stored it.

use crate::script::Script;
use crate::wait;
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, retry_on_intr};
use std::fs::OpenOptions;
use std::io::Write as _;

/// The kernel does not interleave or split pipe writes up to this size.
const PIPE_ATOMIC: usize = 4096;
/// A long line is written in pieces of this size.
const PIECE: usize = 65536;

/// Writes to stdout and, with `--stderr`, to stderr as well.
pub(crate) fn lines(script: &Script, count: u64) -> Result<(), String> {
    let mut pending = String::new();
    for number in 1..=count {
        if let Some(pause) = script.every.filter(|_| number > 1 && pending.is_empty()) {
            wait::rest(pause);
        }
        let line = numbered(script, number);
        if pending.len() + line.len() > PIPE_ATOMIC {
            write_both(script, pending.as_bytes())?;
            pending.clear();
        }
        pending.push_str(&line);
        if number % script.batch == 0 || number == count {
            write_both(script, pending.as_bytes())?;
            pending.clear();
        }
    }
    Ok(())
}

/// Writes in the background until the process ends.
pub(crate) fn spam(script: &Script) -> Result<(), String> {
    let script = script.clone();
    std::thread::Builder::new()
        .name("spam".into())
        .spawn(move || {
            let why = spam_until_refused(&script);
            complain(&why);
            std::process::exit(crate::FAILED.into());
        })
        .map(drop)
        .map_err(|why| format!("cannot start a thread: {why}"))
}

/// Deliberately endless: this loop ends only with the process or its output.
fn spam_until_refused(script: &Script) -> String {
    let mut number = 0;
    let mut pending = String::with_capacity(PIPE_ATOMIC);
    loop {
        number += 1;
        let line = numbered(script, number);
        if pending.len() + line.len() > PIPE_ATOMIC {
            if let Err(why) = write_both(script, pending.as_bytes()) {
                return why;
            }
            pending.clear();
        }
        pending.push_str(&line);
    }
}

pub(crate) fn raw(bytes: &[u8]) -> Result<(), String> {
    write_stdout(bytes)
}

/// `length` bytes and a line end.
pub(crate) fn long_line(length: u64) -> Result<(), String> {
    let piece = [b'x'; PIECE];
    let mut left = length;
    while left > 0 {
        let now = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
        write_stdout(&piece[..now])?;
        left -= now as u64;
    }
    write_stdout(b"\n")
}

/// Gives up stdout. Descriptor 1 becomes `/dev/null`, because safe code may not leave it closed.
pub(crate) fn close_stdout() -> Result<(), String> {
    let null = OpenOptions::new()
        .write(true)
        .open("/dev/null")
        .map_err(|why| format!("/dev/null: {why}"))?;
    rustix::stdio::dup2_stdout(null).map_err(|why| format!("cannot replace stdout: {why}"))
}

/// Imitates programs that log to the file `/dev/stdout`.
pub(crate) fn reopen_stdout() -> Result<(), String> {
    OpenOptions::new()
        .write(true)
        .open("/dev/stdout")
        .and_then(|mut file| file.write_all(b"reopened\n"))
        .map_err(|why| format!("cannot open /dev/stdout again: {why}"))
}

pub(crate) fn write_stdout(bytes: &[u8]) -> Result<(), String> {
    write_all(rustix::stdio::stdout(), bytes)
        .map_err(|why| format!("cannot write to stdout: {why}"))
}

/// Reports an error; if even that fails, only the exit code shows it.
pub(crate) fn complain(why: &str) {
    let _refused = write_all(rustix::stdio::stderr(), format!("victim: {why}\n").as_bytes());
}

fn numbered(script: &Script, number: u64) -> String {
    format!("{}line {number}\n", script.line_prefix)
}

fn write_both(script: &Script, bytes: &[u8]) -> Result<(), String> {
    write_stdout(bytes)?;
    if script.stderr {
        write_all(rustix::stdio::stderr(), bytes)
            .map_err(|why| format!("cannot write to stderr: {why}"))?;
    }
    Ok(())
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = retry_on_intr(|| rustix::io::write(to, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}
