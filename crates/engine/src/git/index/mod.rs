//! The index of a repository, held for a commit that is made in an index of its own. Who fails leaves nothing staged, and who
//! has succeeded cannot fail any more because somebody else is at work there.
//!
//! It is held as git holds it, by a file. That of somebody who was killed has nobody's lock of the kernel's on it: by that,
//! and by what is in it, it is known to be ours and removed. Git's own are never touched. From before git is called to make the
//! commit until it has ended, git has the kernel's lock, too: nobody looks what became of it in between.

mod before;

use super::Repository;
use super::error::GitError;
use super::place::{Inside, Place, regular};
use crate::own_folder::make_at;
use before::Before;
use proctor_core::home::{Home, OwnFolder};
use proctor_sys::file::{create_new, read_small};
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

/// What is going to be the index; and one for a commit of something else than that.
const NEXT: &str = "proctor-next";
const ASIDE: &str = "proctor-index";

/// An index that holds the attributes of a commit for a moment.
const ATTRIBUTES: &str = "proctor-attributes";

/// A lock of ours before it is one: it has its word in it from the first moment on.
const DRAFT: &str = "proctor-lock";

/// In a lock of ours; behind it, what there was before the commit.
const WORD: &[u8] = b"proctor\n";

/// Of a lock, this much is looked at.
const LONGEST: usize = 8 << 10;

/// For somebody else who is at work: an editor that looks for changes takes milliseconds, and does it all the time.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(15);

/// Held until this is dropped.
pub(super) struct Index {
    /// As git calls it.
    git_dir: PathBuf,
    inside: Inside,
    lock: File,
    /// By which the next daemon finds the lock.
    note: PathBuf,
    /// Git makes a commit with it, or did so when it was last heard of.
    unsure: AtomicBool,
}

impl Repository {
    /// Hold the index, as soon as nobody else does.
    pub(super) async fn hold_index(&self) -> Result<Arc<Index>, GitError> {
        let begun = Instant::now();
        loop {
            let (git_dir, inside) = (self.place.git_dir.clone(), self.place.inside());
            let notes = self.git.commands.home().held_indexes();
            let take =
                move |_| Index::take(git_dir, inside, &notes).map_err(failed("cannot be held"));
            match self.in_worktree(take).await? {
                Some(index) => return Ok(Arc::new(index)),
                None if begun.elapsed() < PATIENCE => tokio::time::sleep(LOOK_AGAIN).await,
                None => {
                    let lock = self.place.git_dir.join(LOCK);
                    return Err(GitError::held(&lock.to_string_lossy()));
                }
            }
        }
    }

    /// From now on git makes a commit with it: what git is to have as long as it does.
    pub(super) async fn begin_commit(&self, index: &Arc<Index>) -> Result<OwnedFd, GitError> {
        let index = Arc::clone(index);
        self.in_worktree(move |_| index.begin().map_err(failed("cannot be held"))).await
    }

    /// A commit was made with it: make what was prepared the index.
    pub(super) async fn install(&self, index: Arc<Index>) -> Result<(), GitError> {
        let install =
            move |_| index.install().map_err(failed("is not that of the commit just made"));
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
    /// `None` while somebody else holds it.
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

    /// What is going to be the index begins as it is now.
    fn copy(&self) -> io::Result<()> {
        remove_left(&self.inside);
        match regular(&self.inside.join(OWN)) {
            Ok(mut own) => {
                let mut copy = File::create_new(self.inside.join(NEXT))?;
                io::copy(&mut own, &mut copy)?;
                let found = own.metadata()?;
                copy.set_permissions(found.permissions())?;
                // A file that was changed after that time is looked into, although it may look as before.
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

    /// Write down what there is before the commit. Who has the descriptor has the lock.
    fn begin(&self) -> io::Result<OwnedFd> {
        if let Some(before) = Before::look(&self.inside, OWN) {
            let end = WORD.len() as u64;
            let written = self.lock.write_all_at(before.line().as_bytes(), end);
            written.inspect_err(|_| drop(self.lock.set_len(end)))?;
        }
        let lock = self.lock.try_clone()?;
        self.unsure.store(true, Ordering::Relaxed);
        Ok(lock.into())
    }

    /// Git has ended.
    pub(super) fn ended(&self) {
        self.unsure.store(false, Ordering::Relaxed);
    }

    fn install(&self) -> io::Result<()> {
        let path = self.inside.join(LOCK);
        if !is_at(&self.lock, &path) {
            return Err(io::Error::other("somebody removed its lock"));
        }
        match fs::rename(self.inside.join(NEXT), self.inside.join(OWN)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        // The daemon ends before git does: the next who comes sees what it did.
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

/// `None`: somebody was quicker.
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
            // Not every file system has links.
            Err(_) => write_lock(&path),
        }
    });
    match made {
        // Somebody else is there, or looks whether what was just made had been left behind.
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
        // Where the kernel has no locks, what is left is nobody's.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    if let Err(error) = lock.write_all(WORD) {
        let _ = fs::remove_file(path);
        return Err(error);
    }
    Ok(lock)
}

/// One that somebody who was killed has not come to use.
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

/// The name of an index that an older git reads a commit into. Removed before and after.
pub(super) struct AttributesIndex {
    /// As git calls it.
    pub(super) path: PathBuf,
    inside: Inside,
}

impl AttributesIndex {
    pub(super) fn new(place: &Place) -> AttributesIndex {
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

/// Nobody makes a commit with what was prepared any more. It belongs to one that was made, although nobody saw it.
fn conclude(git_dir: &Path, before: Option<Before>) {
    let now = before.as_ref().and_then(|_| Before::look(git_dir, OWN));
    if before.zip(now).is_some_and(|(before, now)| before.is_behind(&now)) {
        match fs::rename(git_dir.join(NEXT), git_dir.join(OWN)) {
            Ok(()) => tracing::info!(git = %git_dir.display(), "the index of a commit is in place"),
            Err(error) => {
                tracing::warn!(%error, git = %git_dir.display(), "the index is not that of the last commit");
            }
        }
    }
    remove_left(git_dir);
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(file), Ok(there)) = (file.metadata(), path.symlink_metadata()) else { return false };
    (file.dev(), file.ino()) == (there.dev(), there.ino())
}

/// Say where the index is held. Where that cannot be written, the next who changes something there still finds it.
fn note(git_dir: &Path, notes: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let (number, now) = (NUMBER.fetch_add(1, Ordering::Relaxed), clock::now().wall.0);
    let note = notes.join(format!("{}-{now}-{number}", std::process::id()));
    let text = git_dir.as_os_str().as_bytes();
    if let Err(error) = make_at(notes, OwnFolder::HeldIndexes.rule())
        .and_then(|()| create_new(&note)?.write_all(text))
    {
        tracing::warn!(%error, file = %note.display(), "a held index cannot be noted");
    }
    note
}

/// Remove a lock of ours whose holder is gone. Blocks.
pub(super) fn release(git_dir: &Path) {
    let path = git_dir.join(LOCK);
    remove_draft(&git_dir.join(DRAFT));
    // As long as nobody else has the kernel's lock, nobody else removes it.
    if let Ok(lock) = regular(&path)
        && lock.try_lock().is_ok()
        && let Some(before) = written(&lock)
        && is_at(&lock, &path)
    {
        conclude(git_dir, before);
        let _ = fs::remove_file(path);
    }
}

/// What is in a lock of ours; `None`: it is none.
fn written(lock: &File) -> Option<Option<Before>> {
    let mut bytes = vec![0; LONGEST];
    let read = lock.read_at(&mut bytes, 0).ok()?;
    match bytes[..read].strip_prefix(WORD)? {
        [] => Some(None),
        line => Before::parse(line).map(Some),
    }
}

/// As long as a path can be.
const MAX_NOTE: u64 = 4096;

/// What an earlier daemon held when it ended: notes of it.
pub(crate) fn held_before(home: &Home) -> Vec<PathBuf> {
    let folder = home.held_indexes();
    let notes = own_folder::names(&folder, OwnFolder::HeldIndexes.rule()).unwrap_or_default();
    notes.into_iter().map(|note| folder.join(note)).collect()
}

/// Release all that. Blocks.
pub(crate) fn release_all(notes: Vec<PathBuf>) {
    for note in notes {
        if let Ok(git_dir) = read_small(&note, MAX_NOTE) {
            let git_dir = Path::new(OsStr::from_bytes(&git_dir));
            release(git_dir);
            // Of one that is still held, the next daemon is told, too.
            if git_dir.join(LOCK).symlink_metadata().is_ok() {
                continue;
            }
        }
        let _ = fs::remove_file(note);
    }
}

#[cfg(test)]
mod tests;
