//! `service.status`: all that is known of services.

use crate::error::{Code, OpError};
use crate::operation::{Context, Effect, Meta, Operation};
use crate::show::{Page, Show};
use crate::status::{ServiceStatus, State, detail, overview};
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub struct Status;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services, all instances of one, groups, or `all`; all if none is given
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Exit with code 4 unless every one of them runs and none is unhealthy
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
    /// Leave out CPU and memory, which cost a look at every process
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_usage: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Grows with every change; `service.wait` waits for the next
    pub generation: u64,
    /// With `check`: whether every one runs and none is unhealthy
    pub good: Option<bool>,
    pub services: Vec<ServiceStatus>,
}

impl Operation for Status {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["status"],
        summary: "Show all that is known of services",
        details: "\
Examples:
  proctor status web
  proctor status --json
  proctor status web --check && echo web is up",
        ..Meta::of("service.status", Effect::Read)
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let everything = ["all".to_owned()];
        let words = if input.names.is_empty() { &everything[..] } else { &input.names };
        let nothing_yet =
            input.names.is_empty() && context.engine.read(|view| view.services.is_empty());
        let names = if nothing_yet { Vec::new() } else { context.engine.select(words)? };
        let generation = context.engine.read(|view| view.generation);
        let services = statuses(context, &names, !input.no_usage).await;
        let good = input.check.then(|| services.iter().all(is_good));
        Ok(Output { generation, good, services })
    }
}

fn is_good(service: &ServiceStatus) -> bool {
    let failing = service.health.as_ref().is_some_and(|h| h.failures > 0);
    service.state == State::Running && !failing
}

/// The services as they are now.
pub(crate) async fn statuses(
    context: &Context,
    names: &[ServiceName],
    usage: bool,
) -> Vec<ServiceStatus> {
    let usage = if usage { context.engine.usage(names).await } else { BTreeMap::new() };
    let now = proctor_sys::clock::now();
    context.engine.read(|view| {
        names
            .iter()
            .filter_map(|name| {
                Some(ServiceStatus::of(view.services.get(name)?, now, usage.get(name)))
            })
            .collect()
    })
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        match self.services.as_slice() {
            [] => {
                page.line().dim("no services");
            }
            [one] => detail(one, page),
            many => overview(many, page),
        }
    }

    fn verdict(&self) -> Option<Code> {
        (self.good == Some(false)).then_some(Code::NotRunning)
    }
}
