//! Principal of a network caller without a token: a local process of our own user or root, or a stranger.

use proctor_ops::operation::Principal;
use proctor_sys::peer_user;
use std::net::SocketAddr;

/// Returns the principal of a connection from `theirs`, accepted at `ours`. It asks the kernel, so call it only when needed.
pub(crate) fn without_token(ours: SocketAddr, theirs: SocketAddr) -> Principal {
    let own = rustix::process::geteuid().as_raw();
    match peer_user::owner(ours, theirs) {
        Some(uid) if uid == own || uid == 0 => Principal::Anonymous,
        Some(_) | None => Principal::Stranger,
    }
}
