//! Unix sockets: pairs, listeners, paths longer than the kernel's 108 bytes, and passing of
//! descriptors.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Maximum length of `sun_path` without its final zero.
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Connections that may wait during a restart of the daemon.
const BACKLOG: i32 = 1024;

/// Creates two connected sockets, non-blocking, closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Listens at `path`; replaces the leftover of a dead process. Only the owner may connect.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    listen_for(SocketType::STREAM, path).map(UnixListener::from)
}

/// Listens at `path` for connections that preserve message boundaries; accept with [`accept`].
pub fn listen_for_packets(path: &Path) -> io::Result<OwnedFd> {
    listen_for(SocketType::SEQPACKET, path)
}

fn listen_for(kind: SocketType, path: &Path) -> io::Result<OwnedFd> {
    crate::small_file::out_of_the_way(path)?;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    let (short, _folder) = reachable(path)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(&short)?)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Connects to a listener of [`listen_for_packets`]. The connection is non-blocking.
pub fn connect_for_packets(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::SEQPACKET;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None)?;
    let (short, _folder) = reachable(path)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(&short)?)?;
    Ok(socket)
}

/// Accepts a connection; it is non-blocking too.
pub fn accept(listener: impl AsFd) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::accept_with(listener, flags)?)
}

/// The user and the process at the other end of a connection, as of its beginning.
pub fn peer(connection: impl AsFd) -> io::Result<(u32, u32)> {
    let credentials = rustix::net::sockopt::socket_peercred(connection)?;
    Ok((credentials.uid.as_raw(), credentials.pid.as_raw_nonzero().get().unsigned_abs()))
}

/// The user who listens at the other end of a connection. Its process may be invisible to us and
/// have no number here.
pub fn peer_user(connection: impl AsFd) -> io::Result<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = connection.as_fd().as_raw_fd();
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: `found` has room for `size` bytes, and both outlive the call.
    let result =
        unsafe { libc::getsockopt(fd, level, option, (&raw mut found).cast(), &raw mut size) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if size as usize != size_of::<libc::ucred>() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(found.uid)
}

pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (short, _folder) = reachable(path)?;
    UnixStream::connect(short)
}

/// Creates a channel for descriptors: those sent but not yet received stay open, whoever closes
/// theirs.
pub fn chute() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Maximum number of descriptors in one message.
pub const MAX_PASSED_FDS: usize = 3;

/// Sends descriptors as one message; returns false if there is no room now.
pub fn send_descriptors(chute: impl AsFd, fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
    // A message needs at least one byte.
    send_packet(chute, &[0], fds)
}

/// Sends bytes and up to [`MAX_PASSED_FDS`] descriptors as one message; returns false if there is no room
/// now.
pub fn send_packet(chute: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_PASSED_FDS))];
    let mut buffer = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !buffer.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let bytes = [io::IoSlice::new(bytes)];
    match rustix::net::sendmsg(chute, &bytes, &mut buffer, SendFlags::NOSIGNAL) {
        Ok(_) => Ok(true),
        // The last one: the number of a user's descriptors in flight is limited.
        Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::TOOMANYREFS) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Receives the descriptors of one message.
pub fn receive_descriptors(chute: impl AsFd) -> io::Result<Vec<OwnedFd>> {
    receive_packet(chute, &mut [0]).map(|(_, received)| received)
}

/// Receives one message: its length in bytes, and its descriptors. Zero bytes mean that the other
/// end is closed.
pub fn receive_packet(chute: impl AsFd, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_PASSED_FDS))];
    let mut buffer = RecvAncillaryBuffer::new(&mut space);
    let mut room = [io::IoSliceMut::new(bytes)];
    let message = rustix::net::recvmsg(chute, &mut room, &mut buffer, RecvFlags::CMSG_CLOEXEC)?;
    let mut received = Vec::new();
    for message in buffer.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            received.extend(fds);
        }
    }
    Ok((message.bytes, received))
}

/// Returns an equivalent path that fits, if needed through an open descriptor of the folder. Keep
/// the descriptor until the path was used.
fn reachable(path: &Path) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    if path.as_os_str().len() <= MAX_SOCKET_PATH_BYTES {
        return Ok((path.to_path_buf(), None));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags =
        rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, rustix::fs::Mode::empty())?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    Ok((short, Some(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_socket_in_a_very_deep_folder_can_be_reached() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("x".repeat(100)).join("y".repeat(100));
        std::fs::create_dir_all(&deep).unwrap();
        let path = deep.join("proctor.sock");
        let listener = listen(&path).unwrap();
        let mut client = connect(&path).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"hello").unwrap();
        drop(client);
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        drop(listen(&path).expect("a socket left behind is replaced"));
    }
}
