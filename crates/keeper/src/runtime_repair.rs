//! Recovers lost files: rewrites a runtime folder that was deleted under a running keeper, and
//! finds runs without files by their mark when a keeper starts.
//!
//! There is no polling: the kernel reports when something in the folder vanishes.

use crate::keeper::{Keeper, PollToken};
use crate::log;
use crate::own_folder;
use crate::records::{self, Folder};
use crate::service::{MainProcess, Policies, Run, Service};
use proctor_core::home::{FolderRule, Home, OwnFolder};
use proctor_core::lifecycle::Machine;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record_encoding::{BootId, Identity};
use proctor_core::spec::ServiceSpec;
use proctor_sys::own_folder::{Held, check};
use proctor_sys::poll::Interest;
use proctor_sys::process::Process;
use proctor_sys::small_file::{self, Lock};
use proctor_sys::watch_removal::RemovalWatch;
use proctor_sys::{clock, proc, signal, socket};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The folders that a keeper cannot work without.
const KEPT: [OwnFolder; 3] = [OwnFolder::Runtime, OwnFolder::Services, OwnFolder::Environments];

/// Attempts to write the runtime folder anew while somebody removes or replaces it.
const MAX_ATTEMPTS: u32 = 5;

/// Our place in the runtime folder.
pub(crate) struct RuntimePaths {
    /// The socket that clients find: device and inode.
    socket: Option<(u64, u64)>,
    /// `None` if deletions cannot be watched; then deleted files stay deleted.
    vanishing: Option<RemovalWatch>,
}

impl RuntimePaths {
    /// Records the current state, with the socket that we listen at.
    pub(crate) fn take(home: &Home) -> RuntimePaths {
        let vanishing = RemovalWatch::from(&home.runtime)
            .inspect_err(|error| log!("cannot watch {}: {error}", home.runtime.display()));
        RuntimePaths { socket: place_of(&home.socket()), vanishing: vanishing.ok() }
    }
}

fn place_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Keeper {
    pub(crate) fn watch_folder(&self) {
        let Some(vanishing) = &self.place.vanishing else { return };
        let watched =
            self.poller.add(vanishing.as_fd(), PollToken::Folder.encode(), Interest::Read);
        if let Err(error) = watched {
            log!("cannot watch {}: {error}", self.home.runtime.display());
        }
    }

    /// Something in the runtime folder was removed: writes our files again.
    pub(crate) fn mend_folder(&mut self) {
        if let Some(vanishing) = &self.place.vanishing {
            vanishing.silence();
        }
        if self.ending.is_under_way() || self.folder_is_whole() {
            return;
        }
        log!("{} was deleted: writing it again", self.home.runtime.display());
        for attempt in 1..=MAX_ATTEMPTS {
            match self.write_folder() {
                Ok(()) => return,
                Err(error) if attempt == MAX_ATTEMPTS => {
                    log!("cannot write {} anew: {error}", self.home.runtime.display());
                }
                // Somebody is still at it.
                Err(_) => {}
            }
        }
    }

    fn folder_is_whole(&self) -> bool {
        let home = &self.home;
        self.lock.is_at(&home.lock())
            && self.place.socket.is_some()
            && self.place.socket == place_of(&home.socket())
            && KEPT.iter().all(|folder| check(&home.folder(*folder), folder.rule()).is_ok())
    }

    fn write_folder(&mut self) -> io::Result<()> {
        let (held, mended) = Held::make(&self.home.runtime, OwnFolder::Runtime.rule())?;
        if let Some(mended) = mended {
            log!("{mended}");
        }
        // Nothing is written into what somebody puts in its place meanwhile.
        let home = Home { runtime: held.path(), ..self.home.clone() };
        own_folder::make(&home, OwnFolder::Services)?;
        own_folder::make(&home, OwnFolder::Environments)?;
        // Before anything is written: whoever is still at it is noticed.
        let socket = self.place.socket;
        self.place = RuntimePaths { socket, ..RuntimePaths::take(&home) };
        self.watch_folder();
        if !self.lock.is_at(&home.lock()) {
            match Lock::take(&home.lock())? {
                Some(lock) => self.lock = lock,
                None => log!("another process holds {}", home.lock().display()),
            }
            writeln!(self.lock.file(), "{}", std::process::id())?;
        }
        if socket.is_none() || socket != place_of(&home.socket()) {
            self.listener = socket::listen(&home.socket())?;
            self.place.socket = place_of(&home.socket());
            // The next keeper would not find our guard either.
            self.replace_guard();
            // The next daemon gets the new socket.
            self.daemon.signal(signal::SIGKILL);
        }
        self.environments.store(&home);
        small_file::replace(&home.boot(), &self.boot.0)?;
        for slot in self.services.slots_where(|_| true) {
            self.record_in(&home, slot);
        }
        Ok(())
    }

    /// Writes everything of a service anew if its folder is gone, or is something else by now; true if it did.
    pub(crate) fn mend_service_folder(&mut self, slot: u32) -> bool {
        let Some(service) = self.services.get(slot) else { return false };
        let whole = check(&self.home.service(&service.name), FolderRule::INNER).is_ok();
        if !whole {
            self.record_anew(slot);
        }
        !whole
    }

    /// Writes everything about a service that the next keeper needs.
    pub(crate) fn record_anew(&mut self, slot: u32) {
        self.record_in(&self.home.clone(), slot);
    }

    fn record_in(&mut self, home: &Home, slot: u32) {
        let boot = self.boot;
        let Some(service) = self.services.get_mut(slot) else { return };
        let folder = Folder::of(home, &service.name);
        if let Err(error) = own_folder::make_service(home, &folder.path) {
            log!("cannot make {}: {error}", folder.path.display());
        }
        if let Some(spec) = service.spec.as_deref()
            && let Err(error) = records::write_encoded::<ServiceSpec>(&folder.spec(), spec)
        {
            log!("{error}");
        }
        let state = service.to_store(service.run.as_ref().map(Run::header));
        let identity = service.run.as_ref().map(|run| identity_of(run, boot).encode());
        let path = folder.state();
        let written = records::create_state(&path, &mut service.stored, &state, identity.as_ref());
        if let Err(error) = written {
            log!("{error}");
        }
    }

    /// Keeps live runs without files: starting them again would double them.
    pub(crate) fn keep_lost_runs(&mut self) {
        // Skips runs that are already known, because there may be thousands.
        let runs = self.services.iter().filter_map(|(_, service)| service.run.as_ref());
        let known: HashSet<u32> = runs.map(|run| run.pid).collect();
        let marked = self.marked.take().unwrap_or_else(|| MarkedLeaders::look(&self.label, &known));
        for (name, run) in marked.newest() {
            let now = clock::now();
            let slot = match self.services.find(&name) {
                Some(slot) => slot,
                None => {
                    let policies = Policies::careful();
                    let machine = Machine::new(now);
                    self.services.add(Service::new(name.clone(), None, policies, machine))
                }
            };
            let Some(service) = self.services.get_mut(slot) else { continue };
            if service.machine.run().is_some() || run <= service.machine.last_run() {
                continue;
            }
            log!("{name}: the files of run {run} were lost; the run is kept");
            service.machine = Machine::found_running(now, run);
            let folder = Folder::of(&self.home, &name);
            let _ = own_folder::make_inner(&folder.path);
            self.take_over_run(slot, &folder, run);
        }
    }

    /// All processes with a mark of this home, as of the first call.
    pub(crate) fn marked(&mut self) -> &MarkedLeaders {
        self.marked.get_or_insert_with(|| MarkedLeaders::look(&self.label, &HashSet::new()))
    }
}

/// The session leaders that carry the mark of a run.
pub(crate) struct MarkedLeaders(BTreeMap<(ServiceName, RunId), Vec<SessionLeader>>);

impl MarkedLeaders {
    fn look(label: &str, known: &HashSet<u32>) -> MarkedLeaders {
        let mut marked: BTreeMap<_, Vec<SessionLeader>> = BTreeMap::new();
        for pid in proc::pids().into_iter().filter(|pid| !known.contains(pid)) {
            let Some(leader) = SessionLeader::look(pid) else { continue };
            let mark = proc::environment_value(pid, "PROCTOR_RUN");
            if let Some(run) = mark.and_then(|mark| read_mark(label, &mark)) {
                marked.entry(run).or_default().push(leader);
            }
        }
        MarkedLeaders(marked)
    }

    pub(crate) fn of(
        &self,
        name: &ServiceName,
        run: RunId,
    ) -> impl Iterator<Item = &SessionLeader> {
        self.0.get(&(name.clone(), run)).into_iter().flatten()
    }

    /// The newest run of each service.
    fn newest(&self) -> BTreeMap<ServiceName, RunId> {
        // In order: a later run of a service replaces an earlier one.
        self.0.keys().cloned().collect()
    }
}

/// The service and the run of a mark of this home.
fn read_mark(label: &str, mark: &str) -> Option<(ServiceName, RunId)> {
    let (name, run) = mark.strip_prefix(label)?.strip_prefix('-')?.rsplit_once('-')?;
    let run = u64::from_str_radix(run, 16).ok()?;
    Some((ServiceName::parse(name).ok()?, RunId(run)))
}

/// A live process that leads a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLeader {
    pid: u32,
    parent: u32,
    pub(crate) start_ticks: u64,
}

impl SessionLeader {
    pub(crate) fn look(pid: u32) -> Option<SessionLeader> {
        let stat = proc::stat(pid).filter(|stat| stat.session == pid && !stat.is_dead())?;
        Some(SessionLeader { pid, parent: stat.ppid, start_ticks: stat.start_ticks })
    }

    /// Finds the main process: its descendants may lead sessions too, but its parent is outside,
    /// and it is the oldest.
    pub(crate) fn main(leaders: &[SessionLeader]) -> Option<(SessionLeader, Process)> {
        let below = |leader: &SessionLeader| leaders.iter().any(|other| other.pid == leader.parent);
        let main = leaders.iter().min_by_key(|one| (below(one), one.start_ticks, one.pid))?;
        let process = Process::open(main.pid)?;
        // Opened, then compared: from here on the pid cannot change its owner.
        let same = proc::stat(main.pid).is_some_and(|stat| stat.start_ticks == main.start_ticks);
        same.then_some((*main, process))
    }
}

/// The identity that a run's process would have written.
fn identity_of(run: &Run, boot: BootId) -> Identity {
    let identity = match &run.main {
        MainProcess::Child => Process::open(run.pid).and_then(|process| process.identity(run.id)),
        MainProcess::Adopted(process) => process.identity(run.id),
        MainProcess::Gone { .. } => None,
    };
    // No process has pid 0, so this identity is never found.
    let nobody = Identity { pid: 0, start_ticks: 0, pidfs_inode: 0, boot, run: run.id };
    identity.unwrap_or(nobody)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_whatever_the_name_of_the_service() {
        let read = |mark| read_mark("00ff", mark).map(|(name, run)| (name.to_string(), run.0));
        assert_eq!(read("00ff-web-1f"), Some(("web".into(), 31)));
        assert_eq!(read("00ff-a-b-c@2-1f"), Some(("a-b-c@2".into(), 31)));
        for other in ["", "00ff", "00ff-web", "00fe-web-1f", "00ff-web-xyz", "00ff-../x-1f"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
