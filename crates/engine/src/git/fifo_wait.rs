//! Ends a git that waits for a FIFO in the work tree.
//!
//! Git opens `.gitignore`, `.gitattributes` and the like in every folder, and waits if one is a FIFO without a
//! writer. Only git knows which folders it reads, so nothing is checked beforehand. Instead, a slow call
//! triggers a search: a FIFO of such a name that has a reader is the one that git waits for.

use super::Repository;
use super::error::GitError;
use crate::command::{Produced, Program};
use rustix::fs::{Mode, OFlags};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Files of a work tree that git reads unasked.
const READ_BY_GIT: [&str; 4] = [".gitattributes", ".gitignore", ".gitmodules", ".mailmap"];

/// Delay before the first search. Few calls take as long, so most need none.
const FIRST_LOOK: Duration = Duration::from_millis(500);

/// Maximum duration of one search. Folders are visited by depth, so in a large tree only deep files are missed.
const MAX_LOOK: Duration = Duration::from_secs(2);

/// Pause between two searches, as a multiple of the time that one takes, and at least `FIRST_LOOK`.
const PAUSE_FACTOR: u32 = 10;

impl Repository {
    /// Runs a program until it ends, `wanted` is dropped, or it is found to wait for a FIFO.
    pub(super) async fn produce(
        &self,
        program: Program,
        wanted: Option<oneshot::Receiver<()>>,
    ) -> Result<Produced, GitError> {
        let what = program.args.iter().find(|word| !word.as_encoded_bytes().starts_with(b"-"));
        let what = what.map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |error: crate::error::EngineError| GitError::Failed {
            what: what.clone(),
            said: error.to_string(),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let running = self.git.commands.produce(Program { wanted: Some(stopped), ..program });
        let unwanted = async {
            match wanted {
                Some(wanted) => drop(wanted.await),
                None => std::future::pending().await,
            }
        };
        tokio::pin!(running);
        tokio::select! {
            produced = &mut running => produced.map_err(failed),
            () = unwanted => {
                drop(stop);
                running.await.map_err(failed)
            }
            fifo = waited_for(&self.place.top) => {
                drop(stop);
                let produced = running.await.map_err(failed);
                // Kept open until here: otherwise git would read an empty file and continue.
                drop(fifo.writer);
                produced?;
                let path = fifo.path.display();
                let why = "is a FIFO, and git waits for a writer; remove it";
                Err(GitError::Conflict(format!("{path} {why}")))
            }
        }
    }
}

/// A FIFO with a reader, and the writing end that keeps the reader waiting.
struct Fifo {
    path: PathBuf,
    writer: File,
}

/// Returns when such a FIFO is found.
async fn waited_for(top: &Path) -> Fifo {
    let mut pause = FIRST_LOOK;
    loop {
        tokio::time::sleep(pause).await;
        let (top, begun) = (top.to_owned(), Instant::now());
        if let Ok(Some(fifo)) = crate::blocking(move || look(&top, begun + MAX_LOOK)).await {
            return fifo;
        }
        pause = FIRST_LOOK.max(begun.elapsed() * PAUSE_FACTOR);
    }
}

/// Searches a work tree. Blocks.
fn look(top: &Path, deadline: Instant) -> Option<Fifo> {
    let mut folders = VecDeque::from([top.to_owned()]);
    while let Some(folder) = folders.pop_front() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            if kind.is_dir() && name != ".git" {
                folders.push_back(entry.path());
            } else if kind.is_fifo()
                && READ_BY_GIT.iter().any(|read| name == *read)
                && let Some(writer) = writer_of_read(&entry.path())
            {
                return Some(Fifo { path: entry.path(), writer });
            }
        }
        if Instant::now() >= deadline {
            return None;
        }
    }
    None
}

/// Opens a FIFO for writing, which succeeds only if it has a reader.
fn writer_of_read(path: &Path) -> Option<File> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().ok().filter(|found| found.file_type().is_fifo()).map(|_| file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_a_fifo_that_git_reads_and_that_has_a_reader_is_found() {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir_all(top.path().join("a/b")).unwrap();
        let soon = || Instant::now() + MAX_LOOK;
        let make = |name: &str| {
            let path = top.path().join(name);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        let read = |path: &Path| {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK;
            rustix::fs::open(path, flags, Mode::empty()).unwrap()
        };
        let (other, ignored) = (make("a/control"), make("a/b/.gitignore"));
        let _control = read(&other);
        assert!(look(top.path(), soon()).is_none(), "nobody reads the one that git would");
        let reader = read(&ignored);
        assert_eq!(look(top.path(), soon()).unwrap().path, ignored);
        drop(reader);
        assert!(look(top.path(), soon()).is_none());
    }
}
