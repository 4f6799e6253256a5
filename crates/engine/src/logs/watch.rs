//! Waiting until logs have grown, for as long as somebody follows them.
//!
//! The kernel tells (inotify); the files decide. A wake-up that changed nothing a reader could see is swallowed,
//! and because some growth is never told, the files are also looked at in long intervals. With no
//! [`Watch`] alive nothing of this runs.

use super::cursor::Cursor;
use super::folder::{Folder, Seen};
use crate::error::EngineError;
use proctor_core::logindex::Stream;
use proctor_core::name::ServiceName;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A record comes before its bytes, and a burst of lines begins with one: what follows a wake-up within this time
/// is read with it. Too short to be noticed, long enough for the writer's next system call.
const SETTLE: Duration = Duration::from_millis(10);

/// How often to look without being told: kernels before 6.4 do not tell of splice(2), network file systems tell of
/// nothing, and there may be no inotify instance left. Short enough for somebody who watches.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Added for each service, so that looking at a thousand of them stays below a hundredth of a core.
const LOOK_LESS: Duration = Duration::from_millis(2);

/// Room for the events of one read: some dozens, each at most as long as a file name allows.
const EVENTS: usize = 8 * 1024;

/// Events taken before the files are looked at: a busy writer must not keep us busy with its news.
const MAX_EVENTS: usize = 4096;

/// Tells when the logs of some services may have grown.
pub(crate) struct Watch {
    logs: Arc<Path>,
    services: Arc<[ServiceName]>,
    /// What the one who waits has seen: stdout and stderr of each service.
    seen: Arc<Vec<[Seen; 2]>>,
    told: Option<Told>,
}

/// The kernel's side. Without it there is only [`LOOK_AGAIN`].
struct Told {
    inotify: OwnedFd,
    root: Option<i32>,
    /// Which service a watched folder belongs to.
    folders: HashMap<i32, usize>,
}

/// What looking at the files showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Look {
    Same,
    /// There are new records; perhaps their bytes are just being written.
    Announced,
    Grown,
}

struct News {
    look: Look,
    /// Those that changed.
    now: BTreeMap<usize, [Seen; 2]>,
}

/// Stands for a folder that cannot be read; no real one looks like it.
const UNREADABLE: [Seen; 2] = [Seen { segment: u64::MAX, len: u64::MAX, records: u64::MAX }; 2];

impl Watch {
    /// From where the page ended that `cursor` came with, growth since then is noticed at once; from now on for a
    /// service that it does not know. Looks at the folders, so it may wait for a disk.
    pub(crate) fn after(
        logs: &Path,
        services: &[ServiceName],
        cursor: &str,
    ) -> Result<Watch, EngineError> {
        let cursor = Cursor::decode(cursor)?;
        // The watch comes before the look, so that nothing falls between them.
        let told = Told::new(logs, services);
        let mut seen = Vec::with_capacity(services.len());
        for service in services {
            let now = look_at(logs, service).unwrap_or(UNREADABLE);
            let known = |stream| cursor.position(service, stream).map(|position| position.seen());
            seen.push(Stream::BOTH.map(|stream| known(stream).unwrap_or(now[stream as usize])));
        }
        Ok(Watch { logs: logs.into(), services: services.into(), seen: Arc::new(seen), told })
    }

    /// Wait until a log may have more than was seen; then all that is there now counts as seen.
    /// Nothing is lost if the future is dropped.
    pub(crate) async fn changed(&mut self) {
        let all: BTreeSet<usize> = (0..self.services.len()).collect();
        let patience = LOOK_AGAIN
            .saturating_add(LOOK_LESS.saturating_mul(u32::try_from(all.len()).unwrap_or(u32::MAX)));
        let mut news = self.look(all.clone()).await;
        loop {
            match news.look {
                Look::Grown => break,
                Look::Announced => {
                    tokio::time::sleep(SETTLE).await;
                    news = self.look(news.now.keys().copied().collect()).await;
                    break;
                }
                Look::Same => {}
            }
            news = match tokio::time::timeout(patience, self.told()).await {
                Ok(services) => {
                    tokio::time::sleep(SETTLE).await;
                    self.look(services).await
                }
                Err(_elapsed) => {
                    self.rewatch();
                    self.look(all.clone()).await
                }
            };
        }
        let seen = Arc::make_mut(&mut self.seen);
        news.now.into_iter().for_each(|(at, now)| seen[at] = now);
    }

    /// Compare these services with what was seen of them.
    async fn look(&self, which: BTreeSet<usize>) -> News {
        let (logs, services) = (Arc::clone(&self.logs), Arc::clone(&self.services));
        let seen = Arc::clone(&self.seen);
        let look = tokio::task::spawn_blocking(move || {
            let mut news = News { look: Look::Same, now: BTreeMap::new() };
            for at in which {
                // What cannot be read counts as news: the reader will say what is wrong.
                let now = look_at(&logs, &services[at]).unwrap_or(UNREADABLE);
                let look = compare(&seen[at], &now);
                news.look = news.look.max(look);
                if look != Look::Same {
                    news.now.insert(at, now);
                }
            }
            news
        });
        look.await.unwrap_or(News { look: Look::Grown, now: BTreeMap::new() })
    }

    /// Wait for the kernel to tell of some services.
    async fn told(&mut self) -> BTreeSet<usize> {
        let Some(told) = &mut self.told else { return std::future::pending().await };
        loop {
            if !told.readable().await {
                // Cannot be waited for: leave it to looking again.
                return std::future::pending().await;
            }
            let found = told.take(&self.logs, &self.services);
            if !found.is_empty() {
                return found;
            }
        }
    }

    /// Watch the folders again: one that was removed and made anew is another folder.
    fn rewatch(&mut self) {
        match &mut self.told {
            Some(told) => told.watch_all(&self.logs, &self.services),
            None => self.told = Told::new(&self.logs, &self.services),
        }
    }
}

impl Told {
    fn new(logs: &Path, services: &[ServiceName]) -> Option<Told> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let mut told = Told { inotify, root: None, folders: HashMap::new() };
        told.watch_all(logs, services);
        Some(told)
    }

    fn watch_all(&mut self, logs: &Path, services: &[ServiceName]) {
        let appears = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        self.root = inotify::add_watch(&self.inotify, logs, appears).ok();
        for (at, service) in services.iter().enumerate() {
            self.watch(logs.join(service.as_str()), at);
        }
    }

    fn watch(&mut self, folder: PathBuf, service: usize) {
        let grows =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::MODIFY | WatchFlags::ONLYDIR;
        if let Ok(id) = inotify::add_watch(&self.inotify, folder, grows) {
            self.folders.insert(id, service);
        }
    }

    /// False if the kernel refuses to wait for it.
    async fn readable(&self) -> bool {
        #[expect(
            deprecated,
            reason = "its successor is unsafe for the sake of types whose descriptor may change; a borrowed one cannot"
        )]
        let waiting = AsyncFd::with_interest(self.inotify.as_fd(), Interest::READABLE);
        match waiting {
            Ok(waiting) => waiting.readable().await.is_ok(),
            Err(_refused) => false,
        }
    }

    /// Which services the waiting events are about.
    fn take(&mut self, logs: &Path, services: &[ServiceName]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut appeared = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        for _ in 0..MAX_EVENTS {
            let event = match events.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_empty) => break,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                found.extend(0..services.len());
            } else if Some(event.wd()) == self.root {
                let name = event.file_name().and_then(|name| name.to_str().ok());
                appeared.extend(services.iter().position(|service| Some(service.as_str()) == name));
            } else if let Some(at) = self.folders.get(&event.wd()) {
                found.insert(*at);
            }
        }
        for at in appeared {
            self.watch(logs.join(services[at].as_str()), at);
            found.insert(at);
        }
        found
    }
}

fn look_at(logs: &Path, service: &ServiceName) -> Result<[Seen; 2], EngineError> {
    let folder = Folder::list(logs, service)?;
    Ok(Stream::BOTH.map(|stream| folder.seen(stream)))
}

fn compare(seen: &[Seen; 2], now: &[Seen; 2]) -> Look {
    let looks = seen.iter().zip(now).map(|(seen, now)| {
        if (seen.segment, seen.len) != (now.segment, now.len) {
            Look::Grown
        } else if seen.records != now.records {
            Look::Announced
        } else {
            Look::Same
        }
    });
    looks.max().unwrap_or(Look::Same)
}
