//! The configuration of access: authentication, allowed commands, assistants, the audit.

use super::backups::{self, Backups};
use super::execute::{self, Execute};
use super::git::{self, Git};
use super::listen::Listeners;
use super::mcp::{self, Mcp};
use super::own_settings;
use super::problem::TextPosition;
use super::read::{Layer, Reader};
use super::secret::HIDDEN;
use super::value::Value;
use super::{ConfigContext, Problem, finish};
use crate::access::AnonymousAccess;
use crate::command_allowlist;
use std::collections::BTreeSet;
use std::fmt;

/// Permissions of callers, and the audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Security {
    /// Permissions of callers without a token.
    pub strangers: AnonymousAccess,
    /// A token with the role admin, besides those of `proctor token`.
    pub token: Option<ConfiguredToken>,
    /// The operations that network fronts offer; `None` means all.
    pub allowed: Option<BTreeSet<&'static str>>,
    /// Commands that callers over the network may run, and variables they may set.
    pub execute: Execute,
    /// Permissions and tools of assistants.
    pub mcp: Mcp,
    pub audit: Audit,
    pub git: Git,
    /// Backups of changed files.
    pub backups: Backups,
}

/// The settings of the audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audit {
    /// Whether reads are recorded too.
    pub reads: bool,
    /// Maximum size of a file before the next one begins.
    pub max_size: u64,
    /// Maximum number of files.
    pub max_files: usize,
}

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfiguredToken(pub String);

impl fmt::Debug for ConfiguredToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Audit {
    pub const USUAL: Audit = Audit { reads: false, max_size: 16 << 20, max_files: 64 };
}

impl Security {
    /// Used if the configuration in force cannot be read: its restrictions are unknown, so nothing
    /// is allowed.
    pub const CLOSED: Security = Security {
        strangers: AnonymousAccess::Nothing,
        token: None,
        allowed: Some(BTreeSet::new()),
        execute: Execute::NOTHING,
        mcp: Mcp::CLOSED,
        audit: Audit::USUAL,
        git: Git::USUAL,
        backups: Backups::USUAL,
    };

    /// The settings without a configuration: defaults and variables.
    pub fn without_file(var: &dyn Fn(&str) -> Option<String>) -> Result<Security, Vec<Problem>> {
        let around = ConfigContext { base_dir: "/", var, read: &|_| Err("there is none".into()) };
        let mut reader = Reader::new("environment", &around);
        let own = own_settings::take(&mut reader, &mut Layer::new());
        let security = read(&mut reader, &own, &Listeners::OFF, TextPosition::START);
        finish(reader, Vec::new(), Some(security), ("", ""))
    }
}

pub(super) fn read(
    reader: &mut Reader<'_>,
    own: &Layer,
    listeners: &Listeners,
    start: TextPosition,
) -> Security {
    let value = |key: &str| own.get(key).map(|found| &found.value);
    let flag = |key: &str| value(key) == Some(&Value::Bool(true));
    let spot = |key: &str| own.get(key).and_then(|found| found.place).unwrap_or(start);
    let strangers = match (flag("security.authentication.enabled"), flag(ANONYMOUS_READ)) {
        (false, _) => AnonymousAccess::All,
        (true, true) => AnonymousAccess::Read,
        (true, false) => AnonymousAccess::Nothing,
    };
    let away = !listeners.http.place.is_local();
    if away && flag("security.bind_to_localhost") {
        let message = "supervisor.http.host: other machines can reach this address, and security.bind_to_localhost forbids it";
        reader.problem(spot("http.host"), message.into(), Some("use 127.0.0.1".into()));
    }
    if away && strangers == AnonymousAccess::All {
        let message = "supervisor.security.authentication: it is switched off, and other machines can reach supervisor.http.host";
        let help = "switch it on, or use 127.0.0.1";
        reader.problem(spot("security.authentication.enabled"), message.into(), Some(help.into()));
    }
    let token = match value("security.authentication.token") {
        Some(Value::Text(word)) => Some(ConfiguredToken(word.text.clone())),
        _ => None,
    };
    let allowed = match value("security.allowed_commands") {
        Some(Value::Words(words)) => {
            Some(words.iter().flat_map(|word| command_allowlist::operations(&word.text)).collect())
        }
        _ => None,
    };
    let execute = execute::read(reader, own, start);
    let git = git::read(reader, own, start);
    let (mcp, audit, backups) = (mcp::read(own), audit(own), backups::read(own));
    Security { strangers, token, allowed, execute, mcp, audit, git, backups }
}

const ANONYMOUS_READ: &str = "security.authentication.anonymous_read";

fn audit(own: &Layer) -> Audit {
    let value = |key: &str| own.get(key).map(|found| &found.value);
    let usual = Audit::USUAL;
    Audit {
        reads: value("security.audit.reads") == Some(&Value::Bool(true)),
        max_size: match value("security.audit.max_size") {
            Some(Value::Bytes(bytes)) => *bytes,
            _ => usual.max_size,
        },
        max_files: match value("security.audit.max_files") {
            Some(Value::Number(count)) => usize::try_from(*count).unwrap_or(usual.max_files),
            _ => usual.max_files,
        },
    }
}
