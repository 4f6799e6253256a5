//! Proctor's edge to the kernel: the only crate with `unsafe`, the only one with raw system calls.
//!
//! Linux only for now. What other systems lack has its seam here: process identity ([`process`]), trees
//! ([`tree`], [`cgroup`]), spawn ([`spawn`]) and splice ([`fifo`]).

#![expect(unsafe_code, reason = "this crate exists to hold the unsafe code")]

pub mod atomic;
pub mod begin;
pub mod beneath;
pub mod boot;
pub mod cgroup;
pub mod clock;
mod directory;
pub mod failpoint;
pub mod fence;
pub mod fifo;
pub mod file;
pub mod host;
pub mod inherit;
pub mod input_fifo;
pub mod leash;
pub mod memory;
pub mod own_file;
pub mod ownership;
pub mod peer;
pub mod plain_environment;
pub mod poll;
pub mod port;
pub mod proc;
pub mod process;
pub mod program;
pub mod random;
mod raw;
pub mod signal;
mod sockdiag;
pub mod socket;
pub mod spawn;
pub mod terminal_offer;
pub mod tree;
pub mod user;
pub mod vanish;
