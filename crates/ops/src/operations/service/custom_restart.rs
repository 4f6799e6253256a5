//! `service.custom_restart`: runs commands, restarts the service, and runs more commands.

use super::super::execute::variables;
use super::stop::{USUAL_WAIT, named};
use crate::command::{Command, CommandResult, PlannedCommand, plan};
use crate::error::{Code, OpError};
use crate::execute_rules::check_variables;
use crate::input::{Words, seconds_of, variable};
use crate::operation::{About, Context, Effect, Meta, Method, Operation, Role, Target};
use crate::text_output::{Page, Show, Style};
use crate::wait_for_services::{ChangedServices, Goal, before, report, settle};
use proctor_core::name::ServiceName;
use proctor_engine::api::RestartWith;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Default timeout of each command.
const USUAL_LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of commands. A longer list should be a script.
const MAX_COMMANDS: usize = 64;

pub struct CustomRestart;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Service to restart; the only or the primary one if omitted
    #[arg(value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Command to run before the restart; may be repeated. If one fails, nothing is restarted
    #[arg(long = "pre-command", value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pre_commands: Vec<Command>,
    /// Command to run after a successful restart; may be repeated
    #[arg(long = "post-command", value_name = "COMMAND")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_commands: Vec<Command>,
    /// Arguments that replace the configured `args` until the service is stopped, restarted or redefined; split like in a shell
    #[arg(long = "args", value_name = "ARGS", allow_hyphen_values = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_args: Option<Words>,
    /// Variable KEY=VALUE for the commands and the new run only; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Variables as an object
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_vars: Option<BTreeMap<String, String>>,
    /// Seconds until a command is killed and counts as failed (default 60)
    #[arg(long, value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_timeout: Option<f64>,
    /// Seconds to wait until the service runs again (default 60)
    #[arg(long = "timeout", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Results of the commands run before the restart
    pub pre_command_results: Vec<CommandResult>,
    pub restart_successful: bool,
    /// Results of the commands run after the restart
    pub post_command_results: Vec<CommandResult>,
    /// Total time in milliseconds
    pub total_execution_time_ms: u64,
    /// The restart and every command succeeded
    pub overall_success: bool,
    /// Result of the restart, as a sentence
    pub restart_message: String,
    /// Services that were restarted
    pub services: Vec<crate::wait_for_services::Report>,
}

impl Operation for CustomRestart {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["custom-restart"],
        summary: "Restart a service with commands before and after it",
        details: "\
The commands run one after the other, as Proctor's user, in the folder and with the environment of the service. A failed \
command ends the workflow: if it fails before the restart, nothing is restarted. Later commands run only when the \
service runs again.

Examples:
  proctor custom-restart web --pre-command \"make build\" --post-command \"curl -f localhost:3000\"
  proctor custom-restart --args \"--port 3001\" --env MODE=test",
        role: Role::Operator,
        ..Meta::of("service.custom_restart", Effect::Exec, Target::Services).waiting("to restart").at(Method::Post, "/services/{name}/custom-restart", "service")
    };

    fn role(input: &Input) -> Role {
        // Without any of these fields this is a plain restart.
        let plain = input.pre_commands.is_empty()
            && input.post_commands.is_empty()
            && input.start_args.is_none()
            && input.env.is_empty()
            && input.env_vars.as_ref().is_none_or(BTreeMap::is_empty);
        if plain { Role::Operator } else { Role::Admin }
    }

    fn about(input: &Input) -> About<'_> {
        About::Services(input.service.as_slice())
    }

    async fn run(context: &Context, input: Input) -> Result<Output, OpError> {
        let begun = Instant::now();
        let names = named(context, input.service.as_slice())?;
        let mut env = variables(&input.env)?;
        env.extend(input.env_vars.clone().unwrap_or_default());
        check_variables(context, env.keys().map(String::as_str))?;
        let pre = planned(context, &input, &input.pre_commands, &names, &env)?;
        let post = planned(context, &input, &input.post_commands, &names, &env)?;
        let mut output = Output::none();
        let ready = commands(context, pre, &mut output.pre_command_results).await?;
        if ready {
            output.restart(context, &input, &names, env).await?;
        } else {
            output.restart_message = "not restarted: a command before the restart failed".into();
        }
        let good = output.restart_successful
            && commands(context, post, &mut output.post_command_results).await?;
        output.overall_success = good;
        output.total_execution_time_ms =
            u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(output)
    }
}

/// Checks every command before the first one runs.
fn planned(
    context: &Context,
    input: &Input,
    commands: &[Command],
    names: &[ServiceName],
    env: &BTreeMap<String, String>,
) -> Result<Vec<PlannedCommand>, OpError> {
    if commands.len() > MAX_COMMANDS {
        return Err(OpError::bad_input(format!(
            "too many commands: the maximum is {MAX_COMMANDS}"
        )));
    }
    if commands.is_empty() {
        return Ok(Vec::new());
    }
    let seconds = input.command_timeout;
    let limit =
        seconds.map_or(Ok(USUAL_LIMIT), |seconds| seconds_of("command_timeout", seconds))?;
    let around = context.engine.surroundings(names.first(), (None, None))?;
    commands.iter().map(|command| plan(context, command, &around, env, limit)).collect()
}

/// Runs the commands until one fails. Returns true if all succeeded.
async fn commands(
    context: &Context,
    commands: Vec<PlannedCommand>,
    results: &mut Vec<CommandResult>,
) -> Result<bool, OpError> {
    for command in commands {
        let result = command.run(context).await?;
        let success = result.success;
        results.push(result);
        if !success {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Output {
    fn none() -> Output {
        Output {
            pre_command_results: Vec::new(),
            restart_successful: false,
            post_command_results: Vec::new(),
            total_execution_time_ms: 0,
            overall_success: false,
            restart_message: String::new(),
            services: Vec::new(),
        }
    }

    /// A failed restart is a result, not an error, because the commands before it cannot be undone.
    async fn restart(
        &mut self,
        context: &Context,
        input: &Input,
        names: &[ServiceName],
        env: BTreeMap<String, String>,
    ) -> Result<(), OpError> {
        let wait = input.wait.map_or(Ok(USUAL_WAIT), |seconds| seconds_of("wait", seconds))?;
        if let Err(error) = context.engine.check_restartable(names) {
            self.restart_message = format!("not restarted: {error}");
            return Ok(());
        }
        let words: Vec<&str> = names.iter().map(ServiceName::as_str).collect();
        context.step(format!("restarting {}", words.join(", ")));
        let befores = before(context, names, Goal::Restart);
        let args = input.start_args.clone().map(|words| words.0);
        context.engine.restart(names, RestartWith { args, env: env.into_iter().collect() }).await?;
        let settled = settle(context, Goal::Restart, &befores, wait).await;
        let changed = report(context, Goal::Restart, &befores, settled, true);
        let sentence = |report: &crate::wait_for_services::Report| {
            format!("{} {}", report.service.name, report.message)
        };
        let sentences: Vec<String> = changed.services.iter().map(sentence).collect();
        self.restart_message = sentences.join("; ");
        context.step(self.restart_message.clone());
        self.restart_successful = changed.verdict().is_none() && !changed.services.is_empty();
        self.services = changed.services;
        Ok(())
    }
}

impl Show for Output {
    fn show(&self, page: &mut Page) {
        let result = |page: &mut Page, result: &CommandResult| {
            let style = if result.success { Style::Dim } else { Style::Bad };
            page.line().add(style, result.sentence());
            if !result.success {
                page.text(Style::Plain, &result.stdout);
                page.text(Style::Plain, &result.stderr);
            }
        };
        self.pre_command_results.iter().for_each(|one| result(page, one));
        match self.services.is_empty() {
            true => drop(page.line().add(Style::Bad, &self.restart_message)),
            false => ChangedServices {
                settled: true,
                services: self.services.clone(),
                unrecorded: Vec::new(),
            }
            .show(page),
        }
        self.post_command_results.iter().for_each(|one| result(page, one));
    }

    fn verdict(&self) -> Option<Code> {
        if self.overall_success {
            return None;
        }
        let changed = ChangedServices {
            settled: true,
            services: self.services.clone(),
            unrecorded: Vec::new(),
        };
        changed.verdict().or(Some(Code::Failed))
    }
}
