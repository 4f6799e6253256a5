//! Operations on the runtime mode. One file for each.

pub mod get;
pub mod switch;
