//! The keeper's side of the guard: finds it, starts it, and sends it the runs to hold.
//!
//! The keeper waits for it only briefly, when it starts and when it ends. A message that cannot be
//! sent is remembered by its run and sent later, with newly opened descriptors.

use super::{MESSAGE, Message};
use crate::keeper::{Keeper, PollToken};
use crate::log;
use crate::records::Folder;
use crate::service::MainProcess;
use proctor_core::hash::fnv1a;
use proctor_core::home::Home;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::{Millis, Mono};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::poll::{Interest, Ready};
use proctor_sys::process::Process;
use proctor_sys::{clock, fifo, signal, socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Timeout of a response. A slower guard is stopped or hangs, so another one is started.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Waits before a dead guard is restarted: the first restart is immediate, then the waits double up
/// to the last.
const FIRST_WAIT: Millis = Millis(50);
const MAX_RESTART_DELAY: Millis = Millis(5000);

/// Uptime after which a guard counts as healthy and the waits start over.
const WELL_AFTER: Millis = Millis(10_000);

/// Maximum number of unsent messages; beyond it the guard is replaced. More than all runs of a
/// large machine, less than 2 MiB.
const MAX_BACKLOG: usize = 1 << 16;

pub(crate) struct GuardLink {
    command: Vec<String>,
    connection: Option<Connection>,
    /// The guard of another program version, until ours has everything.
    former: Option<Connection>,
    backlog: VecDeque<Task>,
    start_at: Option<Mono>,
    failures: u32,
}

struct Connection {
    socket: OwnedFd,
    process: Option<Process>,
    since: Mono,
    /// The poller also waits for room to write.
    wants_room: bool,
}

/// A message that is still to be sent.
#[derive(Debug, Clone, Copy)]
enum Task {
    Hold { slot: u32, run: RunId },
    Tell(Message),
}

impl GuardLink {
    pub(crate) fn new(command: Vec<String>) -> GuardLink {
        let backlog = VecDeque::new();
        GuardLink { command, connection: None, former: None, backlog, start_at: None, failures: 0 }
    }

    pub(crate) fn deadline(&self) -> Option<Mono> {
        self.start_at
    }

    fn schedule(&mut self, now: Mono) {
        let doubled = Millis(FIRST_WAIT.0.saturating_mul(1 << self.failures.min(16)));
        let wait = if self.failures == 0 { Millis::ZERO } else { doubled.min(MAX_RESTART_DELAY) };
        self.failures = self.failures.saturating_add(1);
        self.start_at = Some(now.plus(wait));
    }

    /// Sends now or not at all; returns false behind a backlog, which nothing may overtake.
    fn send(&self, message: Message, fds: &[BorrowedFd<'_>]) -> bool {
        let Some(connection) = &self.connection else { return false };
        // A dead guard shows as a hang-up on the reading side.
        socket::send_packet(&connection.socket, &message.encode(), fds).unwrap_or(false)
    }

    /// Remembers a task. Without a guard nothing is remembered, because a new guard receives
    /// everything.
    fn later(&mut self, task: Task) {
        if self.connection.is_some() {
            self.backlog.push_back(task);
        }
    }

    /// Sends a message after the backlog.
    fn tell(&mut self, message: Message) {
        if !self.backlog.is_empty() || !self.send(message, &[]) {
            self.later(Task::Tell(message));
        }
    }
}

impl Connection {
    fn new(socket: OwnedFd, pid: u32) -> Connection {
        let since = clock::now().mono;
        Connection { socket, process: Process::open(pid), since, wants_room: false }
    }

    /// Connects to the guard of an earlier keeper and receives the pidfds it holds.
    fn find(home: &Home) -> Option<(Connection, Vec<OwnedFd>)> {
        let socket = socket::connect_for_packets(&home.guard_socket()).ok()?;
        let (user, pid) = socket::peer(&socket).ok()?;
        if user != rustix::process::geteuid().as_raw() {
            log!("process {pid} listens at {} as another user", home.guard_socket().display());
            return None;
        }
        let connection = Connection::new(socket, pid);
        let held = connection.ask();
        if held.is_none() {
            log!("the guard (pid {pid}) does not answer: replacing it");
            connection.kill();
        }
        Some((connection, held?))
    }

    fn ask(&self) -> Option<Vec<OwnedFd>> {
        let give_up = Instant::now() + ANSWER_TIMEOUT;
        socket::send_packet(&self.socket, &Message::Hello.encode(), &[]).ok()?.then_some(())?;
        let (mut held, mut bytes) = (Vec::new(), [0; MESSAGE]);
        while self.wait(give_up) {
            let (length, fds) = socket::receive_packet(&self.socket, &mut bytes).ok()?;
            held.extend(fds);
            if length == 0 {
                return None;
            }
            if Message::decode(&bytes[..length]) == Some(Message::HeldAll) {
                return Some(held);
            }
        }
        None
    }

    /// Waits for a message or a hang-up; returns false at the timeout.
    fn wait(&self, give_up: Instant) -> bool {
        let left = give_up.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&left)), Ok(1))
    }

    /// Ends the guard and waits for its exit: otherwise it could start an unwanted keeper.
    fn end(&self) {
        let sent = socket::send_packet(&self.socket, &Message::End.encode(), &[]).unwrap_or(false);
        if !sent || !self.wait(Instant::now() + ANSWER_TIMEOUT) {
            self.kill();
        }
    }

    fn has_hung_up(&self) -> bool {
        match socket::receive_packet(&self.socket, &mut [0; MESSAGE]) {
            Ok((length, _)) => length == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        }
    }

    fn kill(&self) {
        if let Some(process) = &self.process {
            let _ = process.signal(signal::SIGKILL);
        }
    }

    /// Whether the guard runs the same program as we do. After an upgrade it does not, and would
    /// start the old one.
    fn is_of_this_program(&self) -> bool {
        let program = |pid: &str| {
            let metadata = std::fs::metadata(format!("/proc/{pid}/exe")).ok()?;
            Some((metadata.dev(), metadata.ino()))
        };
        let theirs = self.process.as_ref().and_then(|it| program(&it.pid().to_string()));
        theirs.is_some() && theirs == program("self")
    }
}

impl Keeper {
    /// Takes over the guard of the previous keeper, and the pidfds it holds.
    pub(crate) fn find_guard(&mut self) {
        let Some((connection, held)) = Connection::find(&self.home) else { return };
        self.witnesses.extend(held);
        if connection.is_of_this_program() {
            self.watch_guard(connection);
        } else {
            self.guard.former = Some(connection);
        }
    }

    /// The takeover is complete, so the guard may release the rest. Starts a guard if there is
    /// none.
    pub(crate) fn settle_guard(&mut self) {
        match self.guard.connection {
            Some(_) => self.guard.tell(Message::Settled),
            None => self.start_guard(),
        }
    }

    fn start_guard(&mut self) {
        self.guard.start_at = None;
        match self.try_start_guard() {
            Ok(connection) => self.watch_guard(connection),
            Err(error) => {
                log!("cannot start the guard: {error}");
                return self.guard.schedule(clock::now().mono);
            }
        }
        self.guard.backlog.clear();
        for slot in self.services.slots_where(|_| true) {
            let Some(service) = self.services.get(slot) else { continue };
            let runs = Folder::of(&self.home, &service.name).runs();
            self.guard.backlog.extend(runs.into_iter().map(|run| Task::Hold { slot, run }));
        }
        self.guard.backlog.push_back(Task::Tell(Message::Settled));
        self.catch_up_with_guard();
    }

    fn try_start_guard(&self) -> Result<Connection, String> {
        failpoint::step(Point::GuardSpawn).map_err(|error| error.to_string())?;
        let (ours, theirs) = socket::chute().map_err(|error| error.to_string())?;
        let spawned = self.spawn_own(&self.guard.command, &[theirs.as_fd()])?;
        Ok(Connection::new(ours, spawned.pid))
    }

    fn watch_guard(&mut self, connection: Connection) {
        let token = PollToken::Guard.encode();
        if let Err(error) = self.poller.add(connection.socket.as_fd(), token, Interest::Read) {
            log!("cannot watch the guard: {error}");
        }
        self.guard.connection = Some(connection);
    }

    pub(crate) fn guard_due(&mut self, now: Mono) {
        if self.guard.start_at.is_some_and(|at| at <= now) && !self.ending.is_under_way() {
            self.start_guard();
        }
    }

    pub(crate) fn on_guard(&mut self, event: Ready) {
        let Some(connection) = &self.guard.connection else { return };
        // The guard sends nothing unprompted: a readable socket means that it ended.
        if event.readable && connection.has_hung_up() {
            self.replace_guard();
        }
    }

    /// Replaces a guard that is dead or useless.
    pub(crate) fn replace_guard(&mut self) {
        let Some(connection) = self.guard.connection.take() else { return };
        self.poller.remove(connection.socket.as_fd());
        connection.kill();
        self.guard.backlog.clear();
        if !self.ending.is_under_way() {
            log!("the guard is gone; starting it again");
        }
        let now = clock::now().mono;
        if now.since(connection.since) >= WELL_AFTER {
            self.guard.failures = 0;
        }
        self.guard.schedule(now);
    }

    /// Sends the backlog as far as there is room. Called in every round.
    pub(crate) fn catch_up_with_guard(&mut self) {
        let is_waiting = |connection: &Connection| connection.wants_room;
        if self.guard.backlog.is_empty() && !self.guard.connection.as_ref().is_some_and(is_waiting)
        {
            return;
        }
        if self.guard.backlog.len() > MAX_BACKLOG {
            return self.replace_guard();
        }
        while let Some(task) = self.guard.backlog.front().copied() {
            let sent = match task {
                Task::Hold { slot, run } => self.send_run(slot, run),
                Task::Tell(message) => self.guard.send(message, &[]),
            };
            if !sent {
                break;
            }
            self.guard.backlog.pop_front();
        }
        if self.guard.backlog.is_empty() {
            self.guard.backlog = VecDeque::new();
            // Our guard now holds everything, or it is in flight.
            self.guard.former.take().inspect(Connection::end);
        }
        let wants_room = !self.guard.backlog.is_empty();
        let Some(connection) = &mut self.guard.connection else { return };
        if wants_room != connection.wants_room {
            connection.wants_room = wants_room;
            let interest = if wants_room { Interest::ReadWrite } else { Interest::Read };
            let _ =
                self.poller.change(connection.socket.as_fd(), PollToken::Guard.encode(), interest);
        }
    }

    /// Sends both pipes of a run and its pidfd, as far as they still exist.
    fn send_run(&self, slot: u32, run: RunId) -> bool {
        let Some(service) = self.services.get(slot) else { return true };
        let paths = Folder::of(&self.home, &service.name).fifos(run);
        let pipes: Vec<OwnedFd> = paths.iter().filter_map(|path| fifo::open(path).ok()).collect();
        let pipes: Vec<BorrowedFd<'_>> = pipes.iter().map(AsFd::as_fd).collect();
        let key = self.guard_key(&service.name, run);
        (pipes.is_empty() || self.guard.send(Message::Pipes(key), &pipes))
            && self.send_process(slot, run)
    }

    fn send_process(&self, slot: u32, run: RunId) -> bool {
        let Some(service) = self.services.get(slot) else { return true };
        let Some(current) = service.run.as_ref().filter(|current| current.id == run) else {
            return true;
        };
        let process = match &current.main {
            MainProcess::Child => Process::open(current.pid),
            MainProcess::Adopted(process) => process.try_clone().ok(),
            MainProcess::Gone { .. } => None,
        };
        let message = Message::Process(self.guard_key(&service.name, run));
        process.is_none_or(|process| self.guard.send(message, &[process.as_fd()]))
    }

    /// Lets the guard hold a run's pipes. For a new run this happens before the process exists, so
    /// its output is always held.
    pub(crate) fn guard_pipes(
        &mut self,
        slot: u32,
        name: &ServiceName,
        run: RunId,
        pipes: &[BorrowedFd<'_>],
    ) {
        let message = Message::Pipes(self.guard_key(name, run));
        if !self.guard.backlog.is_empty() || !self.guard.send(message, pipes) {
            self.guard.later(Task::Hold { slot, run });
        }
        failpoint::moment(Point::GuardPipes);
    }

    pub(crate) fn guard_process(&mut self, slot: u32, run: RunId) {
        if !self.guard.backlog.is_empty() || !self.send_process(slot, run) {
            self.guard.later(Task::Hold { slot, run });
        }
    }

    /// All output of the run is stored.
    pub(crate) fn release_from_guard(&mut self, name: &ServiceName, run: RunId) {
        let key = self.guard_key(name, run);
        self.guard.tell(Message::Release(key));
    }

    /// An orderly shutdown starts: if we are killed during it, the guard must not start a keeper.
    pub(crate) fn retire_guard(&mut self) {
        self.guard.tell(Message::Retire);
    }

    pub(crate) fn end_guard(&mut self) {
        let connections = [self.guard.connection.take(), self.guard.former.take()];
        connections.into_iter().flatten().for_each(|connection| connection.end());
    }

    /// A key for a run that every keeper of this home computes alike.
    fn guard_key(&self, name: &ServiceName, run: RunId) -> u64 {
        fnv1a(self.mark_value(name.as_str(), run).as_bytes())
    }
}
