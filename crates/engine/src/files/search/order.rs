//! Puts results in order. Several threads search files and finish in any order; the results are in order of
//! names. The search is done when everything before some file is known and fills the page.

use super::lines::{CollectedLines, KeptMatches, MinimumMatches};
use super::{FileJob, FoundFile, ResultKind, ResumePoint, SearchPage, SearchQuery};
use crate::files::error::FileError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that a file adds to a response in addition to its path and lines: its root, its number of matches.
const AROUND_A_FILE: usize = 40;

pub(super) struct Order<'a> {
    query: &'a SearchQuery,
    enough: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Files being searched.
    open: BTreeSet<u64>,
    /// Files with a match.
    found: BTreeMap<u64, (Vec<u8>, CollectedLines)>,
    searched: u64,
    unreadable: u64,
    /// A file on which the pattern exceeded its time limit.
    slow: Option<Vec<u8>>,
}

impl<'a> Order<'a> {
    pub(super) fn new(query: &'a SearchQuery) -> Order<'a> {
        Order { query, enough: AtomicBool::new(false), state: Mutex::default() }
    }

    pub(super) fn is_enough(&self) -> bool {
        self.enough.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self, jobs: &[FileJob]) {
        self.state().open.extend(jobs.iter().map(|job| job.number));
    }

    /// Records the result of a file; `None`: it could not be read.
    pub(super) fn end(&self, job: &FileJob, gathered: Option<CollectedLines>) {
        let mut state = self.state();
        state.open.remove(&job.number);
        // A file that was abandoned because the page is full does not count as unreadable.
        let Some(gathered) = gathered else {
            state.unreadable += u64::from(!self.is_enough());
            return;
        };
        state.searched += 1;
        if gathered.matches > 0 {
            state.found.insert(job.number, (job.path.clone(), gathered));
        }
        if let Some(last) = self.fills(&state.found) {
            // Results after it are not needed.
            state.found.split_off(&(last + 1));
            if state.open.first().is_none_or(|open| *open > last) {
                self.enough.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Records that the pattern is too slow for a file. That fails the search, unless the page is full before
    /// that file.
    pub(super) fn end_slow(&self, job: &FileJob) {
        let mut state = self.state();
        state.open.remove(&job.number);
        if self.fills(&state.found).is_none_or(|last| last > job.number) {
            state.slow = Some(job.path.clone());
            self.enough.store(true, Ordering::Relaxed);
        }
    }

    /// The first file that exceeds the page.
    fn fills(&self, found: &BTreeMap<u64, (Vec<u8>, CollectedLines)>) -> Option<u64> {
        let (mut matches, mut bytes) = (0, 0);
        let fills = |(_, (path, gathered)): &(&u64, &(Vec<u8>, CollectedLines))| {
            let full = bytes >= self.query.max_bytes || gathered.full;
            matches += self.weight(gathered);
            bytes += takes(path, gathered);
            full || matches > self.query.most as u64
        };
        found.iter().find(fills).map(|(number, _)| *number)
    }

    fn weight(&self, gathered: &CollectedLines) -> u64 {
        match self.query.want {
            ResultKind::Lines => gathered.matches,
            ResultKind::Counts | ResultKind::Files => 1,
        }
    }

    /// Builds the page.
    pub(super) fn page(
        self,
        shown: impl Fn(&[u8]) -> Result<String, FileError>,
    ) -> Result<SearchPage, FileError> {
        let state = std::mem::take(&mut *self.state());
        if let Some(path) = state.slow {
            return Err(FileError::TooSlow { path: shown(&path)? });
        }
        let (searched, unreadable) = (state.searched, state.unreadable);
        let mut page = SearchPage { searched, unreadable, ..SearchPage::default() };
        let (mut left, mut room, mut last) = (self.query.most as u64, self.query.max_bytes, None);
        for (path, mut gathered) in state.found.into_values() {
            if left == 0 || room == 0 {
                page.cursor = last;
                break;
            }
            let least =
                if page.files.is_empty() { MinimumMatches::One } else { MinimumMatches::Nothing };
            let for_lines = room.saturating_sub(path.len() + AROUND_A_FILE);
            let kept = gathered.keep(left, for_lines, self.query.after, least);
            debug_assert!(kept != KeptMatches::All || !gathered.full, "what was not read goes on");
            match kept {
                KeptMatches::All => {}
                KeptMatches::Some => {
                    page.cursor = Some(ResumePoint::text(&path, gathered.last_match()))
                }
                KeptMatches::Nothing => {
                    page.cursor = last;
                    break;
                }
            }
            let (weight, bytes) = (self.weight(&gathered), takes(&path, &gathered));
            left -= weight.min(left);
            room = room.saturating_sub(bytes);
            (page.taken, page.bytes) = (page.taken + weight as usize, page.bytes + bytes);
            let line = match self.query.want {
                ResultKind::Lines => gathered.last_match(),
                ResultKind::Counts | ResultKind::Files => u64::MAX,
            };
            last = Some(ResumePoint::text(&path, line));
            let (matches, lines) = (gathered.matches, gathered.lines);
            page.files.push(FoundFile { path: shown(&path)?, matches, lines });
            if page.cursor.is_some() {
                break;
            }
        }
        Ok(page)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that a file with its lines adds to the response.
fn takes(path: &[u8], gathered: &CollectedLines) -> usize {
    path.len() + AROUND_A_FILE + gathered.bytes
}
