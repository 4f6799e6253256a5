//! Proctor's interface to the kernel: the only crate with `unsafe` and raw system calls.
//!
//! Linux only for now. A port to another system starts here: process identity ([`process`]), trees
//! ([`process_tree`], [`cgroup`]), spawn ([`spawn`]) and splice ([`fifo`]).

#![expect(unsafe_code, reason = "this crate exists to hold the unsafe code")]

pub mod allocator;
pub mod atomic;
pub mod beneath;
pub mod boot_id;
pub mod cgroup;
pub mod clock;
pub mod die_with_parent;
pub mod failpoint;
pub mod fifo;
mod getent;
pub mod host;
pub mod inherited_fds;
pub mod input_fifo;
pub mod keeper_note;
pub mod landlock;
pub mod own_file;
pub mod own_folder;
pub mod ownership;
pub mod peer_user;
pub mod plain_environment;
pub mod poll;
pub mod port;
pub mod proc;
pub mod process;
pub mod process_start;
pub mod process_tag;
pub mod process_tree;
pub mod program;
pub mod random;
mod raw_syscalls;
pub mod signal;
pub mod small_file;
mod sockdiag;
pub mod socket;
pub mod spawn;
pub mod special_file_wait;
pub mod terminal_offer;
pub mod user;
pub mod watch_removal;
