//! `service.status`: shows the full state of services.

use crate::error::{Code, OpError};
use crate::input::MeasureOption;
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Target};
use crate::status::output::{add_cursors, last_lines, last_run};
use crate::status::{ServiceStatus, State, detail, overview};
use crate::text_output::{Page, Show};
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub struct Status;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services or groups; a name selects all its instances; `all`, also if omitted
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Exit with code 4 unless every service runs and none is unhealthy
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub check: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub measured: MeasureOption,
    /// Include the TCP ports the services listen on, and their URLs
    #[arg(long, conflicts_with = "no_usage")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ports: bool,
    /// Include a cursor to the end of each service's output
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cursors: bool,
    /// Number of last lines to include for services that failed, wait for a restart, or are unhealthy
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Counter that grows with every change; `service.wait` waits for the next
    pub generation: u64,
    /// With `check`: every service runs and none is unhealthy
    pub good: Option<bool>,
    pub services: Vec<ServiceStatus>,
    /// CPU and memory are omitted: there are more than 100 services and `usage` is not set
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmeasured: bool,
}

impl Operation for Status {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["status"],
        summary: "Show the full status of services",
        details: "\
Examples:
  proctor status web
  proctor status --json
  proctor status web --tail 20
  proctor status web --check && echo web is up",
        ..Meta::of("service.status", Effect::Read, Target::Nothing).at(
            Method::Get,
            "/services/{name}",
            "names",
        )
    };

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.names)
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let everything = ["all".to_owned()];
        let words = if input.names.is_empty() { &everything[..] } else { &input.names };
        let nothing_yet =
            input.names.is_empty() && context.engine.read(|view| view.services.is_empty());
        let names = if nothing_yet { Vec::new() } else { context.engine.select(words)? };
        let generation = context.engine.read(|view| view.generation);
        let measure = measure(&input.measured, input.ports, names.len());
        let mut services = statuses(context, &names, measure).await;
        if let Some(count) = input.tail {
            add_output(context, &mut services, count).await;
        }
        if input.cursors {
            add_cursors(context, &mut services).await;
        }
        let good = input.check.then(|| services.iter().all(is_good));
        Ok(Output { generation, good, services, unmeasured: measure == Measure::TooMany })
    }
}

/// The last output usually shows the cause.
async fn add_output(context: &Context, services: &mut [ServiceStatus], count: usize) {
    for service in services.iter_mut().filter(|service| is_troubled(service)) {
        let Ok(name) = ServiceName::parse(&service.name) else { continue };
        let run = context.engine.read(|view| last_run(view, &name));
        if let Some(run) = run {
            service.output = last_lines(context, &name, run, count).await;
        }
    }
}

fn is_troubled(service: &ServiceStatus) -> bool {
    let failing = service.health.as_ref().is_some_and(|health| health.failures > 0);
    failing || matches!(service.state, State::Failed | State::Backoff | State::Cooling)
}

fn is_good(service: &ServiceStatus) -> bool {
    let failing = service.health.as_ref().is_some_and(|h| h.failures > 0);
    service.state == State::Running && !failing
}

/// Maximum services measured by default. Each takes a look at its processes; a thousand would dominate the response time.
const MEASURED_UNASKED: usize = 100;

/// Values to measure for services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Usage,
    UsageAndPorts,
    None,
    /// Nothing, because there are too many services and nobody asked.
    TooMany,
}

pub(crate) fn measure(asked: &MeasureOption, ports: bool, services: usize) -> Measure {
    match (asked.no_usage, asked.usage, ports) {
        (true, _, _) => Measure::None,
        (false, _, true) => Measure::UsageAndPorts,
        (false, false, false) if services > MEASURED_UNASKED => Measure::TooMany,
        (false, _, false) => Measure::Usage,
    }
}

/// Remark below a table without CPU and memory.
pub(crate) fn say_unmeasured(page: &mut Page) {
    page.line().dim(format!("CPU and memory are omitted for more than {MEASURED_UNASKED} services; show them with --usage"));
}

/// Returns the current status of services.
pub(crate) async fn statuses(
    context: &Context,
    names: &[ServiceName],
    measure: Measure,
) -> Vec<ServiceStatus> {
    let usage = match measure {
        Measure::Usage => context.engine.usage(names, false).await,
        Measure::UsageAndPorts => context.engine.usage(names, true).await,
        Measure::None | Measure::TooMany => BTreeMap::new(),
    };
    let now = proctor_sys::clock::now();
    let mut services = Vec::with_capacity(names.len());
    context.engine.read(|view| {
        let known = names.iter().filter_map(|name| view.services.get(name));
        services.extend(known.map(|known| ServiceStatus::of(known, now, usage.get(&known.name))));
    });
    services
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
        if self.unmeasured {
            say_unmeasured(page);
        }
    }

    fn generation(&self) -> Option<u64> {
        Some(self.generation)
    }

    fn verdict(&self) -> Option<Code> {
        (self.good == Some(false)).then_some(Code::NotRunning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_services_are_measured_only_if_somebody_asks() {
        for (usage, no_usage, ports, services, expected) in [
            (false, false, false, 1, Measure::Usage),
            (false, false, true, 1, Measure::UsageAndPorts),
            (false, false, false, 100, Measure::Usage),
            (false, false, false, 101, Measure::TooMany),
            (true, false, false, 1000, Measure::Usage),
            (false, false, true, 1000, Measure::UsageAndPorts),
            (false, true, false, 1, Measure::None),
            (true, true, true, 1000, Measure::None),
        ] {
            let asked = MeasureOption { usage, no_usage };
            assert_eq!(measure(&asked, ports, services), expected, "{asked:?} {services}");
        }
    }
}
