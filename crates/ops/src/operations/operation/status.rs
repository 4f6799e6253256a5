//! `operation.status`: shows the progress or the result of an operation, with a long poll.

use super::list::style;
use crate::authority::has_role;
use crate::error::{Code, OpError};
use crate::input::seconds_of;
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::running_operations::{Outcome, RunningOperation};
use crate::text_output::{Page, Show, Style};
use crate::timestamps::{rfc3339, seconds_between, span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub struct Status;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// Id of the operation, as returned when it started
    #[arg(value_name = "ID")]
    pub operation: String,
    /// Seconds to wait for its end; an hour if no number is given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "3600")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// Also return as soon as it has more steps than this
    #[arg(long, hide = true)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<usize>,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationStatus {
    /// Id of the operation
    pub operation: String,
    /// Name of the operation: `service.restart`
    pub name: String,
    pub state: Outcome,
    /// Caller and interface
    pub by: String,
    /// Start time in RFC 3339
    pub begun: String,
    /// End time in RFC 3339
    pub ended: Option<String>,
    /// Duration so far in seconds
    pub seconds: f64,
    /// Steps, oldest first; the last one is the current one
    pub steps: Vec<StepStatus>,
    /// Response of an operation that ran in the background, if this caller may see it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub result: Option<Value>,
    /// Error of a failed operation
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// Error code if the operation returned but did not reach the requested state
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepStatus {
    /// Time in RFC 3339
    pub at: String,
    pub text: String,
}

/// Error, as the operation itself would have returned it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    pub code: String,
    pub message: String,
    pub help: Option<String>,
    /// Details that belong to the error code
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::super::config::any")]
    pub details: Option<Value>,
}

impl Operation for Status {
    type Input = Input;
    type Output = OperationStatus;
    const META: Meta = Meta {
        cli: &["operation", "status"],
        summary: "Show the progress or the result of an operation",
        details: "\
With --wait it returns when the operation has ended, with the exit code of that operation.

Examples:
  proctor operation status 1f0c93aa
  proctor operation status 1f0c93aa --wait
  proctor restart web --background --json",
        launches: false,
        ..Meta::of("operation.status", Effect::Read, Target::Nothing).long().at(
            Method::Get,
            "/operations/{id}",
            "operation",
        )
    };

    async fn run(context: &Context, input: Input) -> Result<OperationStatus, OpError> {
        let wait = input.wait.map(|seconds| seconds_of("wait", seconds)).transpose()?;
        let call = context.underway.find(&input.operation)?;
        if let Some(wait) = wait {
            let news = || call.is_over() || input.seen.is_some_and(|seen| call.steps() > seen);
            // A timeout is not an error: the status shows that the operation still runs.
            let _ = tokio::time::timeout(wait, context.underway.changed(news)).await;
        }
        Ok(OperationStatus::of(&call, has_role(context, call.role)))
    }
}

impl OperationStatus {
    /// Status without the response.
    pub(crate) fn brief(call: &RunningOperation) -> OperationStatus {
        OperationStatus::of(call, false)
    }

    pub(crate) fn of(call: &RunningOperation, with_result: bool) -> OperationStatus {
        let progress = call.progress();
        let end = progress.end.as_ref();
        let until = end.map_or_else(|| proctor_sys::clock::now().wall, |end| end.at);
        let answer = end.and_then(|end| end.answer.as_deref()).filter(|_| with_result);
        OperationStatus {
            operation: call.id.clone(),
            name: call.meta.name.into(),
            state: end.map_or(Outcome::Running, |end| end.outcome),
            by: call.by.clone(),
            begun: rfc3339(call.begun),
            ended: end.map(|end| rfc3339(end.at)),
            seconds: seconds_between(call.begun, until),
            steps: progress
                .steps
                .iter()
                .map(|step| StepStatus { at: rfc3339(step.at), text: step.text.clone() })
                .collect(),
            result: answer.and_then(|answer| serde_json::from_str(answer).ok()),
            error: end.and_then(|end| end.error.as_ref()).map(|error| Problem {
                code: error.code.as_str().into(),
                message: error.message.clone(),
                help: error.help.clone(),
                details: error.details.as_deref().cloned(),
            }),
            verdict: end.and_then(|end| end.verdict).map(|code| code.as_str().into()),
        }
    }

    fn code(&self) -> Option<Code> {
        let named = |name: &String| Code::from(name.clone());
        self.error.as_ref().map(|error| &error.code).or(self.verdict.as_ref()).map(named)
    }
}

impl Show for OperationStatus {
    fn show(&self, page: &mut Page) {
        let begun = page.moment(&self.begun);
        page.line()
            .name(&self.operation)
            .plain(format!(" {} ", self.name))
            .add(style(self.state), self.state.as_str())
            .plain(match self.state {
                Outcome::Running => format!(" for {}", span(self.seconds)),
                Outcome::Succeeded | Outcome::Failed | Outcome::Cancelled => {
                    format!(" after {}", span(self.seconds))
                }
            });
        page.line().dim(format!("  started {begun} by {}", self.by));
        for step in &self.steps {
            let at = page.moment(&step.at);
            page.line().dim(format!("  {at}  ")).plain(&step.text);
        }
        if let Some(error) = &self.error {
            page.line().add(Style::Bad, &error.message);
            page.text(Style::Dim, error.help.as_deref().unwrap_or_default());
        }
        if let Some(result) = &self.result
            && let Some(entry) = crate::table::find(&self.name)
        {
            // A response that cannot be shown is in the JSON.
            let _ = entry.show(result, page);
        }
    }

    fn verdict(&self) -> Option<Code> {
        self.code()
    }
}
