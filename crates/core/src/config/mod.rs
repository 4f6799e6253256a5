//! From the text of `proctor.yaml` to service definitions. Pure: text, variables and files come in through
//! [`Surroundings`].
//!
//! ```text
//! text ── tree ──► nodes with places ── read, keys ──► layers ── service ──► definitions, settings
//!                                        (one mapping: one layer)   (service over supervisor over default)
//! ```
//! Every key is declared once, in `keys`: from there come validation, suggestions, [`schema()`] and [`reference()`].
//! A file is refused as a whole, with all its problems; nothing is ignored except what begins with `x-`.
//! Whether users, programs and ports exist is asked later, by those who can look.

pub mod backups;
mod collection;
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
mod own;
pub mod own_secrets;
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
mod tree;
mod value;

#[cfg(test)]
mod tests;

pub use problem::Problem;
pub use reference::reference;
pub use schema::schema;

use self::problem::Place;
use self::read::{Layer, Reader};
use crate::hands::Assistants;
use crate::name::ServiceName;
use crate::spec::{Limit, LogSpec, RestartSpec, StopSpec};
use crate::time::Millis;
use std::collections::BTreeMap;

/// A configuration that was read without error.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Instances expanded: `web` with `instances: 2` is `web@1` and `web@2`.
    pub services: Vec<ServiceDef>,
    /// Group name → members (instances expanded), from the services' `groups`.
    pub groups: BTreeMap<String, Vec<ServiceName>>,
    /// Every effective value and where it came from, for `proctor config`.
    pub settings: Vec<Setting>,
    pub listeners: listen::Listeners,
    /// Who may do what.
    pub security: security::Security,
    /// The variables that nothing inherits.
    pub own_secrets: own_secrets::OwnSecrets,
    /// The folders for file operations; `None` where nothing is said of them.
    pub roots: Option<Vec<roots::RootDef>>,
    /// Problems that a new configuration is refused for. One in force keeps its meaning.
    pub ambiguities: Vec<Problem>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ServiceDef {
    pub name: ServiceName,
    pub description: Option<String>,
    pub groups: Vec<String>,
    /// Program and arguments, split and joined; `shell: true` is already `["/bin/sh","-c",…]`.
    pub argv: Vec<String>,
    /// The first words of `argv` that `command` gives; those after them are `args`.
    pub command_words: usize,
    /// Environment of the service over its base: env files, then `env`, then `PORT` and `PROCTOR_INSTANCE`.
    pub env: Vec<(String, String)>,
    /// Absolute.
    pub working_dir: String,
    pub user: Option<UserRef>,
    pub umask: Option<u32>,
    pub limits: Vec<Limit>,
    pub nice: Option<i32>,
    pub oom_score_adj: Option<i32>,
    pub port: Option<u16>,
    pub autostart: bool,
    /// Meant when no service is named.
    pub primary: bool,
    /// What assistants may do with it.
    pub assistants: Assistants,
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
    /// `http://host:port/path`, checked to be well formed.
    pub url: String,
    pub interval: Millis,
    pub timeout: Millis,
    /// Failures in a row after which the run is restarted.
    pub retries: u32,
    /// Failures of a run that is younger than this and was never healthy do not count.
    pub start_period: Millis,
}

/// One effective value of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// `services.web.restart.delay`
    pub key: String,
    /// As JSON text; secrets are already `***`.
    pub value: String,
    /// `proctor.yaml:12:7`, `environment SUPERVISOR_TARGET_CMD`, `default`
    pub origin: String,
}

/// What surrounds a configuration: it is text, and these are its ways to the outside.
pub struct Surroundings<'a> {
    /// Absolute folder that relative paths are relative to.
    pub base_dir: &'a str,
    /// A variable for `${VAR}`.
    pub var: &'a dyn Fn(&str) -> Option<String>,
    /// The text of an env file (absolute path), or why it cannot be read.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Read a whole `proctor.yaml`. All problems at once, in the order of the text.
pub fn parse(file: &str, text: &str, around: &Surroundings<'_>) -> Result<Config, Vec<Problem>> {
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

/// Read one service's block (YAML or JSON text of a mapping with the keys of `services.NAME`), as `proctor add` and
/// `proctor start --name` give it. `file` names the source in problems. Env files do not set variables that hold one of `secrets`.
pub fn parse_service(
    file: &str,
    name: &str,
    text: &str,
    around: &Surroundings<'_>,
    secrets: &own_secrets::OwnSecrets,
) -> Result<Vec<ServiceDef>, Vec<Problem>> {
    let (root, problems) = tree::parse(file, text);
    let mut reader = Reader::new(file, around);
    reader.own_secrets.clone_from(secrets);
    let services = root.map(|root| {
        let layers = (&Layer::new(), &reader.defaults());
        file::one(&mut reader, (name, Place::START), &root, layers, |_, _, _| {})
    });
    finish(reader, problems, services, ("the service is empty", "give it a 'command'"))
}

/// What was read, or everything that is wrong with it.
fn finish<T>(
    reader: Reader<'_>,
    mut problems: Vec<Problem>,
    read: Option<T>,
    (nothing, help): (&str, &str),
) -> Result<T, Vec<Problem>> {
    let file = reader.file;
    problems.extend(reader.problems);
    if read.is_none() && problems.is_empty() {
        problems.push(Place::START.problem(file, nothing.into(), Some(help.into())));
    }
    problem::sort(&mut problems, file);
    match read {
        Some(read) if problems.is_empty() => Ok(read),
        _ => Err(problems),
    }
}
