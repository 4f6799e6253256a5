//! sys

pub mod atomic;
pub mod port;
pub mod program;
pub mod user;
