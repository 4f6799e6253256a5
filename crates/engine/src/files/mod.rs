//! Files below the folders that the configuration declares: reading, listing, searching and changing them.
//!
//! Whatever a path says, it is resolved beneath its root by `proctor_sys::beneath`; nothing here opens a path. All of it
//! waits for disks and belongs on threads that may; whoever stops waiting for an answer stops the work.

mod change;
mod fault;
mod list;
mod read;
mod roots;
mod rules;
mod search;
mod survey;
mod walk;

#[cfg(test)]
pub(crate) mod tests;

pub use change::{Changed, DiffQuery, Generation, Replacement, WasFile, Wish, Written};
pub use fault::{Conflict, FileError, Unfit};
pub use list::{ListQuery, Listed, Listing};
pub use proctor_sys::beneath::{Fault, Kind};
pub use read::{Content, Part, ReadQuery};
pub use roots::{Declared, Roots, Spot};
pub use rules::LeaveOut;
pub use search::{Case, FoundFile, FoundLine, SearchPage, SearchQuery, Want};

use crate::error::EngineError;
use crate::registry::Registry;
pub(crate) use change::recover;
use change::{Backups, Locks};
use proctor_core::home::Home;
use roots::Guarded;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use survey::Surveys;

/// All that can be done with files.
#[derive(Clone)]
pub struct Files {
    shared: Arc<Shared>,
}

struct Shared {
    home: Home,
    registry: Arc<Registry>,
    surveys: Surveys,
    locks: Locks,
    backups: Backups,
}

impl Files {
    pub(crate) fn new(home: Home, registry: Arc<Registry>) -> Files {
        let (surveys, locks, backups) = (Surveys::default(), Locks::default(), Backups::of(&home));
        Files { shared: Arc::new(Shared { home, registry, surveys, locks, backups }) }
    }

    /// The folders that are declared.
    pub fn roots(&self) -> Arc<Roots> {
        self.shared.registry.roots()
    }

    /// Read files, each for itself.
    pub async fn read(
        &self,
        paths: Vec<String>,
        query: ReadQuery,
    ) -> Result<Vec<Result<Content, FileError>>, EngineError> {
        self.work(move |files, stop| {
            let (roots, guarded) = (files.roots(), files.guarded());
            let read = |path: &String| {
                let spot = roots.find(path)?;
                read::read(&spot, &query, &guarded, &files.shared.surveys, stop)
            };
            paths.iter().map(read).collect()
        })
        .await
    }

    /// What is in a folder.
    pub async fn list(&self, path: String, query: ListQuery) -> Result<Listing, EngineError> {
        let listed = self.work(move |files, stop| {
            let roots = files.roots();
            list::list(&roots, &roots.find(&path)?, &query, &files.guarded(), stop)
        });
        Ok(listed.await??)
    }

    /// Search contents.
    pub async fn search(
        &self,
        path: String,
        query: SearchQuery,
    ) -> Result<SearchPage, EngineError> {
        let searched = self.work(move |files, stop| {
            let roots = files.roots();
            search::search(&roots, &roots.find(&path)?, &query, &files.guarded(), stop)
        });
        Ok(searched.await??)
    }

    fn guarded(&self) -> Guarded {
        Guarded::of(&self.shared.home)
    }

    /// Where waiting does no harm. Dropped early, the work hears of it.
    async fn work<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &(dyn Fn() -> bool + Sync)) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        let (files, over) = (self.clone(), Arc::new(AtomicBool::new(false)));
        let waiting = Waiting(Arc::clone(&over));
        let done = crate::blocking(move || work(&files, &|| over.load(Ordering::Relaxed))).await;
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
