//! Operations on running operations. One file for each.

pub mod cancel;
pub mod list;
pub mod status;
