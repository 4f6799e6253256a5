//! `proctor mcp`: the MCP server for one conversation with an assistant.

use super::{CommandResult, Launch, install};
use crate::mcp::stdio;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use proctor_core::home::Home;
use proctor_ops::error::OpError;
use proctor_ops::tools::Toolset;
use std::time::Duration;

/// Several toolsets in one argument.
#[derive(Debug, Clone)]
pub(crate) struct Sets(pub(crate) Vec<Toolset>);

impl Sets {
    pub(crate) fn parse(text: &str) -> Result<Sets, String> {
        Toolset::list(text).map(Sets)
    }
}

#[derive(Args)]
struct Options {
    /// Toolsets to offer: processes, logs, files, git, system, or all; those of the configuration if omitted
    #[arg(long, value_name = "SETS", value_parser = Sets::parse)]
    toolsets: Option<Sets>,
    /// Maximum seconds of a call (default 50), for clients with another timeout
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    patience: Option<u64>,
}

pub(crate) fn command() -> Command {
    Command::new("mcp")
        .about("Serve the Model Context Protocol on stdin and stdout, for one conversation with an assistant")
        .after_help(
            "Clients start this command themselves. It starts Proctor when needed, and ends with its input.\n\n\
             Examples:\n  proctor mcp\n  proctor mcp --toolsets processes,logs\n  proctor mcp install claude-code",
        )
        .defer(|command| Options::augment_args(command).subcommand(install::command()))
}

/// Rejects an option of the server before the name of a subcommand, where it would be lost. (clap's own check also rejects the
/// options of every command.)
pub(crate) fn alone(arguments: &ArgMatches) -> Result<(), OpError> {
    match ["toolsets", "patience"].into_iter().find(|name| arguments.contains_id(name)) {
        Some(name) => {
            Err(OpError::bad_input(format!("--{name} must not be given before 'install'")))
        }
        None => Ok(()),
    }
}

pub(crate) fn mcp(
    home: Home,
    launch: &'static dyn Launch,
    arguments: &ArgMatches,
) -> CommandResult {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let sets = options.toolsets.map(|Sets(sets)| sets);
    stdio::serve(home, launch, sets, options.patience.map(Duration::from_secs))?;
    Ok(0)
}
