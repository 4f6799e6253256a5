//! Proctor end to end: the real binary, real processes, real signals, real files.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod added;
mod answers;
mod audit;
mod budgets;
mod commands;
mod config;
mod control;
mod deaths;
mod docs;
mod failpoints;
mod files;
mod foreground;
mod foreground_up;
mod full_disk;
mod health;
mod homes;
mod hostile;
mod http;
mod install;
mod learned;
mod lifecycle;
mod logs;
mod mcp;
mod news;
mod nothing_changes;
mod operations;
mod origins;
mod parity;
mod process;
mod proctor_itself;
mod requests;
mod restarts;
mod secrets;
mod settings;
mod stored_bytes;
mod support;
mod surroundings;
mod survival;
mod takeover;
mod tokens;
mod trees;
mod workflows;
