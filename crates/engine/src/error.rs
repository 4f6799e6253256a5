//! What can go wrong in the engine, as a person and as a program need to hear it.

use crate::git::GitError;
use proctor_core::config::Problem;
use proctor_core::name::{NameError, ServiceName};
use proctor_core::wire::Refusal;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("no service or group '{name}'")]
    UnknownService { name: String, nearest: Option<String> },
    #[error("{}", none_named(.names))]
    NoneNamed { names: Vec<String> },
    #[error("service '{0}' already exists")]
    AlreadyExists(ServiceName),
    #[error("service '{0}' is defined in {1}")]
    DefinedInFile(ServiceName, PathBuf),
    #[error("{count} problem(s) in the configuration", count = .0.len())]
    BadConfig(Vec<Problem>),
    #[error("cannot read {path}: {why}")]
    Unreadable { path: PathBuf, why: String },
    #[error("this Proctor already runs {running}")]
    HomeInUse { running: PathBuf, asked: PathBuf },
    #[error("{service}: program '{program}' was not found")]
    ProgramMissing { service: ServiceName, program: String, searched: String },
    #[error("{service}: port {port} is in use{}", .holder.as_ref().map(|h| format!(" by {h}")).unwrap_or_default())]
    PortInUse { service: ServiceName, port: u16, holder: Option<String> },
    #[error("{service}: no user or group '{user}' on this machine")]
    UnknownUser { service: ServiceName, user: String },
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the keeper does not answer")]
    KeeperGone,
    #[error("cannot write {path}: {why}")]
    Unwritable { path: PathBuf, why: String },
    #[error("bad search pattern: {0}")]
    BadPattern(String),
    #[error("bad log cursor '{0}'")]
    BadCursor(String),
    #[error("{path} is not a Proctor: {why}", path = .path.display())]
    NoProctor { path: PathBuf, why: String },
    #[error(transparent)]
    Git(#[from] GitError),
    #[error("{0}")]
    Failed(String),
}

fn none_named(names: &[String]) -> String {
    match names {
        [] => "there is no service".into(),
        names => format!("which service? there are {}", names.join(", ")),
    }
}
