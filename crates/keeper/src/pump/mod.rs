//! The log pump: one thread that moves output from pipes to files, so that supervision never waits for a disk.
//!
//! It owns our ends of the FIFOs and the open segments, in a table of descriptors of its own: with thousands of them in the
//! keeper's table, each new service would inherit and close them all. The keeper tells it which runs begin and end; it tells
//! the keeper when everything a run wrote is stored. Bytes move by `splice(2)` and are never in our memory.

mod segments;
#[cfg(test)]
mod tests;
mod writer;

use crate::log;
use proctor_core::lifecycle::Exit;
use proctor_core::logindex::{ExitMark, Mark, Stream};
use proctor_core::name::RunId;
use proctor_core::spec::LogSpec;
use proctor_core::time::{Millis, Mono};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::fifo::{self, Moved};
use proctor_sys::poll::{Bell, Interest, Poller, Ready};
use proctor_sys::{clock, inherit, socket};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use writer::{Stored, Writer};

/// Moves of one pipe before the next has its turn: a spamming service cannot starve the others.
const TURN: u32 = 4;

/// Most bytes of one move; the capacity of a pipe.
const MOVE: usize = fifo::CAPACITY;

/// How long to wait before a pipe whose log could not be written is tried again.
const RETRY: Millis = Millis(500);

const BELL: u64 = u64::MAX;

/// What the keeper asks of the pump. `slot` is the keeper's number of a service.
pub(crate) enum Command {
    /// A run's pipes. `fresh`: it is just being made, so its start is not marked yet.
    Begin {
        slot: u32,
        folder: PathBuf,
        spec: LogSpec,
        run: RunId,
        pipes: Pipes,
        fresh: bool,
    },
    /// The run is over: store what is left, mark the exit, close the pipes, answer.
    End {
        slot: u32,
        run: RunId,
        exit: Exit,
    },
    Configure {
        slot: u32,
        spec: LogSpec,
    },
    Forget {
        slot: u32,
    },
    /// Store what waits and end the thread.
    Stop,
}

/// Our ends of a run's standard output and standard error, as far as it has them.
pub(crate) enum Pipes {
    Here([Option<OwnedFd>; 2]),
    /// On their way to the other thread's table: these.
    Sent([bool; 2]),
}

/// Everything run `run` of `slot` wrote is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drained {
    pub(crate) slot: u32,
    pub(crate) run: RunId,
}

/// The keeper's handle to the pump.
pub(crate) struct Pump {
    commands: Sender<Command>,
    /// For the descriptors of commands.
    chute: OwnedFd,
    /// Commands whose descriptors there is no room for now, and those behind them.
    outbox: VecDeque<Command>,
    shared: Arc<Shared>,
    drained: Receiver<Drained>,
    thread: Option<JoinHandle<()>>,
}

/// What both threads have, under the same numbers in both tables.
struct Shared {
    /// Rung by the keeper: there are commands.
    wake: Bell,
    /// Rung by the pump: there are answers, or there is room again.
    bell: Bell,
    /// The keeper waits for room.
    wants_room: AtomicBool,
}

impl Pump {
    pub(crate) fn start() -> io::Result<Pump> {
        let (commands, inbox) = channel();
        let (answers, drained) = channel();
        let (chute, theirs) = socket::chute()?;
        let wants_room = AtomicBool::new(false);
        let shared = Arc::new(Shared { wake: Bell::new()?, bell: Bell::new()?, wants_room });
        let (begun, has_begun) = channel();
        let (number, for_worker) = (theirs.as_raw_fd(), Arc::clone(&shared));
        let work = move || {
            let own = own_table(&for_worker, number);
            // The keeper waits for this.
            let _ = begun.send(own);
            let worker = inherit::take(number)
                .ok_or_else(|| io::ErrorKind::NotFound.into())
                .and_then(|chute| Worker::new(inbox, chute, for_worker, answers));
            match worker {
                Ok(worker) => worker.run(),
                Err(error) => log!("the log pump cannot begin: {error}"),
            }
        };
        // Small: the pump keeps nothing on its stack.
        let builder = std::thread::Builder::new().name("logs".into()).stack_size(256 << 10);
        let thread = Some(builder.spawn(work)?);
        if has_begun.recv() == Ok(true) {
            drop(theirs);
        } else {
            // One table: it is the worker's now.
            let _ = theirs.into_raw_fd();
        }
        Ok(Pump { commands, chute, outbox: VecDeque::new(), shared, drained, thread })
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.outbox.push_back(command);
        self.flush();
    }

    /// Send what there is room for.
    fn flush(&mut self) {
        while let Some(command) = self.outbox.pop_front() {
            match self.pass(command) {
                Ok(command) => {
                    // The thread ends only by `Stop`, after which nothing is sent.
                    let _ = self.commands.send(command);
                }
                Err(command) => {
                    self.outbox.push_front(command);
                    self.shared.wants_room.store(true, Ordering::SeqCst);
                    break;
                }
            }
        }
        self.shared.wake.ring();
    }

    /// Send a command's descriptors ahead of it; the command comes back if there is no room.
    fn pass(&self, mut command: Command) -> Result<Command, Command> {
        let Command::Begin { pipes, .. } = &mut command else { return Ok(command) };
        let Pipes::Here(here) = pipes else { return Ok(command) };
        let open: Vec<BorrowedFd<'_>> = here.iter().flatten().map(AsFd::as_fd).collect();
        let sent = open.is_empty()
            || socket::send_descriptors(&self.chute, &open).unwrap_or_else(|error| {
                log!("cannot hand output to the log pump: {error}");
                false
            });
        if !sent {
            return Err(command);
        }
        *pipes = Pipes::Sent(here.each_ref().map(Option::is_some));
        Ok(command)
    }

    /// Something to tell the keeper: what was drained, or that there is room.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.shared.bell.as_fd()
    }

    pub(crate) fn silence(&mut self) {
        self.shared.bell.silence();
        if !self.outbox.is_empty() {
            self.flush();
        }
    }

    pub(crate) fn drained(&self) -> Option<Drained> {
        self.drained.try_recv().ok()
    }

    /// Let the thread finish; what no longer fits waits in the pipes.
    pub(crate) fn stop(&mut self) {
        // What has not been sent waits in the pipes, too.
        self.outbox.clear();
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn own_table(shared: &Shared, chute: RawFd) -> bool {
    let numbers = [&shared.wake, &shared.bell].map(|bell| bell.as_fd().as_raw_fd());
    inherit::own_table(&[numbers[0], numbers[1], chute])
}

/// One end of one stream of one run.
struct Pipe {
    fd: OwnedFd,
    slot: u32,
    stream: Stream,
    run: RunId,
    /// It is in `busy`, where each has one place: more would be more turns than the others get.
    queued: bool,
}

struct Worker {
    inbox: Receiver<Command>,
    chute: OwnedFd,
    shared: Arc<Shared>,
    answers: Sender<Drained>,
    poller: Poller,
    null: File,
    pipes: HashMap<u64, Pipe>,
    next_token: u64,
    writers: HashMap<(u32, Stream), Writer>,
    /// Pipes that may hold more than their last turn took.
    busy: VecDeque<u64>,
    /// Pipes whose log cannot be written now, and when they are tried again.
    stalled: BTreeSet<u64>,
    retry_at: Option<Mono>,
}

impl Worker {
    fn new(
        inbox: Receiver<Command>,
        chute: OwnedFd,
        shared: Arc<Shared>,
        answers: Sender<Drained>,
    ) -> io::Result<Worker> {
        let poller = Poller::new()?;
        poller.add(shared.wake.as_fd(), BELL, Interest::Read)?;
        let null = File::options().write(true).open("/dev/null")?;
        let (pipes, writers) = (HashMap::new(), HashMap::new());
        let (busy, stalled) = (VecDeque::new(), BTreeSet::new());
        Ok(Worker {
            inbox,
            chute,
            shared,
            answers,
            poller,
            null,
            pipes,
            next_token: 0,
            writers,
            busy,
            stalled,
            retry_at: None,
        })
    }

    fn run(mut self) {
        let mut ready: Vec<Ready> = Vec::new();
        loop {
            ready.clear();
            if let Err(error) = self.poller.wait(self.patience(), &mut ready) {
                log!("the log pump cannot wait: {error}");
                return;
            }
            self.see(&ready);
            if ready.iter().any(|r| r.token == BELL) {
                self.shared.wake.silence();
                if !self.obey() {
                    return;
                }
                if self.shared.wants_room.swap(false, Ordering::SeqCst) {
                    self.shared.bell.ring();
                }
            }
            self.take_turns();
        }
    }

    /// How long to wait for something to be ready.
    fn patience(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        let left = |at: Mono| Duration::from_micros(at.0.saturating_sub(clock::now().mono.0));
        self.retry_at.map(left)
    }

    /// Queue the pipes that have something to move, and those whose time to be tried again has come.
    fn see(&mut self, ready: &[Ready]) {
        for token in ready.iter().map(|ready| ready.token).filter(|token| *token != BELL) {
            if !self.stalled.contains(&token) {
                self.queue(token);
            }
        }
        if self.retry_at.is_some_and(|at| at <= clock::now().mono) {
            self.retry_at = None;
            for token in std::mem::take(&mut self.stalled) {
                self.queue(token);
            }
        }
    }

    fn queue(&mut self, token: u64) {
        if let Some(pipe) = self.pipes.get_mut(&token).filter(|pipe| !pipe.queued) {
            pipe.queued = true;
            self.busy.push_back(token);
        }
    }

    /// Carry out waiting commands; false at the end.
    fn obey(&mut self) -> bool {
        while let Ok(command) = self.inbox.try_recv() {
            match command {
                Command::Begin { slot, folder, spec, run, pipes, fresh } => {
                    let pipes = self.received(pipes);
                    self.begin(slot, folder, &spec, run, pipes, fresh);
                }
                Command::End { slot, run, exit } => self.end(slot, run, &exit),
                Command::Configure { slot, spec } => {
                    for stream in Stream::BOTH {
                        if let Some(writer) = self.writers.get_mut(&(slot, stream)) {
                            writer.spec = spec.clone();
                        }
                    }
                }
                Command::Forget { slot } => self.writers.retain(|(owner, _), _| *owner != slot),
                Command::Stop => {
                    self.take_turns();
                    return false;
                }
            }
        }
        true
    }

    /// The descriptors of a command, which were sent before it.
    fn received(&self, pipes: Pipes) -> [Option<OwnedFd>; 2] {
        let sent = match pipes {
            Pipes::Here(pipes) => return pipes,
            Pipes::Sent([false, false]) => return [None, None],
            Pipes::Sent(sent) => sent,
        };
        let received = socket::receive_descriptors(&self.chute).unwrap_or_else(|error| {
            log!("cannot take over output: {error}");
            Vec::new()
        });
        let mut received = received.into_iter();
        sent.map(|sent| if sent { received.next() } else { None })
    }

    fn begin(
        &mut self,
        slot: u32,
        folder: PathBuf,
        spec: &LogSpec,
        run: RunId,
        pipes: [Option<OwnedFd>; 2],
        fresh: bool,
    ) {
        for (stream, fd) in Stream::BOTH.into_iter().zip(pipes) {
            let writer = self
                .writers
                .entry((slot, stream))
                .or_insert_with(|| Writer::new(folder.clone(), stream, spec.clone()));
            if stream == Stream::Stdout && (fresh || !writer.knows(run)) {
                writer.mark(run, Mark::RunStarted);
            }
            let Some(fd) = fd else { continue };
            let token = self.next_token;
            self.next_token += 1;
            if let Err(error) = self.poller.add(fd.as_fd(), token, Interest::ReadEdge) {
                log!("cannot watch the output of {}: {error}", folder.display());
                continue;
            }
            self.pipes.insert(token, Pipe { fd, slot, stream, run, queued: false });
            // A pipe taken over may hold output already; an edge may have passed.
            self.queue(token);
        }
    }

    /// Drain what the run has written, mark its end and let go of its pipes.
    fn end(&mut self, slot: u32, run: RunId, exit: &Exit) {
        let tokens: Vec<u64> = self
            .pipes
            .iter()
            .filter(|(_, p)| p.slot == slot && p.run == run)
            .map(|(token, _)| *token)
            .collect();
        for token in tokens {
            let Some(pipe) = self.pipes.remove(&token) else { continue };
            // What waits now is all there will be; a stray holder of the pipe must not keep us here.
            let waiting = fifo::waiting(&pipe.fd);
            let mut left = waiting;
            while left > 0 {
                match self.store(&pipe) {
                    // Nothing moved means that something old was deleted to make room: that has an end.
                    Stored::Moved(bytes) => left = left.saturating_sub(bytes),
                    Stored::Empty => break,
                    Stored::Stalled | Stored::Full => {
                        self.drop_rest(&pipe, left);
                        break;
                    }
                }
            }
        }
        self.busy.retain(|token| self.pipes.contains_key(token));
        self.stalled.retain(|token| self.pipes.contains_key(token));
        failpoint::moment(Point::LogEnd);
        if let Some(writer) = self.writers.get_mut(&(slot, Stream::Stdout)) {
            writer.mark_exit(run, ExitMark::of(exit));
        }
        failpoint::moment(Point::LogEnded);
        let _ = self.answers.send(Drained { slot, run });
        self.shared.bell.ring();
    }

    /// The run is over and its log cannot be written: what is left is lost, and said to be.
    fn drop_rest(&mut self, pipe: &Pipe, bytes: u64) {
        if let Some(writer) = self.writers.get_mut(&(pipe.slot, pipe.stream)) {
            writer.lost(pipe.run, bytes);
        }
    }

    /// One turn for each pipe that has something to move.
    fn take_turns(&mut self) {
        for _ in 0..self.busy.len() {
            let Some(token) = self.busy.pop_front() else { return };
            let Some(mut pipe) = self.pipes.remove(&token) else { continue };
            let stored = self.turn(&pipe);
            pipe.queued = false;
            self.pipes.insert(token, pipe);
            match stored {
                Stored::Moved(_) => self.queue(token),
                Stored::Empty => {}
                Stored::Stalled | Stored::Full => {
                    self.stalled.insert(token);
                    self.retry_at.get_or_insert_with(|| clock::now().mono.plus(RETRY));
                }
            }
        }
    }

    fn turn(&mut self, pipe: &Pipe) -> Stored {
        for _ in 0..TURN {
            match self.store(pipe) {
                Stored::Moved(_) => {}
                other @ (Stored::Empty | Stored::Stalled | Stored::Full) => return other,
            }
        }
        Stored::Moved(0)
    }

    fn store(&mut self, pipe: &Pipe) -> Stored {
        let Some(writer) = self.writers.get_mut(&(pipe.slot, pipe.stream)) else {
            // Forgotten: nobody will read it.
            return match fifo::discard(&pipe.fd, &self.null, MOVE) {
                Ok(Moved::Bytes(bytes)) => Stored::Moved(bytes),
                Ok(Moved::Empty | Moved::Closed) | Err(_) => Stored::Empty,
            };
        };
        match writer.store(&pipe.fd, pipe.run, MOVE) {
            Stored::Full => self.make_room(pipe),
            stored @ (Stored::Moved(_) | Stored::Empty | Stored::Stalled) => stored,
        }
    }

    /// A full disk: the oldest segments of this service go first, then the configured choice.
    fn make_room(&mut self, pipe: &Pipe) -> Stored {
        let made = Stream::BOTH.into_iter().any(|stream| {
            self.writers.get_mut(&(pipe.slot, stream)).is_some_and(Writer::give_up_oldest)
        });
        match self.writers.get_mut(&(pipe.slot, pipe.stream)) {
            Some(writer) if made => writer.try_again(),
            Some(writer) => writer.overflow(&pipe.fd, &self.null),
            None => Stored::Empty,
        }
    }
}
