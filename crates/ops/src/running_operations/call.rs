//! An operation in flight or ended: its name, its caller, its progress and its result.

use crate::error::{Code, OpError};
use crate::operation::{Caller, Meta, Role};
use crate::reply::Reply;
use proctor_core::access::ClientName;
use proctor_core::name::ServiceName;
use proctor_core::text::beginning;
use proctor_core::time::Wall;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Maximum steps kept of one operation; the oldest are dropped first.
const MAX_STEPS: usize = 64;

/// Maximum reported changes that could not be undone: the files of one change.
const MAX_LEFT_PROCESSES: usize = 20;

/// Maximum characters of a step or a message; enough for a command line.
const MAX_STEP_BYTES: usize = 4 << 10;

/// Maximum size of a kept response. For a longer one the caller has to wait.
const MAX_ANSWER_BYTES: usize = 512 << 10;

/// An operation.
pub struct RunningOperation {
    /// Id of eight hexadecimal digits.
    pub id: String,
    pub(crate) meta: &'static Meta,
    /// Role that may see the response.
    pub(crate) role: Role,
    pub(crate) by: String,
    /// Assistant that started it, if it was one with a name.
    pub(crate) client: Option<ClientName>,
    /// Services that the operation changes.
    pub(crate) changes: Vec<ServiceName>,
    pub(crate) begun: Wall,
    progress: Mutex<Progress>,
    cancelling: AtomicBool,
    cancel: Notify,
}

/// Progress of an operation.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    pub steps: VecDeque<OperationStep>,
    /// `None` while it runs.
    pub end: Option<OperationEnd>,
    /// Changes that remain although it was cancelled.
    pub left: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OperationEnd {
    pub at: Wall,
    pub outcome: Outcome,
    pub error: Option<OpError>,
    /// Code if the requested state was not reached.
    pub verdict: Option<Code>,
    /// Response as JSON, if it ran in the background.
    pub answer: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStep {
    pub at: Wall,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Running => "running",
            Outcome::Succeeded => "succeeded",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

impl RunningOperation {
    pub(crate) fn new(meta: &'static Meta, role: Role, caller: &Caller) -> RunningOperation {
        RunningOperation {
            id: format!("{:08x}", u32::from_ne_bytes(proctor_sys::random::bytes())),
            meta,
            role,
            by: match &caller.client {
                Some(client) => format!("{}, {client}", caller.principal),
                None => format!("{}, {}", caller.principal, caller.front.as_str()),
            },
            client: caller.client.clone(),
            changes: Vec::new(),
            begun: proctor_sys::clock::now().wall,
            progress: Mutex::default(),
            cancelling: AtomicBool::new(false),
            cancel: Notify::new(),
        }
    }

    pub(crate) fn changing(self, changes: Vec<ServiceName>) -> RunningOperation {
        RunningOperation { changes, ..self }
    }

    /// Returns the current progress.
    pub(crate) fn progress(&self) -> Progress {
        self.lock().clone()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().end.is_some()
    }

    pub(crate) fn ended(&self) -> Option<Wall> {
        self.lock().end.as_ref().map(|end| end.at)
    }

    pub(crate) fn steps(&self) -> usize {
        self.lock().steps.len()
    }

    /// Adds a step.
    pub(crate) fn say(&self, text: &str) {
        let (at, text) =
            (proctor_sys::clock::now().wall, beginning(text, MAX_STEP_BYTES).into_owned());
        let mut progress = self.lock();
        if progress.end.is_some() {
            return;
        }
        progress.steps.push_back(OperationStep { at, text });
        if progress.steps.len() > MAX_STEPS {
            progress.steps.pop_front();
        }
    }

    /// Records changes that could not be undone, possibly after the end.
    pub(crate) fn leave(&self, left: &[String]) {
        let told = left.iter().take(MAX_LEFT_PROCESSES).map(|text| beginning(text, MAX_STEP_BYTES));
        self.lock().left = told.map(|text| text.into_owned()).collect();
    }

    /// Asks the operation to end.
    pub(crate) fn cancel(&self) {
        self.cancelling.store(true, Ordering::Relaxed);
        self.cancel.notify_one();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelling.load(Ordering::Relaxed)
    }

    pub(crate) async fn cancelled(&self) {
        while !self.is_cancelled() {
            self.cancel.notified().await;
        }
    }

    /// Ends the operation with this response.
    pub(crate) fn end(&self, answer: &Result<Reply, OpError>, keep: bool) {
        self.end_at(proctor_sys::clock::now().wall, answer, keep);
    }

    pub(super) fn end_at(&self, at: Wall, answer: &Result<Reply, OpError>, keep: bool) {
        let end = match answer {
            Ok(reply) => {
                let good = reply.verdict.is_none();
                let outcome = if good { Outcome::Succeeded } else { Outcome::Failed };
                let kept = keep && reply.text.len() <= MAX_ANSWER_BYTES;
                let answer = kept.then(|| reply.text.as_str().into());
                OperationEnd { at, outcome, error: None, verdict: reply.verdict, answer }
            }
            Err(error) => {
                let cancelled = error.code == Code::Cancelled;
                let outcome = if cancelled { Outcome::Cancelled } else { Outcome::Failed };
                let error = Some(kept(error));
                OperationEnd { at, outcome, error, verdict: None, answer: None }
            }
        };
        self.lock().end = Some(end);
    }

    /// Ends an abandoned operation with this error, unless it has ended before. Returns its outcome.
    pub(crate) fn give_up(&self, error: impl FnOnce() -> OpError) -> Outcome {
        let outcome = self.lock().end.as_ref().map(|end| end.outcome);
        outcome.unwrap_or_else(|| {
            self.end(&Err(error()), false);
            Outcome::Cancelled
        })
    }

    /// Returns the size of the data kept after the end.
    pub(crate) fn bytes(&self) -> usize {
        let progress = self.lock();
        let steps: usize = progress.steps.iter().map(|step| step.text.len()).sum();
        let end = progress.end.as_ref();
        let answer = end.and_then(|end| end.answer.as_ref()).map_or(0, |answer| answer.len());
        steps + answer + end.and_then(|end| end.error.as_ref()).map_or(0, error_bytes)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("nothing panics while it holds the progress")
    }
}

/// Returns the error without details that exceed the maximum of a response.
fn kept(error: &OpError) -> OpError {
    let mut error = error.clone();
    if error_bytes(&error) > MAX_ANSWER_BYTES {
        error.details = None;
    }
    OpError {
        message: beginning(&error.message, MAX_STEP_BYTES).into_owned(),
        help: error.help.as_deref().map(|help| beginning(help, MAX_STEP_BYTES).into_owned()),
        ..error
    }
}

fn error_bytes(error: &OpError) -> usize {
    let details = error.details.as_ref().map_or(0, |details| details.to_string().len());
    error.message.len() + error.help.as_ref().map_or(0, String::len) + details
}
