//! The FIFO that carries somebody's standard input to a run: its writer makes it, the keeper takes it when it makes the run.
//!
//! A run whose writer dies reads the end of its input and goes on. An offer whose writer died before it was taken is an empty
//! input, like none at all, and is used up by one run.

use crate::{fifo, file};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An input that waits to be taken.
pub struct Offer {
    path: PathBuf,
    /// Open from the beginning, so that a reader never finds an input that nobody writes to.
    writer: File,
}

impl Offer {
    /// Make the FIFO. It belongs to the owner of its folder: the keeper may run as somebody else than the writer.
    pub fn make(path: &Path) -> io::Result<Offer> {
        let _ = file::remove(path);
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let open = |flags| {
            rustix::fs::open(path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())
        };
        // Without a reader, a writer would wait here.
        let both = open(OFlags::RDWR)?;
        let folder = std::fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
        if folder.uid() != crate::user::effective().0 {
            let owner = rustix::fs::Uid::from_raw(folder.uid());
            rustix::fs::fchown(&both, Some(owner), None)?;
        }
        let writer = File::from(open(OFlags::WRONLY)?);
        Ok(Offer { path: path.to_path_buf(), writer })
    }

    /// The end to write to, once somebody has taken the other; waits until then.
    pub fn taken(self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::open(&self.path, flags, Mode::empty()) {
            Ok(writer) => Ok(writer.into()),
            // Whoever takes it removes its name.
            Err(rustix::io::Errno::NOENT) => Ok(self.writer),
            Err(error) => Err(error.into()),
        }
    }
}

/// Take the input that is offered at `path`, if there is one, for a process to be made.
pub fn take(path: &Path) -> Option<OwnedFd> {
    let reader = fifo::open(path).ok()?;
    let _ = file::remove(path);
    // It was opened without waiting for a writer; its reader is to wait for bytes.
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
            let offer = Offer::make(&path).unwrap();
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
        drop(Offer::make(&path).unwrap());
        let mut nothing = Vec::new();
        File::from(take(&path).unwrap()).read_to_end(&mut nothing).unwrap();
        assert!(nothing.is_empty());
        std::fs::write(&path, "no FIFO").unwrap();
        assert!(take(&path).is_none());
    }
}
