//! The daemon as the keeper's child: its socket, and its restart when it dies.
//!
//! The keeper never waits for the daemon. It sends state when there is room, always whole and
//! newest, so a hanging daemon costs one buffer.

use crate::keeper::{Keeper, PollToken};
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

/// Waits before a dead daemon is restarted: the first restart is immediate, then the waits double
/// up to the last.
const FIRST_WAIT: Millis = Millis(50);
const MAX_RESTART_DELAY: Millis = Millis(5000);

/// Uptime after which a daemon counts as healthy and the waits start over.
const WELL_AFTER: Millis = Millis(10_000);

/// Bytes per read: most messages fit, and a large one is assembled from several.
const READ: usize = 4 << 10;

/// Maximum number of runs to start before other events are handled.
const STARTS: u32 = 32;

/// State is added to the outgoing buffer only while the buffer is smaller than this.
const MAX_QUEUED_BYTES: usize = 256 << 10;

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
    /// The daemon said hello and received its snapshot.
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

    /// Prevents further restarts of the daemon.
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
            log!("cannot send to the daemon: {error}");
        }
    }

    /// Frees the memory of large buffers.
    pub(crate) fn shrink(&mut self) {
        if let Some(alive) = &mut self.alive {
            alive.incoming.shrink_to_fit();
            alive.outgoing.shrink_to_fit();
        }
    }

    fn schedule(&mut self, now: Mono) {
        let doubled = FIRST_WAIT.0.saturating_mul(1 << self.failures.min(16));
        let wait = if self.failures == 0 {
            Millis::ZERO
        } else {
            Millis(doubled.min(MAX_RESTART_DELAY.0))
        };
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
            .add(ours.as_fd(), PollToken::Daemon.encode(), Interest::Read)
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

    /// Starts a process of our own program with our own environment; it gets these descriptors at 3
    /// and above.
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
            // The process may become or start a keeper, whose services inherit its limits.
            limits: &self.limits_for(&[]),
            nice: None,
            oom_score_adj: None,
            stdio: [self.null.as_raw_fd(), 2, 2],
            is_terminal: false,
            passed,
            record: None,
            cgroup: None,
            tag: None,
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
            // It closed its end, so it is useless now.
            self.daemon.signal(signal::SIGKILL);
            if let Some(alive) = &self.daemon.alive {
                self.poller.remove(alive.socket.as_fd());
            }
        }
        if event.writable {
            self.write_to_daemon();
        }
    }

    /// Handles received messages; returns false if the daemon hung up or sent an invalid message.
    /// Limits the starts per round: after a request for a thousand starts, the results of the first
    /// ones are handled before the rest.
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
                    log!("invalid message from the daemon ({error}): replacing it");
                    return false;
                }
            }
        }
    }

    /// Sends everything to a new daemon.
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
        // The process that started us waits for this line. A pipe that closes without it means that
        // the keeper died.
        if let Some(ready) = self.daemon.ready.take() {
            let _ = rustix::io::write(&ready, b"\n");
        }
    }

    /// Sends changed states to the daemon, as far as there is room.
    pub(crate) fn publish(&mut self) {
        self.stage_states();
        self.write_to_daemon();
    }

    /// Adds changed states to the outgoing buffer while there is room.
    pub(crate) fn stage_states(&mut self) {
        let greeted = |alive: &&mut Alive| alive.greeted && alive.outgoing.len() < MAX_QUEUED_BYTES;
        let Some(alive) = self.daemon.alive.as_mut().filter(greeted) else { return };
        self.services.tell_changes(|service| {
            let state = FromKeeper::State(Box::new(service.state()));
            if let Err(error) = wire::encode(&state, &mut alive.outgoing) {
                log!("cannot send the state of {} to the daemon: {error}", service.name);
            }
            alive.outgoing.len() < MAX_QUEUED_BYTES
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
                // Any other error shows as a hang-up on the reading side.
                Err(_) => break,
            }
        }
        let wants_room = !alive.outgoing.is_empty();
        if wants_room != alive.wants_room {
            alive.wants_room = wants_room;
            let interest = if wants_room { Interest::ReadWrite } else { Interest::Read };
            let _ = self.poller.change(alive.socket.as_fd(), PollToken::Daemon.encode(), interest);
        }
    }
}
