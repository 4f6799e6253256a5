//! Calls that continue as tasks of the protocol, for clients that support them. Each belongs to its caller.

use super::operation_caller::RequestCaller;
use rmcp::model::{CallToolResult, ErrorData, GetTaskResult, Task};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use tokio::sync::oneshot;

/// Maximum tasks, including ended ones that are still kept. Each holds its response.
const MAX_TASKS: usize = 256;

pub(super) type Work = Pin<Box<dyn Future<Output = Result<CallToolResult, ErrorData>> + Send>>;

#[derive(Default)]
pub(super) struct Tasks {
    manager: TaskManager,
    owners: Mutex<HashMap<String, String>>,
}

/// Returns the owner of a task: the token or the user, not the program, whose name is not verified.
fn owner(speaker: &RequestCaller) -> String {
    speaker.caller.as_ref().map(|caller| format!("{:?}", caller.principal)).unwrap_or_default()
}

/// Returns the end of a task. A cancelled task that did not finish is `cancelled`, not a completed error.
fn ended(
    result: Result<CallToolResult, ErrorData>,
    cancelled: bool,
) -> Result<CallToolResult, TaskExit> {
    match result {
        Ok(result) if cancelled && result.is_error == Some(true) => Err(TaskExit::Cancelled),
        Ok(result) => Ok(result),
        Err(_) if cancelled => Err(TaskExit::Cancelled),
        Err(error) => Err(TaskExit::Error(error)),
    }
}

impl Tasks {
    /// Starts a task. `stop` is dropped when the client cancels it.
    pub(super) fn begin(
        &self,
        speaker: &RequestCaller,
        what: &str,
        work: Work,
        stop: oneshot::Sender<()>,
    ) -> Task {
        let options = TaskOptions::new().with_status_message(what);
        let task = self.manager.spawn(options, |context| {
            Box::pin(async move {
                let (mut work, mut stop) = (work, Some(stop));
                loop {
                    tokio::select! {
                        result = &mut work => {
                            return ended(result, context.is_cancel_requested());
                        }
                        () = context.cancelled(), if stop.is_some() => drop(stop.take()),
                    }
                }
            })
        });
        let mut owners = self.owners();
        if owners.len() >= MAX_TASKS {
            owners.retain(|id, _| self.manager.get_task(id).is_ok());
        }
        owners.insert(task.task_id.clone(), owner(speaker));
        task
    }

    /// Returns true if no further task can start.
    pub(super) fn is_full(&self) -> bool {
        self.manager.running_task_count() >= MAX_TASKS
    }

    pub(super) fn get(
        &self,
        speaker: &RequestCaller,
        id: &str,
    ) -> Result<GetTaskResult, ErrorData> {
        self.check(speaker, id)?;
        self.manager.get_task(id).map(GetTaskResult::new)
    }

    pub(super) fn cancel(&self, speaker: &RequestCaller, id: &str) -> Result<(), ErrorData> {
        self.check(speaker, id)?;
        self.manager.cancel_task(id)
    }

    /// Checks the owner; a foreign task looks like a missing one.
    fn check(&self, speaker: &RequestCaller, id: &str) -> Result<(), ErrorData> {
        match self.owners().get(id) {
            Some(whose) if *whose == owner(speaker) => Ok(()),
            Some(_) | None => Err(ErrorData::invalid_params(format!("unknown task '{id}'"), None)),
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.owners.lock().expect("nothing panics in between")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::ContentBlock;

    #[test]
    fn a_task_that_was_cancelled_ends_as_cancelled() {
        let error =
            || Ok(CallToolResult::error(vec![ContentBlock::text("run_command was cancelled")]));
        let done = || Ok(CallToolResult::success(vec![ContentBlock::text("done")]));
        assert!(matches!(ended(error(), true), Err(TaskExit::Cancelled)));
        assert!(ended(error(), false).is_ok(), "an error of the tool is a result");
        assert!(ended(done(), true).is_ok(), "it was done before it heard of it");
        let broken = Err(ErrorData::internal_error("x", None));
        assert!(matches!(ended(broken, false), Err(TaskExit::Error(_))));
    }
}
