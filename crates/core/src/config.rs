//! From the text of `proctor.yaml` to service definitions. (contract; to be filled)

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
}

#[derive(Debug, Clone, PartialEq)]
pub struct ServiceDef {
    pub name: ServiceName,
    pub description: Option<String>,
    pub groups: Vec<String>,
    /// Program and arguments, split and joined; `shell: true` is already `["/bin/sh","-c",…]`.
    pub argv: Vec<String>,
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

/// One thing wrong with a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// From 1; 0 when the problem has no place in the text.
    pub line: u32,
    pub column: u32,
    pub message: String,
    /// What to do: "did you mean 'command'?"
    pub help: Option<String>,
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
    let _ = (file, text, around);
    Err(Vec::new())
}

/// Read one service's block (YAML or JSON text of a mapping with the keys of `services.NAME`), as `proctor add` and
/// `proctor start --name` give it. `file` names the source in problems.
pub fn parse_service(
    file: &str,
    name: &str,
    text: &str,
    around: &Surroundings<'_>,
) -> Result<Vec<ServiceDef>, Vec<Problem>> {
    let _ = (file, name, text, around);
    Err(Vec::new())
}
