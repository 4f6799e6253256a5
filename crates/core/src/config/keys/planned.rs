//! Keys that are known and not supported yet. They are refused by name, because a setting that is silently
//! ignored is worse than one that is missing.

use super::Scope;

pub(in super::super) struct Planned {
    /// Where it would stand: `None` at the level of `scope`, `Some` in that block.
    pub block: Option<&'static str>,
    pub name: &'static str,
    pub scope: Scope,
    /// What it will be.
    pub what: &'static str,
}

const fn planned(name: &'static str, scope: Scope, what: &'static str) -> Planned {
    Planned { block: None, name, scope, what }
}

const fn probe(name: &'static str, what: &'static str) -> Planned {
    Planned { block: Some("health_check"), name, scope: Scope::Both, what }
}

const PLANNED: &[Planned] = &[
    planned("tcp", Scope::Supervisor, "TCP control"),
    planned("mcp", Scope::Service, "MCP servers"),
    planned("web", Scope::Supervisor, "web page"),
    planned("dashboard", Scope::Supervisor, "web page"),
    planned("mode", Scope::Supervisor, "runtime modes"),
    planned("plugins", Scope::Supervisor, "plugins"),
    planned("alerts", Scope::Both, "alerts"),
    planned("metrics", Scope::Both, "metrics"),
    planned("depends_on", Scope::Service, "dependencies between services"),
    planned("lease", Scope::Both, "leases"),
    planned("workflow", Scope::Both, "restart workflows"),
    planned("workflows", Scope::Both, "restart workflows"),
    planned("pre_commands", Scope::Both, "restart workflows"),
    planned("post_commands", Scope::Both, "restart workflows"),
    planned("ready", Scope::Service, "readiness probes"),
    planned("readiness", Scope::Service, "readiness probes"),
    probe("tcp", "TCP probes"),
    probe("exec", "command probes"),
    probe("command", "command probes"),
    probe("grpc", "gRPC probes"),
    probe("http", "other HTTP probes"),
    probe("start_period", "readiness probes"),
];

/// What the key `name` will be, if it is known for later.
pub(in super::super) fn find(
    block: Option<&str>,
    name: &str,
    here: Scope,
) -> Option<&'static Planned> {
    PLANNED.iter().find(|it| it.block == block && it.name == name && it.scope.allows(here))
}
