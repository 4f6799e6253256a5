//! Finds the user at the other end of a local TCP connection.
//!
//! Queries the kernel for the one socket with exactly these addresses and ports (netlink,
//! sock_diag), however many there are. If that fails, reads the kernel's list of sockets. An
//! uncertain result is `None`, which means a stranger.

use crate::sockdiag::{self, ANSWER, BY_FAMILY, ERROR, HEADER, QUESTION, REQUEST, TCP};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// The uid that the kernel shows for users without a number in this namespace; many systems use it
/// for `nobody`.
const NO_NUMBER: u32 = 65534;

/// The user whose process opened the other end of a loopback connection; `ours` is the address of
/// our end. `None` if it is closed, remote or unknown.
pub fn owner(ours: SocketAddr, theirs: SocketAddr) -> Option<u32> {
    let end = SocketEnd { local: plain(ours), remote: plain(theirs) };
    if !end.local.ip().is_loopback() || !end.remote.ip().is_loopback() {
        return None;
    }
    let uid = match end.turned().ask() {
        PeerOwner::Owner(uid) => Some(uid),
        PeerOwner::Ownerless => None,
        PeerOwner::NotThere if answers(&end) => None,
        PeerOwner::NotThere | PeerOwner::Unanswered => end.turned().read(),
    };
    uid.filter(|uid| *uid != NO_NUMBER)
}

/// Whether the other end is certainly closed, so that nobody can read. A half-closed connection is
/// not.
pub fn is_gone(ours: SocketAddr, theirs: SocketAddr) -> bool {
    let end = SocketEnd { local: plain(ours), remote: plain(theirs) };
    match end.turned().ask() {
        PeerOwner::Owner(_) | PeerOwner::Unanswered => false,
        PeerOwner::Ownerless => true,
        PeerOwner::NotThere => answers(&end),
    }
}

/// Converts an IPv4-mapped IPv6 address to IPv4.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A kernel without the TCP module also answers "not found". The module is there if it finds any
/// socket, such as our own end.
fn answers(ours: &SocketEnd) -> bool {
    static SEEN: AtomicBool = AtomicBool::new(false);
    if !SEEN.load(Ordering::Relaxed) && matches!(ours.ask(), PeerOwner::Owner(_)) {
        SEEN.store(true, Ordering::Relaxed);
    }
    SEEN.load(Ordering::Relaxed)
}

/// One end of a connection, from its own point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SocketEnd {
    local: SocketAddr,
    remote: SocketAddr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerOwner {
    Owner(u32),
    /// The socket exists, but no process has it open.
    Ownerless,
    NotThere,
    Unanswered,
}

const ANY_STATE: u32 = u32::MAX;
const ANY_COOKIE: u64 = u64::MAX;

/// States of an established connection whose end a process may still have open, as both netlink and
/// `/proc/net/tcp` number them. Excludes listeners, attempts to connect, and closing states.
const CONNECTED: [u8; 6] = [1, 4, 5, 8, 9, 11];

impl SocketEnd {
    fn turned(self) -> SocketEnd {
        SocketEnd { local: self.remote, remote: self.local }
    }

    fn ask(self) -> PeerOwner {
        let mut answer = [0; 512];
        match self.exchange(&mut answer) {
            Ok(length) => self.answered(&answer[..length]),
            Err(_) => PeerOwner::Unanswered,
        }
    }

    fn exchange(self, answer: &mut [u8]) -> rustix::io::Result<usize> {
        let socket = sockdiag::open()?;
        send(&socket, &self.question(), SendFlags::empty())?;
        // The kernel answers before `send` returns.
        recv(&socket, answer, RecvFlags::DONTWAIT).map(|(length, _)| length)
    }

    fn question(self) -> [u8; QUESTION] {
        let family = if self.local.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let mut bytes = [0; QUESTION];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(&(QUESTION as u32).to_ne_bytes());
        put(&BY_FAMILY.to_ne_bytes());
        put(&REQUEST.to_ne_bytes());
        put(&[0; 8]);
        put(&[family as u8, TCP, 0, 0]);
        put(&ANY_STATE.to_ne_bytes());
        put(&self.local.port().to_be_bytes());
        put(&self.remote.port().to_be_bytes());
        put(&sixteen(self.local.ip()));
        put(&sixteen(self.remote.ip()));
        put(&[0; 4]);
        put(&ANY_COOKIE.to_ne_bytes());
        bytes
    }

    /// Without such a connection the kernel may return a listener instead.
    fn answered(self, bytes: &[u8]) -> PeerOwner {
        let number = |at: usize| {
            let bytes: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(bytes))
        };
        match (bytes.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]])), number(HEADER)) {
            (Some(ERROR), Some(errno)) if errno as i32 == -libc::ENOENT => {
                return PeerOwner::NotThere;
            }
            (Some(BY_FAMILY), Some(_)) if bytes.len() >= ANSWER => {}
            _ => return PeerOwner::Unanswered,
        }
        let state = bytes[HEADER + 1];
        let found = &bytes[HEADER + 4..HEADER + 40];
        let ports = [self.local.port().to_be_bytes(), self.remote.port().to_be_bytes()].concat();
        let ours = found[..4] == ports
            && same(&found[4..20], self.local.ip())
            && same(&found[20..36], self.remote.ip());
        match (number(HEADER + 64), number(HEADER + 68)) {
            _ if !ours => PeerOwner::NotThere,
            (Some(uid), Some(inode)) if owned(state, u64::from(inode)) => PeerOwner::Owner(uid),
            _ => PeerOwner::Ownerless,
        }
    }

    /// Searches the kernel's list, which is slow if there are many sockets.
    fn read(self) -> Option<u32> {
        let table = if self.local.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
        self.listed(&std::fs::read_to_string(table).ok()?)
    }

    fn listed(self, table: &str) -> Option<u32> {
        let (local, remote) = (written(self.local), written(self.remote));
        table.lines().skip(1).find_map(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let ours = fields.next()? == local && fields.next()? == remote;
            let state = u8::from_str_radix(fields.next()?, 16).ok()?;
            let uid = fields.nth(3)?.parse().ok()?;
            let inode = fields.nth(1)?.parse().ok()?;
            (ours && owned(state, inode)).then_some(uid)
        })
    }
}

/// A socket that no process has open shows root as its owner.
fn owned(state: u8, inode: u64) -> bool {
    inode != 0 && CONNECTED.contains(&state)
}

fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&address.octets());
            bytes
        }
        IpAddr::V6(address) => address.octets(),
    }
}

/// A dual-stack socket shows an IPv4 address in its mapped form.
fn same(found: &[u8], address: IpAddr) -> bool {
    match address {
        IpAddr::V4(short) => found == sixteen(address) || found == short.to_ipv6_mapped().octets(),
        IpAddr::V6(_) => found == sixteen(address),
    }
}

/// An address in the format of `/proc/net/tcp`: 4-byte words in the machine's byte order.
fn written(address: SocketAddr) -> String {
    let octets = sixteen(address.ip());
    let words = if address.is_ipv4() { &octets[..4] } else { &octets[..] };
    let hex =
        |word: &[u8]| format!("{:08X}", u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    let ip: String = words.chunks_exact(4).map(hex).collect();
    format!("{ip}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener, TcpStream};

    /// A connection to `address`: their end and ours. `None` on a machine without IPv6.
    fn connected(address: &str) -> Option<(TcpStream, TcpStream)> {
        let Ok(listener) = TcpListener::bind(address) else {
            assert!(address.starts_with("[::"), "{address} can be bound on every machine");
            return None;
        };
        let mut to = listener.local_addr().unwrap();
        if to.ip().is_unspecified() {
            to.set_ip("127.0.0.1".parse().unwrap());
        }
        let theirs = TcpStream::connect(to).unwrap();
        let (ours, _) = listener.accept().unwrap();
        Some((theirs, ours))
    }

    fn ends(ours: &TcpStream) -> SocketEnd {
        let (local, remote) = (ours.local_addr().unwrap(), ours.peer_addr().unwrap());
        SocketEnd { local: plain(local), remote: plain(remote) }
    }

    fn owner_of(ours: &TcpStream) -> Option<u32> {
        owner(ours.local_addr().unwrap(), ours.peer_addr().unwrap())
    }

    fn myself() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn our_own_connection_is_ours_over_every_kind_of_address() {
        for address in ["127.0.0.1:0", "127.9.8.7:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
            let Some((theirs, ours)) = connected(address) else { continue };
            assert_eq!(owner_of(&ours), Some(myself()), "{address}");
            let end = ends(&ours).turned();
            assert_eq!(end.read(), Some(myself()), "{address}, from the list");
            theirs.shutdown(Shutdown::Write).unwrap();
            assert!(!is_gone(ours.local_addr().unwrap(), ours.peer_addr().unwrap()), "{address}");
            assert_eq!(owner_of(&ours), Some(myself()), "{address}, after the last word");
        }
    }

    #[test]
    fn what_was_closed_is_a_strangers() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some((theirs, ours)) = connected(address) else { continue };
            drop(theirs);
            assert_eq!(owner_of(&ours), None, "{address}: closed, and we do not know yet");
            assert!(is_gone(ours.local_addr().unwrap(), ours.peer_addr().unwrap()), "{address}");
            assert_eq!(ends(&ours).turned().read(), None, "{address}");
            let end = ends(&ours);
            drop(ours);
            assert_eq!(owner(end.local, end.remote), None, "{address}: closed on both sides");
        }
    }

    #[test]
    fn a_listener_on_the_same_port_is_not_mistaken_for_the_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let theirs = listener.local_addr().unwrap();
        let ours = "127.0.0.1:9".parse().unwrap();
        assert_eq!(SocketEnd { local: theirs, remote: ours }.ask(), PeerOwner::NotThere);
        assert_eq!(owner(ours, theirs), None);
    }

    #[test]
    fn only_loopback_is_asked_about() {
        let address = |text: &str| text.parse().unwrap();
        assert_eq!(owner(address("192.0.2.1:80"), address("127.0.0.1:81")), None);
        assert_eq!(owner(address("127.0.0.1:80"), address("192.0.2.1:81")), None);
    }

    /// Needs root: a thread acting as another user opens the connection.
    #[test]
    fn another_users_connection_is_theirs() {
        const SOMEBODY: u32 = 12345;
        if myself() != 0 {
            return;
        }
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let to = listener.local_addr().unwrap();
            let connect = std::thread::spawn(move || {
                crate::raw_syscalls::plain(libc::SYS_setfsuid, [SOMEBODY as usize]).unwrap();
                TcpStream::connect(to).unwrap()
            });
            let theirs = connect.join().unwrap();
            let (ours, _) = listener.accept().unwrap();
            assert_eq!(owner_of(&ours), Some(SOMEBODY), "{address}");
            assert_eq!(ends(&ours).turned().read(), Some(SOMEBODY), "{address}, from the list");
            drop(theirs);
        }
    }

    #[test]
    fn strange_answers_are_no_owner() {
        let (theirs, ours) = connected("127.0.0.1:0").unwrap();
        let end = ends(&ours).turned();
        let mut answer = [0; ANSWER];
        assert_eq!(end.answered(&[]), PeerOwner::Unanswered);
        assert_eq!(end.answered(&answer), PeerOwner::Unanswered);
        answer[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
        assert_eq!(end.answered(&answer), PeerOwner::NotThere, "another connection");
        answer[HEADER + 4..HEADER + 40].copy_from_slice(&end.question()[HEADER + 8..HEADER + 44]);
        answer[HEADER + 1] = CONNECTED[0];
        assert_eq!(end.answered(&answer), PeerOwner::Ownerless, "no inode: root is not meant");
        answer[HEADER + 68] = 1;
        assert_eq!(end.answered(&answer), PeerOwner::Owner(0));
        for state in [0, 2, 3, 6, 7, 10, 12] {
            answer[HEADER + 1] = state;
            assert_eq!(end.answered(&answer), PeerOwner::Ownerless, "state {state}");
        }
        assert_eq!(end.answered(&answer[..ANSWER - 1]), PeerOwner::Unanswered);
        drop(theirs);
    }
}
