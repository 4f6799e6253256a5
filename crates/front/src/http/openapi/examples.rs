//! Examples of inputs: the command lines of the help, as JSON.

use clap::Command;
use proctor_ops::table::Entry;
use serde_json::Value;

/// Returns each example once, in the order of the help, without commands that need a shell.
pub(super) fn examples(entry: &Entry) -> Vec<Value> {
    let lines = entry.meta.details.lines().filter_map(|line| line.strip_prefix("  "));
    let plain =
        lines.filter(|line| !line.contains(['|', '>', '&', '$', '`']) || line.contains('\''));
    let mut found: Vec<Value> = Vec::new();
    for line in plain {
        let input = shlex::split(line).and_then(|words| input(entry, words));
        if let Some(input) = input.filter(|input| !found.contains(input)) {
            found.push(input);
        }
    }
    found
}

/// Returns the input of a command's words; `None` if they work only on a command line.
fn input(entry: &Entry, words: Vec<String>) -> Option<Value> {
    let called = words.first().is_some_and(|word| word == "proctor");
    let words = words.into_iter().skip(entry.meta.cli.len()).filter(|word| word != "--json");
    let command = (entry.augment())(Command::new("proctor").disable_help_flag(true));
    let matches = command.try_get_matches_from(words).ok().filter(|_| called)?;
    entry.input(&matches).ok()
}
