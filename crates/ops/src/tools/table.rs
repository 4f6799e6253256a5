//! Table of the tools for processes, logs and Proctor itself.

use super::{Tool, Toolset, files, git};

/// Every tool, in the order of the list.
pub static TOOLS: &[Tool] = &[
    Tool::new(
        "service.list",
        "list_processes",
        Toolset::Processes,
        "List processes",
        "All supervised processes in brief: state, pid, port, URL, restarts, health. Start here.",
    )
    .hiding(&["names", "usage", "no_usage", "owner", "ports", "cursors"])
    .usually(r#"{"ports":true,"cursors":true,"limit":50}"#)
    .in_brief(),
    Tool::new(
        "service.status",
        "get_process_status",
        Toolset::Processes,
        "Status of processes",
        "Full status of the named processes: state and reason, pid, ports, URL, last exit, health, CPU, memory. Explains why a process failed.",
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
        "Use this instead of sleep: wait until processes are 'ready' or have exited, a log line matches, or a port opens. Returns at once if that cannot happen any more, with the missing condition and the last lines. At most 50 seconds a call; then call again.",
    )
    .usually(r#"{"until":"ready"}"#)
    .hiding(&["generation", "tail"])
    .in_brief(),
    Tool::new(
        "service.stop",
        "stop_process",
        Toolset::Processes,
        "Stop processes",
        "Stop processes and all their children; returns when all have ended, so ports are free again.",
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
        "Restart processes with their current settings, or with other arguments until the next stop or restart.",
    )
    .destroys()
    .hiding(&["no_wait"])
    .changing(),
    Tool::new(
        "service.remove",
        "remove_process",
        Toolset::Processes,
        "Remove processes",
        "Stop and remove processes that were added at run time (not those of proctor.yaml). Their logs stay readable.",
    )
    .destroys()
    .settles()
    .hiding(&["wait", "no_wait"]),
    Tool::new(
        "service.lease",
        "renew_lease",
        Toolset::Processes,
        "Renew a lease",
        "Show or set how long a process started with 'lease' is kept; using it also renews the lease. 'none' keeps it permanently.",
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
        "Run a command to its end and return exit code and output: builds, tests, migrations. Not for servers: use start_process. After 45 seconds the reply names an operation to follow with get_operation.",
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
        "Restart one process with commands before and after it (build, migrate, check). If a step before it fails, the restart is skipped.",
    )
    .destroys()
    .changing(),
    Tool::new(
        "service.up",
        "apply_config",
        Toolset::Processes,
        "Run a configuration",
        "Apply proctor.yaml: define its services and start those with autostart.",
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
        "Every setting and its origin; with 'check', problems of a file; with 'example', a commented proctor.yaml.",
    ),
    Tool::new(
        "operation.status",
        "get_operation",
        Toolset::Processes,
        "Follow an operation",
        "Progress or result of a long operation. 'timeout' waits for its end, at most 50 seconds a call.",
    )
    .usually(r#"{"wait":45}"#)
    .hiding(&["seen"]),
    Tool::new(
        "operation.cancel",
        "cancel_operation",
        Toolset::Processes,
        "Cancel an operation",
        "Cancel a running operation.",
    )
    .destroys()
    .settles(),
    Tool::new(
        "log.read",
        "get_process_logs",
        Toolset::Logs,
        "Read logs",
        "Output of processes: the last lines, or with 'cursor' only lines after an earlier reply. Filter with 'errors' or 'grep' (a regular expression). 'timeout' waits for new lines, at most 50 seconds a call.",
    )
    .usually(r#"{"tail":100,"fold":true,"max_bytes":16000,"text":true}"#)
    .hiding(&["raw", "text", "max_line", "until", "invert", "tail_each", "fold", "max_bytes"])
    .speaking(&["items", "text"]),
    Tool::new(
        "event.read",
        "get_events",
        Toolset::Logs,
        "Read events",
        "Events: starts, crashes with exit codes, restarts, health changes. Pass 'cursor' back to get only new events; 'timeout' waits for one.",
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
        "Whether all processes that should run are healthy, and the problems of those that are not.",
    ),
    Tool::new(
        "service.add",
        "add_process",
        Toolset::System,
        "Define a process",
        "Define a process with all settings, without starting it unless asked. Usually start_process is enough.",
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
        "Long operations: running and recently ended ones.",
    ),
    Tool::new(
        "daemon.metrics",
        "get_metrics",
        Toolset::System,
        "Numbers",
        "Metrics of processes, operations and Proctor itself.",
    ),
    Tool::new(
        "daemon.status",
        "get_daemon_status",
        Toolset::System,
        "Status of Proctor",
        "Status of Proctor itself: versions, processes, listeners, problems.",
    ),
    Tool::new(
        "daemon.stop",
        "stop_daemon",
        Toolset::System,
        "Stop Proctor",
        "Stop Proctor and its processes; they come back when it starts again.",
    )
    .destroys(),
    Tool::new(
        "daemon.upgrade",
        "upgrade_daemon",
        Toolset::System,
        "Upgrade Proctor",
        "Replace the running Proctor with another binary, in place; processes keep running.",
    )
    .destroys(),
    Tool::new(
        "audit.read",
        "read_audit",
        Toolset::System,
        "Read the audit log",
        "The newest entries of the audit log: caller, interface, operation and result.",
    ),
    Tool::new(
        "audit.verify",
        "verify_audit",
        Toolset::System,
        "Verify the audit log",
        "Check that the audit log was not altered.",
    ),
    Tool::new(
        "token.create",
        "create_token",
        Toolset::System,
        "Create a token",
        "Create a token for HTTP, TCP or MCP. Its secret is shown once.",
    ),
    Tool::new(
        "token.list",
        "list_tokens",
        Toolset::System,
        "List tokens",
        "All tokens, without their secrets.",
    ),
    Tool::new(
        "token.revoke",
        "revoke_token",
        Toolset::System,
        "Revoke a token",
        "Revoke a token.",
    )
    .destroys()
    .settles(),
    Tool::new(
        "token.path",
        "get_token_path",
        Toolset::System,
        "File of the first token",
        "The path of the file with the first token.",
    ),
    Tool::new(
        "mode.get",
        "get_mode",
        Toolset::System,
        "Show the mode",
        "The runtime mode and its features.",
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
