//! `proctor mcp`: the server for one conversation with an assistant.

use super::{Ended, Launch};
use crate::mcp::stdio;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use proctor_core::home::Home;
use proctor_ops::error::OpError;
use proctor_ops::tools::Toolset;
use std::str::FromStr;
use std::time::Duration;

#[derive(Args)]
struct Options {
    /// Which tools to offer: processes, logs, files, git, system, or all
    #[arg(long, value_name = "SETS")]
    toolsets: Option<Sets>,
    /// Seconds that a call takes at most (50), for clients that give up earlier or wait longer
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86400))]
    patience: Option<u64>,
}

/// Several in one word.
#[derive(Debug, Clone)]
struct Sets(Vec<Toolset>);

impl FromStr for Sets {
    type Err = String;

    fn from_str(text: &str) -> Result<Sets, String> {
        Toolset::list(text).map(Sets)
    }
}

pub(crate) fn command() -> Command {
    Command::new("mcp")
        .about("Serve the Model Context Protocol on stdin and stdout, for one conversation with an assistant")
        .after_help(
            "Clients start this by themselves; it starts Proctor when it is needed, and ends with its input.\n\n\
             Examples:\n  proctor mcp\n  proctor mcp --toolsets processes,logs",
        )
        .defer(Options::augment_args)
}

pub(crate) fn mcp(home: Home, launch: &'static dyn Launch, arguments: &ArgMatches) -> Ended {
    let options = Options::from_arg_matches(arguments)
        .map_err(|error| OpError::bad_input(error.to_string()))?;
    let sets = options.toolsets.map_or_else(|| Toolset::USUAL.to_vec(), |sets| sets.0);
    stdio::serve(home, launch, sets, options.patience.map(Duration::from_secs))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_named_in_one_word() {
        let parse = |words: &[&str]| {
            let matches = Options::augment_args(Command::new("mcp")).try_get_matches_from(words);
            matches.map(|matches| Options::from_arg_matches(&matches).unwrap().toolsets)
        };
        assert!(parse(&["mcp"]).unwrap().is_none());
        let sets = parse(&["mcp", "--toolsets", "logs,processes"]).unwrap().unwrap();
        assert_eq!(sets.0, [Toolset::Processes, Toolset::Logs]);
        assert!(parse(&["mcp", "--toolsets", "log"]).unwrap_err().to_string().contains("toolset"));
    }
}
