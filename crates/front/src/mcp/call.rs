//! One call of a tool, from its arguments to its result.
//!
//! Clients have a timeout of a minute, so no call takes longer: a wait is cut short and can be repeated, and a long operation
//! continues in the background, followed by its id. A client that supports tasks waits as long as it likes.

use super::assistant::SharedState;
use super::operation_caller::{Answer, RequestCaller, entry};
use super::project::Project;
use super::tool_reply::Outcome;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::Effect;
use proctor_ops::tools::Tool;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Map, Value, json};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum duration of a call. Clients wait for a minute.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(50);

/// Default wait in seconds.
const USUAL_WAIT: f64 = 45.0;

/// Interval between progress reports, for clients that want them.
const TICK: Duration = Duration::from_secs(5);

/// Input fields with the length of a wait.
const WAITS: [&str; 2] = ["wait", "timeout"];

pub(super) struct ToolCall {
    pub(super) house: Arc<SharedState>,
    pub(super) tool: &'static Tool,
    pub(super) speaker: RequestCaller,
    pub(super) input: Map<String, Value>,
    /// Folders of the conversation, if it is on this machine.
    pub(super) project: Option<Project>,
    pub(super) progress: Option<Progress>,
    /// Maximum duration; `None` for no limit.
    pub(super) patience: Option<Duration>,
    /// Completes when the client cancels the call.
    pub(super) told_to_stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// Receiver of progress reports.
pub(super) struct Progress {
    pub(super) peer: Peer<RoleServer>,
    pub(super) token: ProgressToken,
    pub(super) said: u32,
}

impl Progress {
    async fn say(&mut self, text: String) {
        self.said += 1;
        let said = ProgressNotificationParam::new(self.token.clone(), f64::from(self.said));
        // If the client is gone, the call ends for other reasons.
        let _ = self.peer.notify_progress(said.with_message(text)).await;
    }
}

impl ToolCall {
    /// Performs the call. Dropping it ends a wait; a change continues, unless the client cancels it.
    pub(super) async fn run(mut self) -> Result<Outcome, OpError> {
        let meta = &self.tool.entry().meta;
        if self.house.here {
            let mut input = Value::Object(std::mem::take(&mut self.input));
            crate::cli::fill_caller(meta, &mut input);
            if let Value::Object(filled) = input {
                self.input = filled;
            }
            if let Some(project) = &self.project {
                project.fill(meta, &mut self.input);
            }
        }
        if meta.goes_on() {
            return self.follow().await;
        }
        let mut told = std::mem::replace(&mut self.told_to_stop, Box::pin(std::future::pending()));
        tokio::select! {
            biased;
            () = &mut told => Err(self.cancelled()),
            answer = self.look() => answer,
        }
    }

    /// Performs a read; dropping it leaves nothing behind.
    async fn look(&mut self) -> Result<Outcome, OpError> {
        if self.tool.operation == "service.wait" {
            return self.wait().await;
        }
        self.hurry();
        let input = Value::Object(std::mem::take(&mut self.input));
        self.ask(self.tool.operation, input).await.map(Outcome::Done)
    }

    fn cancelled(&self) -> OpError {
        OpError::new(Code::Cancelled, format!("{} was cancelled", self.tool.name))
    }

    fn ask(&self, operation: &str, input: Value) -> Answer {
        match entry(operation) {
            Ok(entry) => self.house.door.call(&self.speaker, entry, input),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    /// Limits the wait to the client's timeout.
    fn hurry(&mut self) {
        let Some(patience) = self.patience else { return };
        for field in WAITS {
            if let Some(seconds) = self.input.get(field).and_then(Value::as_f64)
                && seconds > patience.as_secs_f64()
            {
                self.input.insert(field.into(), json!(patience.as_secs_f64()));
            }
        }
    }

    /// Polls only if the client wants progress; otherwise waits once.
    async fn wait(&mut self) -> Result<Outcome, OpError> {
        self.input.entry("timeout").or_insert(json!(USUAL_WAIT));
        self.hurry();
        let seconds = self.input.get("timeout").and_then(Value::as_f64).unwrap_or(USUAL_WAIT);
        let whole = Duration::try_from_secs_f64(seconds).unwrap_or(CALL_TIMEOUT);
        let deadline = Instant::now() + whole;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.progress.is_some() {
                self.input.insert("timeout".into(), json!(left.min(TICK).as_secs_f64()));
            }
            let answer = self.ask("service.wait", Value::Object(self.input.clone())).await?;
            let over = answer["reached"] == true || answer["hopeless"] == true || left <= TICK;
            match &mut self.progress {
                Some(progress) if !over => progress.say(states(&answer)).await,
                Some(_) | None => return Ok(Outcome::Done(answer)),
            }
        }
    }

    /// Starts the operation in the background, and follows it within the maximum duration.
    async fn follow(mut self) -> Result<Outcome, OpError> {
        let mut input = std::mem::take(&mut self.input);
        input.insert("background".into(), json!(true));
        let input = Value::Object(input);
        let begun = match self.ask(self.tool.operation, input.clone()).await {
            // An idempotent call is repeated at the next daemon.
            Err(error) if error.code == Code::ConnectionLost && self.tool.idempotent => {
                self.ask(self.tool.operation, input).await?
            }
            begun => begun?,
        };
        let Some(operation) = begun["operation"].as_str().map(ToOwned::to_owned) else {
            return Ok(Outcome::Done(begun));
        };
        let mut told = std::mem::replace(&mut self.told_to_stop, Box::pin(std::future::pending()));
        let followed = tokio::select! {
            biased;
            () = &mut told => None,
            followed = self.until_end(&operation) => Some(followed),
        };
        match followed {
            Some(followed) => followed,
            None => {
                // An operation that has ended needs no cancelling.
                let _ = self.ask("operation.cancel", json!({ "operation": operation })).await;
                Err(self.cancelled())
            }
        }
    }

    async fn until_end(&mut self, operation: &str) -> Result<Outcome, OpError> {
        let deadline = self.patience.map(|patience| Instant::now() + patience);
        let mut seen = 0;
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let wait = left.unwrap_or(CALL_TIMEOUT).as_secs_f64();
            let mut input = json!({ "operation": operation, "wait": wait });
            if self.progress.is_some() {
                input["seen"] = json!(seen);
            }
            let status = match self.ask("operation.status", input).await {
                // The operation ended with its daemon.
                Err(error) if error.code == Code::NotFound => return Err(lost(operation)),
                status => status?,
            };
            if status["state"] != "running" {
                return ended(operation, status);
            }
            let steps = status["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(progress) = &mut self.progress {
                for step in steps.iter().skip(seen).filter_map(|step| step["text"].as_str()) {
                    progress.say(step.to_owned()).await;
                }
            }
            seen = steps.len();
            if deadline.is_some_and(|at| Instant::now() >= at) {
                return Ok(Outcome::GoesOn { operation: operation.to_owned() });
            }
        }
    }
}

fn ended(operation: &str, mut status: Value) -> Result<Outcome, OpError> {
    match (status["result"].take(), &status["error"]) {
        (Value::Null, Value::Object(error)) => {
            let text = |field| error.get(field).and_then(Value::as_str).map(ToOwned::to_owned);
            let code = Code::from(text("code").unwrap_or_default());
            let mut error = OpError::new(code, text("message").unwrap_or_default());
            error.help = text("help");
            Err(error)
        }
        (Value::Null, _) => Err(lost(operation)),
        (result, _) => Ok(Outcome::Done(result)),
    }
}

fn lost(operation: &str) -> OpError {
    OpError::new(Code::Failed, format!("the result of operation {operation} is not known"))
        .help("check the processes with get_process_status")
}

/// Formats as `web is starting, db is running`.
fn states(answer: &Value) -> String {
    let services = answer["services"].as_array().map(Vec::as_slice).unwrap_or_default();
    let state = |service: &Value| {
        let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
        format!("{} is {}", text("name"), text("state"))
    };
    services.iter().take(5).map(state).collect::<Vec<_>>().join(", ")
}

/// Returns true if the tool may take longer than a client waits.
pub(super) fn is_slow(tool: &Tool) -> bool {
    let meta = &tool.entry().meta;
    meta.goes_on() || (meta.follows && meta.effect == Effect::Read)
}
