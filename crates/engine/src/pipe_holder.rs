//! The daemon holds the pipes and the pidfd of every run open, and reads none of them.
//!
//! If the keeper dies and a service ends before the next keeper starts, the kernel would discard the bytes in
//! the service's pipes and its exit status, because no process holds them. The daemon does. The next keeper is
//! this process executing itself, and inherits these descriptors ([`PipeHolder::pass_on`]).

use crate::keeper_link::KeeperEvent;
use proctor_core::home::Home;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::wire::ServiceState;
use proctor_sys::{fifo, inherited_fds, process::Process};
use std::collections::HashMap;
use std::os::fd::{IntoRawFd, OwnedFd};

/// The held descriptors, by service.
pub(crate) struct PipeHolder {
    home: Home,
    held: HashMap<ServiceName, (RunId, Vec<OwnedFd>)>,
}

impl PipeHolder {
    pub(crate) fn new(home: Home) -> PipeHolder {
        PipeHolder { home, held: HashMap::new() }
    }

    /// Opens the descriptors of new runs and closes those of ended ones.
    pub(crate) fn see(&mut self, news: &[KeeperEvent]) {
        for news in news {
            match news {
                KeeperEvent::State(state) => self.see_state(state),
                KeeperEvent::Removed(name) => drop(self.held.remove(name)),
                KeeperEvent::Hello { .. }
                | KeeperEvent::SnapshotEnd
                | KeeperEvent::Defined { .. }
                | KeeperEvent::Ending { .. } => {}
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
        // A pipe that cannot be opened is already gone.
        let paths = self.home.fifos(&state.name, run.id);
        let pipes = paths.into_iter().filter_map(|path| fifo::open(&path).ok());
        let process = Process::open(run.pid).map(Process::into_fd);
        self.held.insert(state.name.clone(), (run.id, pipes.chain(process).collect()));
    }

    /// Leaves everything open for the program that this process executes next.
    pub(crate) fn pass_on(self) {
        for fd in self.held.into_values().flat_map(|(_, fds)| fds) {
            // A descriptor that cannot be inherited is lost to the next keeper; the others are still passed on.
            if inherited_fds::set_inherited(&fd, true).is_ok() {
                let _stays_open = fd.into_raw_fd();
            }
        }
    }
}
