//! Takes over the state of an earlier keeper: after a crash, after an upgrade, or from nothing.
//!
//! The rules: a live run is kept, an ended run is reported once with the known facts, a run that
//! was never created is created, and nothing is started twice. Unreadable files are logged and set
//! aside, and never treated as missing.

use crate::keeper::{Keeper, PollToken};
use crate::log;
use crate::own_folder;
use crate::pump::Command;
use crate::records::{self, Folder, StoreError};
use crate::retry::PendingStep;
use crate::runtime_repair::SessionLeader;
use crate::service::{MainProcess, Policies, Run, Service};
use crate::service_folder::ServiceFolder;
use proctor_core::home::OwnFolder;
use proctor_core::lifecycle::{Event, Exit, Machine, Phase};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record_encoding::{BootId, Identity};
use proctor_core::spec::ServiceSpec;
use proctor_core::state_file::{Layout, RunHeader, StateFile as FoundState};
use proctor_core::stored;
use proctor_core::time::{Mono, Now, Wall};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::poll::Interest;
use proctor_sys::process::{Process, pidfs_inode};
use proctor_sys::{cgroup, clock, own_file, proc, small_file};
use std::cell::OnceCell;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Timeout for a child between fork and exec whose keeper died. It has only system calls left; a
/// longer wait means that one of them hangs on a dead disk or network.
const CHILD_ON_ITS_WAY: Duration = Duration::from_secs(10);

/// The content of a run record.
enum RunRecord {
    Alive(RunHeader, Process),
    /// The record has no identity; the process was found by its mark or in its cgroup.
    Searched(RunHeader, Process),
    /// The run is over. Its exit is known if a witness holds its pidfd; its session may still be
    /// known by number.
    Over(RunHeader, Exit, Option<Session>),
    /// No process was created.
    Never,
}

impl Keeper {
    pub(crate) fn take_over(&mut self) {
        failpoint::moment(Point::TakeoverBegin);
        self.forget_other_boots();
        for (name, _) in records::entries(&self.home.services()) {
            let Ok(name) = ServiceName::parse(&name) else {
                log!(
                    "{}: '{name}' is not a service's folder; left alone",
                    self.home.services().display()
                );
                continue;
            };
            self.take_over_service(&name);
            failpoint::moment(Point::TakeoverService);
        }
        self.keep_lost_runs();
        // Something may have vanished while the replaced program was exiting.
        self.mend_folder();
        // Children that ended during the exec, some of them started after our last look.
        self.snapshot = OnceCell::new();
        self.reap();
        self.witnesses.clear();
        failpoint::moment(Point::TakeoverDone);
        self.marked = None;
    }

    /// The runtime directory is valid for one boot; after another boot its content is void.
    fn forget_other_boots(&self) {
        let path = self.home.boot();
        let known = small_file::read_small(&path, 64)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .map(BootId);
        if known == Some(self.boot) {
            return;
        }
        if known.is_some() {
            log!("the machine was restarted: discarding the old runtime state");
            for folder in [OwnFolder::Services, OwnFolder::Environments] {
                let _ = std::fs::remove_dir_all(self.home.folder(folder));
                let _ = own_folder::make(&self.home, folder);
            }
        }
        if let Err(error) = small_file::replace(&path, &self.boot.0) {
            log!("cannot write {}: {error}", path.display());
        }
    }

    fn take_over_service(&mut self, name: &ServiceName) {
        let folder = Folder::of(&self.home, name);
        // What is in its place is moved aside, and the run is then found by its mark.
        if let Err(error) = own_folder::make_inner(&folder.path) {
            log!("cannot use {}: {error}", folder.path.display());
            return;
        }
        let spec = said(records::read::<ServiceSpec>(&folder.spec()));
        let spec = spec.filter(|spec| is_of(name, &spec.name, &folder.spec()));
        let state = records::read_state(&folder.state(), name);
        let runs = folder.runs();
        if let (None, Ok(None), []) = (&spec, &state, runs.as_slice()) {
            folder.remove();
            return;
        }
        let (machine, stored) = believable(name, state, runs.last().copied());
        let current = machine.run();
        let (encoded, policies) = match spec {
            Some(spec) => {
                let encoded = stored::spec::encode(&spec);
                (Some(encoded.into()), self.services.policies(&spec))
            }
            None => {
                log!(
                    "{name}: its settings were lost; its run is kept, and restarts resume once they are known again"
                );
                (None, Policies::careful())
            }
        };
        let mut service = Service::new(name.clone(), encoded, policies, machine);
        service.stored = stored;
        let slot = self.services.add(service);
        self.take_over_once(slot, &folder);
        self.renew_cgroup(name);
        for run in runs.into_iter().filter(|run| Some(*run) != current) {
            self.finish_old_run(slot, &folder, run);
        }
        if let Some(run) = current {
            self.take_over_run(slot, &folder, run);
        }
    }

    /// Stores the remaining output of a run that is over but not cleaned up.
    pub(crate) fn finish_old_run(&mut self, slot: u32, folder: &Folder, run: RunId) {
        match self.open_pipes(slot, folder, run) {
            Ok(pipes) => self.begin_logs(slot, run, pipes),
            Err(error) => return self.again_later(PendingStep::Run { slot, run }, &error),
        }
        let last = self.services.get(slot).and_then(|s| s.machine.last_exit().cloned());
        let exit = last.filter(|last| last.run == run).map_or(Exit::Unknown, |last| last.exit);
        self.pump.send(Command::End { slot, run, exit });
    }

    pub(crate) fn take_over_run(&mut self, slot: u32, folder: &Folder, run: RunId) {
        let found = self.find_run(slot, folder, run);
        failpoint::moment(Point::TakeoverFound);
        if !matches!(found, RunRecord::Never) {
            self.had_once(slot, run);
        }
        match found {
            RunRecord::Alive(header, process) => self.keep_run(slot, folder, &header, process),
            RunRecord::Searched(header, process) => {
                let (name, pid) = (&folder.name, process.pid());
                log!("{name}: the record of run {run} was lost; found as process {pid}, and kept");
                self.keep_run(slot, folder, &header, process);
                self.record_anew(slot);
            }
            RunRecord::Over(header, exit, session) => {
                match self.open_pipes(slot, folder, run) {
                    Ok(pipes) => self.begin_logs(slot, run, pipes),
                    Err(error) => return self.again_later(PendingStep::Run { slot, run }, &error),
                }
                let mut held = gone(&header, self.groups.as_ref());
                if let Some(session) = session {
                    session.note_in(&mut held);
                }
                self.hold(slot, held);
                self.handle_as_of(slot, Event::Started { run }, moment(header.started));
                self.main_ended(slot, exit);
            }
            RunRecord::Never => {
                folder.remove_run(run);
                self.start_anew(slot);
            }
        }
    }

    /// A stop is stored before the signal is sent, and the keeper may have died in between. Sending
    /// it twice is better than killing a run that was never asked.
    fn ask_again(&mut self, slot: u32, run: RunId) {
        let Some(service) = self.services.get(slot) else { return };
        let adopted =
            service.run.as_ref().is_some_and(|r| matches!(r.main, MainProcess::Adopted(_)));
        let asked = |phase: &Phase| matches!(phase, Phase::Stopping(stopping) if !stopping.killed);
        if adopted && asked(service.machine.phase()) {
            self.ask_to_stop(slot, run);
        }
    }

    pub(crate) fn take_over_again(&mut self, slot: u32, run: RunId) {
        let Some(service) = self.services.get(slot) else { return };
        let folder = Folder::of(&self.home, &service.name);
        if service.machine.run() == Some(run) {
            self.take_over_run(slot, &folder, run);
        } else {
            self.finish_old_run(slot, &folder, run);
        }
    }

    fn keep_run(&mut self, slot: u32, folder: &Folder, header: &RunHeader, process: Process) {
        let run = header.run;
        self.attach(slot, header, process);
        self.open_logs(slot, folder, run);
        self.handle_as_of(slot, Event::Started { run }, moment(header.started));
        self.ask_again(slot, run);
    }

    fn start_anew(&mut self, slot: u32) {
        let now = clock::now();
        let mut actions = Vec::new();
        if let Some(service) = self.services.get_mut(slot) {
            service.machine.run_was_never_made(now, &mut actions);
        }
        self.store_state(slot);
        self.carry_out(slot, actions, now);
    }

    fn find_run(&mut self, slot: u32, folder: &Folder, run: RunId) -> RunRecord {
        match read_settled(folder, run) {
            // The keeper died before it could write the record, or somebody deleted it.
            Ok(None) => match self.search_run(slot, run) {
                RunRecord::Over(..) if !self.is_up(slot) => RunRecord::Never,
                found @ (RunRecord::Alive(..)
                | RunRecord::Searched(..)
                | RunRecord::Over(..)
                | RunRecord::Never) => found,
            },
            Ok(Some((header, Some(identity)))) => self.recognise(header, &identity),
            // It counts as up only because its state was lost; nothing else would end it.
            Ok(Some((header, None))) if self.is_up(slot) => {
                RunRecord::Over(header, Exit::Unknown, None)
            }
            Ok(Some((_, None))) => RunRecord::Never,
            Err(error) => {
                log!("{error}; looking for run {run} by its mark");
                self.search_run(slot, run)
            }
        }
    }

    fn is_up(&self, slot: u32) -> bool {
        self.services.get(slot).is_some_and(|s| matches!(s.machine.phase(), Phase::Up { .. }))
    }

    fn recognise(&self, header: RunHeader, identity: &Identity) -> RunRecord {
        match Process::recognise(identity) {
            // A child of ours is over only after it is reaped: that reveals its exit.
            Some(process) if !process.is_gone() || is_child(identity.pid) => {
                return RunRecord::Alive(header, process);
            }
            // Not reaped, so its pid belongs to no other process.
            Some(process) => {
                let session = Session::of_leader(&process, header.run);
                return RunRecord::Over(header, process.exit(), Some(session));
            }
            None => {}
        }
        // Its pid may belong to any process, but somebody may have held it open all along.
        let witness =
            self.witnesses.iter().find(|fd| pidfs_inode(fd) == Some(identity.pidfs_inode));
        let copy = witness.and_then(|fd| fd.try_clone().ok());
        let Some(process) = copy.map(|fd| Process::from_inherited(fd, identity.pid)) else {
            return RunRecord::Over(header, Exit::Unknown, None);
        };
        // The id of a group is not reused while the group has members.
        let has_group = process.signal_group(0).unwrap_or(false);
        let session = has_group.then(|| Session::of_leader(&process, header.run));
        RunRecord::Over(header, process.exit(), session)
    }

    /// The record cannot be read: finds the session leader with the run's mark, or the process in
    /// the service's cgroup.
    fn search_run(&mut self, slot: u32, run: RunId) -> RunRecord {
        let Some(name) = self.services.get(slot).map(|service| service.name.clone()) else {
            return RunRecord::Never;
        };
        let cgroup = self.cgroup_path(slot);
        let mut leaders: Vec<SessionLeader> = self.marked().of(&name, run).copied().collect();
        let inside = cgroup.iter().flat_map(|path| cgroup::members(path));
        leaders.extend(inside.filter_map(SessionLeader::look));
        let cgroup = cgroup.map(|path| path.display().to_string());
        match SessionLeader::main(&leaders) {
            Some((leader, process)) => {
                let started = clock::wall_at(leader.start_ticks);
                RunRecord::Searched(RunHeader { run, started, cgroup }, process)
            }
            None => {
                let header = RunHeader { run, started: clock::now().wall, cgroup };
                RunRecord::Over(header, Exit::Unknown, None)
            }
        }
    }

    /// The cgroup for runs of a service, if there is one now.
    fn cgroup_path(&self, slot: u32) -> Option<PathBuf> {
        let name = self.services.get(slot)?.name.as_str();
        let path = self.hierarchy.as_ref()?.group(name);
        cgroup::populated(&path)?.then_some(path)
    }

    fn attach(&mut self, slot: u32, header: &RunHeader, process: Process) {
        let pid = process.pid();
        let is_child = is_child(pid);
        if is_child {
            self.children.insert(pid, slot);
        }
        let began = process.identity(header.run).map(|identity| identity.start_ticks);
        let main = if is_child { MainProcess::Child } else { MainProcess::Adopted(process) };
        let gone = gone(header, self.groups.as_ref());
        self.hold(slot, Run { pid, main, began, is_ours: is_child, ..gone });
        self.watch_again(slot);
    }

    /// Watches for the exit of an adopted main process.
    pub(crate) fn watch_again(&mut self, slot: u32) {
        let run = self.services.get(slot).and_then(|s| s.run.as_ref());
        let Some(MainProcess::Adopted(process)) = run.map(|run| &run.main) else { return };
        let token = PollToken::Exit(slot).encode();
        let watched = failpoint::step(Point::TakeoverWatch)
            .and_then(|()| self.poller.add(process.as_fd(), token, Interest::Read));
        if let Err(error) = watched {
            self.again_later(PendingStep::Watch { slot }, &error);
        }
    }

    fn hold(&mut self, slot: u32, mut run: Run) {
        let Some(service) = self.services.get_mut(slot) else { return };
        run.killed =
            matches!(service.machine.phase(), Phase::Stopping(stopping) if stopping.killed);
        service.run = Some(run);
        service.changed = true;
    }

    /// A keeper that died after a kill left a group that must not be reused. A group with a run in
    /// it stays.
    fn renew_cgroup(&self, name: &ServiceName) {
        if let Some(hierarchy) = &self.hierarchy {
            cgroup::remove(&hierarchy.group(name.as_str()));
        }
    }
}

/// Reconstructs a service's state from disk. An unreadable state, or one that could not be written
/// when the newest run began, counts less than that run.
fn believable(
    name: &ServiceName,
    state: Result<Option<FoundState>, StoreError>,
    newest: Option<RunId>,
) -> (Machine, Option<Layout>) {
    let now = clock::now();
    let found = match (state, newest) {
        // Defined, but never started.
        (Ok(None), None) => return (Machine::new(now), None),
        (state, _) => said(state),
    };
    let layout = found.as_ref().map(|found| found.layout);
    if found.as_ref().is_some_and(|found| found.damaged) {
        log!(
            "{name}: the last change of its state was not completely written; using the previous one"
        );
    }
    let machine = match (found.map(|found| found.state.machine), newest) {
        (Some(machine), None) => machine,
        (Some(machine), Some(newest)) if newest <= machine.last_run() => machine,
        (_, newest) => {
            log!("{name}: its state was lost; its run is kept");
            newest.map_or_else(|| Machine::new(now), |run| Machine::found_running(now, run))
        }
    };
    (machine, layout)
}

/// Both clocks at a past moment.
fn moment(wall: Wall) -> Now {
    let now = clock::now();
    let ago = now.wall.0.saturating_sub(wall.0).max(0).unsigned_abs();
    Now { wall, mono: Mono(now.mono.0.saturating_sub(ago)) }
}

fn is_child(pid: u32) -> bool {
    proc::stat(pid).is_some_and(|stat| stat.ppid == std::process::id())
}

/// A run whose main process is gone, for the rest of its tree. Its pid may belong to any process,
/// so tick 0 excludes it from searches.
fn gone(header: &RunHeader, groups: Option<&Arc<Path>>) -> Run {
    Run {
        id: header.run,
        pid: 0,
        started: header.started,
        cgroup: header.cgroup.as_ref().and_then(|path| ServiceFolder::at(Path::new(path), groups)),
        main: MainProcess::Gone { reaped_at: 0 },
        began: None,
        is_ours: false,
        spawned: None,
        asked: false,
        killed: false,
        left: 0,
    }
}

/// A session whose leader is gone while no other process can have its id.
struct Session {
    leader: u32,
    /// Known while the leader is unreaped.
    began: Option<u64>,
}

impl Session {
    fn of_leader(process: &Process, run: RunId) -> Session {
        let began = process.identity(run).map(|identity| identity.start_ticks);
        Session { leader: process.pid(), began }
    }

    /// Records the session in a run, so that the rest of the tree is found by it.
    fn note_in(&self, run: &mut Run) {
        run.main = MainProcess::Gone { reaped_at: clock::ticks_since_boot() };
        (run.pid, run.began) = (self.leader, self.began);
    }
}

/// Logs a read error.
fn said<T>(read: Result<Option<T>, StoreError>) -> Option<T> {
    read.unwrap_or_else(|error| {
        log!("{error}");
        None
    })
}

/// A file of another service counts as damaged.
fn is_of(name: &ServiceName, found: &ServiceName, path: &Path) -> bool {
    if name != found {
        log!("{} belongs to the service {found}, not to {name}", path.display());
    }
    name == found
}

type Recorded = Option<(RunHeader, Option<Identity>)>;

/// Reads a run's record after nobody can write it any more: a child between fork and exec may be
/// about to.
fn read_settled(folder: &Folder, run: RunId) -> Result<Recorded, String> {
    match read_run(folder, run) {
        settled @ Ok(None | Some((_, Some(_)))) => settled,
        Ok(Some((_, None))) | Err(_) => {
            if !lock_is_free(&folder.state()) {
                let seconds = CHILD_ON_ITS_WAY.as_secs();
                log!("run {run} is still being created after {seconds} s; not waiting longer");
            }
            read_run(folder, run)
        }
    }
}

fn read_run(folder: &Folder, run: RunId) -> Result<Recorded, String> {
    let found =
        records::read_state(&folder.state(), &folder.name).map_err(|error| error.to_string())?;
    let Some(found) = found else { return Ok(None) };
    let Some(header) = found.state.run.filter(|header| header.run == run) else { return Ok(None) };
    match found.identity {
        Ok(identity) => Ok(Some((header, identity.filter(|identity| identity.run == run)))),
        Err(error) => Err(format!("the identity in {} {error}", folder.state().display())),
    }
}

/// A child holds its record's lock until it executes or dies.
fn lock_is_free(path: &Path) -> bool {
    let Ok(record) = own_file::read(path) else { return true };
    let give_up = std::time::Instant::now() + CHILD_ON_ITS_WAY;
    while std::time::Instant::now() < give_up {
        if small_file::try_lock(&record).unwrap_or(true) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}
