//! Queries the kernel about TCP sockets (netlink, sock_diag): one that is known by its addresses,
//! or all that listen.
//!
//! `/proc/net/tcp` has the same data, but reading it walks the table of all connections, which
//! takes milliseconds even if there are none.

use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

// From linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
pub(crate) const ERROR: u16 = 2;
const DONE: u16 = 3;
pub(crate) const BY_FAMILY: u16 = 20;
pub(crate) const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;
pub(crate) const HEADER: usize = 16;
pub(crate) const QUESTION: usize = HEADER + 56;
/// Size of a response up to the inode, its last field.
pub(crate) const ANSWER: usize = HEADER + 72;
pub(crate) const TCP: u8 = 6;
const LISTEN: u32 = 1 << 10;

/// Buffer for one part of a response; the kernel sends no larger ones unless requested.
const PART: usize = 32 << 10;

/// Maximum number of parts: hundreds of thousands of sockets.
const PARTS: usize = 4096;

/// Opens a socket for queries.
pub(crate) fn open() -> rustix::io::Result<OwnedFd> {
    let (kind, flags) = (SocketType::RAW, SocketFlags::CLOEXEC);
    socket_with(AddressFamily::NETLINK, kind, flags, Some(netlink::SOCK_DIAG))
}

/// Inode and port of every listening TCP socket in our network namespace. `None` if the kernel does
/// not answer.
pub(crate) fn listening() -> Option<Vec<(u64, u16)>> {
    let socket = open().ok()?;
    let mut found = Vec::new();
    let mut room = vec![0; PART];
    for family in [libc::AF_INET, libc::AF_INET6] {
        send(&socket, &question(family as u8), SendFlags::empty()).ok()?;
        let mut left = PARTS;
        loop {
            // The kernel prepares the next part when the last one was read.
            let (length, _) = recv(&socket, room.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
            match take(room.get(..length)?, &mut found) {
                Part::More => left = left.checked_sub(1)?,
                Part::Last => break,
                Part::Refused => return None,
            }
        }
    }
    Some(found)
}

fn question(family: u8) -> [u8; QUESTION] {
    let mut bytes = [0; QUESTION];
    bytes[..4].copy_from_slice(&(QUESTION as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&(REQUEST | DUMP).to_ne_bytes());
    bytes[HEADER..HEADER + 2].copy_from_slice(&[family, TCP]);
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&LISTEN.to_ne_bytes());
    bytes
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    More,
    Last,
    Refused,
}

/// Extracts the sockets from one part of a response.
fn take(mut bytes: &[u8], found: &mut Vec<(u64, u16)>) -> Part {
    while let Some((length, kind)) = header(bytes) {
        let Some(message) = bytes.get(..length) else { return Part::Refused };
        match kind {
            BY_FAMILY => match socket(message) {
                Some(socket) => found.push(socket),
                None => return Part::Refused,
            },
            // A nonzero number is the error of the query.
            DONE if number(message, HEADER).is_none_or(|errno| errno == 0) => return Part::Last,
            DONE | ERROR => return Part::Refused,
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if bytes.is_empty() { Part::More } else { Part::Refused }
}

/// Length and type of the first message.
fn header(bytes: &[u8]) -> Option<(usize, u16)> {
    let length = usize::try_from(number(bytes, 0)?).ok().filter(|length| *length >= HEADER)?;
    let kind = bytes.get(4..6)?;
    Some((length, u16::from_ne_bytes([kind[0], kind[1]])))
}

fn socket(message: &[u8]) -> Option<(u64, u16)> {
    let port = message.get(HEADER + 4..HEADER + 6)?;
    let inode = number(message, ANSWER - 4)?;
    Some((u64::from(inode), u16::from_be_bytes([port[0], port[1]])))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes([four[0], four[1], four[2], four[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn every_listener_is_in_the_answer() {
        let listeners: Vec<TcpListener> = (0..600)
            .map(|at| if at % 2 == 0 { "127.0.0.1:0" } else { "[::1]:0" })
            .filter_map(|address| TcpListener::bind(address).ok())
            .collect();
        let found = listening().unwrap();
        for listener in &listeners {
            let port = listener.local_addr().unwrap().port();
            assert!(found.iter().any(|(inode, found)| *found == port && *inode > 0), "{port}");
        }
    }

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = (HEADER + body.len()) as u32;
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn strange_answers_are_refused() {
        let mut body = [0; ANSWER - HEADER];
        body[4..6].copy_from_slice(&8080_u16.to_be_bytes());
        body[ANSWER - HEADER - 4..].copy_from_slice(&7_u32.to_ne_bytes());
        let one = message(BY_FAMILY, &body);
        let done = message(DONE, &[0; 4]);
        let check = |bytes: &[u8], part: Part, count: usize| {
            let mut found = Vec::new();
            assert_eq!(take(bytes, &mut found), part, "{bytes:?}");
            assert_eq!(found, vec![(7, 8080); count]);
        };
        check(&one, Part::More, 1);
        check(&[one.clone(), one.clone(), done.clone()].concat(), Part::Last, 2);
        check(&message(DONE, &(-libc::ENOENT).to_ne_bytes()), Part::Refused, 0);
        check(&message(ERROR, &(-libc::EPERM).to_ne_bytes()), Part::Refused, 0);
        check(&message(BY_FAMILY, &body[..8]), Part::Refused, 0);
        check(&one[..ANSWER - 1], Part::Refused, 0);
        check(&[1, 2, 3], Part::Refused, 0);
        check(&message(9, &[]), Part::More, 0);
        check(&[], Part::More, 0);
    }
}
