//! The files of one stream of one service: numbered segments, the open one, and their deletion.

use crate::log;
use crate::own_folder;
use proctor_core::home::{FolderRule, OwnFolder};
use proctor_core::log_index::{self, IndexEntry, IndexMark, Stream};
use proctor_core::name::RunId;
use proctor_core::time::Wall;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::own_file;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The open segment. Lengths are tracked here, because splice refuses files opened for appending.
pub(super) struct OpenSegment {
    pub(super) number: u64,
    pub(super) log: File,
    index: File,
    pub(super) length: u64,
    index_length: u64,
    pub(super) opened: Wall,
    /// Device and inode of the file, whatever has its name now.
    file: (u64, u64),
}

impl OpenSegment {
    pub(super) fn note(&mut self, entry: &IndexEntry) -> io::Result<()> {
        let bytes = entry.encode();
        self.index.write_all_at(&bytes, self.index_length)?;
        self.index_length += bytes.len() as u64;
        Ok(())
    }

    /// Whether the end of this run is marked in the last entries.
    pub(super) fn has_exit_of(&self, run: RunId) -> bool {
        /// Number of entries to check; older runs were cleaned up long ago.
        const LOOK_BACK: u64 = 128;
        let length = self.index_length.min(LOOK_BACK * log_index::RECORD as u64);
        let mut bytes = vec![0; length as usize];
        let read = self.index.read_exact_at(&mut bytes, self.index_length - length);
        let is_exit = |e: &IndexEntry| e.run == run && matches!(e.mark, IndexMark::RunExited(_));
        read.is_ok() && log_index::decode_all(&bytes).iter().any(is_exit)
    }

    /// The run of the last entry.
    pub(super) fn last_run(&self) -> Option<RunId> {
        last_run(&self.index, self.index_length)
    }

    /// Bytes on disk. A service that only starts and exits has almost no log, but a growing index.
    pub(super) fn size(&self) -> u64 {
        self.length + self.index_length
    }

    /// The file was emptied or shortened by somebody: continues at its end. Older index entries are
    /// no longer valid.
    fn shorten(&mut self, length: u64) -> io::Result<()> {
        self.index.set_len(0)?;
        (self.length, self.index_length) = (length, 0);
        Ok(())
    }

    /// Whether the segment ends at a line end.
    pub(super) fn at_line_end(&self) -> bool {
        let mut last = [0];
        self.length == 0
            || (self.log.read_exact_at(&mut last, self.length - 1).is_ok() && last == [b'\n'])
    }
}

/// All existing segments of a stream with their sizes, oldest first; the last may be open.
pub(super) struct Segments {
    folder: PathBuf,
    stream: Stream,
    closed: VecDeque<(u64, u64)>,
    /// Total size of the closed segments; needed before each move.
    closed_bytes: u64,
}

impl Segments {
    /// Lists the existing segments. A missing folder has none.
    pub(super) fn look(folder: PathBuf, stream: Stream) -> Segments {
        let mut closed: Vec<(u64, u64)> = names(&folder)
            .into_iter()
            .filter_map(|name| {
                let (found, number) = log_index::parse_log_file(name.to_str()?)?;
                let path = Some(folder.join(&name)).filter(|_| found == stream)?;
                let metadata = std::fs::symlink_metadata(path).ok().filter(Metadata::is_file)?;
                let index = folder.join(log_index::index_file(stream, number));
                let index = std::fs::symlink_metadata(index).map_or(0, |metadata| metadata.len());
                Some((number, metadata.len() + index))
            })
            .collect();
        closed.sort_unstable();
        let closed_bytes = closed.iter().map(|(_, size)| size).sum();
        Segments { folder, stream, closed: closed.into(), closed_bytes }
    }

    /// Opens the newest segment for further writing, or creates the first.
    pub(super) fn open_newest(&mut self, now: Wall) -> io::Result<OpenSegment> {
        let is_elsewhere = |logs| check_logs(logs).is_err();
        if !self.closed.is_empty() && self.folder.parent().is_some_and(is_elsewhere) {
            make_folder(&self.folder)?;
            *self = Segments::look(self.folder.clone(), self.stream);
        }
        let Some((number, size)) = self.closed.back().copied() else {
            return self.create(1, now);
        };
        let open = self.open(number, now)?;
        self.closed.pop_back();
        self.closed_bytes = self.closed_bytes.saturating_sub(size);
        Ok(open)
    }

    /// Closes `open` and starts the next segment.
    pub(super) fn next(
        &mut self,
        open: OpenSegment,
        now: Wall,
    ) -> Result<OpenSegment, (OpenSegment, io::Error)> {
        match self.create(open.number + 1, now) {
            Ok(next) => {
                self.closed.push_back((open.number, open.size()));
                self.closed_bytes = self.closed_bytes.saturating_add(open.size());
                Ok(next)
            }
            Err(error) => Err((open, error)),
        }
    }

    /// Checks that the open segment still has its name; somebody may have deleted, moved or emptied
    /// it. Returns the segment to continue with instead, if any.
    pub(super) fn check(
        &mut self,
        open: &mut OpenSegment,
        now: Wall,
    ) -> io::Result<Option<OpenSegment>> {
        match std::fs::symlink_metadata(self.path(&log_index::log_file(self.stream, open.number))) {
            Ok(found) if (found.dev(), found.ino()) == open.file => {
                if found.len() < open.length {
                    open.shorten(found.len())?;
                }
                return Ok(None);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Something else is in the place of a folder, or its mode was changed.
            Err(_) => make_folder(&self.folder)?,
        }
        // More segments may be gone. A used number is not used again, because cursors refer to it.
        *self = Segments::look(self.folder.clone(), self.stream);
        let newest = self.closed.back().map_or(0, |(number, _)| *number);
        self.create(newest.max(open.number) + 1, now).map(Some)
    }

    /// The run of the last entry in a closed segment.
    pub(super) fn last_run(&self) -> Option<RunId> {
        self.closed.iter().rev().find_map(|(number, _)| {
            let path = self.path(&log_index::index_file(self.stream, *number));
            let (index, found) = open_regular(&path, false).ok()?;
            last_run(&index, whole_entries(&found))
        })
    }

    /// Bytes of the closed segments.
    pub(super) fn bytes(&self) -> u64 {
        self.closed_bytes
    }

    pub(super) fn count(&self) -> usize {
        self.closed.len()
    }

    /// Deletes the oldest closed segment; returns false if there is none.
    pub(super) fn delete_oldest(&mut self) -> bool {
        let Some((number, size)) = self.closed.pop_front() else { return false };
        self.closed_bytes = self.closed_bytes.saturating_sub(size);
        failpoint::moment(Point::RetainBegin);
        // The log first: an index without a log is harmless, a log without an index has lost its
        // times.
        let _ = std::fs::remove_file(self.path(&log_index::log_file(self.stream, number)));
        failpoint::moment(Point::RetainLog);
        let _ = std::fs::remove_file(self.path(&log_index::index_file(self.stream, number)));
        true
    }

    fn create(&self, number: u64, now: Wall) -> io::Result<OpenSegment> {
        failpoint::step(Point::RotateBegin)?;
        make_folder(&self.folder)?;
        let log_path = self.path(&log_index::log_file(self.stream, number));
        let log = new_file().open(&log_path)?;
        self.with_index(log, number, now).inspect_err(|_| {
            // Half a segment would make every retry fail.
            let _ = std::fs::remove_file(&log_path);
        })
    }

    fn with_index(&self, log: File, number: u64, now: Wall) -> io::Result<OpenSegment> {
        failpoint::step(Point::RotateIndex)?;
        // An index left from an earlier log of this number, which somebody deleted.
        let index_path = self.path(&log_index::index_file(self.stream, number));
        let _ = std::fs::remove_file(&index_path);
        let index = new_file().open(&index_path)?;
        let file = identity(&log.metadata()?);
        Ok(OpenSegment { number, log, index, length: 0, index_length: 0, opened: now, file })
    }

    fn open(&self, number: u64, now: Wall) -> io::Result<OpenSegment> {
        let log = open_regular(&self.path(&log_index::log_file(self.stream, number)), false)?;
        let index = open_regular(&self.path(&log_index::index_file(self.stream, number)), true)?;
        let ((log, found), (index, found_index)) = (log, index);
        Ok(OpenSegment {
            number,
            log,
            index,
            length: found.len(),
            index_length: whole_entries(&found_index),
            opened: age_of(&found).unwrap_or(now),
            file: identity(&found),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// Makes the log folder of a service, and the folder of all logs, unless they are there.
fn make_folder(folder: &Path) -> io::Result<()> {
    if let Some(logs) = folder.parent()
        && check_logs(logs).is_err()
    {
        own_folder::make_logs(logs)?;
    }
    own_folder::make_inner(folder)
}

fn check_logs(logs: &Path) -> io::Result<()> {
    proctor_sys::own_folder::check(logs, OwnFolder::Logs.rule())
}

/// Names in the log folder of a service. Something else in its place is moved aside.
fn names(folder: &Path) -> Vec<OsString> {
    let names = || proctor_sys::own_folder::names(folder, FolderRule::INNER);
    match names() {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(_) => match make_folder(folder).and_then(|()| names()) {
            Ok(names) => names,
            Err(error) => {
                log!("cannot use {}: {error}", folder.display());
                Vec::new()
            }
        },
    }
}

fn new_file() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    options
}

fn open_regular(path: &Path, create: bool) -> io::Result<(File, Metadata)> {
    let file = if create { own_file::modify_or_create(path) } else { own_file::modify(path) }?;
    let found = file.metadata()?;
    Ok((file, found))
}

/// Size of an index without a torn entry at its end, which is overwritten.
fn whole_entries(index: &Metadata) -> u64 {
    index.len() / log_index::RECORD as u64 * log_index::RECORD as u64
}

fn last_run(index: &File, length: u64) -> Option<RunId> {
    let mut bytes = [0; log_index::RECORD];
    index.read_exact_at(&mut bytes, length.checked_sub(log_index::RECORD as u64)?).ok()?;
    IndexEntry::decode(&bytes).map(|entry| entry.run)
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Creation time of the segment, if the file system records it.
fn age_of(log: &Metadata) -> Option<Wall> {
    let made = log.created().ok()?;
    let since = made.duration_since(std::time::SystemTime::UNIX_EPOCH).ok()?;
    Some(Wall(i64::try_from(since.as_micros()).ok()?))
}
