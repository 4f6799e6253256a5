//! The git repositories that operations work in: found by a folder, or by the files of a change.

use super::Engine;
use crate::command::command_environment;
use crate::error::EngineError;
use crate::files::{FileError, FileOutcome, Files, PathInRoot};
use crate::git::{Repository, RepositoryContext};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Engine {
    /// The git repository of a folder below the roots; of the first root if no folder is named.
    pub async fn repository_in(
        &self,
        files: &Files,
        folder: Option<PathBuf>,
    ) -> Result<Repository, EngineError> {
        let registry = &self.inner.registry;
        let around = RepositoryContext {
            files: files.clone(),
            terms: registry.guard().security.git.clone(),
            env: command_environment::of(registry, None, (None, None))?.env,
        };
        Arc::clone(&self.inner.git).open(around, folder).await
    }

    /// Waits for git commits in flight before the daemon ends.
    pub(crate) async fn settle(&self) {
        self.inner.git.settle().await;
    }

    /// The repository that contains the files of a change, which may not exist yet, and their paths.
    pub async fn repository_of(
        &self,
        within: &Files,
        changes: &[FileOutcome],
    ) -> Result<(Repository, Vec<String>), EngineError> {
        // Paths that were only looked up are not files of the change.
        let files = changes.iter().filter(|it| it.before.is_some() || it.after.is_some());
        let spots: Vec<PathInRoot> = files.filter_map(|it| it.spot.clone()).collect();
        let find = move || -> Result<_, FileError> {
            let paths: Vec<PathBuf> = spots.iter().map(PathInRoot::real).collect();
            let above = paths.first().into_iter().flat_map(|path| path.ancestors().skip(1));
            let folder = above.into_iter().find(|folder| folder.is_dir()).map(Path::to_owned);
            let unknown = |path: OsString| {
                let path = path.display();
                FileError::BadInput(format!("'{path}' cannot be committed: its name is not UTF-8"))
            };
            let text = |path: PathBuf| path.into_os_string().into_string().map_err(unknown);
            Ok((folder, paths.into_iter().map(text).collect::<Result<_, _>>()?))
        };
        let (folder, paths) = crate::blocking(find).await??;
        Ok((self.repository_in(within, folder).await?, paths))
    }

    /// Disables the Landlock rules for git, to show that the other checks suffice. For tests.
    #[doc(hidden)]
    pub fn without_git_fence(&self) {
        self.inner.git.without_fence();
    }
}
