//! `proctor mcp`: one conversation over stdin and stdout, served by the shared daemon. Ends with its input.

use super::assistant::{Conversation, SharedState};
use super::call::CALL_TIMEOUT;
use super::daemon_connection::DaemonConnection;
use super::stdio_lines::Lines;
use super::tasks::Tasks;
use crate::cli::Launch;
use proctor_core::home::Home;
use proctor_ops::error::{Code, OpError};
use proctor_ops::tools::Toolset;
use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::transport::io::stdio_pipes;
use rustix::fs::OFlags;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Serves until the input ends.
pub(crate) fn serve(
    home: Home,
    launch: &'static dyn Launch,
    sets: Option<Vec<Toolset>>,
    patience: Option<Duration>,
) -> Result<(), OpError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        OpError::new(Code::Failed, format!("cannot start the runtime: {error}"))
    })?;
    let door = Box::new(DaemonConnection::new(home, launch));
    let house = SharedState {
        door,
        sets,
        configured: Mutex::default(),
        here: true,
        patience: patience.unwrap_or(CALL_TIMEOUT),
        tasks: Tasks::default(),
        sessions: None,
    };
    let served = runtime.block_on(conversation(Conversation::new(Arc::new(house))));
    // A blocked read of stdin must not keep us here.
    runtime.shutdown_background();
    served
}

async fn conversation(assistant: Conversation) -> Result<(), OpError> {
    wait_where_nothing_is();
    let (read, write) = stdio_pipes();
    match serve_server(assistant, Lines::new(read, write)).await {
        Ok(running) => running
            .waiting()
            .await
            .map(drop)
            .map_err(|error| OpError::new(Code::Internal, format!("the conversation failed: {error}"))),
        // The input ended before the handshake.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(OpError::new(Code::BadInput, format!("not an MCP handshake: {error}"))
            .help("`proctor mcp` speaks the Model Context Protocol on stdin; set up a client with `proctor mcp install`")),
    }
}

/// Some clients pass non-blocking descriptors, on which missing input would look like the end. Pipes are reopened anyway.
fn wait_where_nothing_is() {
    for end in [rustix::stdio::stdin(), rustix::stdio::stdout()] {
        if let Ok(flags) = rustix::fs::fcntl_getfl(end) {
            // A descriptor that cannot be changed is used as it is.
            let _ = rustix::fs::fcntl_setfl(end, flags - OFlags::NONBLOCK);
        }
    }
}
