//! Operations on Proctor itself. One file for each.

pub mod status;
pub mod stop;
pub mod upgrade;
