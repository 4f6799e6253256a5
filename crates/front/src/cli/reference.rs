//! The reference of all commands as Markdown, for the documentation: their own help, page after page.

use super::tree;
use clap::Command;
use std::fmt::Write as _;

/// Columns of the help in the reference, whatever terminal it is made in.
const WIDTH: usize = 100;

/// `proctor --help`, and a section for each command with the help it prints.
pub fn reference() -> String {
    let mut root = tree::command();
    // Some have commands of their own only when they are called.
    root.build();
    let mut out = String::from(
        "# Commands\n\nWhat `--help` says, made by `cargo xtask gen`. Every command takes the options of the first page, \
         before or after its name.\n",
    );
    section(&mut out, &root, &[root.get_name()]);
    out
}

fn section(out: &mut String, command: &Command, words: &[&str]) {
    let asked = words.iter().copied().chain(["--help"]);
    // Asked for help, clap answers with an error that is the help.
    let help = match tree::command().term_width(WIDTH).try_get_matches_from(asked) {
        Ok(_) => String::new(),
        Err(help) => help.to_string(),
    };
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    // Writing to a String cannot fail.
    let _ = write!(out, "\n## {}\n\n```text\n{}\n```\n", words.join(" "), help.join("\n"));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let words: Vec<&str> = words.iter().copied().chain([inner.get_name()]).collect();
        section(out, inner, &words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_section_with_its_arguments() {
        let text = reference();
        for expected in [
            "\n## proctor\n",
            "\n## proctor up\n",
            "\n## proctor daemon start\n",
            "\n## proctor mcp install\n",
            "Usage: proctor start [OPTIONS] [NAME]...",
            "--restart-policy <POLICY>",
            "  proctor wait web --until ready",
        ] {
            assert!(text.contains(expected), "{expected} is missing:\n{text}");
        }
        assert!(text.lines().all(|line| !line.ends_with(' ')), "spaces at the end of a line");
    }
}
