//! Errors of git. They name the object, and never quote values from a repository's configuration.

use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed")]
    Missing { searched: String },
    #[error("{file} is version {found}; Proctor needs git {}.{} or newer", .oldest.0, .oldest.1)]
    TooOld { file: PathBuf, found: String, oldest: (u32, u32) },
    #[error("{folder} is not in a git repository below {root}")]
    NoRepository { folder: PathBuf, root: PathBuf },
    #[error("the repository {top} is not safe: {why}")]
    Unsafe { top: PathBuf, why: String },
    #[error("cannot change the repository {top}: {why}")]
    ReadOnly { top: PathBuf, why: String },
    #[error("there is no revision '{0}'")]
    NoRevision(String),
    #[error("there is no {0}")]
    Nothing(String),
    #[error("'{0}' already exists")]
    Exists(String),
    #[error("{field}: {why}")]
    Bad { field: &'static str, why: String },
    #[error("git has no name and email address for a commit")]
    Nobody,
    #[error("the filter '{driver}' of '{path}' does not run in an untrusted repository")]
    Filtered { path: String, driver: String },
    #[error("{0}")]
    Conflict(String),
    #[error("the content changed since the cursor was returned")]
    Stale,
    #[error("git {what} took longer than {}", seconds(.limit))]
    Late { what: String, limit: Duration },
    #[error("git {what} failed: {said}")]
    Failed { what: String, said: String },
}

impl GitError {
    pub(super) fn bad(field: &'static str, why: impl Into<String>) -> GitError {
        GitError::Bad { field, why: why.into() }
    }

    /// The error for a lock that another process holds.
    pub(super) fn held(lock: &str) -> GitError {
        let message = "another git process is working in this repository, or died there and left";
        GitError::Conflict(format!("{message} {lock}; if no git runs there, remove it"))
    }

    /// Turns a failure of git into a conflict that somebody has to resolve.
    pub(super) fn in_the_way(self) -> GitError {
        if let GitError::Failed { said, .. } = self { GitError::Conflict(said) } else { self }
    }
}

fn seconds(limit: &Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}
