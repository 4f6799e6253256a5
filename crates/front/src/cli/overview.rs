//! Output of a bare `proctor`: the commands, grouped, on one small screen. Also maps commands of other tools.

use proctor_ops::error::OpError;

/// Fits 80 columns and, with a prompt, 24 lines.
pub(crate) const OVERVIEW: &str = "\
Usage: proctor COMMAND

  up [-d], down          start the services of proctor.yaml; stop all
  list, status NAME      all services; details of one
  logs [-f] [NAME]       output of services
  start, stop, restart   one service, a group, or all
  start --name N --command C
                         a service without a file (also: add, remove, lease)
  run -- PROGRAM         a program in the foreground, supervised
  wait, signal           wait for a service; send it a signal
  events, health, metrics
                         events, health and metrics of services
  config, reload         check and show the configuration; read it again
  execute, custom-restart, operation
                         run a command; restart with commands around it
  file, git, change      the code behind the services
  mcp install CLIENT     set up an assistant (Claude Code, Cursor, VS Code, …)
  daemon, mode, token, audit, trust, completions
                         Proctor itself, and access to it

`proctor COMMAND --help` explains a command, `proctor --help` lists all.
";

/// Commands of other tools, and the equivalent command here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("top", "proctor list"),
    ("monit", "proctor events --follow"),
    ("delete", "proctor remove NAME"),
    ("del", "proctor remove NAME"),
    ("init", "proctor config --example > proctor.yaml"),
    ("kill", "proctor stop NAME"),
    ("show", "proctor status NAME"),
    ("describe", "proctor status NAME"),
    ("info", "proctor status NAME"),
    ("tail", "proctor logs --follow NAME"),
    ("attach", "proctor logs --follow NAME"),
    ("enable", "proctor start NAME"),
    ("disable", "proctor stop NAME"),
    ("shutdown", "proctor down"),
    ("update", "proctor up -d"),
    ("reread", "proctor reload"),
    ("validate", "proctor config --check FILE"),
    ("exec", "proctor execute -- PROGRAM"),
    ("install", "proctor mcp install CLIENT"),
    ("upgrade", "proctor daemon upgrade"),
    ("version", "proctor --version"),
];

/// Returns the error for a word that is a command in other tools.
pub(crate) fn known_elsewhere(word: &str) -> Option<OpError> {
    let (_, command) = ELSEWHERE.iter().find(|(known, _)| *known == word)?;
    let error = OpError::bad_input(format!("unknown command '{word}'"));
    Some(error.help(format!("did you mean `{command}`?")))
}

#[cfg(test)]
mod tests {
    use super::super::command_tree;
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn the_overview_fits_a_small_terminal_and_names_every_command() {
        let lines: Vec<&str> = OVERVIEW.lines().collect();
        assert!(lines.len() <= 23, "{} lines and a prompt", lines.len());
        assert!(lines[2].contains("up [-d]"), "the commands come first");
        for line in &lines {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let words: Vec<&str> = OVERVIEW.split([' ', ',', ')', '\n']).collect();
        for command in command_tree::command().get_subcommands() {
            assert!(words.contains(&command.get_name()), "{} is missing", command.get_name());
        }
    }

    #[test]
    fn what_is_meant_by_a_word_of_another_tool_is_a_command_here() {
        let root = command_tree::command();
        for (word, command) in ELSEWHERE {
            assert!(root.find_subcommand(word).is_none(), "{word} is a command");
            let words: Vec<OsString> =
                command.split(" > ").take(1).flat_map(|it| it.split(' ')).map(Into::into).collect();
            let parsed = command_tree::parse(&words);
            let shows_version = command.ends_with("--version");
            let client = command.ends_with("CLIENT");
            assert!(parsed.is_ok() || shows_version || client, "{command}: {parsed:?}");
        }
        let help = known_elsewhere("top").unwrap().help.unwrap();
        assert!(help.contains("proctor list") && !help.contains("stop"), "{help}");
        assert!(known_elsewhere("lst").is_none());
    }
}
