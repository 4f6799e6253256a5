//! The keeper's other child: the daemon, its socket, and starting it again when it dies.
//!
//! The keeper never waits for the daemon. State goes out when there is room, whole and newest, so a daemon that hangs
//! costs one buffer.

use crate::keeper::{Keeper, Token};
use crate::log;
use proctor_core::lifecycle::Exit;
use proctor_core::time::{Millis, Mono};
use proctor_core::wire::{self, FromKeeper, PROTOCOL, ToKeeper};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::poll::{Interest, Ready};
use proctor_sys::spawn::{self, Environment, Plan, Spawned, Strings};
use proctor_sys::{clock, process, signal, socket};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Waits before a daemon that died is started again: the first at once, then doubling up to the last.
const FIRST_WAIT: Millis = Millis(50);
const LONGEST_WAIT: Millis = Millis(5000);

/// A daemon that lived this long was well: the waits begin anew.
const WELL_AFTER: Millis = Millis(10_000);

/// Read in one go: most messages fit, and a large one is put together from several.
const READ: usize = 4 << 10;

/// Runs to be made before we look at what else has happened.
const STARTS: u32 = 32;

/// State is added to the outgoing buffer only while it is smaller than this.
const ENOUGH: usize = 256 << 10;

pub(crate) struct Daemon {
    command: Vec<String>,
    alive: Option<Alive>,
    start_at: Option<Mono>,
    failures: u32,
    ready: Option<OwnedFd>,
}

struct Alive {
    pid: u32,
    since: Mono,
    socket: OwnedFd,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// It said hello and got its snapshot.
    greeted: bool,
    /// The poller also waits for room to write.
    wants_room: bool,
}

impl Daemon {
    pub(crate) fn new(command: Vec<String>, ready: Option<OwnedFd>) -> Daemon {
        Daemon { command, alive: None, start_at: None, failures: 0, ready }
    }

    pub(crate) fn is(&self, pid: u32) -> bool {
        self.alive.as_ref().is_some_and(|alive| alive.pid == pid)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.is_some()
    }

    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.start_at
    }

    /// Do not start it again.
    pub(crate) fn retire(&mut self) {
        self.start_at = None;
    }

    pub(crate) fn signal(&self, signal: i32) {
        if let Some(alive) = &self.alive {
            let _ = process::signal_child(alive.pid, signal);
        }
    }

    pub(crate) fn send(&mut self, message: &FromKeeper) {
        let Some(alive) = self.alive.as_mut().filter(|alive| alive.greeted) else { return };
        if let Err(error) = wire::encode(message, &mut alive.outgoing) {
            log!("cannot tell the daemon: {error}");
        }
    }

    /// Give back the room that much talk took.
    pub(crate) fn shrink(&mut self) {
        if let Some(alive) = &mut self.alive {
            alive.incoming.shrink_to_fit();
            alive.outgoing.shrink_to_fit();
        }
    }

    fn schedule(&mut self, now: Mono) {
        let doubled = FIRST_WAIT.0.saturating_mul(1 << self.failures.min(16));
        let wait =
            if self.failures == 0 { Millis::ZERO } else { Millis(doubled.min(LONGEST_WAIT.0)) };
        self.failures = self.failures.saturating_add(1);
        self.start_at = Some(now.plus(wait));
    }
}

impl Keeper {
    pub(crate) fn start_daemon(&mut self) {
        self.daemon.start_at = None;
        if let Err(error) = self.try_start_daemon() {
            log!("cannot start the daemon: {error}");
            self.daemon.schedule(clock::now().mono);
        }
    }

    fn try_start_daemon(&mut self) -> Result<(), String> {
        failpoint::step(Point::DaemonSpawn).map_err(|error| error.to_string())?;
        let (ours, theirs) = socket::pair().map_err(|error| error.to_string())?;
        let passed = [theirs.as_fd(), self.listener.as_fd()];
        let spawned = self.spawn_own(&self.daemon.command, &passed)?;
        self.poller
            .add(ours.as_fd(), Token::Daemon.encode(), Interest::Read)
            .map_err(|error| error.to_string())?;
        self.daemon.alive = Some(Alive {
            pid: spawned.pid,
            since: clock::now().mono,
            socket: ours,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            greeted: false,
            wants_room: false,
        });
        Ok(())
    }

    /// Start a process of our own program, with our own environment; these descriptors are at 3 and above in it.
    pub(crate) fn spawn_own(
        &self,
        argv: &[String],
        passed: &[BorrowedFd<'_>],
    ) -> Result<Spawned, String> {
        let own_environment: Vec<String> = std::env::vars_os()
            .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value.to_str()?)))
            .collect();
        let spawned = spawn::spawn(&Plan {
            program: Some(&self.program),
            argv,
            environment: Environment {
                shared: &Strings::default(),
                hidden: &[],
                own: &own_environment,
            },
            working_dir: "/",
            credentials: None,
            umask: None,
            // It may become or start a keeper, whose services get the limits that it has.
            limits: &self.limits_for(&[]),
            nice: None,
            oom_score_adj: None,
            stdio: [self.null.as_raw_fd(), 2, 2],
            is_terminal: false,
            passed,
            record: None,
            cgroup: None,
            boot: self.boot,
        });
        spawned.map_err(|failure| {
            format!("cannot {} {}: errno {}", failure.step, failure.subject, failure.errno)
        })
    }

    pub(crate) fn daemon_ended(&mut self, exit: &Exit) {
        let now = clock::now().mono;
        let Some(alive) = self.daemon.alive.take() else { return };
        self.poller.remove(alive.socket.as_fd());
        if now.since(alive.since) >= WELL_AFTER {
            self.daemon.failures = 0;
        }
        if self.ending.is_under_way() {
            return;
        }
        log!("the daemon (pid {}) ended: {exit:?}; starting it again", alive.pid);
        self.daemon.schedule(now);
    }

    pub(crate) fn daemon_due(&mut self, now: Mono) {
        if self.daemon.start_at.is_some_and(|at| at <= now) && !self.ending.is_under_way() {
            self.start_daemon();
        }
    }

    pub(crate) fn on_daemon(&mut self, event: Ready) {
        if event.readable && !self.read_from_daemon() {
            // It closed its end: whatever it is now, it is of no use.
            self.daemon.signal(signal::SIGKILL);
            if let Some(alive) = &self.daemon.alive {
                self.poller.remove(alive.socket.as_fd());
            }
        }
        if event.writable {
            self.write_to_daemon();
        }
    }

    /// Take in what has arrived; false if the daemon has hung up or talks nonsense. Who asks for a thousand starts must not
    /// keep us from hearing what became of the first: the rest waits for the next round.
    fn read_from_daemon(&mut self) -> bool {
        let mut buffer = [0; READ];
        let started_before = self.rest.starts;
        while self.rest.starts.saturating_sub(started_before) < STARTS {
            let Some(alive) = self.daemon.alive.as_mut() else { return true };
            match rustix::io::read(&alive.socket, &mut buffer) {
                Ok(0) => return false,
                Ok(length) => alive.incoming.extend_from_slice(&buffer[..length]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
            if !self.obey_daemon() {
                return false;
            }
        }
        true
    }

    fn obey_daemon(&mut self) -> bool {
        loop {
            let Some(alive) = self.daemon.alive.as_mut() else { return true };
            match wire::decode::<ToKeeper>(&mut alive.incoming) {
                Ok(None) => return true,
                Ok(Some(ToKeeper::Hello { protocol, .. })) if protocol != PROTOCOL => {
                    log!("the daemon speaks protocol {protocol}, not {PROTOCOL}: replacing it");
                    return false;
                }
                Ok(Some(ToKeeper::Hello { .. })) => self.greet(),
                Ok(Some(message)) => self.on_message(message),
                Err(error) => {
                    log!("the daemon's message was not understood ({error}): replacing it");
                    return false;
                }
            }
        }
    }

    /// Tell a new daemon everything.
    fn greet(&mut self) {
        let hello = FromKeeper::Hello {
            protocol: PROTOCOL,
            pid: std::process::id(),
            started: self.started,
            tracking: self.tracking(),
            services: u32::try_from(self.services.count()).unwrap_or(u32::MAX),
        };
        if let Some(alive) = self.daemon.alive.as_mut() {
            alive.greeted = true;
        }
        self.daemon.send(&hello);
        self.services.tell_all(|service| {
            self.daemon.send(&FromKeeper::State(Box::new(service.state())));
        });
        self.daemon.send(&FromKeeper::SnapshotEnd);
        // Whoever started us waits for this; a pipe that only closes is one of a keeper that has died.
        if let Some(ready) = self.daemon.ready.take() {
            let _ = rustix::io::write(&ready, b"\n");
        }
    }

    /// Tell the daemon what has changed, as far as it can take it.
    pub(crate) fn publish(&mut self) {
        self.stage_states();
        self.write_to_daemon();
    }

    /// Put changed states into the outgoing buffer, while there is room.
    pub(crate) fn stage_states(&mut self) {
        let greeted = |alive: &&mut Alive| alive.greeted && alive.outgoing.len() < ENOUGH;
        let Some(alive) = self.daemon.alive.as_mut().filter(greeted) else { return };
        self.services.tell_changes(|service| {
            let state = FromKeeper::State(Box::new(service.state()));
            if let Err(error) = wire::encode(&state, &mut alive.outgoing) {
                log!("cannot tell the daemon of {}: {error}", service.name);
            }
            alive.outgoing.len() < ENOUGH
        });
    }

    fn write_to_daemon(&mut self) {
        let Some(alive) = self.daemon.alive.as_mut() else { return };
        while !alive.outgoing.is_empty() {
            match rustix::net::send(
                &alive.socket,
                &alive.outgoing,
                rustix::net::SendFlags::NOSIGNAL,
            ) {
                Ok(length) => drop(alive.outgoing.drain(..length)),
                Err(Errno::INTR) => {}
                // Anything but "no room" shows as a hang-up on the reading side.
                Err(_) => break,
            }
        }
        let wants_room = !alive.outgoing.is_empty();
        if wants_room != alive.wants_room {
            alive.wants_room = wants_room;
            let interest = if wants_room { Interest::ReadWrite } else { Interest::Read };
            let _ = self.poller.change(alive.socket.as_fd(), Token::Daemon.encode(), interest);
        }
    }
}
