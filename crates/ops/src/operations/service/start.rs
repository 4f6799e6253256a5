//! `service.start`: starts defined services, or defines a new one and starts it.

use super::stop::named;
use crate::error::OpError;
use crate::input::{Caller, Definition, WaitOptions};
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Role, Target};
use crate::status::State;
use crate::wait_for_services::{ChangedServices, Goal, before, report, settle};
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use proctor_engine::api::NewService;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Default wait, enough for a slow start to show whether it works. A service that takes longer is reported as starting.
pub(crate) const USUAL_WAIT: Duration = Duration::from_secs(15);

pub struct Start;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services or groups; a name selects all its instances; or `all`
    #[arg(value_name = "NAME", conflicts_with = "name")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Define a service with this name and start it
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub definition: Definition,
    /// Run it once, regardless of its restart policy
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub once: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: WaitOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub caller: Caller,
}

impl Operation for Start {
    type Input = Input;
    type Output = ChangedServices;
    const META: Meta = Meta {
        cli: &["start"],
        summary: "Start services, or define a new one and start it",
        details: "\
A running service is left alone, also if its owner defines it again with the same values. A program \
that does not exist or a port in use is an error before anything changes. The command waits until the services stay up, and \
reports those that do not.

Examples:
  proctor start web
  proctor start all
  proctor start --name web --command \"npm run dev\" --env PORT=3000
  proctor start --name try --command \"npm run dev\" --port 3000 --lease 2h
  proctor start --name job --once -- ./import --all",
        role: Role::Operator,
        ..Meta::of("service.start", Effect::Exec, Target::Services).waiting("to start").with_caller()
            .at(Method::Post, "/services/{name}/start", "names")
    };

    fn role(input: &Input) -> Role {
        // Starting a defined service does not choose what runs; defining one does.
        if input.name.is_none() { Role::Operator } else { Role::Admin }
    }

    fn about(input: &Input) -> About<'_> {
        match &input.name {
            Some(name) => About::New { name, replace: input.definition.replace },
            None => About::Services(&input.names),
        }
    }

    async fn run(context: &Context, input: Input) -> Result<ChangedServices, OpError> {
        let wait = input.patience.duration(USUAL_WAIT)?;
        let wish = if input.once { Wish::Once } else { Wish::Up };
        let names = match (&input.name, input.names.is_empty()) {
            (Some(name), true) => define(context, name, &input, wish).await?,
            (None, _) if input.definition != Definition::default() => {
                let message = "options that define a service need the 'name' of a new one";
                return Err(OpError::bad_input(message).help(
                    "`proctor start --name NAME --command …`, or give only the names of defined services",
                ));
            }
            (None, _) => {
                let names = named(context, &input.names)?;
                context.engine.check_startable(&names)?;
                names
            }
            (Some(_), false) => return Err(OpError::bad_input("give 'names' or 'name', not both")),
        };
        begin(context, &names, wish, wait).await
    }
}

/// Sets the wish to up and reports the result.
async fn begin(
    context: &Context,
    names: &[ServiceName],
    wish: Wish,
    wait: Duration,
) -> Result<ChangedServices, OpError> {
    let goal = if wish == Wish::Once { Goal::Once } else { Goal::Start };
    let befores = before(context, names, goal);
    // A service that runs already gets no second run; only whether it stays up is checked.
    let wished: Vec<ServiceName> = befores
        .iter()
        .filter(|b| wish == Wish::Up || b.state != State::Running)
        .map(|b| b.name.clone())
        .collect();
    context.engine.set_wish(&wished, wish).await?;
    let settled = settle(context, goal, &befores, wait).await;
    Ok(report(context, goal, &befores, settled, !wait.is_zero()))
}

async fn define(
    context: &Context,
    name: &str,
    input: &Input,
    wish: Wish,
) -> Result<Vec<ServiceName>, OpError> {
    let keys = input.definition.keys()?;
    let service = input.definition.new_service(context, name, keys, &input.caller)?;
    Ok(context.engine.add(NewService { start: Some(wish), keep: true, ..service }).await?)
}
