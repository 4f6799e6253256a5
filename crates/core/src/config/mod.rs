//! Parses the text of `proctor.yaml` into service definitions. Pure: text, variables and files come
//! in through [`ConfigContext`].
//!
//! ```text
//! text ── tree ──► nodes with places ── read, keys ──► layers ── service ──► definitions, settings
//!                                        (one mapping: one layer)   (service over supervisor over default)
//! ```
//! Every key is declared once, in `keys`: validation, suggestions, [`schema()`] and [`reference()`]
//! come from there. A file is refused as a whole, with all its problems; only keys that begin with
//! `x-` are ignored. Callers check later whether users, programs and ports exist.

pub mod backups;
mod effective;
pub mod envfile;
pub mod execute;
mod file;
pub mod git;
pub mod grants;
mod interpolate;
mod keys;
pub mod listen;
pub mod mcp;
pub mod own_secrets;
mod own_settings;
mod problem;
mod read;
pub mod redact;
mod reference;
pub mod roots;
mod scalar;
mod schema;
pub mod secret;
mod secret_name;
mod secret_option;
mod secret_value;
pub mod security;
mod service;
mod settings;
pub mod signal;
mod string_lists;
mod tree;
mod value;

#[cfg(test)]
mod tests;

pub use problem::Problem;
pub use reference::reference;
pub use schema::schema;

use self::problem::TextPosition;
use self::read::{Layer, Reader};
use crate::assistant_policy::AssistantAccess;
use crate::name::ServiceName;
use crate::spec::{Limit, LogSpec, RestartSpec, StopSpec};
use crate::time::Millis;
use std::collections::BTreeMap;

/// A configuration without errors.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// With instances expanded: `web` with `instances: 2` is `web@1` and `web@2`.
    pub services: Vec<ServiceDef>,
    /// Group name → members (instances expanded), from the services' `groups`.
    pub groups: BTreeMap<String, Vec<ServiceName>>,
    /// Every effective value and its origin, for `proctor config`.
    pub settings: Vec<Setting>,
    pub listeners: listen::Listeners,
    /// Permissions of callers.
    pub security: security::Security,
    /// Variables that no program inherits.
    pub own_secrets: own_secrets::OwnSecrets,
    /// The folders for file operations; `None` if the configuration has no `roots`.
    pub roots: Option<Vec<roots::RootDef>>,
    /// Problems that refuse a new configuration, but not one that is in force.
    pub ambiguities: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ServiceDef {
    pub name: ServiceName,
    pub description: Option<String>,
    pub groups: Vec<String>,
    /// Program and arguments, split and joined; `shell: true` is already `["/bin/sh","-c",…]`.
    pub argv: Vec<String>,
    /// Number of leading words of `argv` that come from `command`; the others come from `args`.
    pub command_words: usize,
    /// Environment of the service over its base: env files, then `env`, then `PORT` and
    /// `PROCTOR_INSTANCE`.
    pub env: Vec<(String, String)>,
    /// Absolute path.
    pub working_dir: String,
    pub user: Option<UserRef>,
    pub umask: Option<u32>,
    pub limits: Vec<Limit>,
    pub nice: Option<i32>,
    pub oom_score_adj: Option<i32>,
    pub port: Option<u16>,
    pub autostart: bool,
    /// The default service of requests that name none.
    pub primary: bool,
    /// Access of assistants to this service.
    pub assistants: AssistantAccess,
    pub stop: StopSpec,
    pub restart: RestartSpec,
    pub logs: LogSpec,
    pub health: Option<HealthCheck>,
}

/// `user: name` or `user: name:group`, names or numbers, not looked up yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRef {
    pub user: String,
    pub group: Option<String>,
    pub supplementary: Vec<String>,
}

/// `health_check_url` and its timing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// `http://host:port/path`; syntax already checked.
    pub url: String,
    pub interval: Millis,
    pub timeout: Millis,
    /// Failures in a row before the run is restarted.
    pub retries: u32,
    /// Failures do not count in a run that is younger than this and was never healthy.
    pub start_period: Millis,
}

/// One effective value of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// `services.web.restart.delay`
    pub key: String,
    /// JSON text; secrets are already `***`.
    pub value: String,
    /// `proctor.yaml:12:7`, `environment SUPERVISOR_TARGET_CMD`, `default`
    pub origin: String,
}

/// The inputs of a configuration besides its text.
pub struct ConfigContext<'a> {
    /// Absolute folder for relative paths.
    pub base_dir: &'a str,
    /// Looks up a variable for `${VAR}`.
    pub var: &'a dyn Fn(&str) -> Option<String>,
    /// Returns the text of an env file (absolute path), or the reason it cannot be read.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Parses a whole `proctor.yaml`. Returns all problems at once, in the order of the text.
pub fn parse(file: &str, text: &str, around: &ConfigContext<'_>) -> Result<Config, Vec<Problem>> {
    let (root, problems) = tree::parse(file, text);
    let mut reader = Reader::new(file, around);
    let config = root.map(|root| file::read(&mut reader, &root));
    let ambiguities = std::mem::take(&mut reader.ambiguities);
    match finish(reader, problems, config, ("the file is empty", file::EXAMPLE)) {
        Ok(config) => Ok(Config { ambiguities, ..config }),
        Err(mut problems) => {
            problems.extend(ambiguities);
            problem::sort(&mut problems, file);
            Err(problems)
        }
    }
}

/// Parses one service's block (YAML or JSON text of a mapping with the keys of `services.NAME`), as
/// `proctor add` and `proctor start --name` send it. `file` names the source in problems. Env files
/// do not set variables that hold one of `secrets`.
pub fn parse_service(
    file: &str,
    name: &str,
    text: &str,
    around: &ConfigContext<'_>,
    secrets: &own_secrets::OwnSecrets,
) -> Result<Vec<ServiceDef>, Vec<Problem>> {
    let (root, problems) = tree::parse(file, text);
    let mut reader = Reader::new(file, around);
    reader.own_secrets.clone_from(secrets);
    let services = root.map(|root| {
        let layers = (&Layer::new(), &reader.defaults());
        file::one(&mut reader, (name, TextPosition::START), &root, layers, |_, _, _| {})
    });
    finish(reader, problems, services, ("the service is empty", "give it a 'command'"))
}

/// Returns the value, or all problems.
fn finish<T>(
    reader: Reader<'_>,
    mut problems: Vec<Problem>,
    read: Option<T>,
    (nothing, help): (&str, &str),
) -> Result<T, Vec<Problem>> {
    let file = reader.file;
    problems.extend(reader.problems);
    if read.is_none() && problems.is_empty() {
        problems.push(TextPosition::START.problem(file, nothing.into(), Some(help.into())));
    }
    problem::sort(&mut problems, file);
    match read {
        Some(read) if problems.is_empty() => Ok(read),
        _ => Err(problems),
    }
}
