//! The pseudo terminal that `proctor run` offers to a run: its owner makes it, the keeper opens it when it makes the run.
//!
//! The owner holds the master, so the terminal ends with its owner, like a window that is closed: the kernel hangs it up. The
//! owner also makes the FIFO that becomes the standard output of the run, and copies into it whatever appears on the terminal:
//! the log has it, and survives keepers as the output of every other run does.
//!
//! An offer is void if its owner is dead: nobody has its FIFO open for reading.

use crate::{fifo, small_file, user};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::pty::{self, OpenptFlags};
use rustix::termios;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More than the path of a terminal and the word after it have.
const MAX_OFFER_BYTES: u64 = 256;

/// Second line of an offer whose terminal is also the standard error.
const WITH_STDERR: &str = "stderr";

/// Where an offer is found.
#[derive(Debug, Clone)]
pub struct OfferPaths {
    /// Names the terminal.
    pub terminal: PathBuf,
    /// The FIFO for the copy of its output.
    pub output: PathBuf,
}

impl OfferPaths {
    /// Remove what is left of an offer.
    pub fn remove(&self) {
        let _ = small_file::remove(&self.terminal);
        let _ = small_file::remove(&self.output);
    }
}

/// A terminal that waits to be opened by a keeper.
pub struct TerminalOffer {
    pub master: File,
    /// Keeps the master readable until the run has opened it as well.
    pub terminal: OwnedFd,
    /// Takes the copy of the output. Open for reading, too, so that no keeper has to live for it to be written.
    pub output: File,
}

impl TerminalOffer {
    /// Make a terminal with the settings and the size of `like` and offer it.
    pub fn make(
        paths: &OfferPaths,
        like: impl AsFd,
        with_stderr: bool,
    ) -> io::Result<TerminalOffer> {
        paths.remove();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = pty::openpt(flags)?;
        pty::grantpt(&master)?;
        pty::unlockpt(&master)?;
        let name = pty::ptsname(&master, Vec::new())?;
        let terminal = pty::ioctl_tiocgptpeer(&master, flags)?;
        let settings = termios::tcgetattr(&like)?;
        termios::tcsetattr(&terminal, termios::OptionalActions::Now, &settings)?;
        copy_size(like, &master);
        rustix::fs::mknodat(CWD, &paths.output, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let output = rustix::fs::open(&paths.output, flags, Mode::empty())?;
        let stderr = if with_stderr { WITH_STDERR } else { "" };
        small_file::replace(
            &paths.terminal,
            format!("{}\n{stderr}\n", name.to_string_lossy()).as_bytes(),
        )?;
        let offer = File::open(&paths.terminal)?;
        give_to_owner(&paths.terminal, &[terminal.as_fd(), output.as_fd(), offer.as_fd()])?;
        Ok(TerminalOffer { master: master.into(), terminal, output: output.into() })
    }
}

/// The keeper may run as somebody else than the owner of the terminal: everything belongs to the owner of the folder.
fn give_to_owner(path: &Path, opened: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<()> {
    let folder = std::fs::metadata(path.parent().unwrap_or(Path::new("/")))?;
    if folder.uid() == user::effective().0 {
        return Ok(());
    }
    for fd in opened {
        rustix::fs::fchown(fd, Some(rustix::fs::Uid::from_raw(folder.uid())), None)?;
    }
    Ok(())
}

/// Give a terminal the size of another. One that has no size leaves it as it is.
pub fn copy_size(from: impl AsFd, to: impl AsFd) {
    if let Ok(size) = termios::tcgetwinsize(from) {
        let _ = termios::tcsetwinsize(to, size);
    }
}

/// A terminal that a run is to be made with.
pub struct OfferedTerminal {
    pub terminal: OwnedFd,
    pub with_stderr: bool,
    pub output: fifo::FifoEnds,
}

/// Open the terminal that is offered, if its owner lives, and make the FIFO for its output known as `output`. The offer stays until
/// its run was made: one that was not made is made again.
pub fn open(paths: &OfferPaths, output: &Path) -> io::Result<Option<OfferedTerminal>> {
    let Ok(bytes) = small_file::read_small(&paths.terminal, MAX_OFFER_BYTES) else {
        return Ok(None);
    };
    if !has_reader(&paths.output) {
        paths.remove();
        return Ok(None);
    }
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    let (path, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let flags =
        OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let terminal = rustix::fs::open(path, flags, Mode::empty())?;
    if !termios::isatty(&terminal) {
        return Err(rustix::io::Errno::NOTTY.into());
    }
    let flags = rustix::fs::fcntl_getfl(&terminal)?;
    rustix::fs::fcntl_setfl(&terminal, flags.difference(OFlags::NONBLOCK))?;
    std::fs::hard_link(&paths.output, output)?;
    let output = fifo::open_both(output)?;
    Ok(Some(OfferedTerminal { terminal, with_stderr: rest.trim_end() == WITH_STDERR, output }))
}

/// Returns true if some process has this FIFO open for reading.
fn has_reader(path: &Path) -> bool {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::open(path, flags, Mode::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn paths(folder: &Path) -> OfferPaths {
        OfferPaths { terminal: folder.join("sh.terminal"), output: folder.join("sh.screen") }
    }

    fn own_terminal() -> (OwnedFd, OwnedFd) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let master = pty::openpt(flags).unwrap();
        pty::unlockpt(&master).unwrap();
        let terminal = pty::ioctl_tiocgptpeer(&master, flags).unwrap();
        let size = termios::Winsize { ws_row: 7, ws_col: 33, ws_xpixel: 0, ws_ypixel: 0 };
        termios::tcsetwinsize(&master, size).unwrap();
        (master, terminal)
    }

    #[test]
    fn an_offered_terminal_is_like_its_owners_and_its_copy_arrives() {
        let folder = tempfile::tempdir().unwrap();
        let (paths, output) = (paths(folder.path()), folder.path().join("1.out"));
        let (_master, own) = own_terminal();
        for with_stderr in [true, false] {
            let mut offer = TerminalOffer::make(&paths, &own, with_stderr).unwrap();
            let taken = open(&paths, &output).unwrap().unwrap();
            assert_eq!(taken.with_stderr, with_stderr);
            assert_eq!(termios::tcgetwinsize(&taken.terminal).unwrap().ws_col, 33);
            File::from(taken.terminal.try_clone().unwrap()).write_all(b"shown").unwrap();
            let mut shown = [0; 5];
            offer.master.read_exact(&mut shown).unwrap();
            offer.output.write_all(&shown).unwrap();
            let mut copied = [0; 5];
            File::from(taken.output.ours).read_exact(&mut copied).unwrap();
            assert_eq!((&shown, &copied), (b"shown", b"shown"));
            std::fs::remove_file(&output).unwrap();
        }
    }

    #[test]
    fn an_offer_of_the_dead_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (paths, output) = (paths(folder.path()), folder.path().join("1.out"));
        let (_master, own) = own_terminal();
        drop(TerminalOffer::make(&paths, &own, true).unwrap());
        assert!(open(&paths, &output).unwrap().is_none());
        assert!(!paths.terminal.exists() && !paths.output.exists() && !output.exists());
        let _offer = TerminalOffer::make(&paths, &own, true).unwrap();
        std::fs::write(&paths.terminal, "/dev/null\n").unwrap();
        assert!(open(&paths, &output).is_err(), "not a terminal");
    }
}
