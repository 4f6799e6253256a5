//! Changes that were made although they could not be recorded: a stop is never rejected. They are written as
//! soon as the audit is writable, with the time at which they happened.
//!
//! They are kept in memory and, if possible, in a file of the runtime folder for the next daemon.

use super::line::{AuditedCall, LineKind};
use proctor_sys::{own_file, small_file};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Maximum number: more than a person stops while a disk is full; further ones are only counted.
const MAX_OWED: usize = 1024;

/// Maximum size of the file: the maximum number of the longest lines.
const MAX_FILE: u64 = 32 << 20;

/// One change with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PendingEntry {
    pub(super) call: AuditedCall,
    pub(super) code: String,
    pub(super) millis: u64,
}

/// All changes that are not written yet.
pub(super) struct PendingEntries {
    path: PathBuf,
    entries: Mutex<Vec<PendingEntry>>,
    pub(super) added: Notify,
}

impl PendingEntries {
    /// Includes those of an earlier daemon. Blocks for a small file of a memory file system.
    pub(super) fn open(path: PathBuf) -> PendingEntries {
        let bytes = small_file::read_small(&path, MAX_FILE).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        let entries: Vec<PendingEntry> =
            lines.filter_map(|line| serde_json::from_slice(line).ok()).take(MAX_OWED).collect();
        let added = Notify::new();
        if !entries.is_empty() {
            added.notify_one();
        }
        PendingEntries { path, entries: Mutex::new(entries), added }
    }

    /// False if there are too many.
    pub(super) fn add(&self, owed: PendingEntry) -> bool {
        let mut entries = self.lock();
        if entries.len() >= MAX_OWED {
            return false;
        }
        if let Err(error) = append(&self.path, &owed) {
            tracing::warn!(%error, "cannot store changes that are not in the audit yet; they are lost if this daemon ends");
        }
        entries.push(owed);
        self.added.notify_one();
        true
    }

    pub(super) fn entries(&self) -> Vec<PendingEntry> {
        self.lock().clone()
    }

    /// Removes the first `count`, which were written.
    pub(super) fn written(&self, count: usize) {
        let mut entries = self.lock();
        entries.drain(..count);
        let removed = small_file::remove(&self.path);
        let kept = removed.and_then(|()| entries.iter().try_for_each(|it| append(&self.path, it)));
        if let Err(error) = kept {
            tracing::warn!(%error, file = %self.path.display(), "cannot rewrite the file of owed changes");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PendingEntry>> {
        self.entries.lock().expect("nothing panics with it")
    }
}

impl PendingEntry {
    /// Its two lines; the first gets this number.
    pub(super) fn lines(self, seq: u64) -> [LineKind; 2] {
        let result = LineKind::Result { of: seq, code: self.code, millis: self.millis };
        [LineKind::Intent(self.call), result]
    }
}

fn append(path: &Path, owed: &PendingEntry) -> io::Result<()> {
    let mut line = serde_json::to_vec(owed)?;
    line.push(b'\n');
    own_file::or_set_aside(path, own_file::append)?.write_all(&line)
}
