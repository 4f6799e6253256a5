//! The control port: one command a line, as JSON or as plain words, and one answer for each. `docs/tcp.md` is for its users.
//!
//! Left out on purpose: what may be done and by whom. That is decided where every front's requests go, in `ops`.

mod connection;
#[doc(hidden)]
pub mod heard;
mod incoming;
mod json;
mod reply;
#[doc(hidden)]
pub mod said;
mod words;

use crate::listen::{self, Listener, State};
use crate::local::Dispatch;
use std::convert::Infallible;
use std::sync::Arc;

/// Serve the control port wherever the configuration wants it, until the future is dropped.
pub async fn serve(listener: Listener<impl Fn(State)>, dispatch: Arc<dyn Dispatch>) -> Infallible {
    let room = connection::room();
    let connection = |guest| connection::serve(guest, Arc::clone(&dispatch), Arc::clone(&room));
    listen::serve(listener, connection).await
}
