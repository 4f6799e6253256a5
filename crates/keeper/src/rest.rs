//! Memory that only work needed is given back: what is free after many starts at once, and everything else when it has
//! become quiet.

use crate::keeper::Keeper;
use crate::service::Run;
use proctor_core::time::{Millis, Mono};
use proctor_sys::{clock, memory, spawn};

/// So many starts are worth the time.
const MANY: u32 = 256;

/// What follows a burst of work has followed by then.
const QUIET: Millis = Millis(1000);

pub(crate) struct Rest {
    /// Runs that were made since memory was last given back.
    pub(crate) starts: u32,
    at: Option<Mono>,
}

impl Rest {
    /// Beginning is work, too.
    pub(crate) fn after_beginning() -> Rest {
        Rest { starts: 0, at: Some(clock::now().mono.plus(QUIET)) }
    }

    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.at
    }
}

impl Keeper {
    /// Making a process takes many times the memory that stays of it.
    pub(crate) fn tidy_memory(&mut self) {
        let being_made = |run: &Run| run.spawned.is_some();
        if self.rest.starts >= MANY
            && !self.services.iter().any(|(_, s)| s.run.as_ref().is_some_and(being_made))
        {
            self.rest = Rest::after_beginning();
            memory::give_back();
        }
    }

    pub(crate) fn rest(&mut self, now: Mono) {
        if self.rest.at.take_if(|at| *at <= now).is_some() {
            self.daemon.shrink();
            self.services.shrink();
            self.pending.shrink_to_fit();
            spawn::forget_spares();
            memory::give_back();
            memory::let_go_of_code();
        }
    }
}
