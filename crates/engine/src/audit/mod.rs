//! The audit: who did what, through which front, on which target, with which result. Append-only lines, each
//! with the hash of the previous one.
//!
//! A change is recorded before it begins and again after it has ended, so that an unfinished change is visible.
//! If it cannot be recorded, it is not made. One task writes for all callers: records that arrive together are
//! written with one call, on a thread that may wait for a disk.

mod audit_file;
mod line;
mod pending_entries;
mod read;
#[cfg(test)]
mod tests;
mod verify;

pub use self::line::AuditedCall;
pub use self::read::{AuditEntry, AuditQuery};
pub use self::verify::AuditReport;

pub(crate) use self::line::sha256;

pub(crate) use self::audit_file::ChainAnchor;

use self::audit_file::{AuditFile, AuditPaths};
use self::line::LineKind;
use self::pending_entries::{PendingEntries, PendingEntry};
use crate::registry::Registry;
use proctor_core::config::security::Audit as Settings;
use proctor_core::home::Home;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

/// Maximum number of pending records; further callers wait for room, and records without a caller are only
/// counted.
const QUEUE: usize = 1024;

/// Time from a write to its sync: the amount that a power cut can lose.
const SYNC_AFTER: Duration = Duration::from_secs(1);

/// Timeout of a write; after it the caller gets the error that the disk does not respond.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between attempts to write owed changes.
const OWED_INTERVAL: Duration = Duration::from_secs(2);

/// Why nothing can be recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit cannot be written: {0}")]
pub struct AuditUnavailable(String);

/// Handle to the audit; cheap to clone.
#[derive(Clone)]
pub struct Audit {
    queue: mpsc::Sender<Entry>,
    shared: Arc<Shared>,
    place: AuditPaths,
}

struct Shared {
    /// Number of rejected requests and public reads that were not recorded.
    skipped: AtomicU64,
    problem: Mutex<Option<String>>,
    /// The end of the chain.
    anchor: Mutex<Option<ChainAnchor>>,
    /// Changes that are not written yet.
    owed: PendingEntries,
}

struct Entry {
    what: LineKind,
    answer: Option<oneshot::Sender<Result<u64, AuditUnavailable>>>,
}

/// A recorded change that has not ended.
#[must_use]
pub struct OpenEntry(u64);

/// A change that is made although it could not be recorded.
#[must_use]
pub struct UnwrittenEntry(Box<AuditedCall>);

impl Audit {
    /// The handle, and the writer task.
    pub(crate) fn new(
        home: &Home,
        registry: Arc<Registry>,
    ) -> (Audit, impl Future<Output = ()> + Send + use<>) {
        let (queue, entries) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            skipped: AtomicU64::new(0),
            problem: Mutex::new(None),
            anchor: Mutex::new(None),
            owed: PendingEntries::open(home.audit_owed()),
        });
        let place = place(home);
        let writer = Writer { place: place.clone(), shared: Arc::clone(&shared), registry };
        (Audit { queue, shared, place }, writer.run(entries))
    }

    /// Records the beginning of a change.
    pub async fn begin(&self, call: AuditedCall) -> Result<OpenEntry, AuditUnavailable> {
        self.write(LineKind::Intent(call)).await.map(OpenEntry)
    }

    /// Begins a change that must not be rejected because it cannot be recorded.
    pub fn begin_unwritten(&self, call: AuditedCall) -> UnwrittenEntry {
        UnwrittenEntry(Box::new(call.happened_at(proctor_sys::clock::now().wall)))
    }

    /// Records such a change, with its result, as soon as possible.
    pub fn owe(&self, UnwrittenEntry(call): UnwrittenEntry, code: &str, millis: u64) {
        if !self.shared.owed.add(PendingEntry { call: *call, code: code.into(), millis }) {
            self.skipped();
        }
    }

    /// The end of the chain, if anything was written.
    pub(crate) fn anchor(&self) -> Option<ChainAnchor> {
        self.shared.anchor.lock().expect("nothing panics with it").clone()
    }

    /// Records the end of a change; `code` is an error code, or `ok`.
    pub async fn end(
        &self,
        begun: OpenEntry,
        code: &str,
        millis: u64,
    ) -> Result<(), AuditUnavailable> {
        self.write(LineKind::Result { of: begun.0, code: code.into(), millis }).await.map(drop)
    }

    /// Records a read.
    pub fn looked(&self, call: AuditedCall, code: &str, millis: u64) {
        self.note(LineKind::Read { call, code: code.into(), millis });
    }

    /// Records a read that must not happen unrecorded.
    pub async fn saw(
        &self,
        call: AuditedCall,
        code: &str,
        millis: u64,
    ) -> Result<(), AuditUnavailable> {
        self.write(LineKind::Read { call, code: code.into(), millis }).await.map(drop)
    }

    /// Records a rejected request.
    pub fn refused(&self, call: AuditedCall, code: &str) {
        self.note(LineKind::Refused { call: call.short(), code: code.into() });
    }

    /// Counts a request that is not recorded.
    pub fn skipped(&self) {
        self.shared.skipped.fetch_add(1, Ordering::Relaxed);
    }

    /// Why nothing can be written, if nothing can.
    pub fn problem(&self) -> Option<String> {
        self.shared.problem.lock().expect("nothing panics with it").clone()
    }

    /// The newest entries, oldest first.
    pub async fn read(
        &self,
        query: AuditQuery,
    ) -> Result<Vec<AuditEntry>, crate::error::EngineError> {
        let place = self.place.clone();
        let found = crate::blocking(move || read::read(&place, &query)).await?;
        found.map_err(|error| unreadable(&self.place, &error))
    }

    /// Verifies the audit. Blocks; needs no daemon.
    pub fn verify(home: &Home) -> Result<AuditReport, crate::error::EngineError> {
        let place = place(home);
        verify::verify(&place).map_err(|error| unreadable(&place, &error))
    }

    async fn write(&self, what: LineKind) -> Result<u64, AuditUnavailable> {
        let (answer, written) = oneshot::channel();
        let ending = || AuditUnavailable("the daemon is ending".into());
        let writing = async {
            let entry = Entry { what, answer: Some(answer) };
            self.queue.send(entry).await.map_err(|_| ending())?;
            written.await.map_err(|_| ending())?
        };
        let late = |_| Err(AuditUnavailable("its disk does not respond".into()));
        timeout(WRITE_TIMEOUT, writing).await.unwrap_or_else(late)
    }

    /// Records without waiting.
    fn note(&self, what: LineKind) {
        if self.queue.try_send(Entry { what, answer: None }).is_err() {
            self.skipped();
        }
    }
}

fn place(home: &Home) -> AuditPaths {
    AuditPaths { folder: home.audit(), head: home.audit_head(), anchor: home.services_json() }
}

fn unreadable(place: &AuditPaths, error: &io::Error) -> crate::error::EngineError {
    let path = place.folder.clone();
    crate::error::EngineError::Unreadable { path, why: error.to_string() }
}

struct Writer {
    place: AuditPaths,
    shared: Arc<Shared>,
    registry: Arc<Registry>,
}

impl Writer {
    async fn run(self, mut entries: mpsc::Receiver<Entry>) {
        // The folder is created once. If it is missing later, it was removed, and that must stay visible.
        let mut book = self.put(None, Vec::new(), true).await.0;
        let mut unsynced: Option<Instant> = book.is_some().then(|| Instant::now() + SYNC_AFTER);
        let mut batch = Vec::new();
        let mut owed_again: Option<Instant> = None;
        loop {
            let (when, again) = (unsynced, owed_again);
            tokio::select! {
                count = entries.recv_many(&mut batch, QUEUE) => {
                    if count == 0 {
                        return;
                    }
                    book = self.handle(book.take(), std::mem::take(&mut batch)).await;
                    unsynced = unsynced.or_else(|| Some(Instant::now() + SYNC_AFTER));
                }
                () = sleep_until(when.unwrap_or_else(Instant::now)), if when.is_some() => {
                    unsynced = None;
                    book = sync(book.take()).await;
                }
                () = self.shared.owed.added.notified() => {
                    owed_again = owed_again.or_else(|| Some(Instant::now() + OWED_INTERVAL));
                }
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {
                    book = self.write_owed(book.take()).await;
                    let left = !self.shared.owed.entries().is_empty();
                    owed_again = left.then(|| Instant::now() + OWED_INTERVAL);
                    unsynced = unsynced.or_else(|| Some(Instant::now() + SYNC_AFTER));
                }
            }
        }
    }

    async fn handle(&self, book: Option<AuditFile>, batch: Vec<Entry>) -> Option<AuditFile> {
        let (mut records, mut answers) = (Vec::new(), Vec::new());
        for Entry { what, answer } in batch {
            records.push(what);
            answers.push(answer);
        }
        let skipped = self.shared.skipped.swap(0, Ordering::Relaxed);
        if skipped > 0 {
            records.push(LineKind::Skipped { count: skipped });
        }
        let (book, written) = self.put(book, records, false).await;
        if written.is_err() {
            self.shared.skipped.fetch_add(skipped, Ordering::Relaxed);
        }
        for (nth, answer) in answers.into_iter().enumerate() {
            // The caller may be gone.
            answer.map(|it| it.send(written.clone().map(|first| first + nth as u64)));
        }
        book
    }

    /// Writes owed changes.
    async fn write_owed(&self, book: Option<AuditFile>) -> Option<AuditFile> {
        let owed = self.shared.owed.entries();
        if owed.is_empty() {
            return book;
        }
        let count = owed.len();
        let (book, opened) = match book {
            Some(book) => (Some(book), Ok(0)),
            None => self.put(None, Vec::new(), false).await,
        };
        let Some(next) = book.as_ref().filter(|_| opened.is_ok()).map(|it| it.anchor().seq + 1)
        else {
            return book;
        };
        let lines = owed.into_iter().zip((next..).step_by(2)).flat_map(|(it, seq)| it.lines(seq));
        let (book, written) = self.put(book, lines.collect(), false).await;
        if written.is_ok() {
            self.shared.owed.written(count);
            tracing::info!(count, "recorded changes that could not be recorded before");
        }
        book
    }

    /// Appends on a thread that may wait; a failed book is closed, and opened again the next time.
    async fn put(
        &self,
        book: Option<AuditFile>,
        records: Vec<LineKind>,
        make: bool,
    ) -> (Option<AuditFile>, Result<u64, AuditUnavailable>) {
        let (place, settings) = (self.place.clone(), self.registry.guard().security.audit);
        let done = crate::blocking(move || append(book, records, &place, settings, make)).await;
        let result = match done {
            Ok(Ok((book, first))) => Ok((book, first)),
            Ok(Err(error)) => Err(format!("{}: {error}", self.place.folder.display())),
            Err(error) => Err(error.to_string()),
        };
        let mut problem = self.shared.problem.lock().expect("nothing panics with it");
        match result {
            Ok((book, first)) => {
                *problem = None;
                *self.shared.anchor.lock().expect("nothing panics with it") = Some(book.anchor());
                (Some(book), Ok(first))
            }
            Err(why) => {
                if problem.is_none() {
                    tracing::error!(why, "cannot write the audit; changes are rejected");
                }
                *problem = Some(format!(
                    "the audit cannot be written, so changes other than stopping are refused: {why}"
                ));
                (None, Err(AuditUnavailable(why)))
            }
        }
    }
}

fn append(
    book: Option<AuditFile>,
    records: Vec<LineKind>,
    place: &AuditPaths,
    settings: Settings,
    make: bool,
) -> io::Result<(AuditFile, u64)> {
    let mut book = match book {
        Some(book) => book,
        None => AuditFile::open(place, settings, make)?,
    };
    book.set(settings);
    let first = if records.is_empty() { 0 } else { book.append(records)? };
    Ok((book, first))
}

async fn sync(book: Option<AuditFile>) -> Option<AuditFile> {
    let book = book?;
    let synced = crate::blocking(move || {
        if let Err(error) = book.sync() {
            tracing::warn!(%error, "cannot sync the audit to disk");
        }
        book
    });
    synced.await.ok()
}

/// Decodes a line of the audit and encodes it again, for the checks in `decoders`.
pub(crate) fn again(line: &[u8]) -> Result<Vec<u8>, String> {
    let (line, _) = line::AuditLine::decode(line)?;
    let (text, _) = line.encode();
    Ok(text.trim_end().as_bytes().to_vec())
}

pub(crate) fn with_hash(body: &[u8]) -> Vec<u8> {
    [body, b",\"hash\":\"", line::sha256(body).as_bytes(), b"\"}"].concat()
}
