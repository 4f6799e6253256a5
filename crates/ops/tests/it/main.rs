//! Tests of the whole table, and of the readable output.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod assistant_policy;
mod git;
mod golden;
mod matrix;
mod own_control;
mod played;
mod running_operations;
mod table;
