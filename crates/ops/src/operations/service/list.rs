//! `service.list`: lists services, one line each.

use crate::error::OpError;
use crate::input::MeasureOption;
use crate::operation::{ClientName, Context, Effect, Meta, Method, Operation, Target};
use crate::operations::service::status::{Measure, measure, say_unmeasured, statuses};
use crate::status::output::add_cursors;
use crate::status::{ServiceStatus, State, overview};
use crate::text_output::{Page, Show};
use proctor_core::name::ServiceName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

pub struct List;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Only these services or groups; a name selects all its instances
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Only services of this group; may be repeated
    #[arg(long, value_name = "GROUP")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub group: Vec<String>,
    /// Only services in this state; may be repeated
    #[arg(long, value_name = "STATE")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub state: Vec<State>,
    /// Only services started by this program
    #[arg(long, value_name = "NAME", conflicts_with = "mine")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Only services started by the calling program; for a person, those that no program started
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub mine: bool,
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
    /// Maximum number of services
    #[arg(long, value_name = "COUNT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// Only services whose names sort after this one: the `next` of an earlier response
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Counter that grows with every change
    #[serde(default)]
    pub generation: u64,
    pub services: Vec<ServiceStatus>,
    /// Services exist, but none matches
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub none_matches: bool,
    /// CPU and memory are omitted: there are more than 100 services and `usage` is not set
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmeasured: bool,
    /// More services exist than `limit`
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
    /// With `more`: the value for `after` in the next request
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Operation for List {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["list"],
        aliases: &["ls", "ps"],
        summary: "Show all services",
        details: "\
Examples:
  proctor list
  proctor ls web worker
  proctor ls --state failed --state backoff
  proctor list --owner claude-code
  proctor list --group backend --json",
        ..Meta::of("service.list", Effect::Read, Target::Nothing).at(Method::Get, "/services", "")
    };

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let mut names = names(context, &input.group)?;
        if !input.names.is_empty() {
            let named = context.engine.select(&input.names)?;
            names.retain(|name| named.contains(name));
        }
        let names = owned(context, &input, names)?;
        let (names, next) = page(context, &input, names).await;
        let measure = measure(&input.measured, input.ports, names.len());
        let (generation, has_services) =
            context.engine.read(|view| (view.generation, !view.services.is_empty()));
        let mut services = statuses(context, &names, measure).await;
        services.retain(|service| input.state.is_empty() || input.state.contains(&service.state));
        if input.cursors {
            add_cursors(context, &mut services).await;
        }
        let unmeasured = measure == Measure::TooMany;
        let none_matches = has_services && services.is_empty();
        let more = next.is_some();
        Ok(Output { generation, services, none_matches, unmeasured, more, next })
    }
}

/// Returns the selected services before any is measured, and the last one if there are more.
async fn page(
    context: &Context,
    input: &Input,
    mut names: Vec<ServiceName>,
) -> (Vec<ServiceName>, Option<String>) {
    if input.limit.is_none() && input.after.is_none() {
        return (names, None);
    }
    names.sort();
    names.retain(|name| input.after.as_ref().is_none_or(|after| name.as_str() > after.as_str()));
    if !input.state.is_empty() {
        let states = statuses(context, &names, Measure::None).await;
        let wanted = states.iter().filter(|service| input.state.contains(&service.state));
        let wanted: BTreeSet<&str> = wanted.map(|service| service.name.as_str()).collect();
        names.retain(|name| wanted.contains(name.as_str()));
    }
    // An empty page could not report where to continue.
    let most = input.limit.map_or(usize::MAX, |limit| limit.max(1));
    let next = (names.len() > most).then(|| names[most - 1].to_string());
    names.truncate(most);
    (names, next)
}

fn names(context: &Context, groups: &[String]) -> Result<Vec<ServiceName>, OpError> {
    match groups {
        [] => Ok(context.engine.read(|view| view.services.keys().cloned().collect())),
        groups => Ok(context.engine.select(groups)?),
    }
}

/// Filters by owner.
fn owned(
    context: &Context,
    input: &Input,
    mut names: Vec<ServiceName>,
) -> Result<Vec<ServiceName>, OpError> {
    let owner = match (&input.owner, input.mine) {
        (None, false) => return Ok(names),
        (Some(_), true) => return Err(OpError::bad_input("give 'owner' or 'mine', not both")),
        (Some(owner), false) => ClientName::parse(owner),
        (None, true) => context.caller.client.clone(),
    };
    context.engine.read(|view| {
        let is_theirs = |name: &ServiceName| {
            view.services.get(name).is_some_and(|service| service.owner() == owner.as_ref())
        };
        names.retain(is_theirs);
    });
    Ok(names)
}

impl Show for Output {
    fn generation(&self) -> Option<u64> {
        Some(self.generation)
    }

    fn show(&self, page: &mut Page) {
        if self.none_matches {
            page.line().dim("no service matches");
            return;
        }
        if self.services.is_empty() {
            page.line().dim("no services; `proctor up` starts those of proctor.yaml, `proctor start --name` adds one");
            return;
        }
        overview(&self.services, page);
        if self.unmeasured {
            say_unmeasured(page);
        }
        if let Some(next) = &self.next {
            page.line().dim(format!("more services follow: --after {next}"));
        }
    }
}
