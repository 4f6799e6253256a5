//! The fronts: adapters from the outside world to the operations, and nothing else.
//!
//! [`local`] serves the unix socket inside the daemon, `client` speaks to it, [`cli`] is the command line; [`listen`] accepts
//! connections from the network, [`tcp`] is the control port, [`http`] the rest. What can be done and whether it may be done is decided in
//! `ops`; the engine cannot even be named from here.

pub mod cli;
mod client;
pub mod http;
mod legacy;
pub mod listen;
pub mod local;
pub mod mcp;
mod nearby;
mod paint;
#[doc(hidden)]
pub mod protocol;
mod room;
pub mod tcp;
