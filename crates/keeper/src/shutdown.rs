//! Orderly shutdown, and replacement in place.
//!
//! Both consist of non-blocking steps: stop services if required, let the daemon exit, then exit or
//! execute the new program. The new program finds everything as after a crash, with two advantages:
//! the lock and the listening socket stay open, and our children stay our children.

use crate::keeper::Keeper;
use crate::log;
use crate::pump::Pump;
use crate::records::Folder;
use proctor_core::lifecycle::{Event, Wish};
use proctor_core::spec::OnShutdown;
use proctor_core::time::{Millis, Mono};
use proctor_core::wire::{FromKeeper, Refusal};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::keeper_note::KeeperNote;
use proctor_sys::{cgroup, clock, inherited_fds, signal, small_file};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Grace period of the daemon before it is killed; longer than it waits for a commit in progress.
/// Nothing depends on its exit.
const DAEMON_GRACE: Millis = Millis(5000);

#[derive(Debug, Default)]
pub(crate) enum ShutdownPhase {
    #[default]
    No,
    /// Services are stopping; then the daemon exits.
    Stopping,
    /// The daemon is exiting; then we exit or execute another program.
    Leaving {
        kill_at: Mono,
        then: AfterShutdown,
    },
    Done,
}

#[derive(Debug, Clone)]
pub(crate) enum AfterShutdown {
    End,
    Become(String),
}

impl ShutdownPhase {
    pub(crate) fn is_under_way(&self) -> bool {
        !matches!(self, ShutdownPhase::No)
    }

    pub(crate) fn deadline(&self) -> Option<Mono> {
        match self {
            ShutdownPhase::Leaving { kill_at, .. } => Some(*kill_at),
            ShutdownPhase::No | ShutdownPhase::Stopping | ShutdownPhase::Done => None,
        }
    }
}

impl Keeper {
    /// Starts an orderly shutdown. A second request changes nothing.
    pub(crate) fn shut_down(&mut self) {
        if self.ending.is_under_way() {
            return;
        }
        self.ending = ShutdownPhase::Stopping;
        self.retire_guard();
        failpoint::moment(Point::EndStopping);
        for slot in self
            .services
            .slots_where(|service| service.policies.stop.on_shutdown == OnShutdown::Stop)
        {
            self.handle(slot, Event::SetWish(Wish::Down));
        }
    }

    /// Checks that this program can replace us.
    pub(crate) fn can_become(&self, binary: &str) -> Result<(), Refusal> {
        if self.ending.is_under_way() {
            return Err(Refusal::ShuttingDown);
        }
        if !Path::new(binary).is_absolute() || !Path::new(binary).is_file() {
            return Err(Refusal::Failed(format!("{binary} is not the absolute path of a program")));
        }
        Ok(())
    }

    /// Starts the replacement. Services notice nothing.
    pub(crate) fn upgrade(&mut self, binary: String) {
        self.leave(AfterShutdown::Become(binary));
        failpoint::moment(Point::UpgradeAsked);
    }

    fn leave(&mut self, then: AfterShutdown) {
        let for_good = matches!(then, AfterShutdown::End);
        self.daemon.retire();
        self.daemon.send(&FromKeeper::Ending { for_good });
        self.ending =
            ShutdownPhase::Leaving { kill_at: clock::now().mono.plus(DAEMON_GRACE), then };
    }

    /// Takes the next step if it is due.
    pub(crate) fn go_on_ending(&mut self, now: Mono) {
        match &self.ending {
            ShutdownPhase::Stopping => {
                let busy = self.services.iter().any(|(_, service)| {
                    let stops = service.policies.stop.on_shutdown == OnShutdown::Stop;
                    stops && (service.machine.run().is_some() || service.quiet_until.is_some())
                });
                if !busy {
                    self.leave(AfterShutdown::End);
                }
            }
            ShutdownPhase::Leaving { then, .. } if !self.daemon.is_alive() => {
                let then = then.clone();
                self.daemon_has_left(then);
            }
            ShutdownPhase::Leaving { kill_at, then } if *kill_at <= now => {
                let (kill_at, then) = (now.plus(DAEMON_GRACE), then.clone());
                self.daemon.signal(signal::SIGKILL);
                self.ending = ShutdownPhase::Leaving { kill_at, then };
            }
            ShutdownPhase::No | ShutdownPhase::Leaving { .. } | ShutdownPhase::Done => {}
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.ending, ShutdownPhase::Done)
    }

    fn daemon_has_left(&mut self, then: AfterShutdown) {
        match then {
            AfterShutdown::End => {
                self.pump.stop();
                failpoint::moment(Point::EndClean);
                self.clean_up();
                failpoint::moment(Point::EndDone);
                self.ending = ShutdownPhase::Done;
            }
            AfterShutdown::Become(binary) => self.become_program(&binary),
        }
    }

    /// Deletes the files of stopped services; services left running stay on record for the next
    /// keeper.
    fn clean_up(&mut self) {
        for slot in self.services.slots_where(|service| service.machine.run().is_none()) {
            let Some(service) = self.services.remove(slot) else { continue };
            Folder::of(&self.home, &service.name).remove();
            if let Some(hierarchy) = &self.hierarchy {
                cgroup::remove(&hierarchy.group(service.name.as_str()));
            }
        }
        if let Some(hierarchy) = &self.hierarchy {
            hierarchy.remove();
        }
        let _ = small_file::remove(&self.home.socket());
        self.end_guard();
        let _ = small_file::remove(&self.home.guard_socket());
        if let Some(lock) = &mut self.state_lock {
            KeeperNote::end(lock.file(), &self.home);
        }
    }

    /// Executes the new program; if that fails, continues as before.
    fn become_program(&mut self, binary: &str) {
        let _held_for_it = self.hold_pipes();
        self.pump.stop();
        failpoint::moment(Point::UpgradeStopped);
        // Runs that the pump has drained need no work by the next keeper.
        self.on_drained();
        for slot in self.services.slots_where(|_| true) {
            self.store_state(slot);
        }
        failpoint::moment(Point::UpgradeStored);
        let lock = self.lock.file().as_raw_fd().to_string();
        let listener = self.listener.as_raw_fd().to_string();
        let passed = failpoint::step(Point::UpgradePass)
            .and_then(|()| inherited_fds::set_inherited(&self.listener, true))
            .and_then(|()| inherited_fds::set_inherited(self.lock.file(), true));
        inherited_fds::restore_open_files(self.open_files);
        let error = match passed.and_then(|()| failpoint::step(Point::UpgradeExec)) {
            Err(error) => error,
            Ok(()) => Command::new(binary)
                .arg0(self.keeper_command.first().map_or(binary, String::as_str))
                .args(self.keeper_command.iter().skip(1))
                .args(["--lock-fd", &lock, "--listener-fd", &listener])
                .exec(),
        };
        log!("cannot execute {binary}: {error}; continuing as before");
        inherited_fds::raise_open_files();
        let _ = inherited_fds::set_inherited(&self.listener, false);
        let _ = inherited_fds::set_inherited(self.lock.file(), false);
        self.ending = ShutdownPhase::No;
        match Pump::start() {
            Ok(pump) => self.replace_pump(pump),
            Err(error) => log!("cannot start the log thread again: {error}"),
        }
        self.start_daemon();
    }
}
