//! Files below the folders that the configuration declares: reading, listing, searching and changing them.
//!
//! Whatever a path says, it is resolved beneath its root by `proctor_sys::beneath`; nothing here opens a path. All of it
//! waits for disks and is done by threads that may (`workers`), which cannot open anything outside of the roots where the
//! kernel sees to that; whoever stops waiting for an answer stops the work.

mod change;
mod conversation;
mod fault;
mod list;
mod patience;
mod places;
mod read;
mod roots;
mod rules;
mod search;
mod survey;
mod walk;
mod workers;

#[cfg(test)]
pub(crate) mod tests;

pub use change::{Changed, DiffQuery, Generation, Moved, Replacement, WasFile, Wish, Written};
pub use conversation::MAX_FOLDERS;
pub use fault::{Conflict, FileError, Pattern, Unfit};
pub use list::{ListQuery, Listed, Listing};
pub use proctor_sys::beneath::{Fault, Kind};
pub use read::{Content, Part, ReadQuery};
pub use roots::{Declared, Roots, Spot, Standing};
pub use rules::LeaveOut;
pub use search::{Case, FoundFile, FoundLine, LARGEST_PAGE, SearchPage, SearchQuery, Want};

use crate::error::EngineError;
use crate::registry::Registry;
pub(crate) use change::recover;
use change::{Backups, Locks};
use conversation::ConversationRoots;
use places::Room;
use proctor_core::home::Home;
use proctor_sys::beneath::Folder;
use roots::Guarded;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use survey::Surveys;
use workers::{Purpose, Workers};

/// All that can be done with files.
#[derive(Clone)]
pub struct Files {
    shared: Arc<Shared>,
    /// Where the caller stands, if paths begin there.
    here: Option<Arc<Path>>,
    /// The roots of the caller's conversation; `None`: those of the configuration.
    conversation: Option<Arc<Roots>>,
}

struct Shared {
    home: Home,
    registry: Arc<Registry>,
    surveys: Surveys,
    locks: Locks,
    backups: Backups,
    workers: Workers,
    conversations: ConversationRoots,
}

impl Files {
    pub(crate) fn new(home: Home, registry: Arc<Registry>) -> Files {
        let (surveys, locks, backups) = (Surveys::default(), Locks::default(), Backups::of(&home));
        let workers = Workers::new(home.clone());
        let conversations = ConversationRoots::default();
        let shared = Shared { home, registry, surveys, locks, backups, workers, conversations };
        Files { shared: Arc::new(shared), here: None, conversation: None }
    }

    /// The same for somebody who stands in this folder, and writes paths as seen from there.
    pub fn seen_from(&self, folder: Option<&Path>) -> Files {
        Files { here: folder.map(Arc::from), ..self.clone() }
    }

    /// The same for a conversation of the owner's: its folders are roots beside the declared ones, and a path that begins
    /// outside of all of them is refused.
    pub async fn in_conversation(&self, folders: Vec<PathBuf>) -> Result<Files, EngineError> {
        let (shared, declared) = (Arc::clone(&self.shared), self.shared.registry.roots());
        let roots = crate::blocking(move || shared.conversations.with(declared, &folders)).await?;
        Ok(Files { conversation: Some(roots), ..self.clone() })
    }

    /// The folders that are declared, and those of the conversation.
    pub fn roots(&self) -> Arc<Roots> {
        self.conversation.clone().unwrap_or_else(|| self.shared.registry.roots())
    }

    /// Whether paths have to begin where the caller stands, which is a conversation's rule.
    fn is_strict(&self) -> bool {
        self.conversation.is_some()
    }

    /// Read files, each for itself.
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
                if let Part::Picture { bytes } = &content.part {
                    query.largest_picture -= bytes.len() as u64;
                }
                Ok(content)
            };
            paths.iter().map(read).collect()
        })
        .await
    }

    /// What is in these folders, or in those around.
    pub async fn list(&self, paths: Vec<String>, query: ListQuery) -> Result<Listing, EngineError> {
        let listed = self.look(move |files, stop| {
            let (spots, guarded) = (files.spots(&paths)?, files.guarded());
            let room = Room { most: query.most, bytes: query.max_bytes.unwrap_or(usize::MAX) };
            places::page(&spots, query.cursor.as_deref(), room, |spot, cursor, room| {
                let (most, max_bytes) = (room.most, Some(room.bytes));
                let query = ListQuery { most, max_bytes, cursor, ..query.clone() };
                list::list(spot, &query, &guarded, stop)
            })
        });
        Ok(listed.await??)
    }

    /// Search contents, in these folders and files, or in the folders around.
    pub async fn search(
        &self,
        paths: Vec<String>,
        query: SearchQuery,
    ) -> Result<SearchPage, EngineError> {
        let searched = self.look(move |files, stop| {
            let (spots, guarded) = (files.spots(&paths)?, files.guarded());
            let room = Room { most: query.most, bytes: query.max_bytes };
            places::page(&spots, query.cursor.as_deref(), room, |spot, cursor, room| {
                let Room { most, bytes: max_bytes } = room;
                let query = SearchQuery { most, max_bytes, cursor, ..query.clone() };
                search::search(spot, &query, &guarded, stop)
            })
        });
        Ok(searched.await??)
    }

    /// Where somebody stands.
    pub async fn standing(&self) -> Result<Standing, EngineError> {
        let Some(here) = self.here.clone() else { return Ok(Standing::Elsewhere) };
        self.look(move |files, _| files.roots().standing(&here)).await
    }

    fn find(&self, path: &str) -> Result<Spot, FileError> {
        self.check_begin(path)?;
        self.roots().find_from(path, self.here.as_deref())
    }

    /// Refuse a relative path in a conversation that stands in no root: it would be a file of another project.
    fn check_begin(&self, path: &str) -> Result<(), FileError> {
        let roots = self.roots();
        let Some(here) = self.here.as_deref().filter(|_| self.is_strict()) else { return Ok(()) };
        if path.starts_with('/') || roots.names_one(path) || roots.holds(here) {
            return Ok(());
        }
        Err(roots.elsewhere(&here.join(path).to_string_lossy()))
    }

    fn top(&self) -> Result<Spot, FileError> {
        self.check_begin("")?;
        self.roots().top_from(self.here.as_deref())
    }

    /// Each once.
    fn spots(&self, paths: &[String]) -> Result<Vec<Spot>, FileError> {
        if paths.iter().all(String::is_empty) {
            self.check_begin("")?;
            return self.roots().around(self.here.as_deref());
        }
        let mut spots: Vec<Spot> = Vec::new();
        for path in paths {
            let spot = self.find(path)?;
            if !spots.iter().any(|known| known.shown == spot.shown) {
                spots.push(spot);
            }
        }
        Ok(spots)
    }

    /// A folder, held open. Waits for disks.
    pub(crate) fn folder(&self, spot: &Spot) -> Result<Folder, FileError> {
        spot.folder(&self.guarded())
    }

    /// Where Proctor's own files are, without links.
    pub(crate) fn own(&self) -> Vec<PathBuf> {
        let Home { state, runtime, .. } = &self.shared.home;
        [state, runtime].into_iter().filter_map(|path| path.canonicalize().ok()).collect()
    }

    fn guarded(&self) -> Guarded {
        Guarded::of(&self.shared.home).with(&self.roots())
    }

    /// Roots that are read only, without links.
    pub(crate) fn read_only(&self) -> Vec<PathBuf> {
        let roots = self.roots();
        let closed = roots.all().iter().filter(|root| !root.write);
        closed.map(|root| roots::far_as_it_goes(&root.path)).collect()
    }

    /// Work that changes nothing.
    async fn look<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        self.work_for(self.roots(), Purpose::Look, work).await
    }

    /// Work that may change something.
    async fn work<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        self.work_in(self.roots(), work).await
    }

    /// Work that may change something below these roots.
    async fn work_in<R: Send + 'static>(
        &self,
        roots: Arc<Roots>,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        self.work_for(roots, Purpose::Change, work).await
    }

    /// Dropped early, the work hears of it.
    async fn work_for<R: Send + 'static>(
        &self,
        roots: Arc<Roots>,
        purpose: Purpose,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        let (files, over) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let waiting = Waiting(Arc::clone(&over));
        let work = move || work(&files, &|| over.load(Ordering::Relaxed));
        let done = self.shared.workers.work(roots, purpose, work).await;
        drop(waiting);
        done
    }
}

/// Somebody waits for an answer, until this is dropped.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
