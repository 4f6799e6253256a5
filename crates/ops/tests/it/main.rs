//! Tests of the whole table, and of the readable output.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod git;
mod golden;
mod hands;
mod matrix;
mod own_control;
mod played;
mod table;
mod underway;
