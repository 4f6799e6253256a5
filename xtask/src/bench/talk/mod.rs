//! One conversation with an MCP server, as an assistant's program has it: whoever asks waits for the answer.
//!
//! Only what measurements need. The clock runs from before the question is sent until the answer is there as text; neither is
//! looked into meanwhile.

pub(super) mod http;
pub(super) mod pipe;

use super::clock::{Nanoseconds, now};
use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use std::time::Duration;

/// Without an answer for so long a server counts as broken, not as slow.
const SILENCE: Duration = Duration::from_secs(60);

/// The revision that all of them speak.
const REVISION: &str = "2025-06-18";

/// How messages get there and back.
pub(crate) trait Wire {
    fn say(&mut self, message: &str) -> Result<()>;

    /// The next message of the other side.
    fn hear(&mut self) -> Result<String>;
}

pub(crate) struct Conversation<W> {
    pub(crate) wire: W,
    next: u64,
    /// What the server said of itself, as text.
    pub(crate) welcome: Reply,
}

/// An answer, and what it took.
pub(crate) struct Reply {
    pub(crate) asked: Nanoseconds,
    pub(crate) heard: Nanoseconds,
    /// Of the question and the answer, whole messages.
    pub(crate) bytes: usize,
    pub(crate) result: Value,
}

impl Reply {
    pub(crate) fn time(&self) -> Nanoseconds {
        self.heard - self.asked
    }
}

impl<W: Wire> Conversation<W> {
    /// Begun with the handshake of most clients.
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
