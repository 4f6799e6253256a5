//! `operation.cancel`: cancels an operation in flight.

use super::status::OperationStatus;
use crate::authority::{authorise, may_cancel};
use crate::error::{Code, OpError};
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::running_operations::Outcome;
use crate::text_output::{Page, Show, Style};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Timeout for the end of an operation. Its work is dropped at once; a command that it runs is killed first.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for undoing changes, which takes a restart of a service.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(20);

pub struct OperationCancel;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Id of the operation, as returned when it started
    #[arg(value_name = "ID")]
    pub operation: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// This request cancelled the operation
    pub cancelled: bool,
    /// Explanation of the effects that remain
    pub message: String,
    /// Its changes are still being undone
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restoring: bool,
    /// Changes that could not be undone
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    #[serde(flatten)]
    pub status: OperationStatus,
}

impl Operation for OperationCancel {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["operation", "cancel"],
        summary: "Cancel a running operation",
        details: "\
A command that it runs is killed with all its processes. Requests already sent to services continue: Proctor \
does not undo half a restart. Only `proctor change` is undone: files and service are restored.

Examples:
  proctor operation cancel 1f0c93aa",
        launches: false,
        ..Meta::of("operation.cancel", Effect::Write, Target::Operation).at(Method::Post, "/operations/{id}/cancel", "operation")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let call = context.underway.find(&input.operation)?;
        // Cancelling an operation takes the same rights as starting it, and changes the same targets.
        authorise(context, call.meta, call.role)?;
        may_cancel(context, &call)?;
        let under_way = !call.is_over();
        let unsettled = context.underway.is_unsettled(&call);
        call.cancel();
        let over = context.underway.changed(|| call.is_over());
        if tokio::time::timeout(CANCEL_TIMEOUT, over).await.is_err() {
            return Err(OpError::new(Code::Timeout, "the operation has not ended yet"));
        }
        let settled = context.underway.changed(|| !context.underway.is_unsettled(&call));
        let restoring = tokio::time::timeout(RESTORE_TIMEOUT, settled).await.is_err();
        let (status, left) = (OperationStatus::brief(&call), call.progress().left);
        let cancelled = under_way && status.state == Outcome::Cancelled;
        let message = match cancelled {
            _ if !call.meta.taken_back && restoring => {
                "cancelled; the operation has not ended yet".to_owned()
            }
            true if call.meta.attended && !call.meta.taken_back => match left.is_empty() {
                true => "cancelled; changes made before are kept".to_owned(),
                false => format!("cancelled; {}", left.join("; ")),
            },
            _ if restoring => "cancelled; its changes are being undone".to_owned(),
            _ if unsettled && !left.is_empty() => {
                "cancelled; not all of its changes could be undone".to_owned()
            }
            _ if unsettled => "cancelled; its changes are undone".to_owned(),
            true => "cancelled; requests already sent to services continue".to_owned(),
            false => format!("the operation had already ended: {}", status.state.as_str()),
        };
        Ok(Output { cancelled, message, restoring, left, status })
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let style = if self.cancelled { Style::Plain } else { Style::Dim };
        let Output { status, message, .. } = self;
        page.line()
            .name(&status.operation)
            .plain(format!(" {}: ", status.name))
            .add(style, message);
        for left in &self.left {
            page.line().add(Style::Warn, format!("  {left}"));
        }
    }
}
