//! The log pump: one thread that moves output from pipes to files, so that supervision never waits for a disk.
//!
//! It owns our ends of the FIFOs and the open segments, in a table of descriptors of its own: with thousands of them in the
//! keeper's table, each new service would inherit and close them all. The keeper tells it which runs begin and end; it tells
//! the keeper when everything a run wrote is stored. Bytes move by `splice(2)` and are never in our memory.

mod lane;
mod segments;
#[cfg(test)]
mod tests;
mod worker;
mod writer;

use crate::log;
use proctor_core::lifecycle::Exit;
use proctor_core::name::RunId;
use proctor_core::spec::LogSpec;
use proctor_core::time::Millis;
use proctor_sys::poll::Bell;
use proctor_sys::{fifo, inherit, socket};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use worker::Worker;

/// Moves of one pipe before we look who else has written: a spamming service cannot starve the others.
const TURN: u32 = 4;

/// Most bytes of one move; the capacity of a pipe.
const MOVE: usize = fifo::CAPACITY;

/// How long to wait before a pipe whose log could not be written is tried again.
const RETRY: Millis = Millis(500);

/// How quiet it has to be before the start of services that write nothing is marked, and how many at once: a thousand that
/// start together are to be started first.
const UNMARKED: Duration = Duration::from_millis(5);
const MARKS: u32 = 16;

const BELL: u64 = u64::MAX;

/// What the keeper asks of the pump. `slot` is the keeper's number of a service.
pub(crate) enum Command {
    /// A run's pipes. `fresh`: it is just being made, so its start is not marked yet.
    Begin {
        slot: u32,
        folder: Arc<Path>,
        spec: Arc<LogSpec>,
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
    /// How its log is to be kept. Said before there is a run: what is allocated while processes are made leaves holes in the heap.
    Configure {
        slot: u32,
        folder: Arc<Path>,
        spec: Arc<LogSpec>,
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
    /// Something was sent since the last ring.
    unheard: bool,
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
        let (outbox, unheard) = (VecDeque::new(), false);
        Ok(Pump { commands, chute, outbox, shared, unheard, drained, thread })
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
        self.unheard = true;
    }

    /// Let the pump hear of what was sent. Once a round, when everything else is done: it should not compete with a service
    /// that is just being started.
    pub(crate) fn ring(&mut self) {
        if std::mem::take(&mut self.unheard) {
            self.shared.wake.ring();
        }
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
        self.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn own_table(shared: &Shared, chute: RawFd) -> bool {
    let numbers = [&shared.wake, &shared.bell].map(|bell| bell.as_fd().as_raw_fd());
    inherit::own_table(&[numbers[0], numbers[1], chute])
}
