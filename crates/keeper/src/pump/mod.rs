//! The log pump: threads that move output from pipes to files, so that supervision never waits for a disk.
//!
//! Each has a share of the services, whose FIFOs (our ends) and open segments it owns in a table of descriptors of its own: with
//! thousands of them in the keeper's table, each new service would inherit and close them all. The keeper tells it which runs begin
//! and end; it tells the keeper when everything a run wrote is stored. Bytes move by `splice(2)` and are never in our memory.

mod lane;
mod segments;
#[cfg(test)]
mod tests;
mod thread;
mod worker;
mod writer;

use crate::log;
use crate::named::NamedFolder;
use proctor_core::lifecycle::Exit;
use proctor_core::name::RunId;
use proctor_core::spec::LogSpec;
use proctor_core::time::Millis;
use proctor_sys::fifo;
use proctor_sys::poll::Bell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use thread::Thread;

/// Where many services write, one thread is what all of them wait for, and a core is idle. Two are as many as there are
/// cores on a small machine; the second is there when there is a second service.
const MOST_THREADS: usize = 2;

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
        folder: NamedFolder,
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
        folder: NamedFolder,
        spec: Arc<LogSpec>,
    },
    Forget {
        slot: u32,
    },
}

impl Command {
    fn slot(&self) -> u32 {
        match self {
            Command::Begin { slot, .. }
            | Command::End { slot, .. }
            | Command::Configure { slot, .. }
            | Command::Forget { slot } => *slot,
        }
    }
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
    /// A service stays with one of them.
    threads: Vec<Thread>,
    /// More threads cannot be had.
    no_more: bool,
    /// Rung by the threads: there are answers, or there is room again. It has the same number in all their tables.
    bell: Arc<Bell>,
    answers: Sender<Drained>,
    drained: Receiver<Drained>,
}

impl Pump {
    pub(crate) fn start() -> io::Result<Pump> {
        let (answers, drained) = channel();
        let bell = Arc::new(Bell::new()?);
        let threads = vec![Thread::start(&bell, answers.clone())?];
        Ok(Pump { threads, no_more: false, bell, answers, drained })
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.thread_of(command.slot()).send(command);
    }

    fn thread_of(&mut self, slot: u32) -> &mut Thread {
        let wanted = slot as usize % MOST_THREADS;
        while self.threads.len() <= wanted && !self.no_more {
            match Thread::start(&self.bell, self.answers.clone()) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    log!("the log pump has {} thread: {error}", self.threads.len());
                    self.no_more = true;
                }
            }
        }
        let there = self.threads.len();
        &mut self.threads[wanted % there]
    }

    /// Let the pump hear of what was sent. Once a round, when everything else is done: it should not compete with a service
    /// that is just being started.
    pub(crate) fn ring(&mut self) {
        self.threads.iter_mut().for_each(Thread::ring);
    }

    /// Something to tell the keeper: what was drained, or that there is room.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    pub(crate) fn silence(&mut self) {
        self.bell.silence();
        self.threads.iter_mut().for_each(Thread::send_rest);
    }

    pub(crate) fn drained(&self) -> Option<Drained> {
        self.drained.try_recv().ok()
    }

    /// Let the threads finish; what no longer fits waits in the pipes.
    pub(crate) fn stop(&mut self) {
        self.threads.iter_mut().for_each(Thread::stop);
        self.threads.iter_mut().for_each(Thread::join);
    }
}
