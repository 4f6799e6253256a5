//! Reports when something in a folder, or the folder itself, is removed or moved away: inotify.

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Buffer for the events of one read; only their presence matters.
const NEWS: usize = 4 << 10;

/// Readable after something has vanished, until it is silenced.
#[derive(Debug)]
pub struct RemovalWatch(OwnedFd);

impl RemovalWatch {
    pub fn from(folder: &Path) -> io::Result<RemovalWatch> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let told = WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&fd, folder, told)?;
        Ok(RemovalWatch(fd))
    }

    pub fn silence(&self) {
        let mut news = [0; NEWS];
        while rustix::io::read(&self.0, &mut news).is_ok_and(|length| length > 0) {}
    }
}

impl AsFd for RemovalWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn rings(vanishing: &RemovalWatch) -> bool {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(vanishing, PollFlags::IN)], Some(&at_once)).unwrap() == 1
    }

    #[test]
    fn what_vanishes_is_told_and_what_comes_is_not() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("folder");
        std::fs::create_dir(&folder).unwrap();
        let vanishing = RemovalWatch::from(&folder).unwrap();
        std::fs::write(folder.join("file"), "").unwrap();
        assert!(!rings(&vanishing));
        std::fs::remove_file(folder.join("file")).unwrap();
        assert!(rings(&vanishing));
        vanishing.silence();
        assert!(!rings(&vanishing));
        std::fs::remove_dir(&folder).unwrap();
        assert!(rings(&vanishing));
        assert!(RemovalWatch::from(&folder).is_err());
    }
}
