//! Proctor end to end: the real binary, real processes, real signals, real files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod config;
mod health;
mod lifecycle;
mod logs;
mod nothing_changes;
mod process;
mod proctor_itself;
mod support;
mod surroundings;
mod survival;
mod trees;
