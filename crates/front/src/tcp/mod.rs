//! The control port: one command per line, as JSON or as plain words, and one response for each. `docs/tcp.md` is for users.
//!
//! Out of scope: permissions. `ops` decides them for every front.

mod connection;
mod json;
#[doc(hidden)]
pub mod line_text;
#[doc(hidden)]
pub mod parsed_line;
mod plain_words;
mod receive_buffer;
mod reply;

use crate::listen::{self, Listener, State};
use crate::unix_socket::Dispatch;
use std::convert::Infallible;
use std::sync::Arc;

/// Serves the control port as configured, until the future is dropped.
pub async fn serve(listener: Listener<impl Fn(State)>, dispatch: Arc<dyn Dispatch>) -> Infallible {
    let room = connection::room();
    let connection = |guest| connection::serve(guest, Arc::clone(&dispatch), Arc::clone(&room));
    listen::serve(listener, connection).await
}
