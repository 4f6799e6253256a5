//! `service.restart`: a new run of services, with their present settings and, if asked, other arguments for a while.

use super::stop::{USUAL_WAIT, named};
use crate::error::OpError;
use crate::input::{Patience, Words};
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Role, Target};
use crate::settle::{Changed, Goal, before, report, settle};
use proctor_engine::api::RestartWith;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub struct Restart;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Services, all instances of one, groups, or `all`
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    /// Arguments in place of the configured `args`, until it is stopped, restarted or defined differently; split like a shell does
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Words>,
    #[command(flatten)]
    #[serde(flatten)]
    pub patience: Patience,
}

impl Operation for Restart {
    type Input = Input;
    type Output = Changed;
    const META: Meta = Meta {
        cli: &["restart"],
        summary: "Stop services and start them again, with their present settings",
        details: "\
A service that does not run is started. Restarts asked for like this never use up the restart budget. Words of `command` stay; \
--args takes the place of `args` after them. `status` and `config` show such arguments; a restart without --args ends them.

Examples:
  proctor restart web
  proctor restart web --args \"--port 3001 --verbose\"",
        role: Role::Operator,
        ..Meta::of("service.restart", Effect::Exec, Target::Services).waiting("to restart")
            .at(Method::Post, "/services/{name}/restart", "names")
    };

    fn role(input: &Input) -> Role {
        // Other arguments are another command.
        if input.args.is_none() { Role::Operator } else { Role::Admin }
    }

    fn about(input: &Input) -> About<'_> {
        About::Services(&input.names)
    }

    async fn run(context: &Context, input: Input) -> Result<Changed, OpError> {
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
