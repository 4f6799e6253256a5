//! Operations on git repositories. One file for each.

pub mod add;
pub mod blame;
pub mod branch;
pub mod commit;
pub mod diff;
pub mod log;
pub mod resolve;
pub mod restore;
pub mod show;
pub mod stash;
pub mod status;
pub mod tag;
