//! The daemon as a witness: it holds the pipes and the pidfd of every run open, and reads none of them.
//!
//! If the keeper dies and a service ends before the next keeper looks, the kernel would throw away what is still in the
//! service's pipes and how it ended, because nobody holds them any more. We do. The next keeper is this process
//! executing itself, and inherits what we hold ([`Witnesses::pass_on`]).

use crate::link::News;
use proctor_core::home::Home;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::wire::ServiceState;
use proctor_sys::{fifo, inherit, process::Process};
use std::collections::HashMap;
use std::os::fd::{IntoRawFd, OwnedFd};

/// What is held, by service.
pub(crate) struct Witnesses {
    home: Home,
    held: HashMap<ServiceName, (RunId, Vec<OwnedFd>)>,
}

impl Witnesses {
    pub(crate) fn new(home: Home) -> Witnesses {
        Witnesses { home, held: HashMap::new() }
    }

    /// Take up new runs, let go of those that are over.
    pub(crate) fn see(&mut self, news: &[News]) {
        for news in news {
            match news {
                News::State(state) => self.see_state(state),
                News::Removed(name) => drop(self.held.remove(name)),
                News::Hello { .. }
                | News::SnapshotEnd
                | News::Defined { .. }
                | News::Ending { .. } => {}
            }
        }
    }

    fn see_state(&mut self, state: &ServiceState) {
        let Some(run) = state.phase.run() else {
            self.held.remove(&state.name);
            return;
        };
        if run.pid == 0 || self.held.get(&state.name).is_some_and(|(held, _)| *held == run.id) {
            return;
        }
        // What cannot be opened is already gone.
        let paths = self.home.fifos(&state.name, run.id);
        let pipes = paths.into_iter().filter_map(|path| fifo::open(&path).ok());
        let process = Process::open(run.pid).map(Process::into_fd);
        self.held.insert(state.name.clone(), (run.id, pipes.chain(process).collect()));
    }

    /// Leave everything open for the program that this process executes next.
    pub(crate) fn pass_on(self) {
        for fd in self.held.into_values().flat_map(|(_, fds)| fds) {
            // One that cannot be passed on is lost to the next keeper; that is no reason to lose the others.
            if inherit::set_inherited(&fd, true).is_ok() {
                let _stays_open = fd.into_raw_fd();
            }
        }
    }
}
