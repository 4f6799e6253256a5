//! Waits until logs have grown, as long as somebody follows them.
//!
//! inotify wakes it up; the files decide. A wake-up without a visible change is ignored. Some growth is never
//! reported, so the files are also polled at long intervals. Without a [`Watch`] nothing of this runs.

use super::cursor::Cursor;
use super::folder::{LogFolder, WrittenExtent};
use crate::error::EngineError;
use proctor_core::log_index::Stream;
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

/// Delay after a wake-up. A record comes before its bytes and starts a burst of lines: growth within this time
/// is read with it. Too short to be noticed, long enough for the writer's next system call.
const SETTLE: Duration = Duration::from_millis(10);

/// Polling interval: kernels before 6.4 do not report splice(2), network file systems report nothing, and there
/// may be no inotify instance left. Short enough for somebody who watches.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Added to the interval for each service, so that polling a thousand takes less than a hundredth of a core.
const LOOK_LESS: Duration = Duration::from_millis(2);

/// Buffer for the events of one read: some dozens, each at most as long as a file name allows.
const EVENTS: usize = 8 * 1024;

/// Maximum number of events read before the files are examined: a busy writer must not keep us busy with
/// events.
const MAX_EVENTS: usize = 4096;

/// Reports when the logs of some services may have grown.
pub(crate) struct Watch {
    logs: Arc<Path>,
    services: Arc<[ServiceName]>,
    /// The ends that the waiting reader has seen: stdout and stderr of each service.
    seen: Arc<Vec<[WrittenExtent; 2]>>,
    told: Option<InotifyWatch>,
}

/// The inotify side. Without it there is only [`LOOK_AGAIN`].
struct InotifyWatch {
    inotify: OwnedFd,
    root: Option<i32>,
    /// The service of each watched folder.
    folders: HashMap<i32, usize>,
}

/// The result of examining the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum GrowthCheck {
    Same,
    /// There are new records; their bytes may just be written.
    Announced,
    Grown,
}

struct LogGrowth {
    look: GrowthCheck,
    /// The changed services.
    now: BTreeMap<usize, [WrittenExtent; 2]>,
}

/// Stands for an unreadable folder; no real one has these values.
const UNREADABLE: [WrittenExtent; 2] =
    [WrittenExtent { segment: u64::MAX, len: u64::MAX, records: u64::MAX }; 2];

impl Watch {
    /// Watches from the end of the page of `cursor`: growth since then is reported at once. A service that the
    /// cursor does not know is watched from now on. Reads the folders, so it may wait for a disk.
    pub(crate) fn after(
        logs: &Path,
        services: &[ServiceName],
        cursor: &str,
    ) -> Result<Watch, EngineError> {
        let cursor = Cursor::decode(cursor)?;
        // The watch is set before the files are examined, so that no change is missed.
        let told = InotifyWatch::new(logs, services);
        let mut seen = Vec::with_capacity(services.len());
        for service in services {
            let now = look_at(logs, service).unwrap_or(UNREADABLE);
            let known = |stream| cursor.position(service, stream).map(|position| position.seen());
            seen.push(Stream::BOTH.map(|stream| known(stream).unwrap_or(now[stream as usize])));
        }
        Ok(Watch { logs: logs.into(), services: services.into(), seen: Arc::new(seen), told })
    }

    /// Waits until a log may have more than was seen; then its current end counts as seen. Cancel safe: nothing
    /// is lost if the future is dropped.
    pub(crate) async fn changed(&mut self) {
        let all: BTreeSet<usize> = (0..self.services.len()).collect();
        let patience = LOOK_AGAIN
            .saturating_add(LOOK_LESS.saturating_mul(u32::try_from(all.len()).unwrap_or(u32::MAX)));
        let mut news = self.look(all.clone()).await;
        loop {
            match news.look {
                GrowthCheck::Grown => break,
                GrowthCheck::Announced => {
                    tokio::time::sleep(SETTLE).await;
                    news = self.look(news.now.keys().copied().collect()).await;
                    break;
                }
                GrowthCheck::Same => {}
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

    /// Compares these services with their seen ends.
    async fn look(&self, which: BTreeSet<usize>) -> LogGrowth {
        let (logs, services) = (Arc::clone(&self.logs), Arc::clone(&self.services));
        let seen = Arc::clone(&self.seen);
        let look = tokio::task::spawn_blocking(move || {
            let mut news = LogGrowth { look: GrowthCheck::Same, now: BTreeMap::new() };
            for at in which {
                // An unreadable folder counts as a change: the reader will report the error.
                let now = look_at(&logs, &services[at]).unwrap_or(UNREADABLE);
                let look = compare(&seen[at], &now);
                news.look = news.look.max(look);
                if look != GrowthCheck::Same {
                    news.now.insert(at, now);
                }
            }
            news
        });
        look.await.unwrap_or(LogGrowth { look: GrowthCheck::Grown, now: BTreeMap::new() })
    }

    /// Waits for inotify events and returns their services.
    async fn told(&mut self) -> BTreeSet<usize> {
        let Some(told) = &mut self.told else { return std::future::pending().await };
        loop {
            if !told.readable().await {
                // It cannot be waited for: rely on polling.
                return std::future::pending().await;
            }
            let found = told.take(&self.logs, &self.services);
            if !found.is_empty() {
                return found;
            }
        }
    }

    /// Watches the folders again: one that was removed and created again is another folder.
    fn rewatch(&mut self) {
        match &mut self.told {
            Some(told) => told.watch_all(&self.logs, &self.services),
            None => self.told = InotifyWatch::new(&self.logs, &self.services),
        }
    }
}

impl InotifyWatch {
    fn new(logs: &Path, services: &[ServiceName]) -> Option<InotifyWatch> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let mut told = InotifyWatch { inotify, root: None, folders: HashMap::new() };
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

    /// Reads the pending events and returns their services.
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

fn look_at(logs: &Path, service: &ServiceName) -> Result<[WrittenExtent; 2], EngineError> {
    let folder = LogFolder::list(logs, service)?;
    Ok(Stream::BOTH.map(|stream| folder.seen(stream)))
}

fn compare(seen: &[WrittenExtent; 2], now: &[WrittenExtent; 2]) -> GrowthCheck {
    let looks = seen.iter().zip(now).map(|(seen, now)| {
        if (seen.segment, seen.len) != (now.segment, now.len) {
            GrowthCheck::Grown
        } else if seen.records != now.records {
            GrowthCheck::Announced
        } else {
            GrowthCheck::Same
        }
    });
    looks.max().unwrap_or(GrowthCheck::Same)
}
