//! The daemon as a witness: it holds the pipes and the pidfd of every run open, and reads none of them.
//!
//! If the keeper dies and a service ends before the next keeper looks, the kernel would throw away what is still in the
//! service's pipes and how it ended, because nobody holds them any more. We do. The next keeper is this process
//! executing itself, and inherits what we hold ([`Witnesses::pass_on`]).

use proctor_core::home::Home;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::wire::{PhaseView, RunView, ServiceState};
use proctor_sys::{fifo, inherit, process::Process};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// What is held, by service.
#[derive(Default)]
pub struct Witnesses {
    held: HashMap<ServiceName, (RunId, Vec<OwnedFd>)>,
}

impl Witnesses {
    /// Take up a new run, let go of one that is over. What cannot be opened is already gone.
    pub fn see(&mut self, home: &Home, state: &ServiceState) {
        let Some(run) = run_of(&state.phase) else {
            self.held.remove(&state.name);
            return;
        };
        if run.pid == 0 || self.held.get(&state.name).is_some_and(|(held, _)| *held == run.id) {
            return;
        }
        let pipes =
            home.fifos(&state.name, run.id).into_iter().filter_map(|path| fifo::open(&path).ok());
        let process = Process::open(run.pid).map(Process::into_fd);
        self.held.insert(state.name.clone(), (run.id, pipes.chain(process).collect()));
    }

    pub fn forget(&mut self, name: &ServiceName) {
        self.held.remove(name);
    }

    /// Leave everything open for the program that this process executes next.
    pub fn pass_on(&self) {
        for fd in self.held.values().flat_map(|(_, fds)| fds) {
            // One that cannot be passed on is lost to the next keeper; that is no reason to lose the others.
            let _ = inherit::set_inherited(fd, true);
        }
    }
}

fn run_of(phase: &PhaseView) -> Option<&RunView> {
    match phase {
        PhaseView::Starting { run } | PhaseView::Up { run } | PhaseView::Stopping { run, .. } => {
            Some(run)
        }
        PhaseView::Down
        | PhaseView::Held
        | PhaseView::Backoff { .. }
        | PhaseView::Failed { .. }
        | PhaseView::Cooling { .. } => None,
    }
}
