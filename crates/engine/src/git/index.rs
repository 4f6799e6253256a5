//! The index of a repository, held for a commit that is made in an index of its own. Who fails leaves nothing staged, and who
//! has succeeded cannot fail any more because somebody else is at work there.
//!
//! It is held as git holds it, by a file. That of somebody who was killed has nobody's lock of the kernel's on it: by that,
//! and by what is in it, it is known to be ours and removed. Git's own are never touched.

use super::Repository;
use super::error::GitError;
use super::place::{Inside, regular};
use proctor_core::home::Home;
use proctor_sys::clock;
use proctor_sys::file::private_dir;
use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const OWN: &str = "index";
const LOCK: &str = "index.lock";

/// What is going to be the index; and one for a commit of something else than that.
const NEXT: &str = "proctor-next";
const ASIDE: &str = "proctor-index";

/// A lock of ours before it is one: it has its word in it from the first moment on.
const DRAFT: &str = "proctor-lock";

/// In a lock of ours.
const WORD: &[u8] = b"proctor\n";

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
        let index = Index { git_dir, inside, lock, note };
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
        let path = self.inside.join(LOCK);
        if is_at(&self.lock, &path) {
            remove_left(&self.inside);
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
    let mut lock = File::create_new(path)?;
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
    for name in [NEXT, ASIDE] {
        let _ = fs::remove_file(git_dir.join(name));
        let _ = fs::remove_file(git_dir.join(format!("{name}.lock")));
    }
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
    if let Err(error) = private_dir(notes).and_then(|()| fs::write(&note, text)) {
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
        && is_ours(&lock)
        && is_at(&lock, &path)
    {
        remove_left(git_dir);
        let _ = fs::remove_file(path);
    }
}

fn is_ours(lock: &File) -> bool {
    let mut found = Vec::new();
    let longer = WORD.len() as u64 + 1;
    lock.take(longer).read_to_end(&mut found).is_ok() && found == WORD
}

/// What an earlier daemon held when it ended: notes of it.
pub(crate) fn held_before(home: &Home) -> Vec<PathBuf> {
    let notes = fs::read_dir(home.held_indexes()).into_iter().flatten();
    notes.flatten().map(|note| note.path()).collect()
}

/// Release all that. Blocks.
pub(crate) fn release_all(notes: Vec<PathBuf>) {
    for note in notes {
        if let Ok(git_dir) = fs::read(&note) {
            release(Path::new(OsStr::from_bytes(&git_dir)));
        }
        let _ = fs::remove_file(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    struct Scene(tempfile::TempDir);

    impl Scene {
        fn git_dir(&self) -> PathBuf {
            self.0.path().join("git")
        }

        fn home(&self) -> Home {
            Home { state: self.0.path().into(), runtime: self.0.path().into() }
        }

        fn take(&self) -> Option<Index> {
            let inside = Inside::named(self.git_dir());
            Index::take(self.git_dir(), inside, &self.home().held_indexes()).unwrap()
        }
    }

    fn scene() -> Scene {
        let scene = Scene(tempfile::tempdir().unwrap());
        fs::create_dir(scene.git_dir()).unwrap();
        scene
    }

    #[test]
    fn one_holds_it_and_what_was_prepared_takes_its_place() {
        let scene = scene();
        let git = scene.git_dir();
        let index = scene.take().unwrap();
        assert!(scene.take().is_none() && !index.next().exists());
        fs::write(index.next(), "first").unwrap();
        index.install().unwrap();
        assert!(scene.take().is_none(), "it is still held");
        drop(index);
        assert_eq!(fs::read(git.join("index")).unwrap(), b"first");

        let index = scene.take().unwrap();
        assert_eq!(fs::read(index.next()).unwrap(), b"first");
        fs::write(index.next(), "second").unwrap();
        drop(index);
        assert_eq!(fs::read(git.join("index")).unwrap(), b"first", "it was not installed");
        assert_eq!(names(&git), ["index"]);
        assert!(held_before(&scene.home()).is_empty());
    }

    #[test]
    fn a_lock_of_somebody_else_is_waited_for_and_never_removed() {
        let scene = scene();
        let lock = scene.git_dir().join(LOCK);
        for text in ["", "DIRC", "proctor\nand more"] {
            fs::write(&lock, text).unwrap();
            assert!(scene.take().is_none());
            release(&scene.git_dir());
            assert_eq!(fs::read_to_string(&lock).unwrap(), text);
        }
        fs::remove_file(&lock).unwrap();
        let index = scene.take().unwrap();
        // By hand, and then another git came.
        fs::remove_file(&lock).unwrap();
        fs::write(&lock, "").unwrap();
        fs::write(index.next(), "mine").unwrap();
        assert!(index.install().is_err());
        drop(index);
        assert!(lock.exists() && !scene.git_dir().join("index").exists());
    }

    #[test]
    fn an_index_that_is_no_file_is_neither_followed_nor_waited_for() {
        let scene = scene();
        let (git, secret) = (scene.git_dir(), scene.0.path().join("secret"));
        fs::write(&secret, "secret").unwrap();
        let own = git.join(OWN);
        let check = |what: &str| {
            let inside = Inside::named(git.clone());
            let taken = Index::take(git.clone(), inside, &scene.home().held_indexes());
            let why = taken.err().map(|why| why.to_string());
            assert_eq!(why.as_deref(), Some("it is no regular file"), "{what}");
            assert_eq!(names(&git), ["index"], "{what}");
            fs::remove_file(&own).unwrap();
        };
        std::os::unix::fs::symlink(&secret, &own).unwrap();
        check("a link");
        let made = std::process::Command::new("mkfifo").arg(&own).status().unwrap();
        assert!(made.success());
        check("a pipe");
        let lock = git.join(LOCK);
        fs::write(&secret, WORD).unwrap();
        std::os::unix::fs::symlink(&secret, &lock).unwrap();
        release(&git);
        assert!(lock.symlink_metadata().is_ok() && scene.take().is_none());
    }

    #[test]
    fn what_a_killed_daemon_held_is_released() {
        let scene = scene();
        let kill = |index: Index| {
            let Index { git_dir, .. } = &index;
            let left = (git_dir.clone(), index.lock.try_clone().unwrap());
            fs::write(index.aside(), "half").unwrap();
            std::mem::forget(index);
            left
        };
        // A living one has the kernel's lock, whichever daemon asks.
        let (git, lock) = kill(scene.take().unwrap());
        release(&git);
        release_all(held_before(&scene.home()));
        assert!(git.join(LOCK).exists());
        lock.unlock().unwrap();
        assert!(scene.take().is_some(), "the next who wants it");
        let (git, lock) = kill(scene.take().unwrap());
        lock.unlock().unwrap();
        release_all(held_before(&scene.home()));
        assert!(names(&git).is_empty() && held_before(&scene.home()).is_empty());
    }

    #[test]
    fn a_lock_that_was_never_finished_is_in_nobodys_way() {
        let scene = scene();
        let draft = scene.git_dir().join(DRAFT);
        let other = write_lock(&draft).unwrap();
        assert!(
            scene.take().is_none() && !scene.git_dir().join(LOCK).exists(),
            "it may yet be one"
        );
        other.unlock().unwrap();
        assert!(scene.take().is_some());
        fs::write(&draft, "").unwrap();
        release(&scene.git_dir());
        assert!(names(&scene.git_dir()).is_empty());
        std::os::unix::fs::symlink("elsewhere", &draft).unwrap();
        assert!(scene.take().is_none(), "nobody follows it");
        assert_eq!(names(&scene.git_dir()), [DRAFT]);
    }
}
