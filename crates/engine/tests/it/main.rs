//! The daemon's side against a keeper that is played: real socket, real messages, real files.

mod fake;
mod lifetime;
mod recovery;
mod wishes;
// Needs `proctor_core::config::parse`; enable it with the merge that brings the parser.
// mod with_config;
