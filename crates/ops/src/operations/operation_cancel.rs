//! `operation.cancel`: end an operation where it is.

use super::operation_status::OperationStatus;
use crate::authority::{authorise, may_cancel};
use crate::error::{Code, OpError};
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::show::{Page, Show, Style};
use crate::underway::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Its work is dropped where it waits, which is at once; a command that it runs is killed first.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// What is taken back then takes a restart of a service. Longer than this nobody waits for one answer.
const RESTORED_WITHIN: Duration = Duration::from_secs(20);

pub struct OperationCancel;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The id that was answered when it began
    #[arg(value_name = "ID")]
    pub operation: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// It was under way and is not any more because of this request
    pub cancelled: bool,
    /// What stays as it is
    pub message: String,
    /// What it had changed is still being taken back
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restoring: bool,
    /// What could not be taken back
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
        summary: "Cancel an operation that is under way",
        details: "\
A command that it runs is killed with everything it started. What services were already asked to do goes on: Proctor \
does not undo half a restart. Only `proctor change` is taken back, files and service.

Examples:
  proctor operation cancel 1f0c93aa",
        launches: false,
        ..Meta::of("operation.cancel", Effect::Write, Target::Operation).at(Method::Post, "/operations/{id}/cancel", "operation")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let call = context.underway.find(&input.operation)?;
        // To end something takes what it takes to begin it, and changes what it is about.
        authorise(context, call.meta, call.role)?;
        may_cancel(context, &call)?;
        let under_way = !call.is_over();
        let unsettled = context.underway.is_unsettled(&call);
        call.cancel();
        let over = context.underway.changed(|| call.is_over());
        if tokio::time::timeout(ENDS_WITHIN, over).await.is_err() {
            return Err(OpError::new(Code::Timeout, "it has not ended yet"));
        }
        let settled = context.underway.changed(|| !context.underway.is_unsettled(&call));
        let restoring = tokio::time::timeout(RESTORED_WITHIN, settled).await.is_err();
        let (status, left) = (OperationStatus::brief(&call), call.progress().left);
        let cancelled = under_way && status.state == Outcome::Cancelled;
        let message = match cancelled {
            _ if !call.meta.taken_back && restoring => {
                "cancelled; it has not come to its end yet".to_owned()
            }
            true if call.meta.attended && !call.meta.taken_back => match left.is_empty() {
                true => "cancelled; what was done by then stays".to_owned(),
                false => format!("cancelled; {}", left.join("; ")),
            },
            _ if restoring => "cancelled; what it had changed is being taken back".to_owned(),
            _ if unsettled && !left.is_empty() => {
                "cancelled; not all of it could be taken back".to_owned()
            }
            _ if unsettled => "cancelled; what it had changed is taken back".to_owned(),
            true => "cancelled; what services were asked to do by then goes on".to_owned(),
            false => format!("it was over already: {}", status.state.as_str()),
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
