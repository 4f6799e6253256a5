//! Examples of inputs: the lines that the help of a command shows, as JSON.

use clap::Command;
use proctor_ops::table::Entry;
use serde_json::Value;

/// Each once, in the order of the help; commands that a shell would have to read are left out.
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

/// The input that the words of a command mean; `None` if they are for a command line only.
fn input(entry: &Entry, words: Vec<String>) -> Option<Value> {
    let called = words.first().is_some_and(|word| word == "proctor");
    let words = words.into_iter().skip(entry.meta.cli.len()).filter(|word| word != "--json");
    let command = (entry.augment())(Command::new("proctor").disable_help_flag(true));
    let matches = command.try_get_matches_from(words).ok().filter(|_| called)?;
    entry.input(&matches).ok()
}
