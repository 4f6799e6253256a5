//! Checks whether a TCP port is free, finds its owner, and lists the ports of a process.
//!
//! The check binds for a moment without listening, so nobody can connect to it. The result holds
//! for now only; the service finds out when it binds.

use crate::{proc, sockdiag};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
use std::collections::{BTreeSet, HashMap};
use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// The addresses that development servers bind; if any of them is in use, the start would fail.
const ADDRESSES: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &[u8] = b"0A";

/// Maximum number of descriptors of one process to examine, from the lowest: a server listens
/// before it has connections, and may have very many of those.
const DESCRIPTORS: usize = 1024;

/// Buffer for the names of about a hundred descriptors.
const ENTRIES: usize = 4096;

/// Longer than `socket:[18446744073709551615]`; a longer link is something else.
const LINK: usize = 48;

/// Whether 127.0.0.1, 0.0.0.0 and ::1 can all be bound. Only "in use" counts as no: a machine
/// without IPv6, or a port below 1024 that we may not bind, says nothing about the service.
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

/// The process that listens on `port`, if we may see it.
pub fn holder(port: u16) -> Option<Holder> {
    let listening = Listening::now();
    if !listening.on(port) {
        return None;
    }
    let pid = proc::pids().into_iter().find(|pid| listening.has(*pid, port))?;
    Some(Holder { process: proc::name(pid)?, pid })
}

/// All listening TCP sockets at one moment, for lookups by many processes.
pub struct Listening {
    /// The network namespace they belong to.
    network: Option<PathBuf>,
    /// Inode → port.
    sockets: HashMap<u64, u16>,
}

impl Listening {
    /// Reads our own network namespace.
    pub fn now() -> Listening {
        let network = network("self");
        match sockdiag::listening() {
            Some(sockets) => Listening { network, sockets: sockets.into_iter().collect() },
            None => Listening::read("/proc/net", network),
        }
    }

    /// Reads the network namespace of a process, if it differs from this one.
    pub fn elsewhere(&self, pid: u32) -> Option<Listening> {
        let theirs = network(&pid.to_string());
        let another = theirs.is_some() && self.network.is_some() && theirs != self.network;
        another.then(|| Listening::read(&format!("/proc/{pid}/net"), theirs))
    }

    fn read(folder: &str, network: Option<PathBuf>) -> Listening {
        let tables = ["tcp", "tcp6"].map(|table| fs::read(format!("{folder}/{table}")));
        let sockets = tables.iter().flatten().flat_map(|table| listeners(table)).collect();
        Listening { network, sockets }
    }

    /// Whether any process listens on this port.
    pub fn on(&self, port: u16) -> bool {
        self.sockets.values().any(|listening| *listening == port)
    }

    /// Whether this process, possibly with others, listens on this port.
    pub fn has(&self, pid: u32, port: u16) -> bool {
        self.ports(pid).contains(&port)
    }

    /// The ports that this process listens on, possibly with others.
    pub fn ports(&self, pid: u32) -> BTreeSet<u16> {
        if self.sockets.is_empty() {
            return BTreeSet::new();
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(folder) = rustix::fs::open(format!("/proc/{pid}/fd"), flags, Mode::empty()) else {
            return BTreeSet::new();
        };
        let mut room = [const { MaybeUninit::uninit() }; ENTRIES];
        let mut entries = RawDir::new(&folder, &mut room);
        let mut found = BTreeSet::new();
        for _ in 0..DESCRIPTORS {
            let Some(Ok(entry)) = entries.next() else { break };
            let inode = socket_inode(&folder, entry.file_name());
            found.extend(inode.and_then(|inode| self.sockets.get(&inode)));
        }
        found
    }
}

/// The kernel's name of the network namespace of a process.
fn network(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

fn in_use(address: SocketAddr) -> bool {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let Ok(socket) = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) else {
        return false;
    };
    // Every server sets this: a connection in TIME_WAIT is no obstacle.
    sockopt::set_socket_reuseaddr(&socket, true).ok();
    bind(&socket, &address) == Err(rustix::io::Errno::ADDRINUSE)
}

/// Inode and port of each listening socket in a table of `/proc/net`.
fn listeners(table: &[u8]) -> impl Iterator<Item = (u64, u16)> {
    let socket = |line: &[u8]| {
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let local = fields.nth(1)?;
        let digits = std::str::from_utf8(local.rsplit(|byte| *byte == b':').next()?).ok()?;
        let inode = (fields.nth(1)? == LISTEN).then(|| fields.nth(5))??;
        let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
        Some((inode, u16::from_str_radix(digits, 16).ok()?))
    };
    table.split(|byte| *byte == b'\n').skip(1).filter_map(socket)
}

fn socket_inode(folder: &OwnedFd, descriptor: &CStr) -> Option<u64> {
    let mut room = [const { MaybeUninit::uninit() }; LINK];
    let (target, _) = rustix::fs::readlinkat_raw(folder, descriptor, &mut room).ok()?;
    let digits = target.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
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

    /// Other programs may take a port that was just released, but not every time.
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
    fn the_ports_of_a_process_are_those_it_listens_on() {
        let me = std::process::id();
        let listeners =
            ["127.0.0.1:0", "0.0.0.0:0"].map(|address| TcpListener::bind(address).unwrap());
        let [first, second] = listeners.each_ref().map(|it| it.local_addr().unwrap().port());
        let connected = std::net::TcpStream::connect(("127.0.0.1", first)).unwrap();
        let found = Listening::now();
        assert!(found.has(me, first) && found.has(me, second) && found.on(first));
        assert!(!found.ports(me).contains(&connected.local_addr().unwrap().port()));
        assert!(found.ports(u32::MAX).is_empty() && !found.on(0));
    }

    #[test]
    fn the_list_of_the_kernel_says_the_same() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let listed = Listening::read("/proc/net", None);
        assert!(listed.has(std::process::id(), port));
    }

    #[test]
    fn the_network_of_this_process_is_no_other() {
        let here = Listening::now();
        assert!(here.elsewhere(std::process::id()).is_none());
        assert!(here.elsewhere(u32::MAX).is_none());
    }

    #[test]
    fn only_listening_sockets_count() {
        let table = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1 0 100 0 0 10 0\n\
             1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0 100 0 0 10 0\n\
             2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 13 1 0 100 0 0 10 0\n\
             short line\n";
        assert_eq!(listeners(table).collect::<Vec<_>>(), [(11, 8080), (13, 8081)]);
    }
}
