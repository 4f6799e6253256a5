//! The daemon's side against a fake keeper: real socket, real messages, real files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod fake;
mod half_done;
mod lifetime;
mod recovery;
mod wishes;
mod with_config;
