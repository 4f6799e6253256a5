//! The daemon's side of Proctor (contract; to be filled).

pub mod api;
pub mod error;
pub mod logs;
pub mod witness;
