//! Every tool, one line or a few for each.

use super::{Tool, Toolset, files, git};

/// Every tool, in the order in which they are listed.
pub static TOOLS: &[Tool] = &[
    Tool::new(
        "service.list",
        "list_processes",
        Toolset::Processes,
        "List processes",
        "All supervised processes in brief: state, pid, port, URL, restarts, health. Begin here.",
    )
    .hiding(&["names", "usage", "no_usage", "owner", "ports", "cursors"])
    .usually(r#"{"ports":true,"cursors":true,"limit":50}"#)
    .in_brief(),
    Tool::new(
        "service.status",
        "get_process_status",
        Toolset::Processes,
        "Status of processes",
        "All that is known of the named processes: state and why, pid, ports, URL, last exit, health, CPU, memory. For one that failed, the answer to 'why'.",
    )
    .hiding(&["check", "usage", "no_usage", "ports", "cursors"])
    .usually(r#"{"ports":true,"cursors":true,"tail":20}"#)
    .leaving_out(&["run", "wish"]),
    Tool::new(
        "service.start",
        "start_process",
        Toolset::Processes,
        "Start processes",
        "Start processes by 'names', or define and start a new one by 'name' and 'command' (dev servers, watchers, jobs). It keeps running after this call and this conversation, is restarted when it crashes, and its output is kept. Returns as soon as it runs; then use wait_for_process.",
    )
    .settles()
    .hiding(&["argv", "args", "once", "no_wait"])
    .changing(),
    Tool::new(
        "service.wait",
        "wait_for_process",
        Toolset::Processes,
        "Wait for processes",
        "Wait instead of sleeping and asking again: until processes are 'ready', have exited, a log line matches, a port opens. Returns at once when it cannot happen any more, and says what is missing, with the last lines. At most 50 seconds a call; then call again.",
    )
    .usually(r#"{"until":"ready"}"#)
    .hiding(&["generation", "tail"])
    .in_brief(),
    Tool::new(
        "service.stop",
        "stop_process",
        Toolset::Processes,
        "Stop processes",
        "Stop processes and everything they started; returns when nothing of them is left, so ports are free again.",
    )
    .destroys()
    .settles()
    .hiding(&["no_wait"])
    .changing(),
    Tool::new(
        "service.restart",
        "restart_process",
        Toolset::Processes,
        "Restart processes",
        "Stop processes and start them again with their present settings, or with other arguments until they are stopped or restarted.",
    )
    .destroys()
    .hiding(&["no_wait"])
    .changing(),
    Tool::new(
        "service.remove",
        "remove_process",
        Toolset::Processes,
        "Remove processes",
        "Stop and forget processes that were added at run time (not those of proctor.yaml). Their logs stay readable.",
    )
    .destroys()
    .settles()
    .hiding(&["wait", "no_wait"]),
    Tool::new(
        "service.lease",
        "renew_lease",
        Toolset::Processes,
        "Renew a lease",
        "How long a process stays that was started with 'lease'; using it renews that, too. 'none' keeps it for good.",
    )
    .settles(),
    Tool::new(
        "service.signal",
        "signal_process",
        Toolset::System,
        "Signal a process",
        "Send a signal such as HUP or USR1. To end a process use stop_process.",
    )
    .destroys(),
    Tool::new(
        "command.execute",
        "run_command",
        Toolset::Processes,
        "Run a command",
        "Run a command to its end and return exit code and output: builds, tests, migrations. Not for servers: use start_process. After 45 seconds the reply has an operation to follow with get_operation.",
    )
    .destroys()
    .hiding(&["argv"])
    .usually(r#"{"timeout_seconds":1800}"#)
    .requiring(&["command"])
    .asking_text(&["command"])
    .speaking(&["stdout", "stderr"]),
    Tool::new(
        "service.custom_restart",
        "restart_with_steps",
        Toolset::System,
        "Restart with steps",
        "Restart one process with commands before and after it (build, migrate, check). A failed step before it skips the restart.",
    )
    .destroys()
    .changing(),
    Tool::new(
        "service.up",
        "apply_config",
        Toolset::Processes,
        "Run a configuration",
        "Run what proctor.yaml says: define its services, start those that are to run.",
    )
    .hiding(&["refresh_env"])
    .destroys()
    .settles()
    .hiding(&["example", "no_wait"])
    .changing(),
    Tool::new(
        "config.show",
        "get_config",
        Toolset::Processes,
        "Show the configuration",
        "Every setting in force and where it came from; with 'check', problems of a file; with 'example', a commented proctor.yaml.",
    ),
    Tool::new(
        "operation.status",
        "get_operation",
        Toolset::Processes,
        "Follow an operation",
        "How far a long operation has got, or its result. 'timeout' waits for its end, at most 50 seconds a call.",
    )
    .usually(r#"{"wait":45}"#)
    .hiding(&["seen"]),
    Tool::new(
        "operation.cancel",
        "cancel_operation",
        Toolset::Processes,
        "Cancel an operation",
        "Cancel a long operation that is under way.",
    )
    .destroys()
    .settles(),
    Tool::new(
        "log.read",
        "get_process_logs",
        Toolset::Logs,
        "Read logs",
        "What processes wrote: the last lines, or with 'cursor' only what is new since an earlier reply. 'errors' or 'grep' (a regular expression) finds what matters. 'timeout' waits for new lines, at most 50 seconds a call.",
    )
    .usually(r#"{"tail":100,"fold":true,"max_bytes":16000,"text":true}"#)
    .hiding(&["raw", "text", "max_line", "until", "invert", "tail_each", "fold", "max_bytes"])
    .speaking(&["items", "text"]),
    Tool::new(
        "event.read",
        "get_events",
        Toolset::Logs,
        "Read events",
        "What happened: starts, crashes with exit codes, restarts, health changes. Pass 'cursor' back to get only what is new; 'timeout' waits for it.",
    )
    .usually(r#"{"tail":50,"limit":100}"#)
    .hiding(&["limit"])
    .speaking(&["events"]),
    files::READ,
    files::SEARCH,
    files::LIST,
    files::FIND,
    files::WRITE,
    files::EDIT,
    files::CHANGE,
    files::APPLY_DIFF,
    files::MOVE,
    files::DELETE,
    files::MAKE_FOLDER,
    files::UNDO,
    files::HISTORY,
    files::CHECK,
    git::STATUS,
    git::DIFF,
    git::LOG,
    git::SHOW,
    git::BLAME,
    git::ADD,
    git::COMMIT,
    git::RESTORE,
    git::BRANCH,
    git::TAG,
    git::STASH,
    git::RESOLVE,
    Tool::new(
        "daemon.health",
        "check_health",
        Toolset::System,
        "Check health",
        "Whether all processes that should run are well, and what is wrong with those that are not.",
    ),
    Tool::new(
        "service.add",
        "add_process",
        Toolset::System,
        "Define a process",
        "Define a process with all settings, without starting it unless asked. start_process is enough for most.",
    )
    .settles()
    .hiding(&["argv"]),
    Tool::new(
        "config.reload",
        "reload_config",
        Toolset::System,
        "Reload the configuration",
        "Read proctor.yaml again without starting or restarting anything.",
    )
    .settles(),
    Tool::new(
        "service.down",
        "shut_down",
        Toolset::System,
        "Stop everything",
        "Stop every process, then Proctor itself.",
    )
    .destroys(),
    Tool::new(
        "operation.list",
        "list_operations",
        Toolset::System,
        "List operations",
        "Long operations: those under way and the last that are over.",
    ),
    Tool::new(
        "daemon.metrics",
        "get_metrics",
        Toolset::System,
        "Numbers",
        "Numbers of processes, operations and Proctor itself.",
    ),
    Tool::new(
        "daemon.status",
        "get_daemon_status",
        Toolset::System,
        "How Proctor is",
        "How Proctor itself is: versions, processes, listeners, problems.",
    ),
    Tool::new(
        "daemon.stop",
        "stop_daemon",
        Toolset::System,
        "End Proctor",
        "End Proctor and its processes; they come back when it is started again.",
    )
    .destroys(),
    Tool::new(
        "daemon.upgrade",
        "upgrade_daemon",
        Toolset::System,
        "Upgrade Proctor",
        "Replace the running Proctor by another binary, in place; processes run on.",
    )
    .destroys(),
    Tool::new(
        "audit.read",
        "read_audit",
        Toolset::System,
        "Read the audit",
        "Who did what lately, through which front, and what came of it.",
    ),
    Tool::new(
        "audit.verify",
        "verify_audit",
        Toolset::System,
        "Verify the audit",
        "Check that nobody altered what is written of who did what.",
    ),
    Tool::new(
        "token.create",
        "create_token",
        Toolset::System,
        "Make a token",
        "Make a token for HTTP, TCP or MCP. Its secret is shown once.",
    ),
    Tool::new(
        "token.list",
        "list_tokens",
        Toolset::System,
        "List tokens",
        "The tokens that exist, without their secrets.",
    ),
    Tool::new(
        "token.revoke",
        "revoke_token",
        Toolset::System,
        "Revoke a token",
        "Take a token back.",
    )
    .destroys()
    .settles(),
    Tool::new(
        "token.path",
        "get_token_path",
        Toolset::System,
        "Where the first token is",
        "The file that holds the token of the first start.",
    ),
    Tool::new(
        "mode.get",
        "get_mode",
        Toolset::System,
        "Show the mode",
        "The runtime mode and what belongs to it.",
    ),
    Tool::new(
        "mode.switch",
        "switch_mode",
        Toolset::System,
        "Switch the mode",
        "Switch the runtime mode.",
    )
    .settles(),
];
