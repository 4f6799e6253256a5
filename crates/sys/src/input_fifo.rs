//! The FIFO that carries a client's standard input to a run. The writer creates it, and the keeper
//! takes it when it creates the run.
//!
//! If the writer dies, the run reads the end of its input and continues. An offer whose writer died
//! before it was taken acts like an empty input, and one run uses it up.

use crate::{fifo, small_file};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An input that waits to be taken.
pub struct OfferedInput {
    path: PathBuf,
    /// Open from the beginning, so that a reader always finds a writer.
    writer: File,
}

impl OfferedInput {
    /// Creates the FIFO. It belongs to the owner of its folder, because the keeper may run as
    /// another user than the writer.
    pub fn make(path: &Path) -> io::Result<OfferedInput> {
        let _ = small_file::remove(path);
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let open = |flags| {
            rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
        };
        // A writer without a reader would block here.
        let both = open(OFlags::RDWR)?;
        let folder = std::fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
        if folder.uid() != crate::user::effective().0 {
            let owner = rustix::fs::Uid::from_raw(folder.uid());
            rustix::fs::fchown(&both, Some(owner), None)?;
        }
        let writer = File::from(open(OFlags::WRONLY)?);
        Ok(OfferedInput { path: path.to_path_buf(), writer })
    }

    /// Waits until a run has taken the input; returns the end to write to.
    pub fn taken(self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(writer) => Ok(writer.into()),
            // The taker removes the name.
            Err(rustix::io::Errno::NOENT) => Ok(self.writer),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes the input offered at `path`, if there is one, for a new process.
pub fn take(path: &Path) -> Option<OwnedFd> {
    let reader = fifo::open(path).ok()?;
    let _ = small_file::remove(path);
    // It was opened without waiting for a writer; its reader should block for bytes.
    set_blocking(&reader).ok().map(|()| reader)
}

fn set_blocking(reader: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&reader)?;
    Ok(rustix::fs::fcntl_setfl(&reader, flags.difference(OFlags::NONBLOCK))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn what_is_written_arrives_whole_and_ends_with_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.stdin");
        for taken_first in [true, false] {
            let offer = OfferedInput::make(&path).unwrap();
            let text = "x".repeat(1 << 20);
            let sent = text.clone();
            let early = taken_first.then(|| take(&path).unwrap());
            let writer = std::thread::spawn(move || {
                offer.taken().unwrap().write_all(sent.as_bytes()).unwrap();
            });
            let mut reader = File::from(early.unwrap_or_else(|| take(&path).unwrap()));
            let mut arrived = String::new();
            reader.read_to_string(&mut arrived).unwrap();
            assert!(arrived == text, "{} bytes of {}", arrived.len(), text.len());
            writer.join().unwrap();
            assert!(take(&path).is_none(), "an offer is for one run");
        }
    }

    #[test]
    fn an_offer_of_the_dead_is_an_empty_input() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("web.stdin");
        drop(OfferedInput::make(&path).unwrap());
        let mut nothing = Vec::new();
        File::from(take(&path).unwrap()).read_to_end(&mut nothing).unwrap();
        assert!(nothing.is_empty());
        std::fs::write(&path, "no FIFO").unwrap();
        assert!(take(&path).is_none());
    }
}
