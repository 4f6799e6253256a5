//! The MCP front: operations as tools, services as resources, for assistants.
//!
//! One handler (`assistant::Conversation`) over one `operation_caller::OperationCaller`. In the daemon the door is `dispatch` itself, and the
//! transport is streamable HTTP at `/mcp` (`http`). `proctor mcp` is a thin process for one conversation: its door is the
//! unix socket of the one shared daemon (`remote`), its transport stdin and stdout (`stdio`).
//!
//! The SDK implements both eras of the protocol: the handshake with sessions, and self-contained requests. This module adds
//! short replies, cursors, waiting instead of polling, and a handle for calls that take longer than a client waits.

mod answer_cache;
mod assistant;
mod call;
mod daemon_connection;
#[cfg(feature = "fixtures")]
mod fixture;
pub(crate) mod http;
mod instructions;
mod log_messages;
mod missing_facts;
pub(crate) mod operation_caller;
mod project;
mod prompts;
mod reference;
mod resource_updates;
mod resources;
mod resumable_sessions;
mod schema;
mod session_listeners;
mod sessions;
pub(crate) mod stdio;
mod stdio_lines;
mod tasks;
mod tool_names;
mod tool_reply;

pub use reference::reference;
pub use schema::tools;
