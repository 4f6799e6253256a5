//! The fronts: adapters from the outside world to the operations, and nothing else.
//!
//! [`unix_socket`] serves the unix socket inside the daemon, `client` is its client, [`cli`] is the command line. [`listen`] accepts
//! connections from the network, [`tcp`] is the control port, [`http`] the rest. Capabilities and permissions are decided in
//! `ops`; this crate cannot name the engine.

pub mod cli;
mod client;
pub mod http;
mod legacy_shapes;
pub mod listen;
mod local_peer;
pub mod mcp;
#[doc(hidden)]
pub mod protocol;
mod receive_budget;
pub mod tcp;
mod terminal_colors;
pub mod unix_socket;
