//! Runs and the kernel: creating them, signalling them, observing their end.

use crate::keeper::{Keeper, PollToken};
use crate::log;
use crate::own_folder;
use crate::pump::{Command, Pipes};
use crate::records::{self, Folder, StoreError};
use crate::service::{MainProcess, Run};
use crate::service_folder::ServiceFolder;
use crate::streams::Streams;
use proctor_core::lifecycle::{Action, Event, Exit, Rules, SpawnFailure};
use proctor_core::name::RunId;
use proctor_core::spec::ServiceSpec;
use proctor_core::state_file::RunHeader;
use proctor_core::stored;
use proctor_core::time::{Millis, Mono, Now};
use proctor_core::wire::Tracking;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::poll::Interest;
use proctor_sys::process_tag::ProcessTag;
use proctor_sys::process_tree::SearchScope;
use proctor_sys::spawn::{self, Group, Outcome, Plan, Record};
use proctor_sys::{cgroup, clock, proc, process, signal, small_file};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Maximum delay of an exit report while the last lines are stored. Disks can hang; reports should
/// not.
const QUIET: Millis = Millis(2000);

/// A main process that exits with 0 within this time and leaves others running has put itself into
/// the background.
const BACKGROUNDED_TIMEOUT: Millis = Millis::seconds(10);

/// Time from the stop signal to SIGCONT, in case the service was stopped.
const WAKE_AFTER: Millis = Millis(20);

impl Keeper {
    /// Passes an event to a service's machine, stores the change and performs the actions.
    /// Resulting events wait for the next round of the loop: a service that cannot be created must
    /// not delay the others.
    pub(crate) fn handle(&mut self, slot: u32, event: Event) {
        self.handle_as_of(slot, event, clock::now());
    }

    /// Like `handle`, for an event that happened earlier and was not observed.
    pub(crate) fn handle_as_of(&mut self, slot: u32, event: Event, now: Now) {
        let Some(service) = self.services.get_mut(slot) else { return };
        let was_started = matches!(event, Event::Started { .. });
        let machine_before = service.machine.clone();
        let rules =
            Rules { restart: &service.policies.restart, grace: service.policies.stop.grace };
        let mut actions = Vec::new();
        service.machine.handle(now, rules, event, &mut actions);
        if service.machine != machine_before || !actions.is_empty() {
            service.changed = true;
            // A recorded and live run is known to have started, so that needs no write. `start_run`
            // writes a run that is about to be created.
            if !was_started && !actions.iter().any(|action| matches!(action, Action::Spawn { .. }))
            {
                self.store_state(slot);
            }
            self.carry_out(slot, actions, now);
        }
        self.finish_removal(slot);
    }

    /// Performs the actions of a machine.
    pub(crate) fn carry_out(&mut self, slot: u32, actions: Vec<Action>, now: Now) {
        for action in actions {
            if let Some(event) = self.perform(slot, action, now) {
                self.pending.push_back((slot, event));
            }
        }
    }

    /// Handles the events from the last round.
    pub(crate) fn handle_pending(&mut self) {
        for _ in 0..self.pending.len() {
            let Some((slot, event)) = self.pending.pop_front() else { return };
            self.handle(slot, event);
        }
    }

    fn perform(&mut self, slot: u32, action: Action, now: Now) -> Option<Event> {
        match action {
            Action::Spawn { run } => {
                let failure = self.start_run(slot, run, now).err()?;
                return Some(Event::SpawnFailed { run, failure });
            }
            Action::Stop { run } => self.ask_to_stop(slot, run),
            Action::Kill { run } => self.kill(slot, run),
            Action::Ended { run, exit } => self.end_run(slot, run, exit, now),
        }
        None
    }

    /// Creates the state, then the FIFOs, then the process that adds its identity to the state. The
    /// order matters, see `sys::spawn`.
    fn start_run(&mut self, slot: u32, run: RunId, now: Now) -> Result<(), SpawnFailure> {
        let Some(service) = self.services.get(slot) else { return Ok(()) };
        let name = service.name.clone();
        let spec = service.spec.as_deref().and_then(|bytes| stored::spec::decode(bytes).ok());
        let lost =
            || failure("read the settings of", name.as_str(), &io::ErrorKind::NotFound.into());
        let mut spec: ServiceSpec = spec.ok_or_else(lost)?;
        spec.exec.env.extend(service.once.iter().flat_map(|once| once.env.iter().cloned()));
        let logs = self.log_folder(&name);
        let policies = Arc::clone(&service.policies.logs);
        let group = self.groups.as_ref().map(|groups| ServiceFolder::new(groups, &name));
        let open = |folder: ServiceFolder| {
            let opened = cgroup::open_or_make(&folder.path()).ok()?;
            Some((folder, opened))
        };
        let group = group.and_then(open);
        let cgroup = group.as_ref().map(|(folder, _)| folder.text());
        let folder = Folder::of(&self.home, &name);
        let header = RunHeader { run, started: now.wall, cgroup };
        let record = self
            .record_run(slot, &folder, &header)
            .map_err(|error| failure("record", name.as_str(), &error))?;
        let made = self.make_process(slot, &spec, &folder, &header, record, group);
        if made.is_err() {
            folder.remove_run(run);
            self.release_from_guard(&name, run);
        }
        let (made, pipes) = made?;
        self.forget_once(slot);
        self.rest.starts += 1;
        failpoint::moment(Point::RunMade);
        self.children.insert(made.pid, slot);
        if let Some(spawned) = &made.spawned {
            let watched =
                self.poller.add(spawned.as_fd(), PollToken::Report(slot).encode(), Interest::Read);
            if let Err(error) = watched {
                log!("cannot watch the start of {name}: {error}");
            }
        }
        self.pump.send(Command::Begin {
            slot,
            folder: logs,
            spec: policies,
            run,
            pipes: Pipes::Here(pipes.map(Some)),
            fresh: true,
        });
        failpoint::moment(Point::RunPiped);
        if let Some(service) = self.services.get_mut(slot) {
            service.run = Some(made);
        }
        self.guard_process(slot, run);
        Ok(())
    }

    /// Writes the state before a run is created. The file is locked through the fork until the
    /// child executes, so a later keeper can detect a child on its way.
    fn record_run(
        &mut self,
        slot: u32,
        folder: &Folder,
        header: &RunHeader,
    ) -> io::Result<(File, u64)> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        self.mend_service_folder(slot);
        let service = self.services.get_mut(slot).ok_or_else(missing)?;
        let state = service.to_store(Some(header.clone()));
        let mut write =
            || records::write_state(&folder.state(), &mut service.stored, &state, false);
        let file = write().or_else(|_| {
            // The runtime directory may have been deleted; that must not keep a service down.
            own_folder::make_service(&self.home, &folder.path)?;
            write().map_err(StoreError::into_io)
        })?;
        let offset = service.stored.ok_or_else(missing)?.identity_offset();
        failpoint::step(Point::RunRecorded)?;
        small_file::try_lock(&file)?;
        Ok((file, offset))
    }

    fn make_process(
        &mut self,
        slot: u32,
        spec: &ServiceSpec,
        folder: &Folder,
        header: &RunHeader,
        (record, offset): (File, u64),
        group: Option<(ServiceFolder, OwnedFd)>,
    ) -> Result<(Run, [OwnedFd; 2]), SpawnFailure> {
        let name = spec.name.as_str();
        failpoint::step(Point::RunBegin).map_err(|e| failure("make", name, &e))?;
        let exec = &spec.exec;
        let owner = exec.credentials.as_ref().map(|c| (c.uid, c.gid));
        let streams = Streams::make(&self.home, folder, header.run, owner)
            .map_err(|(step, error)| failure(step, name, &error))?;
        self.guard_pipes(slot, &spec.name, header.run, &streams.ours());
        let walks_in = self.walks_in;
        let id = self.mark_value(name, header.run);
        let home = self.home.explicit().map(|path| path.display().to_string());
        let mut marks = vec![("PROCTOR_SERVICE", name), ("PROCTOR_RUN", id.as_str())];
        // A `proctor` command run by a service then uses the Proctor that supervises it.
        marks.extend(home.as_deref().map(|home| ("PROCTOR_HOME", home)));
        // The next daemon sends it: a shortage, not a fault of the service.
        let missing = || failure("find the environment of", name, &rustix::io::Errno::AGAIN.into());
        let environment = self.environments.of(exec, &marks).ok_or_else(missing)?;
        let input = streams.input(&self.home, &spec.name);
        let spawned = spawn::spawn(&Plan {
            program: None,
            argv: &exec.argv,
            environment: environment.view(),
            working_dir: &exec.working_dir,
            credentials: exec.credentials.as_ref(),
            umask: exec.umask,
            limits: &self.limits_for(&exec.limits),
            nice: exec.nice,
            oom_score_adj: exec.oom_score_adj,
            stdio: streams.stdio(input.as_ref().map_or(self.null.as_fd(), AsFd::as_fd)),
            is_terminal: streams.has_terminal(),
            passed: &[],
            record: Some(Record { file: &record, offset, run: header.run }),
            cgroup: group.as_ref().map(|(_, folder)| Group { folder, walks_in }),
            tag: Some(ProcessTag::of_mark(&mark_entry(&id))),
            boot: self.boot,
        })?;
        let run = Run {
            id: header.run,
            pid: spawned.pid,
            started: header.started,
            cgroup: group.map(|(folder, _)| folder),
            main: MainProcess::Child,
            began: None,
            is_ours: true,
            spawned: Some(spawned),
            asked: false,
            killed: false,
            left: 0,
        };
        Ok((run, streams.used()))
    }

    /// Checks whether the program was executed, when the report is readable or the child has ended.
    pub(crate) fn read_report(&mut self, slot: u32) {
        let Some(run) = self.services.get_mut(slot).and_then(|s| s.run.as_mut()) else { return };
        let Some(spawned) = run.spawned.as_mut() else { return };
        let event = match spawned.outcome() {
            Outcome::Pending => return,
            Outcome::Running => Event::Started { run: run.id },
            // Its end is an ordinary exit, but with this reason: see `main_ended`.
            Outcome::Failed(failure) => Event::SpawnFailed { run: run.id, failure },
        };
        self.poller.remove(spawned.as_fd());
        run.spawned = None;
        self.handle(slot, event);
    }

    pub(crate) fn ask_to_stop(&mut self, slot: u32, id: RunId) {
        let Some(service) = self.services.get(slot) else { return };
        self.signal_run(slot, id, service.policies.stop.signal);
        self.sleepers.push_back((clock::now().mono.plus(WAKE_AFTER), slot, id));
    }

    /// A stopped process cannot act on a signal. Runs that still exist after a moment are woken;
    /// most have exited.
    pub(crate) fn wake_sleepers(&mut self, now: Mono) {
        while let Some((_, slot, run)) = self.sleepers.pop_front_if(|(at, ..)| *at <= now) {
            self.signal_run(slot, run, signal::SIGCONT);
        }
        if self.sleepers.is_empty() {
            self.sleepers = VecDeque::new();
        }
    }

    /// Signals the group of a run's main process; without one, the rest of the tree.
    fn signal_run(&mut self, slot: u32, id: RunId, signal: i32) {
        let Some(mark) = self.mark(slot, id) else { return };
        let run = self.services.get_mut(slot).and_then(|service| service.run.as_mut());
        let Some(run) = run.filter(|run| run.id == id) else { return };
        let sent = match &run.main {
            MainProcess::Child => process::signal_child_group(run.pid, signal),
            MainProcess::Adopted(process) => process.signal_group(signal).map(drop),
            MainProcess::Gone { .. } => Err(io::ErrorKind::NotFound.into()),
        };
        if sent.is_err() {
            // Processes that got the signal with the group do not get it twice: some programs treat
            // a second one as "at once".
            let except = run.asked.then_some(run.pid);
            let (children, daemon) = (&self.children, &self.daemon);
            let is_known = |pid| children.contains_key(&pid) || daemon.is(pid);
            let look =
                if run.is_ours { SearchScope::Orphans(&is_known) } else { SearchScope::Everywhere };
            let left = run.tree(mark).signal(signal, except, look);
            run.left = u32::try_from(left).unwrap_or(u32::MAX);
        }
        run.asked |= !matches!(run.main, MainProcess::Gone { .. });
    }

    fn kill(&mut self, slot: u32, id: RunId) {
        let Some(mark) = self.mark(slot, id) else { return };
        let Some(service) = self.services.get_mut(slot) else { return };
        let Some(run) = service.run.as_mut().filter(|run| run.id == id) else { return };
        run.killed = true;
        let tree = run.tree(mark);
        let (children, daemon) = (&self.children, &self.daemon);
        let is_known = |pid| children.contains_key(&pid) || daemon.is(pid);
        let is_gone = matches!(run.main, MainProcess::Gone { .. });
        let look = match run.is_ours && (is_gone || tree.cgroup.is_some()) {
            true => SearchScope::Orphans(&is_known),
            false => SearchScope::Everywhere,
        };
        tree.kill(look);
        // It may have moved to another cgroup, which the cgroup kill does not reach.
        let _ = match &run.main {
            MainProcess::Child => process::signal_child_group(run.pid, signal::SIGKILL),
            MainProcess::Adopted(process) => process.signal(signal::SIGKILL).map(drop),
            MainProcess::Gone { .. } => Ok(()),
        };
        run.left = u32::try_from(tree.members(look).len()).unwrap_or(u32::MAX);
        service.changed = true;
    }

    /// A run's main process has exited and, if it was our child, has been reaped.
    pub(crate) fn main_ended(&mut self, slot: u32, exit: Exit) {
        let run = self.services.get(slot).and_then(|s| s.run.as_ref());
        let Some(id) = run.map(|run| run.id) else { return };
        failpoint::moment(Point::RunEnded);
        self.read_report(slot);
        let oom = self.oom_since_last_look(slot, &exit);
        // If the report was a failure, that run is over, and the next one may already exist.
        let run = self.services.get_mut(slot).and_then(|s| s.run.as_mut());
        let Some(run) = run.filter(|run| run.id == id) else { return };
        if !matches!(run.main, MainProcess::Gone { .. }) {
            run.main = MainProcess::Gone { reaped_at: clock::ticks_since_boot() };
        }
        let (killed, was_left_alone) = (run.killed, !run.killed && !run.asked);
        let lived = clock::now().wall.0.saturating_sub(run.started.0) / 1000;
        let is_young = u64::try_from(lived).is_ok_and(|lived| Millis(lived) < BACKGROUNDED_TIMEOUT);
        let tree_empty = self.tree_is_empty(slot, id);
        let exit = match exit {
            Exit::Signal { signal: signal::SIGKILL, core, .. } => {
                Exit::Signal { signal: signal::SIGKILL, oom: oom && !killed, core }
            }
            Exit::Code(0) if !tree_empty && is_young && was_left_alone => Exit::Backgrounded,
            other @ (Exit::Code(_)
            | Exit::Signal { .. }
            | Exit::SpawnFailed(_)
            | Exit::Unknown
            | Exit::Backgrounded) => other,
        };
        self.handle(slot, Event::Exited { run: id, exit, tree_empty });
    }

    /// Whether the OOM killer acted since the last check: in this run's cgroup or, if unknown,
    /// anywhere.
    fn oom_since_last_look(&mut self, slot: u32, exit: &Exit) -> bool {
        if !matches!(exit, Exit::Signal { signal: signal::SIGKILL, .. }) {
            return false;
        }
        let run = self.services.get(slot).and_then(|s| s.run.as_ref());
        // In hybrid mode there are no counts for a group.
        if self.tracking() == Tracking::CgroupV2
            && let Some(count) = run.and_then(|run| cgroup::oom_kills(&run.cgroup.as_ref()?.path()))
        {
            return count > 0;
        }
        let now = proc::oom_kills().unwrap_or(0);
        std::mem::replace(&mut self.oom_kills, now) < now
    }

    /// Checks trees whose main process is gone.
    pub(crate) fn check_leftovers(&mut self) {
        for slot in self.services.leftovers() {
            let run = self.services.get(slot).and_then(|s| s.run.as_ref()).map(|run| run.id);
            let Some(run) = run else { continue };
            if self.tree_is_empty(slot, run) {
                self.handle(slot, Event::TreeEmpty { run });
            }
        }
    }

    fn tree_is_empty(&self, slot: u32, id: RunId) -> bool {
        let Some(mark) = self.mark(slot, id) else { return true };
        let run = self.services.get(slot).and_then(|s| s.run.as_ref());
        let is_known = |pid| self.children.contains_key(&pid) || self.daemon.is(pid);
        run.is_none_or(|run| {
            let ours = run.is_ours && run.cgroup.is_some();
            let look = if ours {
                SearchScope::Orphans(&is_known)
            } else {
                SearchScope::Shared(&self.snapshot)
            };
            run.tree(mark).is_empty(look)
        })
    }

    /// The tree is empty: the pump stores the rest, then the run's files are removed.
    fn end_run(&mut self, slot: u32, run: RunId, exit: Exit, now: Now) {
        let Some(service) = self.services.get_mut(slot) else { return };
        if let Some(over) = service.run.take_if(|current| current.id == run) {
            // The pid of a reaped process may belong to another run by now.
            if matches!(over.main, MainProcess::Child) {
                self.children.remove(&over.pid);
            }
            // Linux 6.18, for one, kills processes forked into a group that was killed before: the
            // next run gets a new group.
            if let (true, Some(group)) = (over.killed, &over.cgroup) {
                cgroup::remove(&group.path());
            }
        }
        // Not extended for another run: otherwise a service that keeps crashing would never be
        // reported.
        service.quiet_until.get_or_insert(now.mono.plus(QUIET));
        failpoint::moment(Point::RunOver);
        self.open_now_or_never(slot, run);
        self.pump.send(Command::End { slot, run, exit });
    }

    /// The mark of a run in its processes' environment, as an entry.
    pub(crate) fn mark(&self, slot: u32, run: RunId) -> Option<String> {
        let service = self.services.get(slot)?;
        Some(mark_entry(&self.mark_value(service.name.as_str(), run)))
    }

    /// Unique on this machine: the home, the service and the run are part of it.
    pub(crate) fn mark_value(&self, service: &str, run: RunId) -> String {
        format!("{}-{service}-{run}", self.label)
    }
}

fn mark_entry(value: &str) -> String {
    format!("PROCTOR_RUN={value}")
}

fn failure(step: &str, subject: &str, error: &io::Error) -> SpawnFailure {
    let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::INVAL.raw_os_error());
    SpawnFailure { step: step.into(), subject: subject.into(), errno }
}
