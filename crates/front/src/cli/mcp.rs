//! `proctor mcp`: the server for one conversation with an assistant.

use super::{Ended, Launch, install};
use crate::mcp::stdio;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use proctor_core::home::Home;
use proctor_ops::error::OpError;
use proctor_ops::tools::Toolset;
use std::time::Duration;

/// Several in one argument.
#[derive(Debug, Clone)]
pub(crate) struct Sets(pub(crate) Vec<Toolset>);

impl Sets {
    pub(crate) fn parse(text: &str) -> Result<Sets, String> {
        Toolset::list(text).map(Sets)
    }
}

#[derive(Args)]
struct Options {
    /// Which tools to offer: processes, logs, files, git, system, or all; as the configuration says if not given
    #[arg(long, value_name = "SETS", value_parser = Sets::parse)]
    toolsets: Option<Sets>,
    /// Seconds that a call takes at most (50), for clients that give up earlier or wait longer
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    patience: Option<u64>,
}

pub(crate) fn command() -> Command {
    Command::new("mcp")
        .about("Serve the Model Context Protocol on stdin and stdout, for one conversation with an assistant")
        .after_help(
            "Clients start this by themselves; it starts Proctor when it is needed, and ends with its input.\n\n\
             Examples:\n  proctor mcp\n  proctor mcp --toolsets processes,logs\n  proctor mcp install claude-code",
        )
        .defer(|command| Options::augment_args(command).subcommand(install::command()))
}

/// An option of the server before the name of another command would be lost. (clap's own check for that refuses the options of
/// every command as well.)
pub(crate) fn alone(arguments: &ArgMatches) -> Result<(), OpError> {
    match ["toolsets", "patience"].into_iter().find(|name| arguments.contains_id(name)) {
        Some(name) => Err(OpError::bad_input(format!("--{name} does not belong before 'install'"))),
        None => Ok(()),
    }
}

pub(crate) fn mcp(home: Home, launch: &'static dyn Launch, arguments: &ArgMatches) -> Ended {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let sets = options.toolsets.map(|Sets(sets)| sets);
    stdio::serve(home, launch, sets, options.patience.map(Duration::from_secs))?;
    Ok(0)
}
