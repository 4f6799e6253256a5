//! Is a TCP port free, and if not, who has it?
//!
//! Asking means binding for a moment without listening, so nobody can connect to the question. The answer is about
//! now: whether the service gets the port is decided when it binds.

use crate::proc;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::fmt;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// The addresses a development server binds; any of them in use means that starting it would fail.
const ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Can all of 127.0.0.1, 0.0.0.0 and ::1 be bound? Only "in use" counts as no: a machine without IPv6, or a port
/// below 1024 that we may not bind ourselves, says nothing about the service.
pub fn is_free(port: u16) -> bool {
    ADDRESSES.into_iter().all(|address| !in_use(SocketAddr::new(address, port)))
}

/// A process that listens, shown as `node (pid 4711)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub process: String,
    pub pid: u32,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.process, self.pid)
    }
}

/// Who listens on `port`, where we are allowed to see it.
pub fn holder(port: u16) -> Option<Holder> {
    let inodes: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|text| listeners(&text, port))
        .collect();
    if inodes.is_empty() {
        return None;
    }
    let pid = proc::pids().into_iter().find(|pid| holds(*pid, &inodes))?;
    Some(Holder { process: proc::name(pid)?, pid })
}

fn in_use(address: SocketAddr) -> bool {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let Ok(socket) = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) else {
        return false;
    };
    // What every server sets: a connection that is fading out is no obstacle.
    sockopt::set_socket_reuseaddr(&socket, true).ok();
    bind(&socket, &address) == Err(rustix::io::Errno::ADDRINUSE)
}

/// Inodes of the sockets that listen on `port` in a table of `/proc/net`.
fn listeners(table: &str, port: u16) -> Vec<u64> {
    let inode = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (_, digits) = fields.nth(1)?.rsplit_once(':')?;
        let state = fields.nth(1)?;
        let ours = u16::from_str_radix(digits, 16) == Ok(port) && state == LISTEN;
        ours.then(|| fields.nth(5)?.parse().ok()).flatten()
    };
    table.lines().skip(1).filter_map(inode).collect()
}

fn holds(pid: u32, inodes: &[u64]) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.filter_map(|entry| socket_inode(&entry.path())).any(|inode| inodes.contains(&inode))
}

fn socket_inode(descriptor: &Path) -> Option<u64> {
    let target = fs::read_link(descriptor).ok()?;
    target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn check(address: &str) {
        let Ok(listener) = TcpListener::bind(address) else {
            assert!(address.starts_with("[::"), "{address} can be bound on every machine");
            return;
        };
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free(port), "{address} listens on {port}");
        let holder = holder(port).unwrap().to_string();
        assert!(holder.ends_with(&format!("(pid {})", std::process::id())), "{holder}");
    }

    /// Others on the machine may take a port that was just released, but not each time.
    #[test]
    fn a_released_port_is_free_again() {
        let released = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        assert!((0..20).any(|_| is_free(released())));
    }

    #[test]
    fn a_listener_on_any_of_the_usual_addresses_is_found_and_named() {
        for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            check(address);
        }
    }

    #[test]
    fn only_listening_sockets_of_that_port_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0\n\
             1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0 100 0 0 10 0\n\
             2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 100 0 0 10 0\n\
             short line\n";
        assert_eq!(listeners(table, 8080), [11]);
        assert_eq!(listeners(table, 8081), [13]);
        assert_eq!(listeners(table, 1), [0; 0]);
    }
}
