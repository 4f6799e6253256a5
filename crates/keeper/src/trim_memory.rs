//! Frees memory that only bursts of work need: after many starts, and when the keeper becomes idle.

use crate::keeper::Keeper;
use crate::service::Run;
use proctor_core::time::{Millis, Mono};
use proctor_sys::{allocator, clock, spawn};

/// Number of starts that are worth the time.
const MANY: u32 = 256;

/// Idle time after which a burst of work is over.
const QUIET: Millis = Millis(1000);

pub(crate) struct MemoryTrimmer {
    /// Runs created since memory was last freed.
    pub(crate) starts: u32,
    at: Option<Mono>,
}

impl MemoryTrimmer {
    /// Startup counts as work too.
    pub(crate) fn after_beginning() -> MemoryTrimmer {
        MemoryTrimmer { starts: 0, at: Some(clock::now().mono.plus(QUIET)) }
    }

    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.at
    }
}

impl Keeper {
    /// Creating a process takes many times the memory that it keeps.
    pub(crate) fn tidy_memory(&mut self) {
        let being_made = |run: &Run| run.spawned.is_some();
        if self.rest.starts >= MANY
            && !self.services.iter().any(|(_, s)| s.run.as_ref().is_some_and(being_made))
        {
            self.rest = MemoryTrimmer::after_beginning();
            allocator::give_back();
        }
    }

    pub(crate) fn rest(&mut self, now: Mono) {
        if self.rest.at.take_if(|at| *at <= now).is_some() {
            self.daemon.shrink();
            self.services.shrink();
            self.pending.shrink_to_fit();
            spawn::forget_spares();
            allocator::give_back();
            allocator::let_go_of_code();
        }
    }
}
