//! Operations on the audit log. One file for each.

pub mod read;
pub mod verify;
