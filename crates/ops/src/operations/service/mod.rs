//! Operations on services. One file for each.

pub mod add;
pub mod custom_restart;
pub mod down;
pub mod health;
pub mod lease;
pub mod list;
pub mod remove;
pub mod restart;
pub mod signal;
pub mod start;
pub mod status;
pub mod stop;
pub mod up;
pub mod wait;
