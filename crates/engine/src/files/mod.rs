//! Files below the folders that the configuration declares: reading, listing, searching and changing them.
//!
//! Every path is resolved beneath its root by `proctor_sys::beneath`; nothing here opens a path. All work waits
//! for disks and runs on threads of its own (`workers`). Where the kernel has Landlock, these threads cannot
//! open anything outside the roots. A caller that stops waiting for a response stops the work.

mod change;
mod conversation;
mod error;
mod file_info;
mod ignore_rules;
mod list;
mod page_sources;
mod read;
mod regex_deadline;
mod roots;
mod search;
mod walk;
mod workers;

#[cfg(test)]
pub(crate) mod tests;

pub use change::{
    DiffQuery, ExpectedState, FileOutcome, Generation, MovedPath, OldFile, Replacement,
    WriteRequest,
};
pub use conversation::MAX_FOLDERS;
pub use error::{Conflict, FileError, PatchMismatch, Pattern};
pub use ignore_rules::SkipRules;
pub use list::{FolderEntry, ListQuery, Listing};
pub use proctor_sys::beneath::{Kind, PathError};
pub use read::{Content, ContentRange, ReadQuery};
pub use roots::{CallerFolder, DeclaredRoot, PathInRoot, Roots};
pub use search::{Case, FoundFile, FoundLine, MAX_PAGE_BYTES, ResultKind, SearchPage, SearchQuery};

use crate::error::EngineError;
use crate::registry::Registry;
pub(crate) use change::recover;
use change::{Backups, Locks};
use conversation::ConversationRoots;
use file_info::FileInfoCache;
use page_sources::PageBudget;
use proctor_core::home::Home;
use proctor_sys::beneath::Folder;
use roots::OwnFiles;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use workers::{Purpose, Workers};

/// File operations.
#[derive(Clone)]
pub struct Files {
    shared: Arc<Shared>,
    /// The caller's working directory, if relative paths start there.
    here: Option<Arc<Path>>,
    /// The roots of the caller's conversation; `None`: those of the configuration.
    conversation: Option<Arc<Roots>>,
}

struct Shared {
    home: Home,
    registry: Arc<Registry>,
    surveys: FileInfoCache,
    locks: Locks,
    backups: Backups,
    workers: Workers,
    conversations: ConversationRoots,
}

impl Files {
    pub(crate) fn new(home: Home, registry: Arc<Registry>) -> Files {
        let (surveys, locks, backups) =
            (FileInfoCache::default(), Locks::default(), Backups::of(&home));
        let workers = Workers::new(home.clone());
        let conversations = ConversationRoots::default();
        let shared = Shared { home, registry, surveys, locks, backups, workers, conversations };
        Files { shared: Arc::new(shared), here: None, conversation: None }
    }

    /// A copy for a caller in this folder, whose relative paths start there.
    pub fn seen_from(&self, folder: Option<&Path>) -> Files {
        Files { here: folder.map(Arc::from), ..self.clone() }
    }

    /// A copy for a conversation of the owner: its folders are roots in addition to the declared ones. A path
    /// that starts outside all of them is rejected.
    pub async fn in_conversation(&self, folders: Vec<PathBuf>) -> Result<Files, EngineError> {
        let (shared, declared) = (Arc::clone(&self.shared), self.shared.registry.roots());
        let roots = crate::blocking(move || shared.conversations.with(declared, &folders)).await?;
        Ok(Files { conversation: Some(roots), ..self.clone() })
    }

    /// The declared folders, and those of the conversation.
    pub fn roots(&self) -> Arc<Roots> {
        self.conversation.clone().unwrap_or_else(|| self.shared.registry.roots())
    }

    /// Returns true if relative paths must start at the caller's folder, as in a conversation.
    fn is_strict(&self) -> bool {
        self.conversation.is_some()
    }

    /// Reads files; each has its own result.
    pub async fn read(
        &self,
        paths: Vec<String>,
        mut query: ReadQuery,
    ) -> Result<Vec<Result<Content, FileError>>, EngineError> {
        self.look(move |files, stop| {
            let guarded = files.guarded();
            let read = |path: &String| {
                let spot = files.find(path)?;
                let content = read::read(&spot, &query, &guarded, &files.shared.surveys, stop)?;
                if let ContentRange::Picture { bytes } = &content.part {
                    query.largest_picture -= bytes.len() as u64;
                }
                Ok(content)
            };
            paths.iter().map(read).collect()
        })
        .await
    }

    /// Lists these folders, or those around the caller.
    pub async fn list(&self, paths: Vec<String>, query: ListQuery) -> Result<Listing, EngineError> {
        let listed = self.look(move |files, stop| {
            let (spots, guarded) = (files.spots(&paths)?, files.guarded());
            let room =
                PageBudget { most: query.most, bytes: query.max_bytes.unwrap_or(usize::MAX) };
            page_sources::page(&spots, query.cursor.as_deref(), room, |spot, cursor, room| {
                let (most, max_bytes) = (room.most, Some(room.bytes));
                let query = ListQuery { most, max_bytes, cursor, ..query.clone() };
                list::list(spot, &query, &guarded, stop)
            })
        });
        Ok(listed.await??)
    }

    /// Searches contents, in these folders and files, or in the folders around the caller.
    pub async fn search(
        &self,
        paths: Vec<String>,
        query: SearchQuery,
    ) -> Result<SearchPage, EngineError> {
        let searched = self.look(move |files, stop| {
            let (spots, guarded) = (files.spots(&paths)?, files.guarded());
            let room = PageBudget { most: query.most, bytes: query.max_bytes };
            page_sources::page(&spots, query.cursor.as_deref(), room, |spot, cursor, room| {
                let PageBudget { most, bytes: max_bytes } = room;
                let query = SearchQuery { most, max_bytes, cursor, ..query.clone() };
                search::search(spot, &query, &guarded, stop)
            })
        });
        Ok(searched.await??)
    }

    /// The position of the caller relative to the roots.
    pub async fn standing(&self) -> Result<CallerFolder, EngineError> {
        let Some(here) = self.here.clone() else { return Ok(CallerFolder::Elsewhere) };
        self.look(move |files, _| files.roots().standing(&here)).await
    }

    fn find(&self, path: &str) -> Result<PathInRoot, FileError> {
        self.check_begin(path)?;
        self.roots().find_from(path, self.here.as_deref())
    }

    /// Rejects a relative path in a conversation outside all roots: it would name a file of another project.
    fn check_begin(&self, path: &str) -> Result<(), FileError> {
        let roots = self.roots();
        let Some(here) = self.here.as_deref().filter(|_| self.is_strict()) else { return Ok(()) };
        if path.starts_with('/') || roots.names_one(path) || roots.holds(here) {
            return Ok(());
        }
        Err(roots.elsewhere(&here.join(path).to_string_lossy()))
    }

    fn top(&self) -> Result<PathInRoot, FileError> {
        self.check_begin("")?;
        self.roots().top_from(self.here.as_deref())
    }

    /// The spots of these paths, without duplicates.
    fn spots(&self, paths: &[String]) -> Result<Vec<PathInRoot>, FileError> {
        if paths.iter().all(String::is_empty) {
            self.check_begin("")?;
            return self.roots().around(self.here.as_deref());
        }
        let mut spots: Vec<PathInRoot> = Vec::new();
        for path in paths {
            let spot = self.find(path)?;
            if !spots.iter().any(|known| known.shown == spot.shown) {
                spots.push(spot);
            }
        }
        Ok(spots)
    }

    /// A folder, held open. Waits for disks.
    pub(crate) fn folder(&self, spot: &PathInRoot) -> Result<Folder, FileError> {
        spot.folder(&self.guarded())
    }

    /// The folders of Proctor's own files, without links.
    pub(crate) fn own(&self) -> Vec<PathBuf> {
        let Home { state, runtime, .. } = &self.shared.home;
        [state, runtime].into_iter().filter_map(|path| path.canonicalize().ok()).collect()
    }

    fn guarded(&self) -> OwnFiles {
        OwnFiles::of(&self.shared.home).with(&self.roots())
    }

    /// Read-only roots, without links.
    pub(crate) fn read_only(&self) -> Vec<PathBuf> {
        let roots = self.roots();
        let closed = roots.all().iter().filter(|root| !root.write);
        closed.map(|root| roots::far_as_it_goes(&root.path)).collect()
    }

    /// Runs work that changes nothing.
    async fn look<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        self.work_for(self.roots(), Purpose::Look, work).await
    }

    /// Runs work that may change something.
    async fn work<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        self.work_in(self.roots(), work).await
    }

    /// Runs work that may change something below these roots.
    async fn work_in<R: Send + 'static>(
        &self,
        roots: Arc<Roots>,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        self.work_for(roots, Purpose::Change, work).await
    }

    /// Runs work. If the future is dropped early, the work stops soon.
    async fn work_for<R: Send + 'static>(
        &self,
        roots: Arc<Roots>,
        purpose: Purpose,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        let (files, over) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let waiting = WaitingCaller(Arc::clone(&over));
        let work = move || work(&files, &|| over.load(Ordering::Relaxed));
        let done = self.shared.workers.work(roots, purpose, work).await;
        drop(waiting);
        done
    }
}

/// Marks that a caller waits for a response, until this is dropped.
struct WaitingCaller(Arc<AtomicBool>);

impl Drop for WaitingCaller {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
