//! `operation.status`: how far an operation has got, or how it ended; a long poll for those who wait for it.

use super::operation_list::style;
use crate::authority::has_role;
use crate::error::{Code, OpError};
use crate::input::seconds_of;
use crate::moment::{rfc3339, seconds_between, span};
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::show::{Page, Show, Style};
use crate::underway::{Call, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub struct Status;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
pub struct Input {
    /// The id that was answered when it began
    #[arg(value_name = "ID")]
    pub operation: String,
    /// Wait this many seconds at most for its end; an hour if none are given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "3600")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
    /// Return as soon as it has more steps than this, too
    #[arg(long, hide = true)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<usize>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationStatus {
    /// Its id
    pub operation: String,
    /// What it does: `service.restart`
    pub name: String,
    pub state: Outcome,
    /// Who asked for it, through which front
    pub by: String,
    /// RFC 3339
    pub begun: String,
    /// RFC 3339
    pub ended: Option<String>,
    /// How long it took, or has taken so far
    pub seconds: f64,
    /// What was done, oldest first; the last is what is being done
    pub steps: Vec<StepStatus>,
    /// What it answered, if it ran in the background and this caller could have asked for it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub result: Option<Value>,
    /// Why it failed
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Problem>,
    /// It answered, but what was asked for is not what is: the code that says so
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepStatus {
    /// RFC 3339
    pub at: String,
    pub text: String,
}

/// An error, as the operation would have answered it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    pub code: String,
    pub message: String,
    pub help: Option<String>,
    /// What belongs to it, as its code has it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::config::any")]
    pub details: Option<Value>,
}

impl Operation for Status {
    type Input = Input;
    type Output = OperationStatus;
    const META: Meta = Meta {
        cli: &["operation", "status"],
        summary: "Show how far an operation has got, or how it ended",
        details: "\
With --wait it returns when the operation is over, and exits as the operation itself would have.

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
            // That the time is over is no error: what is shown says that it goes on.
            let _ = tokio::time::timeout(wait, context.underway.changed(news)).await;
        }
        Ok(OperationStatus::of(&call, has_role(context, call.role)))
    }
}

impl OperationStatus {
    /// Without what it answered.
    pub(crate) fn brief(call: &Call) -> OperationStatus {
        OperationStatus::of(call, false)
    }

    pub(crate) fn of(call: &Call, with_result: bool) -> OperationStatus {
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
        page.line().dim(format!("  begun {begun} by {}", self.by));
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
            // An answer that cannot be shown is in the JSON.
            let _ = entry.show(result, page);
        }
    }

    fn verdict(&self) -> Option<Code> {
        self.code()
    }
}
