//! One file for each operation, grouped by what it is about.

pub mod audit;
pub mod change_check;
pub mod config;
pub mod daemon;
pub mod events;
pub mod execute;
pub mod file;
pub mod git;
pub mod logs;
pub mod metrics;
pub mod mode;
pub mod operation;
pub mod reload;
pub mod service;
pub mod token;
