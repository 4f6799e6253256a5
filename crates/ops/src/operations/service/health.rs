//! `daemon.health`: reports whether every wanted service is healthy, and why not.

use super::status::{Measure, statuses};
use crate::error::{Code, OpError};
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::status::{HealthState, ServiceStatus, State, WishWord, style_of};
use crate::text_output::{Page, Show, Style};
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub struct Health;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services, groups, or names that select all instances; all services if omitted
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// No wanted service has failed or fails its health check
    pub healthy: bool,
    pub services: BTreeMap<String, ServiceHealth>,
    /// Problems of Proctor itself that need attention
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceHealth {
    pub healthy: bool,
    pub state: State,
    /// Result of the health check; null without a check, or while the service does not run
    pub check: Option<HealthState>,
    /// Reason why the service is not healthy
    pub why: Option<String>,
}

impl Operation for Health {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["health"],
        summary: "Report whether all wanted services are healthy",
        details: "\
A service is unhealthy if it should run and has crashed, has failed, or fails its health check. A stopped or starting \
service is healthy. Exits with 4 if a service is unhealthy.

Examples:
  proctor health
  proctor health web --json",
        launches: false,
        ..Meta::of("daemon.health", Effect::Read, Target::Nothing).at(Method::Get, "/health", "")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let names: Vec<ServiceName> = match input.names.as_slice() {
            [] => context.engine.read(|view| view.services.keys().cloned().collect()),
            words => context.engine.select(words)?,
        };
        let services: BTreeMap<String, ServiceHealth> = statuses(context, &names, Measure::None)
            .await
            .into_iter()
            .map(|status| (status.name.clone(), ServiceHealth::of(&status)))
            .collect();
        let healthy = services.values().all(|service| service.healthy);
        Ok(Output {
            healthy,
            services,
            problems: context.engine.read(|view| view.problems.clone()),
        })
    }
}

impl ServiceHealth {
    pub(crate) fn of(status: &ServiceStatus) -> ServiceHealth {
        let check = status.health.as_ref();
        let failing = check.filter(|check| check.state == HealthState::Failing);
        let broken = match status.state {
            State::Backoff | State::Failed | State::Cooling => status.wish != WishWord::Down,
            State::Stopped
            | State::Waiting
            | State::Starting
            | State::Running
            | State::Stopping => false,
        };
        let last = || status.last_exit.as_ref().map(|exit| exit.text.clone());
        let why = match (failing, broken) {
            (Some(check), _) => check.why.clone().or_else(|| Some("its health check fails".into())),
            (None, true) => last().or_else(|| status.why.clone()),
            (None, false) => None,
        };
        ServiceHealth {
            healthy: failing.is_none() && !broken,
            state: status.state,
            check: check.map(|check| check.state),
            why,
        }
    }
}

impl Output {
    /// Number of services in each state.
    fn counts(&self) -> String {
        let count = |state: State| self.services.values().filter(|it| it.state == state).count();
        let counts = State::ALL.into_iter().map(|state| (count(state), state.as_str()));
        let words = counts.filter(|(count, _)| *count > 0);
        let words: Vec<String> = words.map(|(count, state)| format!("{count} {state}")).collect();
        if words.is_empty() { "there is no service".to_owned() } else { words.join(", ") }
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let line = page.line();
        match self.healthy {
            true => line.add(Style::Good, "healthy").dim(format!(": {}", self.counts())),
            false => line.add(Style::Bad, "not healthy").dim(format!(": {}", self.counts())),
        };
        for (name, service) in self.services.iter().filter(|(_, service)| !service.healthy) {
            let why = service.why.as_deref().unwrap_or_default();
            page.line()
                .name(name)
                .plain(" ")
                .add(style_of(service.state), service.state.as_str())
                .plain(format!(": {why}"));
        }
        for problem in &self.problems {
            page.line().add(Style::Bad, "problem: ").plain(problem);
        }
    }

    fn verdict(&self) -> Option<Code> {
        (!self.healthy).then_some(Code::ServiceFailed)
    }
}
