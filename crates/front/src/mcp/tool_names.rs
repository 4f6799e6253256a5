//! Replaces commands in hints with the offered tools, because an assistant has no command line.

use proctor_ops::tools::{TOOLS, Tool, Toolset};
use serde_json::Value;

/// Fields with our own text that may name a command.
const HINTS: [&str; 4] = ["help", "message", "missing", "note"];

/// Replaces `` `proctor list` `` with list_processes. A tool that is not offered is named as its command.
pub(super) fn in_tools(text: &str, offered: &[Toolset]) -> String {
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, quoted)) = rest.split_once('`')
        && let Some((command, after)) = quoted.split_once('`')
    {
        said += &offered_only(before, offered);
        match tool_of(command).filter(|tool| offered.contains(&tool.set)) {
            Some(tool) => said += tool.name,
            None => said += &format!("`{command}`"),
        }
        rest = after;
    }
    said + &offered_only(rest, offered)
}

/// Does this in every hint of a reply.
pub(super) fn in_hints(value: &mut Value, offered: &[Toolset]) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match HINTS.contains(&key.as_str()) {
                    true => in_texts(value, offered),
                    false => in_hints(value, offered),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| in_hints(value, offered)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn in_texts(value: &mut Value, offered: &[Toolset]) {
    match value {
        Value::String(text) => *text = in_tools(text, offered),
        Value::Array(values) => values.iter_mut().for_each(|value| in_texts(value, offered)),
        Value::Object(_) => in_hints(value, offered),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces names of tools that are not offered with their commands.
fn offered_only(text: &str, offered: &[Toolset]) -> String {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let mut said = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find(is_part) {
        let word = &rest[begin..];
        let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
        said += &rest[..begin];
        said += &match proctor_ops::tools::find(&word[..end]) {
            Some(tool) if !offered.contains(&tool.set) => command_of(tool),
            Some(_) | None => word[..end].to_owned(),
        };
        rest = &word[end..];
    }
    said + rest
}

fn command_of(tool: &Tool) -> String {
    format!("`proctor {}`", tool.entry().meta.cli.join(" "))
}

fn tool_of(command: &str) -> Option<&'static Tool> {
    let mut words = command.split_whitespace();
    let (program, words) = (words.next()?, words.collect::<Vec<_>>());
    let called = |tool: &&Tool| {
        let meta = &tool.entry().meta;
        let alias =
            meta.cli.len() == 1 && words.first().is_some_and(|word| meta.aliases.contains(word));
        !meta.cli.is_empty() && (words.starts_with(meta.cli) || alias)
    };
    (program == "proctor").then(|| TOOLS.iter().find(called)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn commands_are_said_as_tools() {
        let check =
            |text, expected: &str| assert_eq!(in_tools(text, &Toolset::ALL), expected, "{text}");
        check("`proctor list` shows all", "list_processes shows all");
        check("`proctor daemon status` tells", "get_daemon_status tells");
        check("use `proctor nothing` or `x`", "use `proctor nothing` or `x`");
        check("`proctor start web` or `proctor up`", "start_process or apply_config");
        check("a ` b", "a ` b");
    }

    #[test]
    fn a_hint_names_no_tool_that_is_not_offered() {
        let check =
            |text, expected: &str| assert_eq!(in_tools(text, &[Toolset::Logs]), expected, "{text}");
        check("`proctor list` shows all", "`proctor list` shows all");
        check("get_process_logs or list_processes", "get_process_logs or `proctor list`");
        let mut reply = json!({ "services": [{ "help": "`proctor logs web` shows it" }] });
        in_hints(&mut reply, &[Toolset::Logs]);
        assert_eq!(reply["services"][0]["help"], "get_process_logs shows it");
    }
}
