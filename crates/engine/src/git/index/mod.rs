//! Locks the index of a repository for a commit that is made in an index of its own. A failed commit leaves
//! nothing staged, and a successful one cannot fail afterwards because another process locked the index.
//!
//! ```text
//! index.lock      ours: the word `proctor`, then the state before the commit (`before`); flock held
//! index           unchanged until the commit is made
//!    │ copy
//!    ▼
//! proctor-next    index + committed changes ── rename to `index` after the commit
//! proctor-index   only for a commit of some paths: HEAD + changes below the paths (`only`)
//! ```
//!
//! The lock is git's own, a file. A file left by a killed daemon has no flock: by that, and by its content, it
//! is recognised as ours and removed. Locks of git are never touched. While git commits, it inherits the flock,
//! so nobody examines the result before git has ended.

mod index_copy;

use super::Repository;
use super::error::GitError;
use super::repository_location::{Inside, RepositoryLocation, regular};
use crate::own_folder::make_at;
use index_copy::IndexRecord;
use proctor_core::home::{Home, OwnFolder};
use proctor_sys::small_file::{create_new, read_small};
use proctor_sys::{clock, own_folder};
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const OWN: &str = "index";
const LOCK: &str = "index.lock";

/// The next index; and the index of a commit of some paths.
const NEXT: &str = "proctor-next";
const ASIDE: &str = "proctor-index";

/// A temporary index with the attributes of a commit.
const ATTRIBUTES: &str = "proctor-attributes";

/// A lock under construction: it contains its word before it gets its final name.
const DRAFT: &str = "proctor-lock";

/// Marks a lock as ours; the state before the commit follows.
const WORD: &[u8] = b"proctor\n";

/// Maximum number of bytes read from a lock.
const MAX_RECORD_BYTES: usize = 8 << 10;

/// Timeout for a lock of another process: an editor that looks for changes holds it for milliseconds, again and
/// again.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(15);

/// A locked index; dropping it releases the lock.
pub(super) struct Index {
    /// The path that git uses.
    git_dir: PathBuf,
    inside: Inside,
    lock: File,
    /// The note by which the next daemon finds the lock.
    note: PathBuf,
    /// Git is making a commit with it, or was when we last knew.
    unsure: AtomicBool,
}

impl Repository {
    /// Locks the index, after waiting for other processes.
    pub(super) async fn hold_index(&self) -> Result<Arc<Index>, GitError> {
        let begun = Instant::now();
        loop {
            let (git_dir, inside) = (self.place.git_dir.clone(), self.place.inside());
            let notes = self.git.commands.home().held_indexes();
            let take =
                move |_| Index::take(git_dir, inside, &notes).map_err(failed("cannot be locked"));
            match self.in_worktree(take).await? {
                Some(index) => return Ok(Arc::new(index)),
                None if begun.elapsed() < LOCK_TIMEOUT => tokio::time::sleep(LOOK_AGAIN).await,
                None => {
                    let lock = self.place.git_dir.join(LOCK);
                    return Err(GitError::held(&lock.to_string_lossy()));
                }
            }
        }
    }

    /// Records that git makes a commit now. Returns the descriptor that git inherits while it runs.
    pub(super) async fn begin_commit(&self, index: &Arc<Index>) -> Result<OwnedFd, GitError> {
        let index = Arc::clone(index);
        self.in_worktree(move |_| index.begin().map_err(failed("cannot be locked"))).await
    }

    /// Installs the prepared index after a commit.
    pub(super) async fn install(&self, index: Arc<Index>) -> Result<(), GitError> {
        let install =
            move |_| index.install().map_err(failed("cannot be replaced after the commit"));
        self.in_worktree(install).await
    }
}

fn failed(why: &'static str) -> impl Fn(io::Error) -> GitError {
    move |error| GitError::Failed {
        what: "commit".into(),
        said: format!("the index {why}: {error}"),
    }
}

/// Everything here blocks.
impl Index {
    /// `None` while another process holds the lock.
    fn take(git_dir: PathBuf, inside: Inside, notes: &Path) -> io::Result<Option<Index>> {
        let path = inside.join(LOCK);
        release(&inside);
        if path.symlink_metadata().is_ok() {
            return Ok(None);
        }
        let note = note(&git_dir, notes);
        let lock = match make_lock(&inside) {
            Ok(Some(lock)) => lock,
            other => {
                let _ = fs::remove_file(&note);
                return other.map(|_| None);
            }
        };
        let index = Index { git_dir, inside, lock, note, unsure: AtomicBool::new(false) };
        index.copy()?;
        Ok(Some(index))
    }

    /// Starts the next index as a copy of the current one.
    fn copy(&self) -> io::Result<()> {
        remove_left(&self.inside);
        match regular(&self.inside.join(OWN)) {
            Ok(mut own) => {
                let mut copy = File::create_new(self.inside.join(NEXT))?;
                io::copy(&mut own, &mut copy)?;
                let found = own.metadata()?;
                copy.set_permissions(found.permissions())?;
                // Git compares the contents of files that changed after this time, even if they look the same.
                copy.set_modified(found.modified()?)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn next(&self) -> PathBuf {
        self.git_dir.join(NEXT)
    }

    pub(super) fn aside(&self) -> PathBuf {
        self.git_dir.join(ASIDE)
    }

    /// Records the state before the commit. The lock is held as long as the descriptor is open.
    fn begin(&self) -> io::Result<OwnedFd> {
        if let Some(before) = IndexRecord::look(&self.inside, OWN) {
            let end = WORD.len() as u64;
            let written = self.lock.write_all_at(before.line().as_bytes(), end);
            written.inspect_err(|_| drop(self.lock.set_len(end)))?;
        }
        let lock = self.lock.try_clone()?;
        self.unsure.store(true, Ordering::Relaxed);
        Ok(lock.into())
    }

    /// Reports that git has ended.
    pub(super) fn ended(&self) {
        self.unsure.store(false, Ordering::Relaxed);
    }

    fn install(&self) -> io::Result<()> {
        let path = self.inside.join(LOCK);
        if !is_at(&self.lock, &path) {
            return Err(io::Error::other("its lock was removed"));
        }
        match fs::rename(self.inside.join(NEXT), self.inside.join(OWN)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // The daemon ends before git does: the next daemon examines the result.
        if *self.unsure.get_mut() {
            return;
        }
        let path = self.inside.join(LOCK);
        if is_at(&self.lock, &path) {
            conclude(&self.inside, written(&self.lock).flatten());
            let _ = fs::remove_file(path);
        }
        let _ = fs::remove_file(&self.note);
    }
}

/// `None`: another process was quicker.
fn make_lock(git_dir: &Path) -> io::Result<Option<File>> {
    let (draft, path) = (git_dir.join(DRAFT), git_dir.join(LOCK));
    remove_draft(&draft);
    let made = write_lock(&draft).and_then(|lock| {
        let linked = fs::hard_link(&draft, &path);
        let _ = fs::remove_file(&draft);
        match linked.map_err(|error| error.kind()) {
            Ok(()) => Ok(lock),
            Err(ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
                Err(ErrorKind::WouldBlock.into())
            }
            // Some file systems have no hard links.
            Err(_) => write_lock(&path),
        }
    });
    match made {
        // Another process holds the lock, or checks whether the new file is an abandoned one.
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::WouldBlock) => {
            Ok(None)
        }
        made => made.map(Some),
    }
}

fn write_lock(path: &Path) -> io::Result<File> {
    let mut lock = File::options().read(true).write(true).create_new(true).open(path)?;
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => return Err(ErrorKind::WouldBlock.into()),
        // Without flock, an abandoned file has no owner.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    if let Err(error) = lock.write_all(WORD) {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(lock)
}

/// Removes a draft that a killed daemon did not use.
fn remove_draft(draft: &Path) {
    if let Ok(file) = regular(draft)
        && file.try_lock().is_ok()
        && is_at(&file, draft)
    {
        let _ = fs::remove_file(draft);
    }
}

fn remove_left(git_dir: &Path) {
    for name in [NEXT, ASIDE, ATTRIBUTES] {
        remove_index(git_dir, name);
    }
}

fn remove_index(git_dir: &Path, name: &str) {
    let _ = fs::remove_file(git_dir.join(name));
    let _ = fs::remove_file(git_dir.join(format!("{name}.lock")));
}

/// An index that an older git reads a commit into. Removed before and after.
pub(super) struct AttributesIndex {
    /// The path that git uses.
    pub(super) path: PathBuf,
    inside: Inside,
}

impl AttributesIndex {
    pub(super) fn new(place: &RepositoryLocation) -> AttributesIndex {
        let inside = place.inside();
        remove_index(&inside, ATTRIBUTES);
        AttributesIndex { path: place.git_dir.join(ATTRIBUTES), inside }
    }
}

impl Drop for AttributesIndex {
    fn drop(&mut self) {
        remove_index(&self.inside, ATTRIBUTES);
    }
}

/// Cleans up after a commit. If the commit was made but not noticed, its prepared index is installed.
fn conclude(git_dir: &Path, before: Option<IndexRecord>) {
    let now = before.as_ref().and_then(|_| IndexRecord::look(git_dir, OWN));
    if before.zip(now).is_some_and(|(before, now)| before.is_behind(&now)) {
        match fs::rename(git_dir.join(NEXT), git_dir.join(OWN)) {
            Ok(()) => {
                tracing::info!(git = %git_dir.display(), "installed the index of an interrupted commit")
            }
            Err(error) => {
                tracing::warn!(%error, git = %git_dir.display(), "cannot install the index of an interrupted commit");
            }
        }
    }
    remove_left(git_dir);
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(there)) = (file.metadata(), path.symlink_metadata()) else { return false };
    (file.dev(), file.ino()) == (there.dev(), there.ino())
}

/// Records which index is locked. If that fails, the next writer of the repository still finds the lock.
fn note(git_dir: &Path, notes: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (number, now) = (NUMBER.fetch_add(1, Ordering::Relaxed), clock::now().wall.0);
    let note = notes.join(format!("{}-{now}-{number}", std::process::id()));
    let text = git_dir.as_os_str().as_bytes();
    if let Err(error) = make_at(notes, OwnFolder::HeldIndexes.rule())
        .and_then(|()| create_new(&note)?.write_all(text))
    {
        tracing::warn!(%error, file = %note.display(), "cannot record a locked index");
    }
    note
}

/// Removes a lock of ours whose owner is gone. Blocks.
pub(super) fn release(git_dir: &Path) {
    let path = git_dir.join(LOCK);
    remove_draft(&git_dir.join(DRAFT));
    // While we hold the flock, no other process removes it.
    if let Ok(lock) = regular(&path)
        && lock.try_lock().is_ok()
        && let Some(before) = written(&lock)
        && is_at(&lock, &path)
    {
        conclude(git_dir, before);
        let _ = fs::remove_file(path);
    }
}

/// The content of a lock of ours; `None` if it is not ours.
fn written(lock: &File) -> Option<Option<IndexRecord>> {
    let mut bytes = vec![0; MAX_RECORD_BYTES];
    let read = lock.read_at(&mut bytes, 0).ok()?;
    match bytes[..read].strip_prefix(WORD)? {
        [] => Some(None),
        line => IndexRecord::parse(line).map(Some),
    }
}

/// Maximum length of a path in a note.
const MAX_NOTE: u64 = 4096;

/// The notes of locks that an earlier daemon held when it ended.
pub(crate) fn held_before(home: &Home) -> Vec<PathBuf> {
    let folder = home.held_indexes();
    let notes = own_folder::names(&folder, OwnFolder::HeldIndexes.rule()).unwrap_or_default();
    notes.into_iter().map(|note| folder.join(note)).collect()
}

/// Releases these locks. Blocks.
pub(crate) fn release_all(notes: Vec<PathBuf>) {
    for note in notes {
        if let Ok(git_dir) = read_small(&note, MAX_NOTE) {
            let git_dir = Path::new(OsStr::from_bytes(&git_dir));
            release(git_dir);
            // A lock that is still held stays on record for the next daemon.
            if git_dir.join(LOCK).symlink_metadata().is_ok() {
                continue;
            }
        }
        let _ = fs::remove_file(note);
    }
}

#[cfg(test)]
mod tests;
