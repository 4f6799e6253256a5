//! Selects the repository of a request, and decides whether the response names it.
//!
//! A caller in a repository that is below no root means that one, not the repository of a root. It is read in place and named
//! in the response, and never changed.

use crate::error::{Code, OpError};
use crate::file::files_of;
use crate::operation::Context;
use crate::text_output::{Page, Show};
use proctor_engine::error::EngineError;
use proctor_engine::files::{FileError, Roots};
use proctor_engine::git::Repository;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Repository of a request.
#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RepositoryInput {
    /// Folder in the repository, if it is another one
    #[arg(long, value_name = "DIR")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Absolute folder that a relative path starts from
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_dir: Option<String>,
    /// Paths also start there if it is in the repository; otherwise at the top
    #[arg(skip)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub from_base: bool,
    /// Absolute folders of the caller's conversation; each, or its repository, is a root of this request. Unix socket only
    #[arg(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

/// Purpose of opening a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Look,
    Change,
}

/// Top of the repository, if the response must name it.
pub(crate) struct RepositoryNote(Option<String>);

/// A response with its repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InRepository<T> {
    #[serde(flatten)]
    pub answer: T,
    /// Top of the repository, if the caller's folder is not in it and the request does not name it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
}

impl RepositoryInput {
    pub(crate) async fn open(
        &self,
        context: &Context,
        purpose: Purpose,
    ) -> Result<(Repository, RepositoryNote), OpError> {
        let base = self.base_dir.as_deref().map(Path::new);
        let (mut repository, guessed) = self.find(context, base, purpose).await?;
        if let Some(base) = base.filter(|_| self.from_base) {
            repository.stand_in(base);
        }
        let told = guessed.then(|| repository.top().to_string_lossy().into_owned());
        Ok((repository, RepositoryNote(told)))
    }

    /// Returns the repository, and whether the caller neither named it nor is in it.
    async fn find(
        &self,
        context: &Context,
        base: Option<&Path>,
        purpose: Purpose,
    ) -> Result<(Repository, bool), OpError> {
        let engine = &context.engine;
        let files = files_of(context, &self.folders).await?;
        let roots = files.roots();
        // A conversation outside all roots has no repository that it may see.
        let purpose = if self.folders.is_empty() { purpose } else { Purpose::Change };
        let repo = self.repo.as_deref();
        let named = repo.is_some_and(|repo| repo.starts_with('/') || roots.names_one(repo));
        let of_root = || engine.repository_in(&files, repo.map(PathBuf::from));
        let Some(base) = base.filter(|_| !named) else { return Ok((of_root().await?, false)) };
        let folder = repo.map_or_else(|| base.to_owned(), |repo| base.join(repo));
        match engine.repository_in(&files, Some(folder)).await {
            Err(EngineError::File(FileError::Elsewhere { .. })) if repo.is_none() => {
                match from_elsewhere(&roots, base, purpose)? {
                    root @ Some(_) => Ok((engine.repository_in(&files, root).await?, true)),
                    None => Ok((of_root().await?, true)),
                }
            }
            // A caller whose paths do not start in a folder of its own names it from the root.
            Err(error @ EngineError::File(FileError::Elsewhere { .. })) => match of_root().await {
                Ok(found) if !self.from_base => Ok((found, false)),
                _ => Err(OpError::from(error).help(folders(&roots))),
            },
            // A missing path may be a name relative to the root.
            Err(missing @ EngineError::File(FileError::Missing { .. })) if repo.is_some() => {
                match of_root().await {
                    Err(EngineError::File(_)) => Err(missing.into()),
                    found => Ok((found?, false)),
                }
            }
            found => Ok((found?, false)),
        }
    }
}

/// Returns the root for a caller below none: the only root below its folder or, for a read, the first one.
fn from_elsewhere(
    roots: &Roots,
    base: &Path,
    purpose: Purpose,
) -> Result<Option<PathBuf>, OpError> {
    let below: Vec<_> = roots.all().iter().filter(|root| root.path.starts_with(base)).collect();
    match (&below[..], purpose) {
        ([root], _) => Ok(Some(root.path.clone())),
        (_, Purpose::Look) => Ok(None),
        (_, Purpose::Change) => {
            let message = format!(
                "the repository to change is not known: {} is below no root, and 'repo' is missing",
                base.display()
            );
            Err(OpError::bad_input(message).help(folders(roots)))
        }
    }
}

/// Lists the roots for a caller that must choose one.
fn folders(roots: &Roots) -> String {
    let shown = roots.all().iter().map(|root| format!("{} ({})", root.name, root.path.display()));
    format!("give a folder below a root as 'repo': {}", shown.collect::<Vec<_>>().join(", "))
}

impl RepositoryNote {
    pub(crate) fn with<T>(self, answer: T) -> InRepository<T> {
        InRepository { answer, repository: self.0 }
    }
}

impl<T: Show> Show for InRepository<T> {
    fn show(&self, page: &mut Page) {
        if let Some(top) = &self.repository {
            page.remark(format!("in {top}"));
        }
        self.answer.show(page);
    }

    fn verdict(&self) -> Option<Code> {
        self.answer.verdict()
    }
}
