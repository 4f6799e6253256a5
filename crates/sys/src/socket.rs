//! Unix sockets: pairs, listeners, and paths longer than the kernel's 108 bytes.

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Room in `sun_path`, with its final zero.
const LONGEST: usize = 107;

/// Connections that may wait while the daemon is being restarted.
const BACKLOG: i32 = 1024;

/// Two connected sockets, non-blocking, closed on exec.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}

/// Listen at `path`, replacing what a dead process left there. Only the owner may connect.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    crate::file::remove(path)?;
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let (short, _folder) = reachable(path)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(&short)?)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (short, _folder) = reachable(path)?;
    UnixStream::connect(short)
}

/// A path to the same place that fits: through an open descriptor of the folder if need be. The descriptor
/// must live until the path was used.
fn reachable(path: &Path) -> io::Result<(PathBuf, Option<OwnedFd>)> {
    if path.as_os_str().len() <= LONGEST {
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
