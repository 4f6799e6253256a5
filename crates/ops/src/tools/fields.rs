//! Input fields as assistants see them: the same name in all tools, with the shortest useful description.
//!
//! The names on the wire do not change; `field_aliases` accepts both.

use super::Tool;

/// Prefix of the list of fields that an operation accepts.
const KNOWN: &str = "known: ";

/// Fields that tools show under another name, so all tools agree.
const SHOWN_AS: [(&str, &str); 6] = [
    ("services", "names"),
    ("service", "name"),
    ("timeout_seconds", "timeout"),
    ("wait", "timeout"),
    ("most", "limit"),
    ("rev", "revision"),
];

/// Returns the name that tools show for a field of an operation.
pub fn shown_as(field: &str) -> &str {
    SHOWN_AS.iter().find(|(own, _)| *own == field).map_or(field, |(_, shown)| shown)
}

/// Replaces field names in a message about the input of a tool: `timeout: …`, `'timeout'`, `known: …`.
pub fn in_shown_names(tool: &Tool, message: &str) -> String {
    let mut said = message.to_owned();
    if let Some(rest) = said.strip_prefix(tool.operation) {
        said = format!("{}{rest}", tool.name);
    }
    if let Some(known) = said.strip_prefix(KNOWN) {
        let listed = known.split(", ").filter(|field| !tool.hides.contains(field));
        return KNOWN.to_owned() + &listed.map(shown_as).collect::<Vec<_>>().join(", ");
    }
    for (own, shown) in SHOWN_AS {
        if let Some(rest) = said.strip_prefix(own).filter(|rest| rest.starts_with(':')) {
            said = format!("{shown}{rest}");
        }
        said = said.replace(&format!("'{own}'"), &format!("'{shown}'"));
    }
    said
}

/// Returns the description of a field of a tool; empty if the name is enough. `field` is the operation's own name.
pub fn words(tool: &str, field: &str) -> &'static str {
    of_tool(tool, field).unwrap_or_else(|| of_any(field))
}

fn of_tool(tool: &str, field: &str) -> Option<&'static str> {
    Some(match (tool, field) {
        ("list_processes", "after") => "Continue after this name",
        ("start_process", "names") => "Existing processes to start",
        ("start_process", "name") => "Define a new process with this name",
        ("start_process", "port") => "Port it listens on, passed as PORT",
        ("wait_for_process", "port") => "Until they listen on this port",
        ("wait_for_process", "cursor") => "With 'log': only lines after this",
        ("wait_for_process", "log") => "Until a line matches this regex, in this run",
        ("change_and_check", "log") => "Until a line matches this regex",
        ("wait_for_process", "timeout") => "Seconds, at most 50",
        ("get_process_logs", "wait") | ("get_events", "wait") => "Seconds to wait for new entries",
        ("get_process_logs", "tail") => "Number of last lines",
        ("get_events", "tail") => "Number of last events",
        ("restart_process", "args") => "Replacement arguments",
        ("run_command", "command") => "Program and arguments; with 'shell', a command line",
        ("run_command", "service") => "Use the environment and folder of this process",
        ("run_command", "timeout_seconds") => "Seconds until it is killed",
        ("get_config", "check") => "Check this file without running it",
        ("get_config", "example") => "A commented proctor.yaml",
        ("apply_config", "names") => "Only these; default all with autostart",
        ("apply_config", "config") => "Default: proctor.yaml of the project",
        ("read_file", "tail") => "Number of last lines",
        ("read_file", "from") => "First line, from 1",
        ("read_file", "lines") => "Number of lines",
        ("list_files", "path") => "Default: the project",
        ("search_files" | "find_files", "path") => "Only below this folder",
        ("write_file", "only_new") => "Fail if the file exists",
        ("apply_diff", "path") => "Folder its paths are relative to",
        ("apply_diff", "fuzz") => "Context lines that may differ",
        ("move_file", "to") => "With a trailing slash: into this folder",
        ("change_in_file", "replace") => "With 'regex', $1 is a group",
        ("change_in_file", "nth") => "Only this occurrence, from 1",
        ("change_in_file", "expect") => "Fail unless there are this many",
        ("undo_edit", "generation") => "Default: the newest",
        ("change_and_check", "service") => "Process to restart; default: the only or primary one",
        ("change_and_check", "files") => "Edits, all or none; an empty 'old' creates a file",
        ("change_and_check", "diff") => "Unified diff, instead of 'files'",
        ("change_and_check", "url") => "Until this responds with 200 to 399",
        ("change_and_check", "commit") => "Commit with this message if it passes",
        ("git_diff", "from") => "Revision, A..B or A...B",
        ("git_diff", "to") | ("git_show", "rev") | ("git_tag", "rev") => "",
        ("git_diff" | "git_show", "stat") => "Only files and line counts",
        ("git_log", "rev") => "Branch, tag, hash or A..B",
        ("git_log", "since") => "2d, 2026-03-01 or RFC 3339",
        ("git_show", "path") => "This file at that revision",
        ("git_commit", "paths") => "Only these, as in the work tree",
        ("git_commit", "all") => "All changed tracked files",
        ("git_add", "all") => "All changes",
        ("git_restore", "from") => "Revision; default: the index",
        ("git_restore", "staged") => "Unstage",
        ("git_branch", "switch") => "After 'create'",
        ("git_branch", "force") => "Delete even if not merged",
        ("git_branch", "from") => "Revision to create it at",
        ("git_stash", "number") => "Stash to pop or drop; default 0, the newest",
        ("git_stash", "untracked") => "Push new files too",
        ("git_resolve", "content") => "With 'done': the whole resolved text",
        _ => return None,
    })
}

fn of_any(field: &str) -> &'static str {
    match field {
        "names" | "services" => "Processes or groups",
        "mine" => "Only those this client started",
        "args" => "More arguments",
        "shell" => "Run it through /bin/sh",
        "health_check_url" => "Restart it when this URL fails",
        "replace" => "Replace what exists",
        "lease" => "Remove it after this long without use: 30m, 2h",
        "none" => "Keep it permanently",
        "purge" => "Delete its logs too",
        "wait" | "timeout" => "Maximum seconds to wait",
        "cursor" => "Continue an earlier reply",
        "since" => "10m, 14:05 or RFC 3339",
        "grep" => "Only matches of this regex",
        "errors" => "Only lines that look like errors",
        "context" => "Lines around each match",
        "bytes" => "As base64",
        "globs" => "*.rs, src/**; ! excludes",
        "types" => "rust, py, js, …",
        "hidden" => "Dotfiles too",
        "no_ignore" => "Ignored files too",
        "literal" => "Plain text, no regex",
        "depth" => "0: everything below",
        "if_hash" => "Fail unless the file has this sha256",
        "old" => "Exact text, unique in the file",
        "repo" => "Folder in the repository, if not this one",
        "dry_run" => "Show the diff only",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::find;

    #[test]
    fn an_error_names_fields_as_the_tool_shows_them() {
        let check = |tool, message, expected: &str| {
            assert_eq!(in_shown_names(find(tool).unwrap(), message), expected);
        };
        check("run_command", "timeout_seconds: invalid type", "timeout: invalid type");
        check("stop_process", "wait: 9 is not between", "timeout: 9 is not between");
        check("stop_process", "service.stop: unknown field 'x'", "stop_process: unknown field 'x'");
        check("stop_process", "known: names, wait, no_wait", "known: names, timeout");
        check("git_log", "did you mean 'rev'?", "did you mean 'revision'?");
        check("git_log", "service: wait for it", "name: wait for it");
    }
}
