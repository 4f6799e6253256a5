//! Long operations: each has an id, reports its progress, and can be cancelled.
//!
//! `dispatch` runs every long operation through `RunningOperations::follow`, for any caller, waiting or not. With `background` in its
//! input an operation returns its id at once and continues. Cancelling drops its work where it waits: requests already sent
//! to the keeper stay, and a command that it runs is killed.
//! Ended operations are kept for a while, bounded in number, age and size.

mod call;

pub use call::{OperationStep, Outcome, Progress, RunningOperation};

use crate::audit_entry::OpenAuditEntry;
use crate::authority::targets;
use crate::error::{Code, OpError};
use crate::limits::Permit;
use crate::operation::{Context, Effect, Meta};
use crate::redaction::quiet;
use crate::reply::{Form, Reply};
use crate::table::Request;
use proctor_core::time::Wall;
use proctor_engine::api::{EventKind, OperationEvent, OwnerUse};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Input field that asks for a response at once.
pub(crate) const FLAG: &str = "background";

/// Help text and schema description of [`FLAG`].
pub(crate) const FLAG_HELP: &str = "Return an operation id at once and continue in the background";

/// Maximum ended operations kept: a day of a person's work, a few minutes of a script.
const MAX_FINISHED: usize = 256;

/// Maximum age of an ended operation.
const OLDEST_MICROS: i64 = 3600 * 1_000_000;

/// Maximum size of the steps and responses kept.
const MAX_ANSWERS_BYTES: usize = 2 << 20;

/// Response of an operation in the background.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartedOperation {
    /// Id to follow and cancel the operation
    pub operation: String,
}

impl StartedOperation {
    /// Decodes a response that consists of this and nothing else.
    pub(crate) fn of(output: &Value) -> Option<StartedOperation> {
        serde_json::from_value(output.clone()).ok()
    }
}

/// All long operations.
pub struct RunningOperations {
    state: Mutex<State>,
    /// Counter of changes, for waiters.
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    running: Vec<Arc<RunningOperation>>,
    /// Ended operations, oldest first.
    over: VecDeque<Arc<RunningOperation>>,
    answers: usize,
    /// Operations whose changes may still be undone.
    unsettled: Vec<Arc<RunningOperation>>,
    /// Tasks without a waiter; they end with the daemon.
    tasks: JoinSet<()>,
}

/// Held while the changes of a call may still be undone.
pub(crate) struct UnsettledOutcome {
    underway: Arc<RunningOperations>,
    call: Arc<RunningOperation>,
}

impl Drop for UnsettledOutcome {
    fn drop(&mut self) {
        self.underway.state().unsettled.retain(|call| !Arc::ptr_eq(call, &self.call));
        self.underway.touch();
    }
}

impl Default for RunningOperations {
    fn default() -> RunningOperations {
        RunningOperations { state: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

/// An admitted request, and the form of its response.
pub(crate) struct AdmittedRequest {
    pub(crate) request: Request,
    pub(crate) form: Form,
    pub(crate) background: bool,
    /// Held while the operation runs.
    pub(crate) permit: Permit,
    pub(crate) uses: Vec<OwnerUse>,
    /// Audit entry of the operation.
    pub(crate) noted: Option<OpenAuditEntry>,
    /// Secrets of the request, which must not be reported.
    pub(crate) private: Arc<[String]>,
}

/// Takes the flag off an input, if this operation has it.
pub(crate) fn take_flag(meta: &Meta, input: &mut Map<String, Value>) -> Result<bool, OpError> {
    if !meta.goes_on() {
        return Ok(false);
    }
    match input.shift_remove(FLAG) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(_) => Err(OpError::bad_input(format!("{FLAG}: expected true or false"))),
    }
}

impl RunningOperations {
    /// Runs the operation to its end, visible to all. In the background, returns its id at once.
    pub(crate) async fn follow(
        self: &Arc<Self>,
        context: &Context,
        meta: &'static Meta,
        work: AdmittedRequest,
    ) -> Result<Reply, OpError> {
        let changes = targets(context, meta, work.request.about());
        let call =
            RunningOperation::new(meta, work.request.role, &context.caller).changing(changes);
        let call = Arc::new(call);
        let context = Context { call: Some(Arc::clone(&call)), ..context.clone() };
        let seen = ListedOperation::begin(self, &context, call, work.background);
        if !work.background {
            return seen.run(context, work).await;
        }
        let begun = StartedOperation { operation: seen.call.id.clone() };
        let mut reply = Reply::of(&begun, work.form)?;
        reply.background = true;
        let task = async move {
            let (counters, begun) = (Arc::clone(&context.counters), Instant::now());
            let answer = seen.run(context, AdmittedRequest { form: Form::Json, ..work }).await;
            counters.count(meta.name, answer.as_ref().err().map(|e| e.code), begun.elapsed());
        };
        let mut state = self.state();
        while state.tasks.try_join_next().is_some() {}
        state.tasks.spawn(task);
        Ok(reply)
    }

    /// Marks a call whose changes are undone if it is cancelled.
    pub(crate) fn unsettled(self: &Arc<Self>, call: &Arc<RunningOperation>) -> UnsettledOutcome {
        self.state().unsettled.push(Arc::clone(call));
        UnsettledOutcome { underway: Arc::clone(self), call: Arc::clone(call) }
    }

    /// Returns true while the changes of a call may still be undone.
    pub(crate) fn is_unsettled(&self, call: &Arc<RunningOperation>) -> bool {
        self.state().unsettled.iter().any(|other| Arc::ptr_eq(other, call))
    }

    /// Cancels operations whose changes are then undone, and waits for that. Returns false at the timeout.
    pub(crate) async fn settle(&self, within: Duration) -> bool {
        let settled = self.changed(|| {
            let mut unsettled = self.state().unsettled.clone();
            unsettled.retain(|call| call.meta.taken_back);
            unsettled.iter().for_each(|call| call.cancel());
            unsettled.is_empty()
        });
        tokio::time::timeout(within, settled).await.is_ok()
    }

    /// Returns running operations, newest first, then ended ones, newest first.
    pub(crate) fn all(&self) -> Vec<Arc<RunningOperation>> {
        let mut state = self.state();
        state.forget_old(proctor_sys::clock::now().wall);
        let newest = state.running.iter().rev().chain(state.over.iter().rev());
        newest.cloned().collect()
    }

    pub(crate) fn find(&self, id: &str) -> Result<Arc<RunningOperation>, OpError> {
        let found = self.all().into_iter().find(|call| call.id == id);
        found.ok_or_else(|| {
            OpError::new(Code::NotFound, format!("no operation '{id}'"))
                .help("`proctor operation list` shows running and recently ended operations")
                .details(json!({ "operation": id }))
        })
    }

    /// Waits until `look` returns true, and checks it after every change.
    pub(crate) async fn changed(&self, mut look: impl FnMut() -> bool) {
        let mut changes = self.changes.subscribe();
        while !look() {
            // The sender lives in here, so the channel stays open.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn touch(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the operations")
    }

    fn ended(&self, call: &Arc<RunningOperation>, keep: bool) {
        let mut state = self.state();
        state.running.retain(|running| !Arc::ptr_eq(running, call));
        if keep {
            state.answers += call.bytes();
            state.over.push_back(Arc::clone(call));
        }
        state.forget_old(proctor_sys::clock::now().wall);
        drop(state);
        self.touch();
    }
}

impl State {
    fn forget_old(&mut self, now: Wall) {
        while let Some(oldest) = self.over.front() {
            let old =
                oldest.ended().is_some_and(|ended| now.0.saturating_sub(ended.0) > OLDEST_MICROS);
            if !old && self.over.len() <= MAX_FINISHED && self.answers <= MAX_ANSWERS_BYTES {
                return;
            }
            self.answers -= oldest.bytes();
            self.over.pop_front();
        }
    }
}

/// A listed call. If it is dropped before its end, it counts as cancelled.
struct ListedOperation {
    underway: Arc<RunningOperations>,
    call: Arc<RunningOperation>,
    engine: proctor_engine::api::Engine,
    background: bool,
}

impl ListedOperation {
    fn begin(
        underway: &Arc<RunningOperations>,
        context: &Context,
        call: Arc<RunningOperation>,
        background: bool,
    ) -> ListedOperation {
        underway.state().running.push(Arc::clone(&call));
        underway.touch();
        let seen = ListedOperation {
            underway: Arc::clone(underway),
            call,
            engine: context.engine.clone(),
            background,
        };
        seen.tell("started");
        seen
    }

    async fn run(self, context: Context, work: AdmittedRequest) -> Result<Reply, OpError> {
        let AdmittedRequest { request, form, permit, uses, noted, private, .. } = work;
        let meta = self.call.meta;
        let answer = tokio::select! {
            biased;
            () = self.call.cancelled() => Err(cancelled(meta)),
            answer = tokio::time::timeout(meta.timeout, request.run(&context, form)) => match answer {
                Ok(answer) => answer,
                Err(_) => Err(late(meta)),
            },
        };
        if let Some(noted) = noted {
            noted.end(&context, &answer).await;
        }
        drop((permit, uses));
        // The error is kept and visible to other callers.
        let answer = answer.map_err(|error| quiet(error, &private));
        self.call.end(&answer, self.background);
        answer
    }

    /// Reads make no events.
    fn tell(&self, what: &'static str) {
        if self.call.meta.effect != Effect::Read {
            let (id, operation) = (self.call.id.clone(), self.call.meta.name);
            let news = Box::new(OperationEvent { id, operation, what });
            self.engine.happened(EventKind::Operation(news));
        }
    }
}

impl Drop for ListedOperation {
    fn drop(&mut self) {
        let outcome = self.call.give_up(|| cancelled(self.call.meta));
        // An ended long poll is of no interest.
        let keep = self.background || self.call.meta.effect != Effect::Read;
        self.underway.ended(&self.call, keep);
        self.tell(outcome.as_str());
    }
}

/// Returns the timeout error of an operation that cannot be followed.
pub(crate) fn late(meta: &Meta) -> OpError {
    let (name, seconds) = (meta.name, meta.timeout.as_secs());
    OpError::new(Code::Timeout, format!("{name} took longer than {seconds} s"))
}

fn cancelled(meta: &Meta) -> OpError {
    OpError::new(Code::Cancelled, format!("{} was cancelled", meta.name))
        .help("requests already sent to services continue; check them with `proctor status`")
}

impl crate::text_output::Show for StartedOperation {
    fn show(&self, page: &mut crate::text_output::Page) {
        let id = &self.operation;
        page.line().plain("operation ").name(id).plain(" continues in the background");
        page.line().dim(format!("  see its result with `proctor operation status {id} --wait`"));
    }
}

#[cfg(test)]
mod tests;
