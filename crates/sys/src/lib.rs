//! Proctor's interface to the kernel: the only crate with `unsafe` and raw system calls.
//!
//! Linux only for now. A port to another system starts here: process identity ([`process`]), trees
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
pub mod keeper_note;
pub mod leash;
pub mod memory;
pub mod own_file;
pub mod own_folder;
pub mod ownership;
pub mod peer;
pub mod plain_environment;
pub mod poll;
pub mod port;
pub mod proc;
pub mod process;
pub mod process_tag;
pub mod program;
pub mod random;
mod raw;
pub mod signal;
mod sockdiag;
pub mod socket;
pub mod spawn;
pub mod special_file_wait;
pub mod terminal_offer;
pub mod tree;
pub mod user;
pub mod vanish;
