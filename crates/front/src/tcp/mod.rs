//! The control port: one command a line, as JSON or as plain words, and one answer for each. `docs/tcp.md` is for its users.
//!
//! Left out on purpose: what may be done and by whom. That is decided where every front's requests go, in `ops`.

#[doc(hidden)]
pub mod heard;
mod json;
#[doc(hidden)]
pub mod said;
mod words;
