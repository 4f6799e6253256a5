//! The keeper's state and its loop: wait, handle, perform.

use crate::daemon_process::Daemon;
use crate::environment::Environments;
use crate::guard::link::GuardLink;
use crate::log;
use crate::own_folder;
use crate::pump::Pump;
use crate::records::{self, Folder};
use crate::retry::RetryList;
use crate::runtime_repair::{MarkedLeaders, RuntimePaths};
use crate::service::{Run, Services};
use crate::shutdown::ShutdownPhase;
use crate::trim_memory::MemoryTrimmer;
use proctor_core::config::signal::long_name;
use proctor_core::home::{Home, OwnFolder};
use proctor_core::lifecycle::Event;
use proctor_core::name::RunId;
use proctor_core::record_encoding::BootId;
use proctor_core::spec::{Limit, Resource};
use proctor_core::time::{Millis, Mono, Wall};
use proctor_core::wire::Tracking;
use proctor_sys::cgroup::Hierarchy;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::poll::{Interest, Poller, Ready};
use proctor_sys::process_tree::Snapshot;
use proctor_sys::signal::{self, Signals};
use proctor_sys::small_file::Lock;
use proctor_sys::{clock, inherited_fds, proc, process};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Interval between checks of a tree whose main process is gone; no signal reports its other
/// members.
const LOOK_AGAIN: Millis = Millis(20);

/// The inputs of a keeper.
pub struct Options {
    pub home: Home,
    /// The lock, already held by this process.
    pub lock: Lock,
    /// The lock in the state folder, held as long as this process lives; `None` if it cannot be
    /// taken.
    pub state_lock: Option<Lock>,
    /// The socket for clients, if the program we replaced had it open.
    pub listener: Option<UnixListener>,
    /// The program that daemon and guard run.
    pub program: String,
    /// Title and arguments of the daemon; it gets the keeper's socket at 3 and the listener at 4.
    pub daemon: Vec<String>,
    /// Title and arguments of the guard; it gets the keeper's socket at 3.
    pub guard: Vec<String>,
    /// Title and arguments with which a new program, after an upgrade, becomes the keeper of this
    /// home.
    pub keeper: Vec<String>,
    /// Receives a line when the first daemon has said hello; the process that started us waits for
    /// it.
    pub ready: Option<OwnedFd>,
    /// Descriptors that the replaced program left open: pidfds of processes that may have ended
    /// since.
    pub witnesses: Vec<OwnedFd>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("cannot make {path}: {source}", path = .path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot listen at {path}: {source}", path = .path.display())]
    Listen { path: PathBuf, source: io::Error },
    #[error("{what}: {source}")]
    Kernel { what: &'static str, source: io::Error },
}

/// Runs as the keeper until it is ended; then services are stopped as configured.
pub fn run(options: Options) -> Result<(), KeeperError> {
    let mut keeper = Keeper::new(options)?;
    keeper.find_guard();
    keeper.take_over();
    keeper.start_daemon();
    keeper.settle_guard();
    let mut ready = Vec::new();
    loop {
        ready.clear();
        keeper.snapshot = OnceCell::new();
        keeper.pump.ring();
        let timeout = keeper.next_deadline();
        let waited = keeper.poller.wait(timeout, &mut ready);
        waited.map_err(|source| KeeperError::Kernel { what: "cannot wait for events", source })?;
        for event in &ready {
            keeper.on_ready(*event);
        }
        keeper.handle_pending();
        keeper.on_time();
        keeper.publish();
        keeper.catch_up_with_guard();
        keeper.tidy_memory();
        if keeper.has_ended() {
            return Ok(());
        }
    }
}

/// Makes the folder of the state and the runtime folder, before the locks in them are taken.
pub fn make_home(home: &Home) -> Result<(), KeeperError> {
    make_folder(home, OwnFolder::State)?;
    make_folder(home, OwnFolder::Runtime)
}

fn make_folder(home: &Home, folder: OwnFolder) -> Result<(), KeeperError> {
    let path = home.folder(folder);
    own_folder::make(home, folder).map_err(|source| KeeperError::Folder { path, source })
}

pub(crate) struct Keeper {
    pub(crate) home: Home,
    pub(crate) lock: Lock,
    pub(crate) state_lock: Option<Lock>,
    pub(crate) place: RuntimePaths,
    pub(crate) listener: UnixListener,
    pub(crate) boot: BootId,
    pub(crate) started: Wall,
    /// Identifies this home among the Proctors of the machine: in cgroups and in marks.
    pub(crate) label: String,
    pub(crate) poller: Poller,
    signals: Signals,
    pub(crate) pump: Pump,
    pub(crate) hierarchy: Option<Hierarchy>,
    /// Runs move themselves into their cgroups, because a process forked directly into one is killed here.
    pub(crate) walks_in: bool,
    /// The folder of the services' cgroups.
    pub(crate) groups: Option<Arc<Path>>,
    /// The folder of the services' logs.
    pub(crate) logs: Arc<Path>,
    pub(crate) environments: Environments,
    pub(crate) services: Services,
    /// Main processes that are our children.
    pub(crate) children: HashMap<u32, u32>,
    /// Events caused by the handling of others.
    pub(crate) pending: VecDeque<(u32, Event)>,
    /// Runs that were asked to stop, and the time to wake each if it still exists; the next one
    /// first.
    pub(crate) sleepers: VecDeque<(Mono, u32, RunId)>,
    pub(crate) program: String,
    pub(crate) daemon: Daemon,
    pub(crate) guard: GuardLink,
    pub(crate) ending: ShutdownPhase,
    pub(crate) again: RetryList,
    pub(crate) null: File,
    pub(crate) oom_kills: u64,
    pub(crate) open_files: (Option<u64>, Option<u64>),
    pub(crate) keeper_command: Vec<String>,
    pub(crate) witnesses: Vec<OwnedFd>,
    pub(crate) rest: MemoryTrimmer,
    /// All processes of the machine, read at most once a round.
    pub(crate) snapshot: OnceCell<Snapshot>,
    /// Read once during a takeover, if something was lost.
    pub(crate) marked: Option<MarkedLeaders>,
}

/// The role of a child that has ended.
enum EndedChild {
    Daemon,
    Service(u32),
}

/// The meaning of a descriptor in the poller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollToken {
    Signals,
    Pump,
    Daemon,
    /// The spawn report of this service's run.
    Report(u32),
    /// The exit of an adopted main process.
    Exit(u32),
    /// Something in the runtime folder vanished.
    Folder,
    Guard,
}

impl PollToken {
    pub(crate) fn encode(self) -> u64 {
        match self {
            PollToken::Signals => 0,
            PollToken::Pump => 1 << 32,
            PollToken::Daemon => 2 << 32,
            PollToken::Report(slot) => 3 << 32 | u64::from(slot),
            PollToken::Exit(slot) => 4 << 32 | u64::from(slot),
            PollToken::Folder => 5 << 32,
            PollToken::Guard => 6 << 32,
        }
    }

    fn decode(token: u64) -> PollToken {
        let slot = token as u32;
        match token >> 32 {
            0 => PollToken::Signals,
            1 => PollToken::Pump,
            2 => PollToken::Daemon,
            3 => PollToken::Report(slot),
            4 => PollToken::Exit(slot),
            5 => PollToken::Folder,
            _ => PollToken::Guard,
        }
    }
}

impl Keeper {
    fn new(options: Options) -> Result<Keeper, KeeperError> {
        let kernel = |what| move |source| KeeperError::Kernel { what, source };
        let home = options.home;
        for folder in OwnFolder::ALL {
            if folder.is_made_at_start() || home.folder(folder).symlink_metadata().is_ok() {
                make_folder(&home, folder)?;
            }
        }
        let signals =
            [signal::SIGCHLD, signal::SIGTERM, signal::SIGINT, signal::SIGHUP, signal::SIGQUIT];
        let signals = Signals::new(&signals).map_err(kernel("cannot receive signals"))?;
        process::adopt_orphans().map_err(kernel("cannot adopt orphans"))?;
        let label = home.label();
        let hierarchy = Hierarchy::find(&label);
        let listen = || {
            let path = home.socket();
            proctor_sys::socket::listen(&path)
                .map_err(|source| KeeperError::Listen { path, source })
        };
        let keeper = Keeper {
            listener: options.listener.map_or_else(listen, Ok)?,
            place: RuntimePaths::take(&home),
            boot: proctor_sys::boot_id::id(),
            started: clock::now().wall,
            poller: Poller::new().map_err(kernel("cannot poll"))?,
            signals,
            pump: Pump::start().map_err(kernel("cannot start the log thread"))?,
            groups: hierarchy.as_ref().map(|hierarchy| hierarchy.root().into()),
            walks_in: hierarchy.as_ref().is_some_and(Hierarchy::must_walk_in),
            hierarchy,
            logs: home.logs().into(),
            environments: Environments::load(&home),
            label,
            services: Services::default(),
            children: HashMap::new(),
            pending: VecDeque::new(),
            sleepers: VecDeque::new(),
            program: options.program,
            daemon: Daemon::new(options.daemon, options.ready),
            guard: GuardLink::new(options.guard),
            ending: ShutdownPhase::default(),
            again: RetryList::default(),
            null: File::open("/dev/null").map_err(kernel("cannot open /dev/null"))?,
            oom_kills: proc::oom_kills().unwrap_or(0),
            open_files: inherited_fds::raise_open_files(),
            keeper_command: options.keeper,
            witnesses: options.witnesses,
            rest: MemoryTrimmer::after_beginning(),
            snapshot: OnceCell::new(),
            marked: None,
            lock: options.lock,
            state_lock: options.state_lock,
            home,
        };
        let add = |fd, token: PollToken| keeper.poller.add(fd, token.encode(), Interest::Read);
        add(keeper.signals.as_fd(), PollToken::Signals).map_err(kernel("cannot poll"))?;
        add(keeper.pump.bell(), PollToken::Pump).map_err(kernel("cannot poll"))?;
        keeper.watch_folder();
        Ok(keeper)
    }

    fn on_ready(&mut self, event: Ready) {
        match PollToken::decode(event.token) {
            PollToken::Signals => self.on_signals(),
            PollToken::Pump => self.on_drained(),
            PollToken::Daemon => self.on_daemon(event),
            PollToken::Report(slot) => self.read_report(slot),
            PollToken::Exit(slot) => self.on_adopted_exit(slot),
            PollToken::Folder => self.mend_folder(),
            PollToken::Guard => self.on_guard(event),
        }
    }

    fn on_signals(&mut self) {
        // Reads all of them first: services that exit as fast as they start would keep us here.
        let signals: BTreeSet<i32> = std::iter::from_fn(|| self.signals.take()).collect();
        for signal in signals {
            match signal {
                signal::SIGCHLD => self.reap(),
                signal::SIGTERM | signal::SIGINT | signal::SIGQUIT => {
                    log!("{} received: ending", long_name(signal));
                    self.shut_down();
                }
                // The terminal that started us is gone, which does not matter.
                _ => {}
            }
        }
    }

    /// Reaps every child that has exited: services, the daemon, and adopted orphans.
    pub(crate) fn reap(&mut self) {
        // Finds the owner of each pid before anything is started, because a free pid may be given
        // to the next run.
        let mut ended = Vec::new();
        while let Some((pid, exit)) = process::reap() {
            let whose = match self.daemon.is(pid) {
                true => Some(EndedChild::Daemon),
                false => self.children.remove(&pid).map(EndedChild::Service),
            };
            ended.extend(whose.map(|whose| (whose, exit)));
        }
        for (whose, exit) in ended {
            match whose {
                EndedChild::Daemon => self.daemon_ended(&exit),
                EndedChild::Service(slot) => self.main_ended(slot, exit),
            }
        }
        self.check_leftovers();
    }

    fn on_adopted_exit(&mut self, slot: u32) {
        use crate::service::MainProcess;
        let run = self.services.get(slot).and_then(|s| s.run.as_ref());
        let Some(MainProcess::Adopted(process)) = run.map(|run| &run.main) else { return };
        if process.is_gone() {
            self.poller.remove(process.as_fd());
            let exit = process.exit();
            self.main_ended(slot, exit);
        }
    }

    pub(crate) fn on_drained(&mut self) {
        self.pump.silence();
        while let Some(drained) = self.pump.drained() {
            let Some(service) = self.services.get_mut(drained.slot) else { continue };
            failpoint::moment(Point::RunDrained);
            let name = service.name.clone();
            Folder::of(&self.home, &name).remove_run(drained.run);
            // The pending exit may belong to a later run, whose last lines are not stored yet.
            if service.machine.last_exit().is_none_or(|last| last.run == drained.run) {
                service.quiet_until = None;
            }
            service.changed = true;
            self.release_from_guard(&name, drained.run);
            self.finish_removal(drained.slot);
        }
    }

    /// Handles everything that is due now.
    fn on_time(&mut self) {
        let now = clock::now().mono;
        for slot in self.services.due(now) {
            let Some(service) = self.services.get_mut(slot) else { continue };
            service.quiet_until = service.quiet_until.filter(|until| *until > now);
            if service.machine.deadline().is_some_and(|at| at <= now) {
                self.handle(slot, Event::Tick);
            }
        }
        self.wake_sleepers(now);
        self.check_leftovers();
        self.try_again(now);
        self.daemon_due(now);
        self.guard_due(now);
        self.go_on_ending(now);
        self.rest(now);
    }

    fn next_deadline(&mut self) -> Option<Duration> {
        if !self.pending.is_empty() {
            return Some(Duration::ZERO);
        }
        let now = clock::now().mono;
        let look_again = (!self.services.leftovers().is_empty()).then(|| now.plus(LOOK_AGAIN));
        let own = [
            self.daemon.deadline(),
            self.guard.deadline().filter(|_| !self.ending.is_under_way()),
            self.ending.deadline(),
            self.again.deadline(),
        ];
        let sleepers = self.sleepers.front().map(|(at, ..)| *at);
        let of_services = [self.services.deadline(), sleepers, look_again, self.rest.deadline()];
        let next: Option<Mono> = own.into_iter().chain(of_services).flatten().min();
        next.map(|at| Duration::from_micros(at.0.saturating_sub(now.0)))
    }

    /// Stores a service's state; a failure is logged and does not stop supervision.
    pub(crate) fn store_state(&mut self, slot: u32) {
        if self.mend_service_folder(slot) {
            return;
        }
        let Some(service) = self.services.get_mut(slot) else { return };
        let path = Folder::of(&self.home, &service.name).state();
        let state = service.to_store(service.run.as_ref().map(Run::header));
        let fixed = service.run.as_ref().is_some_and(|run| run.spawned.is_some());
        if let Err(error) = records::write_state(&path, &mut service.stored, &state, fixed) {
            log!("{error}");
        }
    }

    /// Services and the daemon get the limit of open files that we were started with, not the one
    /// we raised for ourselves.
    pub(crate) fn limits_for(&self, configured: &[Limit]) -> Vec<Limit> {
        let mut limits = configured.to_vec();
        if !limits.iter().any(|limit| limit.resource == Resource::OpenFiles) {
            let (soft, hard) = self.open_files;
            limits.push(Limit { resource: Resource::OpenFiles, soft, hard });
        }
        limits
    }

    pub(crate) fn tracking(&self) -> Tracking {
        self.hierarchy.as_ref().map_or(Tracking::Processes, Hierarchy::tracking)
    }
}
