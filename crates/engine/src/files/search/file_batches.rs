//! The queue of files to search.

use super::order::Order;
use super::{FileJob, SearchQuery};
use crate::files::error::{FileError, Pattern};
use crate::files::roots::PathInRoot;
use crate::files::walk::{Walk, WalkEntry};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};
use proctor_sys::beneath::Kind;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of files that are found before a thread takes them.
const AHEAD: usize = 128;

/// Files that a thread takes at once: few enough to finish together, enough to avoid contention.
const BATCH: usize = 8;

/// The files that no thread has taken yet: those already found, and the walk that finds more. One thread walks
/// ahead, while the others take the files that are ready.
pub(super) struct Files {
    walk: Mutex<WalkedFiles>,
    ready: Mutex<VecDeque<FileJob>>,
}

struct WalkedFiles {
    walk: Walk,
    filter: Filter,
    next: u64,
}

impl Files {
    pub(super) fn new(walk: Walk, filter: Filter) -> Files {
        Files { walk: Mutex::new(WalkedFiles { walk, filter, next: 0 }), ready: Mutex::default() }
    }

    /// Number of folders that could not be read.
    pub(super) fn unreadable(self) -> u64 {
        let walked = self.walk.into_inner().unwrap_or_else(PoisonError::into_inner);
        walked.walk.unreadable as u64
    }

    /// The next files; empty if there are no more.
    pub(super) fn take(&self, order: &Order<'_>, stop: &dyn Fn() -> bool) -> Vec<FileJob> {
        if self.ready().len() < AHEAD / 2
            && let Ok(mut walked) = self.walk.try_lock()
        {
            self.go_on(&mut walked, order, stop);
        }
        let jobs = self.some();
        if !jobs.is_empty() {
            return jobs;
        }
        // Another thread walks and nothing is ready: wait for it.
        let mut walked = self.walk.lock().unwrap_or_else(PoisonError::into_inner);
        if self.ready().is_empty() {
            self.go_on(&mut walked, order, stop);
        }
        self.some()
    }

    fn go_on(&self, walked: &mut WalkedFiles, order: &Order<'_>, stop: &dyn Fn() -> bool) {
        let jobs = walked.some(AHEAD, stop);
        // In order, and registered before any thread can finish one of them.
        order.begin(&jobs);
        self.ready().extend(jobs);
    }

    fn some(&self) -> Vec<FileJob> {
        let mut ready = self.ready();
        let some = ready.len().min(BATCH);
        ready.drain(..some).collect()
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<FileJob>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WalkedFiles {
    fn some(&mut self, most: usize, stop: &dyn Fn() -> bool) -> Vec<FileJob> {
        let mut jobs = Vec::with_capacity(most);
        while jobs.len() < most && !stop() {
            let Some(WalkEntry { folder, name, path, kind, .. }) = self.walk.next() else { break };
            if kind == Kind::File && self.filter.wants(&path) {
                jobs.push(FileJob { number: self.next, path, folder, name });
                self.next += 1;
            }
        }
        jobs
    }
}

/// Filters files by name.
pub(super) struct Filter {
    globs: Override,
    types: Types,
    /// Length of the path of the requested folder.
    begin: usize,
}

impl Filter {
    pub(super) fn new(query: &SearchQuery, spot: &PathInRoot) -> Result<Filter, FileError> {
        let bad = |error: ignore::Error| Pattern::Glob.bad(error);
        let mut globs = OverrideBuilder::new(".");
        for glob in &query.globs {
            globs.add(glob).map_err(bad)?;
        }
        let mut types = TypesBuilder::new();
        types.add_defaults();
        for name in &query.types {
            match name.strip_prefix('!') {
                Some(name) => types.negate(name),
                None => types.select(name),
            };
        }
        let types = types.build().map_err(|error| Pattern::Type.bad(error))?;
        let begin = if spot.rel.is_root() { 0 } else { spot.rel.as_bytes().len() + 1 };
        Ok(Filter { globs: globs.build().map_err(bad)?, types, begin })
    }

    fn wants(&self, path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(&path[self.begin..]));
        let globbed = self.globs.matched(path, false);
        !globbed.is_ignore()
            && (globbed.is_whitelist() || !self.types.matched(path, false).is_ignore())
    }
}
