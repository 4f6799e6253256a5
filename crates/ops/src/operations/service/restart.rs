//! `service.restart`: restarts services with their current settings and, on request, temporary arguments.

use super::stop::{USUAL_WAIT, named};
use crate::error::OpError;
use crate::input::{WaitOptions, Words};
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Role, Target};
use crate::wait_for_services::{ChangedServices, Goal, before, report, settle};
use proctor_engine::api::RestartWith;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Restart;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services or groups; a name selects all its instances; or `all`
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Arguments that replace the configured `args` until the service is stopped, restarted or redefined; split like in a shell
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Words>,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: WaitOptions,
}

impl Operation for Restart {
    type Input = Input;
    type Output = ChangedServices;
    const META: Meta = Meta {
        cli: &["restart"],
        summary: "Restart services with their current settings",
        details: "\
A service that does not run is started. These restarts do not count against the restart limit. The words of `command` stay; \
--args replaces the `args` after them. `status` and `config` show such arguments; a restart without --args drops them.

Examples:
  proctor restart web
  proctor restart web --args \"--port 3001 --verbose\"",
        role: Role::Operator,
        ..Meta::of("service.restart", Effect::Exec, Target::Services).waiting("to restart")
            .at(Method::Post, "/services/{name}/restart", "names")
    };

    fn role(input: &Input) -> Role {
        // Other arguments make another command.
        if input.args.is_none() { Role::Operator } else { Role::Admin }
    }

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.names)
    }

    async fn run(context: &Context, input: Input) -> Result<ChangedServices, OpError> {
        let wait = input.patience.duration(USUAL_WAIT)?;
        let names = named(context, &input.names)?;
        context.engine.check_restartable(&names)?;
        let befores = before(context, &names, Goal::Restart);
        let with = RestartWith { args: input.args.map(|words| words.0), env: Vec::new() };
        context.engine.restart(&names, with).await?;
        let settled = settle(context, Goal::Restart, &befores, wait).await;
        Ok(report(context, Goal::Restart, &befores, settled, !wait.is_zero()))
    }
}
