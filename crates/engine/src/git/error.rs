//! What can go wrong with git, naming the thing and never what a repository's own configuration wanted.

use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("git is not installed")]
    Missing { searched: String },
    #[error("{file} is version {found}; Proctor needs git {}.{} or newer", .oldest.0, .oldest.1)]
    TooOld { file: PathBuf, found: String, oldest: (u32, u32) },
    #[error("{folder} is in no git repository below {root}")]
    NoRepository { folder: PathBuf, root: PathBuf },
    #[error("the repository {top} is not safe: {why}")]
    Unsafe { top: PathBuf, why: String },
    #[error("nothing is changed in the repository {top}: {why}")]
    ReadOnly { top: PathBuf, why: String },
    #[error("there is no revision '{0}'")]
    NoRevision(String),
    #[error("there is no {0}")]
    Nothing(String),
    #[error("'{0}' is there already")]
    Exists(String),
    #[error("{field}: {why}")]
    Bad { field: &'static str, why: String },
    #[error("git knows no name and address for a commit")]
    Nobody,
    #[error("the filter '{driver}' of '{path}' is not run in a repository that is not trusted")]
    Filtered { path: String, driver: String },
    #[error("{0}")]
    Conflict(String),
    #[error("it has changed since the cursor was made")]
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

    /// Somebody else holds what is to be changed.
    pub(super) fn held(lock: &str) -> GitError {
        let message = "another git is at work in this repository, or died there and left";
        GitError::Conflict(format!("{message} {lock}; if no git runs there, remove it"))
    }

    /// What git could not do for what it met there: somebody has to decide.
    pub(super) fn in_the_way(self) -> GitError {
        if let GitError::Failed { said, .. } = self { GitError::Conflict(said) } else { self }
    }
}

fn seconds(limit: &Duration) -> String {
    format!("{} s", limit.as_secs_f64())
}
