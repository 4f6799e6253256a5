//! One conversation with an MCP server, as a client has it: each request waits for its response.
//!
//! Supports only what measurements need. The clock runs from before the request is sent until the
//! response has arrived as text; neither is parsed meanwhile.

pub(super) mod http;
pub(super) mod pipe;

use super::clock::{Nanoseconds, now};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::time::Duration;

/// A server without a response for this long counts as broken, not as slow.
const SILENCE: Duration = Duration::from_secs(60);

/// The protocol revision that all servers support.
const REVISION: &str = "2025-06-18";

/// The transport of messages.
pub(crate) trait Wire {
    fn say(&mut self, message: &str) -> Result<()>;

    /// The next message of the other side.
    fn hear(&mut self) -> Result<String>;
}

pub(crate) struct Conversation<W> {
    pub(crate) wire: W,
    next: u64,
    /// The server's handshake response, as text.
    pub(crate) welcome: Reply,
}

/// A response and its cost.
pub(crate) struct Reply {
    pub(crate) asked: Nanoseconds,
    pub(crate) heard: Nanoseconds,
    /// Size of the request and the response, whole messages.
    pub(crate) bytes: usize,
    pub(crate) result: Value,
}

impl Reply {
    pub(crate) fn time(&self) -> Nanoseconds {
        self.heard - self.asked
    }
}

impl<W: Wire> Conversation<W> {
    /// Starts with the handshake of most clients.
    pub(crate) fn begin(wire: W) -> Result<Conversation<W>> {
        let welcome = Reply { asked: 0, heard: 0, bytes: 0, result: Value::Null };
        let mut conversation = Conversation { wire, next: 0, welcome };
        let client = json!({ "name": "bench", "version": "1" });
        conversation.welcome = conversation.ask(
            "initialize",
            &json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client }),
        )?;
        let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        conversation.wire.say(&begun.to_string())?;
        Ok(conversation)
    }

    /// Call a tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Reply> {
        let reply = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        if reply.result["isError"] == true {
            bail!("{tool} failed: {}", reply.result);
        }
        Ok(reply)
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Result<Reply> {
        self.next += 1;
        let id = self.next;
        let question = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let question = question.to_string();
        let asked = now();
        self.wire.say(&question)?;
        loop {
            let text = self.wire.hear()?;
            let heard = now();
            let mut answer: Value =
                serde_json::from_str(&text).with_context(|| format!("no JSON: {text}"))?;
            if answer["id"] != id || answer.get("method").is_some() {
                continue;
            }
            if answer.get("result").is_none() {
                bail!("{method} failed: {text}");
            }
            let (bytes, result) = (question.len() + text.len(), answer["result"].take());
            return Ok(Reply { asked, heard, bytes, result });
        }
    }
}
