//! `command.execute`: runs one command to its end and returns its result.

use crate::command::{Command, CommandResult, Custom, Kind, plan};
use crate::error::{Code, OpError};
use crate::execute_rules::choose_surroundings;
use crate::input::{Caller, seconds_of};
use crate::operation::{Context, Effect, Meta, Operation, Target};
use crate::text_output::{Page, Show};
use proctor_core::name::ServiceName;
use proctor_engine::api::CommandEnvironment;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const USUAL_LIMIT: Duration = Duration::from_secs(30);

pub struct Execute;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {
    /// Command: a string, run by /bin/sh if it has shell syntax; a list of words; or an object with its type
    #[arg(long, value_name = "COMMAND", conflicts_with = "argv")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// Always run the command string with /bin/sh
    #[arg(long, requires = "command")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// Service whose environment and folder to use
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// Environment variable KEY=VALUE; may be repeated
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = crate::input::variable)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Working folder; that of the service or of the caller if omitted
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Seconds until the command and all its processes are killed (default 30)
    #[arg(long = "timeout", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// Program and arguments, one word each, used literally
    #[arg(last = true, value_name = "PROGRAM")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub argv: Vec<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub caller: Caller,
}

impl Operation for Execute {
    type Input = Input;
    type Output = CommandResult;
    const META: Meta = Meta {
        cli: &["execute"],
        summary: "Run a command to its end and show its result",
        details: "\
The command runs as Proctor's user, without standard input. Processes it leaves running when it ends are killed; run a program that must \
stay as a service. Network interfaces run only commands listed in `security.execute.allowed`. To run a program in the \
foreground of this terminal, use `proctor run`.

Examples:
  proctor execute -- make test
  proctor execute --command \"git pull && make\" --timeout 300
  proctor execute --service web --env MODE=test -- ./bin/migrate",
        ..Meta::of("command.execute", Effect::Exec, Target::Programs).followed().with_caller()
    };

    async fn run(context: &Context, input: Input) -> Result<CommandResult, OpError> {
        let limit =
            input.timeout_seconds.map_or(Ok(USUAL_LIMIT), |s| seconds_of("timeout_seconds", s))?;
        let command = command(&input)?;
        let around = around(context, input.service.as_deref(), &input)?;
        let env = variables(&input.env)?;
        plan(context, &command, &around, &env, limit)?.run(context).await
    }
}

fn command(input: &Input) -> Result<Command, OpError> {
    match (&input.command, input.argv.is_empty(), input.shell) {
        (Some(Command::Text(text)), true, true) => {
            let (command_type, command) = (Kind::Shell, text.clone());
            Ok(Command::Custom(Custom { command_type, command, ..Custom::default() }))
        }
        (Some(command), true, false) => Ok(command.clone()),
        (None, false, false) => Ok(Command::Words(input.argv.clone())),
        (Some(_), false, _) => Err(OpError::bad_input("give 'command' or 'argv', not both")),
        (_, _, true) => Err(OpError::bad_input("'shell' needs a 'command' that is a string")),
        (None, true, false) => {
            Err(OpError::bad_input("'command' is missing").help("`proctor execute -- make test`"))
        }
    }
}

fn around(
    context: &Context,
    service: Option<&str>,
    input: &Input,
) -> Result<CommandEnvironment, OpError> {
    let given = [
        ("environment", input.caller.environment.is_some()),
        ("base_dir", input.caller.base_dir.is_some()),
        ("working_dir", input.working_dir.is_some()),
    ];
    choose_surroundings(context, given)?;
    let service = service.map(|name| one(context, name)).transpose()?;
    let base = input.caller.base_dir.as_ref().map(PathBuf::from);
    let mut around =
        context.engine.surroundings(service.as_ref(), (input.caller.environment(), base))?;
    if let Some(folder) = &input.working_dir {
        // A path on a command line is relative to the caller's folder.
        let here = input.caller.base_dir.as_deref().map_or(around.working_dir, PathBuf::from);
        around.working_dir = here.join(folder);
    }
    Ok(around)
}

/// Returns a single service; of several instances, which are alike, the first.
pub(super) fn one(context: &Context, name: &str) -> Result<ServiceName, OpError> {
    let names = context.engine.select(&[name.to_owned()])?;
    names.into_iter().next().ok_or_else(|| OpError::bad_input(format!("'{name}' is not a service")))
}

pub(super) fn variables(pairs: &[String]) -> Result<BTreeMap<String, String>, OpError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(OpError::bad_input(format!("env: '{text}' is invalid; write KEY=VALUE"))),
    };
    pairs.iter().map(pair).collect()
}

impl Show for CommandResult {
    fn show(&self, page: &mut Page) {
        CommandResult::show(self, page);
    }

    fn verdict(&self) -> Option<Code> {
        (!self.success).then_some(Code::Failed)
    }
}
