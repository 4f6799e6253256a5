//! What lost its files: a runtime folder that is tidied away under us is written anew, and runs of which there is no
//! file are found by their mark when a keeper begins.
//!
//! Nothing looks for this from time to time: the kernel tells when something in the folder vanishes.

use crate::keeper::{Keeper, Token};
use crate::log;
use crate::records::{self, Folder};
use crate::service::{Main, Run, Service};
use proctor_core::home::Home;
use proctor_core::lifecycle::Machine;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record::{BootId, Identity, StoredSpec};
use proctor_core::spec::ServiceSpec;
use proctor_sys::file::{self, Lock};
use proctor_sys::poll::Interest;
use proctor_sys::process::Process;
use proctor_sys::vanish::Vanishing;
use proctor_sys::{clock, proc, signal, socket};
use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Our place in the runtime folder.
pub(crate) struct Place {
    /// The socket that clients find: device and inode.
    socket: Option<(u64, u64)>,
    /// `None`: nobody tells, and what is tidied away stays away.
    vanishing: Option<Vanishing>,
}

impl Place {
    /// As it is now, with the socket that we listen at.
    pub(crate) fn take(home: &Home) -> Place {
        let vanishing = Vanishing::from(&home.runtime)
            .inspect_err(|error| log!("cannot watch {}: {error}", home.runtime.display()));
        Place { socket: place_of(&home.socket()), vanishing: vanishing.ok() }
    }
}

fn place_of(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Keeper {
    pub(crate) fn watch_folder(&self) {
        let Some(vanishing) = &self.place.vanishing else { return };
        let watched = self.poller.add(vanishing.as_fd(), Token::Folder.encode(), Interest::Read);
        if let Err(error) = watched {
            log!("cannot watch {}: {error}", self.home.runtime.display());
        }
    }

    /// Something in the runtime folder was removed: if it was ours, write it anew.
    pub(crate) fn mend_folder(&mut self) {
        if let Some(vanishing) = &self.place.vanishing {
            vanishing.silence();
        }
        if self.ending.is_under_way() || self.folder_is_whole() {
            return;
        }
        log!("{} was tidied away: writing it anew", self.home.runtime.display());
        if let Err(error) = self.write_folder() {
            log!("cannot write {} anew: {error}", self.home.runtime.display());
        }
        for slot in self.services.slots_where(|_| true) {
            self.record_anew(slot);
        }
    }

    fn folder_is_whole(&self) -> bool {
        let home = &self.home;
        self.lock.is_at(&home.lock())
            && self.place.socket.is_some()
            && self.place.socket == place_of(&home.socket())
            && [home.services(), home.environments()].iter().all(|path| path.exists())
    }

    fn write_folder(&mut self) -> io::Result<()> {
        let home = self.home.clone();
        for path in [&home.runtime, &home.services(), &home.environments()] {
            file::private_dir(path)?;
        }
        // Before anything is written: whoever is still at it is noticed.
        let socket = self.place.socket;
        self.place = Place { socket, ..Place::take(&home) };
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
            // The next one gets the new socket.
            self.daemon.signal(signal::SIGKILL);
        }
        self.environments.store(&home);
        file::replace(&home.boot(), &self.boot.0)
    }

    /// Write everything of a service that the next keeper has to know.
    fn record_anew(&mut self, slot: u32) {
        let boot = self.boot;
        let Some(service) = self.services.get_mut(slot) else { return };
        let folder = Folder::of(&self.home, &service.name);
        let _ = file::private_dir(&folder.path);
        let spec = service.spec.as_deref();
        if let Some(spec) = spec.and_then(|bytes| postcard::from_bytes::<ServiceSpec>(bytes).ok())
            && let Err(error) = records::write(&folder.spec(), &StoredSpec(spec))
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

    /// Keep the runs that live and that no file speaks of: started again, they would be there twice.
    pub(crate) fn keep_lost_runs(&mut self) {
        for (name, run) in self.marked_runs() {
            let now = clock::now();
            let slot = match self.services.find(&name) {
                Some(slot) => slot,
                None => self.services.add(Service::without_spec(&name, Machine::new(now))),
            };
            let Some(service) = self.services.get_mut(slot) else { continue };
            if service.machine.run().is_some() || run <= service.machine.last_run() {
                continue;
            }
            log!("{name}: what was written of run {run} was lost; it is kept");
            service.machine = Machine::found_running(now, run);
            let folder = Folder::of(&self.home, &name);
            self.take_over_run(slot, &folder, run);
            self.record_anew(slot);
        }
    }

    /// The newest run of each service that a process which leads a session carries the mark of. Those that are known
    /// already are not looked at.
    fn marked_runs(&self) -> BTreeMap<ServiceName, RunId> {
        let known: HashSet<u32> =
            self.services.iter().filter_map(|(_, s)| s.run.as_ref()).map(|run| run.pid).collect();
        let leads = |pid: &u32| {
            proc::stat(*pid).is_some_and(|stat| stat.session == *pid && !stat.is_dead())
        };
        let mut newest = BTreeMap::new();
        for pid in proc::pids().into_iter().filter(|pid| !known.contains(pid)).filter(leads) {
            let mark = proc::environment_value(pid, "PROCTOR_RUN");
            let Some((name, run)) = mark.and_then(|mark| self.read_mark(&mark)) else { continue };
            let newest = newest.entry(name).or_insert(run);
            *newest = run.max(*newest);
        }
        newest
    }

    /// The service and the run of a mark of this home.
    fn read_mark(&self, mark: &str) -> Option<(ServiceName, RunId)> {
        let (name, run) = mark.strip_prefix(&self.label)?.strip_prefix('-')?.rsplit_once('-')?;
        let run = u64::from_str_radix(run, 16).ok()?;
        Some((ServiceName::parse(name).ok()?, RunId(run)))
    }
}

/// What a run's process would have written.
fn identity_of(run: &Run, boot: BootId) -> Identity {
    let identity = match &run.main {
        Main::Child => Process::open(run.pid).and_then(|process| process.identity(run.id)),
        Main::Adopted(process) => process.identity(run.id),
        Main::Gone { .. } => None,
    };
    // Nobody is process 0: what is gone is not found again.
    let nobody = Identity { pid: 0, start_ticks: 0, pidfs_inode: 0, boot, run: run.id };
    identity.unwrap_or(nobody)
}
