//! Tree of commands: the operations of the table, and commands that only a command line has.

use super::terminal::Terminal;
use super::{CommandResult, logs, mcp, run, trust};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, ValueHint, value_parser};
use clap_complete::Shell;
use proctor_core::config::listen::Port;
use proctor_ops::error::TABLE as CODES;
use proctor_ops::table::{Entry, TABLE, find};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Display order after all other options.
const AFTER_ALL_OTHERS: usize = 1000;

/// Parses the words. Only the called command is built: a tenth of the tree takes a tenth of the time. If that fails (help,
/// errors), the whole tree answers.
pub(crate) fn parse(words: &[OsString]) -> Result<ArgMatches, clap::Error> {
    let matches = branch(words).and_then(|root| root.try_get_matches_from(words).ok());
    matches.map_or_else(|| command().try_get_matches_from(words), Ok)
}

/// Returns a tree with only the command that these words seem to call.
fn branch(words: &[OsString]) -> Option<Command> {
    let mut words = words.get(1..)?.iter().filter_map(|word| word.to_str());
    let word = loop {
        match words.next()? {
            "--home" => drop(words.next()),
            option if option.starts_with('-') => {}
            word => break word,
        }
    };
    let entry = TABLE.iter().find(|entry| match entry.meta.cli {
        [name] => *name == word || entry.meta.aliases.contains(&word),
        _ => false,
    })?;
    Some(root().disable_help_subcommand(true).subcommand(of(entry, entry.meta.cli[0])))
}

/// Commands of two words, by the first.
const NOUNS: &[(&str, &str, &str)] = &[
    ("file", "Files below the roots: read, search, change, undo", "proctor file list"),
    (
        "git",
        "Git repositories of the services: status, diff, log, commit, restore, branch and more",
        "proctor git status",
    ),
    ("operation", "Long operations: list, status, cancel", "proctor operation list"),
    ("mode", "The runtime mode: get, switch", "proctor mode get"),
    ("daemon", "Proctor itself: start, stop, status, upgrade", "proctor daemon status"),
    ("audit", "The audit log: read it, and check that it was not altered", "proctor audit read"),
    ("token", "Tokens for clients of HTTP, TCP and MCP", "proctor token list"),
];

/// Returns the whole tree. The arguments of a command are added when that command is called.
pub(crate) fn command() -> Command {
    let mut root = root().after_help(exit_codes());
    for entry in TABLE {
        if let [word] = entry.meta.cli {
            root = root.subcommand(of(entry, word));
        }
    }
    let nouns = NOUNS.iter().map(|(noun, about, example)| group(noun, about, example));
    root.subcommands(nouns)
        .subcommand(run::command())
        .subcommand(mcp::command())
        .subcommand(trust::command())
        .subcommand(shells())
}

fn group(noun: &'static str, about: &'static str, example: &'static str) -> Command {
    let mut group = Command::new(noun)
        .about(about)
        .after_help(format!("Example:\n  {example}"))
        .subcommand_required(true)
        .arg_required_else_help(true);
    if noun == "daemon" {
        group = group.subcommand(start());
    }
    for entry in TABLE {
        match entry.meta.cli {
            [first, word] if *first == noun => group = group.subcommand(of(entry, word)),
            _ => {}
        }
    }
    group
}

fn root() -> Command {
    Command::new("proctor")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Keeps your services running, and lets people and assistants run them together")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(global())
}

fn of(entry: &Entry, word: &'static str) -> Command {
    let command = Command::new(word)
        .about(entry.meta.summary)
        .after_help(entry.meta.details)
        .visible_aliases(entry.meta.aliases);
    command.defer(match entry.meta.name {
        "log.read" => |command| logs::Options::augment_args(augmented(command, "log.read")),
        "event.read" => {
            |command| super::events::Options::augment_args(augmented(command, "event.read"))
        }
        "service.up" => {
            |command| super::up::Options::augment_args(augmented(command, "service.up"))
        }
        _ => entry.augment(),
    })
}

fn augmented(command: Command, name: &str) -> Command {
    match find(name) {
        Some(entry) => (entry.augment())(command),
        None => command,
    }
}

/// Options of every command, listed after its own.
fn global() -> [Arg; 6] {
    let option = |name: &'static str| {
        Arg::new(name).long(name).global(true).help_heading("Options of every command")
    };
    let flag = |name: &'static str| option(name).action(ArgAction::SetTrue);
    let options = [
        option("home")
            .value_name("DIR")
            .value_parser(value_parser!(PathBuf))
            .value_hint(ValueHint::DirPath)
            .help("Folder for all files of Proctor [env: PROCTOR_HOME]"),
        flag("json")
            .help("Print one JSON document (when following: one per line); errors too, on stderr"),
        flag("no-color").help("Print without colours, as without a terminal or with NO_COLOR"),
        flag("quiet").short('q').help("Print only errors and the requested output"),
        option("help").short('h').action(ArgAction::Help).help("Print help"),
        option("version")
            .short('V')
            .global(false)
            .action(ArgAction::Version)
            .help("Print the version"),
    ];
    let mut order = AFTER_ALL_OTHERS;
    options.map(|option| {
        order += 1;
        option.display_order(order)
    })
}

#[derive(Args)]
pub(crate) struct Start {
    /// Stay in the foreground, for a service manager or a container
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Apply this configuration, like `proctor up -d --config FILE`
    #[arg(long, short, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Port of TCP control until Proctor ends, overriding the configuration: a number, 0 for any free port, or `off`
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<Port>,
    /// Log level of proctor.log: error, warn, info, debug, trace, or a filter as in `RUST_LOG`
    #[arg(long, value_name = "LEVEL", value_parser = log_level)]
    pub(crate) log_level: Option<String>,
    /// Set by a keeper in the foreground that calls this command to apply its configuration
    #[arg(long, hide = true)]
    pub(crate) begun: bool,
}

/// Parses a level, or a filter with `module=level` parts. A single word that is not a level would be taken as a module and
/// silence everything else.
fn log_level(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    if text.contains('=') || LEVELS.contains(&text.to_ascii_lowercase().as_str()) {
        return Ok(text.to_owned());
    }
    Err(format!("expected one of {}, or a filter such as proctor_engine=debug", LEVELS.join(", ")))
}

fn start() -> Command {
    Command::new("start")
        .about("Start Proctor and the services that should run")
        .after_help("A configuration that this home does not run yet is applied like `proctor up -d`: --config, then PROCTOR_CONFIG or \
MAGICTUNNEL_CONFIG, then the nearest proctor.yaml from this folder upwards, then SUPERVISOR_TARGET_CMD. Otherwise the last one is \
used.\n\nExamples:\n  proctor daemon start\n  proctor --home /srv/app daemon start --foreground --config /srv/app/proctor.yaml")
        .defer(Start::augment_args)
}

fn shells() -> Command {
    Command::new("completions")
        .about("Print a completion script for a shell")
        .after_help("Example:\n  proctor completions bash > ~/.local/share/bash-completion/completions/proctor")
        .arg(Arg::new("shell").value_name("SHELL").required(true).value_parser(value_parser!(Shell)))
}

pub(crate) fn completions(arguments: &ArgMatches, terminal: &Terminal) -> CommandResult {
    let mut script = Vec::new();
    if let Some(shell) = arguments.get_one::<Shell>("shell") {
        clap_complete::generate(*shell, &mut command(), "proctor", &mut script);
    }
    terminal.bytes(&script)?;
    Ok(0)
}

/// Returns the exit codes, with the error codes that lead to them.
fn exit_codes() -> String {
    let width = CODES.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let mut text = String::from("Exit codes, and the codes of errors with --json:\n  0  success\n");
    let mut last = 0;
    for row in CODES {
        let number = if row.exit == last { String::new() } else { row.exit.to_string() };
        last = row.exit;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {number:1}  {:width$}  {}", row.name, row.meaning);
    }
    text.push_str(
        "`proctor run` exits with the code of the program, or 128 and the number of the signal that \
         ended it, or 126 if it could not be executed.",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_its_place_in_the_tree() {
        for entry in TABLE {
            let known = |noun: &str| NOUNS.iter().any(|(name, _, _)| *name == noun);
            match entry.meta.cli {
                [_] => {}
                [noun, _] => assert!(known(noun), "{noun} is not in NOUNS"),
                words => panic!("{words:?}: one word or two"),
            }
        }
    }

    #[test]
    fn the_tree_is_sound_and_every_command_has_an_example() {
        let mut root = command();
        root.build();
        root.clone().debug_assert();
        let mut commands: Vec<Command> = root.get_subcommands().cloned().collect();
        commands.retain(|command| command.get_name() != "help");
        let nested: Vec<Command> =
            commands.iter().flat_map(|c| c.get_subcommands().cloned()).collect();
        commands.extend(nested);
        assert!(commands.len() >= TABLE.len() + 4, "only {}", commands.len());
        for command in commands.iter().filter(|c| c.get_name() != "help") {
            let help = command.clone().render_long_help().to_string();
            assert!(help.contains("  proctor "), "{} has no example:\n{help}", command.get_name());
            assert!(help.contains("--json"), "{} has no --json", command.get_name());
        }
    }

    /// Checks that both ways give the same matches, and that only one way ends in an error.
    #[track_caller]
    fn check_parsed(line: &str, alone: bool) {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let by_branch = branch(&words).and_then(|root| root.try_get_matches_from(&words).ok());
        assert_eq!(by_branch.is_some(), alone, "{line}");
        let all = command().try_get_matches_from(&words);
        let parsed = parse(&words);
        match (&parsed, &all) {
            (Ok(parsed), Ok(all)) => {
                assert_eq!(parsed.subcommand(), all.subcommand(), "{line}");
                let home = |matches: &ArgMatches| matches.get_one::<PathBuf>("home").cloned();
                assert_eq!(home(parsed), home(all), "{line}");
                for flag in ["json", "no-color", "quiet"] {
                    assert_eq!(parsed.get_flag(flag), all.get_flag(flag), "{line}");
                }
            }
            (Err(parsed), Err(all)) => assert_eq!(parsed.to_string(), all.to_string(), "{line}"),
            _ => panic!("{line}: {parsed:?} and {all:?}"),
        }
    }

    #[test]
    fn a_command_means_the_same_alone_and_in_the_whole_tree() {
        check_parsed("proctor list", true);
        check_parsed("proctor --home status ls --json -q", true);
        check_parsed("proctor ps --state failed --home=x", true);
        check_parsed("proctor status list --check", true);
        check_parsed("proctor logs -f web --no-color", true);
        check_parsed("proctor start --name a --command list", true);
        check_parsed("proctor daemon status", false);
        check_parsed("proctor run -- list", false);
        check_parsed("proctor list --help", false);
        check_parsed("proctor help list", false);
        check_parsed("proctor list --stat failed", false);
        check_parsed("proctor lst", false);
        check_parsed("proctor --home list", false);
        check_parsed("proctor -V", false);
        check_parsed("proctor", false);
    }

    #[test]
    fn every_exit_code_is_in_the_help() {
        let help = command().render_long_help().to_string();
        for row in CODES {
            assert!(help.contains(row.name), "{} is not documented", row.name);
        }
    }

    #[test]
    fn every_shell_gets_a_script() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command(), "proctor", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("restart-policy"), "{shell}: deferred arguments are missing");
        }
    }
}
