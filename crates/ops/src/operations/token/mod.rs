//! Operations on tokens. One file for each.

pub mod create;
pub mod list;
pub mod path;
pub mod revoke;
