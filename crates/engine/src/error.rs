//! Errors of the engine: texts for people, stable codes for programs.

use crate::files::FileError;
use crate::git::GitError;
use proctor_core::assistant_policy::AssistantRefusal;
use proctor_core::config::Problem;
use proctor_core::name::{NameError, ServiceName};
use proctor_core::wire::Refusal;
use std::fmt;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("no service or group '{name}'")]
    UnknownService { name: String, nearest: Option<String> },
    #[error("{}", none_named(.names))]
    NoneNamed { names: Vec<String> },
    #[error("service '{name}' already exists{how}")]
    AlreadyExists {
        name: ServiceName,
        /// The rest of the sentence: how the existing service differs from the requested one.
        how: String,
    },
    #[error("{}", hands_off(.services))]
    AssistantRefused { services: Vec<(ServiceName, AssistantRefusal)> },
    #[error("this configuration allows more than the current one: {}", .keys.join(", "))]
    Widens { keys: Vec<&'static str> },
    #[error("service '{0}' has no lease")]
    NoLease(ServiceName),
    #[error("service '{0}' is defined in {1}")]
    DefinedInFile(ServiceName, PathBuf),
    #[error("{count} problem(s) in the configuration", count = .0.len())]
    BadConfig(Vec<Problem>),
    #[error("cannot read {path}: {why}")]
    Unreadable { path: PathBuf, why: String },
    #[error("this Proctor already runs {running}")]
    HomeInUse { running: PathBuf, asked: PathBuf },
    #[error("{service}: program '{program}' was not found: {searched}")]
    ProgramMissing { service: ServiceName, program: String, searched: String },
    #[error("{service}: program '{program}' cannot be run: {why}")]
    NotRunnable { service: ServiceName, program: String, why: String, remedy: String },
    #[error("{service}: Proctor runs as {ourselves} and cannot start anything as user '{user}'")]
    CannotChangeUser { service: ServiceName, user: String, ourselves: String },
    #[error("{service}: port {port} is in use{}", .holder.as_ref().map(|h| format!(" by {h}")).unwrap_or_default())]
    PortInUse { service: ServiceName, port: u16, holder: Option<PortHolder> },
    #[error("{service}: no user or group '{user}' on this machine")]
    UnknownUser { service: ServiceName, user: String },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the keeper does not respond")]
    KeeperGone,
    #[error("cannot write {path}: {why}")]
    Unwritable { path: PathBuf, why: String },
    #[error("invalid search pattern: {0}")]
    BadPattern(String),
    #[error("invalid log cursor '{0}'")]
    BadCursor(String),
    #[error("{path} is not a Proctor: {why}", path = .path.display())]
    NoProctor { path: PathBuf, why: String },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{0}")]
    Failed(String),
}

/// The process that listens on a port, where we are allowed to see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortHolder {
    pub process: String,
    pub pid: u32,
    /// The Proctor service that the process belongs to.
    pub service: Option<ServiceName>,
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.process, self.pid)?;
        match &self.service {
            Some(service) => write!(f, " of service '{service}'"),
            None => Ok(()),
        }
    }
}

/// Maximum number of services listed by name; the rest is a count.
const NAMED: usize = 8;

fn hands_off(services: &[(ServiceName, AssistantRefusal)]) -> String {
    let list = |wanted: AssistantRefusal| {
        let names = services.iter().filter(|(_, why)| *why == wanted).map(|(name, _)| name);
        let names: Vec<&str> = names.map(ServiceName::as_str).collect();
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!names.is_empty()).then(|| format!("{}{more}", names[..names.len().min(NAMED)].join(", ")))
    };
    let view = list(AssistantRefusal::ViewOnly)
        .map(|names| format!("assistants may only look at {names} (`assistants: view`)"));
    let other = list(AssistantRefusal::NotOwn).map(|names| {
        format!("this assistant did not start {names}, and may change only what it started (`supervisor.mcp.control: own`)")
    });
    view.into_iter().chain(other).collect::<Vec<_>>().join("; ")
}

fn none_named(names: &[String]) -> String {
    match names {
        [] => "there is no service".into(),
        names => format!("which service? name one of {}", names.join(", ")),
    }
}
