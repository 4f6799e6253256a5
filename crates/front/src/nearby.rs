//! Who calls over the network without a token: nobody in particular, but on this machine and of our own user or root; or a
//! stranger.

use proctor_ops::operation::Principal;
use proctor_sys::peer;
use std::net::SocketAddr;

/// Of a connection from `theirs`, accepted at `ours`. The kernel is asked: call it when it is needed, not for every connection.
pub(crate) fn without_token(ours: SocketAddr, theirs: SocketAddr) -> Principal {
    let own = rustix::process::geteuid().as_raw();
    match peer::owner(ours, theirs) {
        Some(uid) if uid == own || uid == 0 => Principal::Anonymous,
        Some(_) | None => Principal::Stranger,
    }
}
