//! Keys that people try but the file does not have: some are not supported yet, others are set
//! elsewhere. They are refused by name, because silently ignoring a setting is worse than refusing
//! it.

use super::Scope;

pub(in super::super) struct UnsupportedKey {
    /// The block of the key; `None` at the level of `scope`.
    pub block: Option<&'static str>,
    pub name: &'static str,
    pub scope: Scope,
    pub status: Status,
}

/// The reason a key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Status {
    /// Not supported yet; the text names the feature.
    Later(&'static str),
    /// Supported in another way; the text says how.
    Instead(&'static str),
}

const fn planned(name: &'static str, scope: Scope, what: &'static str) -> UnsupportedKey {
    UnsupportedKey { block: None, name, scope, status: Status::Later(what) }
}

const fn instead(name: &'static str, scope: Scope, hint: &'static str) -> UnsupportedKey {
    UnsupportedKey { block: None, name, scope, status: Status::Instead(hint) }
}

const fn probe(name: &'static str, what: &'static str) -> UnsupportedKey {
    UnsupportedKey {
        block: Some("health_check"),
        name,
        scope: Scope::Both,
        status: Status::Later(what),
    }
}

/// The help for keys that people use for commands around a restart.
const WORKFLOW: &str = "commands around a restart are given with it: `proctor custom-restart NAME --pre-command COMMAND`";

const PLANNED: &[UnsupportedKey] = &[
    instead("tcp", Scope::Supervisor, "set 'port' and 'host' for TCP control"),
    instead(
        "mcp",
        Scope::Service,
        "'mcp' belongs in 'supervisor'; 'assistants' is for one service",
    ),
    planned("web", Scope::Supervisor, "web page"),
    planned("dashboard", Scope::Supervisor, "web page"),
    planned("mode", Scope::Supervisor, "runtime modes"),
    planned("plugins", Scope::Supervisor, "plugins"),
    planned("alerts", Scope::Both, "alerts"),
    instead(
        "metrics",
        Scope::Both,
        "metrics need no key: they are at /metrics of the HTTP port, and `proctor metrics` shows them",
    ),
    planned("depends_on", Scope::Service, "dependencies between services"),
    instead(
        "lease",
        Scope::Both,
        "a lease is for a service that is added at run time: `proctor start --name NAME --lease 2h`",
    ),
    instead("workflow", Scope::Both, WORKFLOW),
    instead("workflows", Scope::Both, WORKFLOW),
    instead("pre_commands", Scope::Both, WORKFLOW),
    instead("post_commands", Scope::Both, WORKFLOW),
    planned("ready", Scope::Service, "readiness probes"),
    planned("readiness", Scope::Service, "readiness probes"),
    probe("tcp", "TCP probes"),
    probe("exec", "command probes"),
    probe("command", "command probes"),
    probe("grpc", "gRPC probes"),
    probe("http", "other HTTP probes"),
];

/// Finds the entry of the key `name`, if people are known to try it here.
pub(in super::super) fn find(
    block: Option<&str>,
    name: &str,
    here: Scope,
) -> Option<&'static UnsupportedKey> {
    PLANNED.iter().find(|it| it.block == block && it.name == name && it.scope.allows(here))
}
