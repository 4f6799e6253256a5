//! The client side of `proctor mcp`: one conversation over stdin and stdout, line by line.

use crate::Home;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Timeout of any response.
const LIMIT: Duration = Duration::from_secs(90);

/// One conversation. Dropping it kills its process.
pub struct Conversation {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    next: u64,
    /// The client's own roots, as URIs.
    pub roots: Vec<String>,
    /// Messages that were not responses.
    pub notifications: Vec<Value>,
}

/// The result of a tool call.
#[derive(Debug, Clone)]
pub struct ToolReply {
    pub text: String,
    /// The structured result, or `_meta` if the content is text.
    pub facts: Value,
    /// Whether a structured result was sent.
    pub is_structured: bool,
    pub is_error: bool,
    /// Images beside the text, as sent.
    pub pictures: Vec<Value>,
    /// Size of the whole response.
    pub bytes: usize,
}

impl Conversation {
    /// Starts a conversation with the handshake of most clients, as a client of this name.
    #[track_caller]
    pub fn begin(home: &Home, client: &str) -> Conversation {
        Conversation::begin_with(home, client, &[])
    }

    /// Like [`Conversation::begin`], with these words after `proctor mcp`.
    #[track_caller]
    pub fn begin_with(home: &Home, client: &str, words: &[&str]) -> Conversation {
        let mut conversation = Conversation::silent(home, words);
        conversation.shake_hands(client, json!({}));
        conversation
    }

    /// Starts a conversation of a client in this folder with these capabilities.
    #[track_caller]
    pub fn begin_in(home: &Home, folder: &Path, capabilities: Value) -> Conversation {
        let mut conversation = Conversation::silent_in(home, folder, &[]);
        conversation.shake_hands("test", capabilities);
        conversation
    }

    #[track_caller]
    fn shake_hands(&mut self, client: &str, capabilities: Value) {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": client, "version": "1" },
        });
        self.ask("initialize", params);
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    /// Starts a process without sending anything. The client's folder is the project `app` if the
    /// home has one.
    #[track_caller]
    pub fn silent(home: &Home, words: &[&str]) -> Conversation {
        let project = home.path().join("app");
        let folder = if project.is_dir() { &*project } else { home.path() };
        Conversation::silent_in(home, folder, words)
    }

    #[track_caller]
    fn silent_in(home: &Home, folder: &Path, words: &[&str]) -> Conversation {
        let mut command = home.command(["mcp"].iter().chain(words));
        command.current_dir(folder);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("proctor can be run");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (said, lines) = channel();
        let mut stdout = BufReader::new(stdout.expect("it is a pipe"));
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|count| count > 0) {
                let value = serde_json::from_str(&line);
                let value = value.unwrap_or_else(|why| panic!("not JSON ({why}): {line}"));
                if said.send(value).is_err() {
                    return;
                }
                line.clear();
            }
        });
        Conversation { child, stdin, lines, next: 0, roots: Vec::new(), notifications: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a message unchanged.
    #[track_caller]
    pub fn say(&mut self, message: &Value) {
        self.say_bytes(format!("{message}\n").as_bytes());
    }

    #[track_caller]
    pub fn say_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("it was not ended yet");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("it reads what is said");
    }

    /// The next message, if one arrives in time.
    pub fn heard(&mut self, within: Duration) -> Option<Value> {
        self.lines.recv_timeout(within).ok()
    }

    /// Sends a request; [`Conversation::answer`] returns its response.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The response to a request.
    #[track_caller]
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.heard(LIMIT);
            let message = message.unwrap_or_else(|| panic!("no answer to request {id}"));
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            if message["method"] == "roots/list" {
                let roots: Vec<Value> =
                    self.roots.iter().map(|uri| json!({ "uri": uri })).collect();
                let result = json!({ "roots": roots });
                self.say(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
                continue;
            }
            self.notifications.push(message);
        }
    }

    /// Sends a request and returns its result; panics on a protocol error.
    #[track_caller]
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let mut answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer:#}");
        answer["result"].take()
    }

    /// Calls a tool, whatever its result.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> ToolReply {
        let result = self.ask("tools/call", json!({ "name": tool, "arguments": arguments }));
        ToolReply::of(&result)
    }

    /// Calls a tool that must succeed.
    #[track_caller]
    pub fn ok(&mut self, tool: &str, arguments: Value) -> ToolReply {
        let told = self.call(tool, arguments.clone());
        assert!(!told.is_error, "{tool} {arguments}: {told:#?}");
        told
    }

    /// Closes its input and waits for its exit.
    #[track_caller]
    pub fn end(mut self) -> ExitStatus {
        drop(self.stdin.take());
        while self.heard(LIMIT).is_some() {}
        self.child.wait().expect("it is our child")
    }
}

impl ToolReply {
    pub fn of(result: &Value) -> ToolReply {
        let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        let structured = result.get("structuredContent");
        let facts = structured.or_else(|| result["_meta"].get("proctor/facts"));
        ToolReply {
            text,
            facts: facts.cloned().unwrap_or_default(),
            is_structured: structured.is_some(),
            is_error: result["isError"] == true,
            pictures: blocks.iter().filter(|block| block["type"] == "image").cloned().collect(),
            bytes: result.to_string().len(),
        }
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        // It may already have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
