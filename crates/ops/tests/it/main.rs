//! The table as a whole, and what outputs look like to a person.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod git;
mod golden;
mod hands;
mod matrix;
mod own_control;
mod played;
mod table;
mod underway;
