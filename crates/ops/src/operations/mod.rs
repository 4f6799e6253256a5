//! One file for each operation.

pub mod add;
pub mod config;
pub mod custom_restart;
pub mod daemon_status;
pub mod daemon_stop;
pub mod daemon_upgrade;
pub mod down;
pub mod execute;
pub mod list;
pub mod logs;
pub mod operation_cancel;
pub mod operation_list;
pub mod operation_status;
pub mod remove;
pub mod restart;
pub mod signal;
pub mod start;
pub mod status;
pub mod stop;
pub mod token_create;
pub mod token_list;
pub mod token_path;
pub mod token_revoke;
pub mod up;
pub mod wait;
