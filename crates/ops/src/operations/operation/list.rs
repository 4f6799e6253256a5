//! `operation.list`: lists running and recent operations.

use super::status::OperationStatus;
use crate::error::OpError;
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::running_operations::Outcome;
use crate::text_output::{Column, Fit, Page, Show, Span, Style, Table};
use crate::timestamps::span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct OperationList;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Only running operations
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub running: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Running operations, newest first; then ended ones, newest first
    pub operations: Vec<OperationStatus>,
}

impl Operation for OperationList {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["operation", "list"],
        summary: "Show long operations: running and recently ended ones",
        details: "\
Starts, stops, restarts, commands and waits of all callers are listed. Ended operations are kept for an hour, \
at most 256, and until the daemon ends.

Examples:
  proctor operation list
  proctor operation list --running --json",
        launches: false,
        ..Meta::of("operation.list", Effect::Read, Target::Nothing).at(Method::Get, "/operations", "")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let all = context.underway.all().into_iter();
        let wanted = all.filter(|call| !input.running || !call.is_over());
        Ok(Output { operations: wanted.map(|call| OperationStatus::brief(&call)).collect() })
    }
}

pub(super) fn style(state: Outcome) -> Style {
    match state {
        Outcome::Running => Style::Plain,
        Outcome::Succeeded => Style::Good,
        Outcome::Failed => Style::Bad,
        Outcome::Cancelled => Style::Warn,
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        if self.operations.is_empty() {
            page.remark("no operations");
            return;
        }
        let mut table = Table::new(&[
            Column::new("ID", Fit::Keep),
            Column::new("OPERATION", Fit::Keep),
            Column::new("STATE", Fit::Keep),
            Column::number("TOOK", Fit::Drop(1)),
            Column::new("BY", Fit::Drop(2)),
            Column::new("LAST STEP", Fit::Shrink(12)),
        ]);
        for one in &self.operations {
            let step = one.steps.last().map_or("", |step| step.text.as_str());
            table.row([
                Span::new(Style::Name, &one.operation),
                Span::new(Style::Plain, &one.name),
                Span::new(style(one.state), one.state.as_str()),
                Span::new(Style::Plain, span(one.seconds)),
                Span::new(Style::Dim, &one.by),
                Span::new(Style::Dim, step),
            ]);
        }
        page.table(table);
    }
}
