//! The pure part of Proctor: it decides, and other crates act.
//!
//! Nothing here reads a clock, a file, the environment or a random source. Time comes in as
//! [`time::Now`], decisions go out as values. That lets the tests replay a hostile year of a
//! service's life in a second.

pub mod access;
pub mod assistant_policy;
pub mod command_allowlist;
pub mod config;
pub mod content;
pub mod diff;
pub mod edit;
pub mod hash;
pub mod home;
pub mod lease;
pub mod lifecycle;
pub mod log_index;
pub mod name;
pub mod record_encoding;
pub mod root_paths;
pub mod shell_syntax;
pub mod spec;
pub mod state_file;
pub mod stored;
pub mod text;
pub mod time;
pub mod wire;
