//! `command.execute`: run one command to its end and answer with what came of it.

use crate::command::{Command, CommandResult, Custom, Kind, plan};
use crate::error::{Code, OpError};
use crate::execute_rules::choose_surroundings;
use crate::input::{Caller, seconds_of};
use crate::operation::{Context, Effect, Meta, Operation, Target};
use crate::show::{Page, Show};
use proctor_core::name::ServiceName;
use proctor_engine::api::Surroundings;
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
    /// The command: a text, run by /bin/sh if it has operators, variables or patterns of a shell; a list of words; or an object with its type
    #[arg(long, value_name = "COMMAND", conflicts_with = "argv")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Command>,
    /// Run the text of the command by /bin/sh, whatever is in it
    #[arg(long, requires = "command")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// Run it with the environment and in the folder of this service
    #[arg(long, value_name = "NAME")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// A variable of its environment; may be repeated
    #[arg(long = "env", value_name = "KEY=VALUE", value_parser = crate::input::variable)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Where it runs; the folder of the service or of the caller if not given
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// After this many seconds (30 if not given) it is killed, with everything it started
    #[arg(long = "timeout", value_name = "SECONDS")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// Program and arguments word by word, taken as they are
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
        summary: "Run a command to its end and show what came of it",
        details: "\
It runs as the user of Proctor, without standard input. What it leaves running when it ends is killed: a program that is \
to stay is a service. Through a network front only what `security.execute.allowed` lists is run. For a program in the \
foreground of this terminal there is `proctor run`.

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
        (_, _, true) => Err(OpError::bad_input("'shell' needs a 'command' that is a text")),
        (None, true, false) => {
            Err(OpError::bad_input("which command?").help("`proctor execute -- make test`"))
        }
    }
}

fn around(
    context: &Context,
    service: Option<&str>,
    input: &Input,
) -> Result<Surroundings, OpError> {
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
        // What a person types is relative to where they are.
        let here = input.caller.base_dir.as_deref().map_or(around.working_dir, PathBuf::from);
        around.working_dir = here.join(folder);
    }
    Ok(around)
}

/// A single service; the first of several instances, which are alike.
pub(super) fn one(context: &Context, name: &str) -> Result<ServiceName, OpError> {
    let names = context.engine.select(&[name.to_owned()])?;
    names.into_iter().next().ok_or_else(|| OpError::bad_input(format!("'{name}' is no service")))
}

pub(super) fn variables(pairs: &[String]) -> Result<BTreeMap<String, String>, OpError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(OpError::bad_input(format!("env: write KEY=VALUE, not '{text}'"))),
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
