//! Who calls over the network without a token: nobody in particular, but on this machine, and of our own user or root.

use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::Principal;
use proctor_sys::peer;
use std::net::SocketAddr;

/// Of a connection from `theirs`, accepted at `ours`. The kernel is asked: call it when it is needed, not for every connection.
pub(crate) fn anonymous(ours: SocketAddr, theirs: SocketAddr) -> Result<Principal, OpError> {
    let own = rustix::process::geteuid().as_raw();
    match peer::owner(ours, theirs) {
        Some(uid) if uid == own || uid == 0 => Ok(Principal::Anonymous),
        Some(_) | None => Err(OpError::new(Code::Unauthenticated, "a token is needed")
            .help("without one, only processes of this Proctor's own user may look")),
    }
}
