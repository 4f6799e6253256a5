//! Opens the pipes of runs that were taken over and passes them to the log pump.

use crate::keeper::{Keeper, PollToken};
use crate::log;
use crate::pump::{Command, Pipes, Pump};
use crate::records::Folder;
use crate::retry::{self, PendingStep};
use proctor_core::name::RunId;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::poll::Interest;
use proctor_sys::{fifo, inherited_fds};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

impl Keeper {
    /// Passes a live run's pipes to the pump.
    pub(crate) fn open_logs(&mut self, slot: u32, folder: &Folder, run: RunId) {
        let pipes = [0, 1].map(|number| match self.open_pipe(slot, folder, run, number) {
            Ok(pipe) => pipe,
            Err(error) => {
                self.again_later(PendingStep::Pipe { slot, run, number }, &error);
                None
            }
        });
        self.begin_logs(slot, run, pipes);
    }

    pub(crate) fn open_log_again(&mut self, slot: u32, run: RunId, number: usize) {
        let Some(service) = self.services.get(slot) else { return };
        let folder = Folder::of(&self.home, &service.name);
        let mut pipes = [None, None];
        match self.open_pipe(slot, &folder, run, number) {
            Ok(pipe) => pipes[number] = pipe,
            Err(error) => return self.again_later(PendingStep::Pipe { slot, run, number }, &error),
        }
        self.begin_logs(slot, run, pipes);
    }

    /// Opens both pipes of a run that is over: both or, for now, neither.
    pub(crate) fn open_pipes(
        &self,
        slot: u32,
        folder: &Folder,
        run: RunId,
    ) -> io::Result<[Option<OwnedFd>; 2]> {
        let open = |number| self.open_pipe(slot, folder, run, number);
        Ok([open(0)?, open(1)?])
    }

    /// Opens a pipe. A deleted pipe is reopened through a process that still holds it; a pipe
    /// without a holder has no more output.
    fn open_pipe(
        &self,
        slot: u32,
        folder: &Folder,
        run: RunId,
        number: usize,
    ) -> io::Result<Option<OwnedFd>> {
        let held = self.services.get(slot).and_then(|s| s.run.as_ref());
        let pid = held.filter(|held| held.id == run).map_or(0, |held| held.pid);
        let path = &folder.fifos(run)[number];
        match failpoint::step(Point::TakeoverPipe).and_then(|()| fifo::open(path)) {
            Ok(pipe) => Ok(Some(pipe)),
            Err(error) if retry::passes(&error) => Err(error),
            Err(_) => Ok(fifo::open_through(pid, number as u32 + 1, path).ok()),
        }
    }

    pub(crate) fn begin_logs(&mut self, slot: u32, run: RunId, pipes: [Option<OwnedFd>; 2]) {
        let Some(service) = self.services.get(slot) else { return };
        let name = service.name.clone();
        let open: Vec<BorrowedFd<'_>> = pipes.iter().flatten().map(AsFd::as_fd).collect();
        self.guard_pipes(slot, &name, run, &open);
        self.guard_process(slot, run);
        let Some(service) = self.services.get(slot) else { return };
        self.pump.send(Command::Begin {
            slot,
            folder: self.log_folder(&service.name),
            spec: Arc::clone(&service.policies.logs),
            run,
            pipes: Pipes::Here(pipes),
            fresh: false,
        });
    }

    /// Opens the pipes of all runs for the next program. Between our pump and its own nobody reads
    /// them. If a service ended meanwhile, its output would be lost with the last holder of its
    /// pipes.
    pub(crate) fn hold_pipes(&self) -> Vec<OwnedFd> {
        let folders =
            self.services.iter().map(|(_, service)| Folder::of(&self.home, &service.name));
        let paths = folders.flat_map(|folder| {
            folder.runs().into_iter().flat_map(move |run| folder.fifos(run)).collect::<Vec<_>>()
        });
        let pipes = paths.filter_map(|path| fifo::open(&path).ok());
        pipes.filter(|pipe| inherited_fds::set_inherited(pipe, true).is_ok()).collect()
    }

    /// After a failed upgrade: starts a new pump with every run's pipes.
    pub(crate) fn replace_pump(&mut self, pump: Pump) {
        if let Err(error) = self.poller.add(pump.bell(), PollToken::Pump.encode(), Interest::Read) {
            log!("cannot watch the log thread: {error}");
        }
        self.pump = pump;
        for slot in self.services.slots_where(|_| true) {
            let Some(service) = self.services.get(slot) else { continue };
            let folder = Folder::of(&self.home, &service.name);
            let current = service.machine.run();
            for run in folder.runs() {
                if Some(run) == current {
                    self.open_logs(slot, &folder, run);
                } else {
                    self.finish_old_run(slot, &folder, run);
                }
            }
        }
    }
}
