//! The log pump: threads that move output from pipes to files, so that supervision never waits for
//! a disk.
//!
//! Each thread serves a share of the services. It owns their FIFOs (our ends) and open segments in
//! its own descriptor table: in the keeper's table, each new service would inherit thousands of
//! descriptors and close them all. The keeper reports the start and end of runs; the pump reports
//! when all output of a run is stored. Bytes move by `splice(2)` and are never in our memory.

mod segments;
mod stream_copy;
#[cfg(test)]
mod tests;
mod thread;
mod worker;
mod writer;

use crate::log;
use crate::service_folder::ServiceFolder;
use proctor_core::lifecycle::Exit;
use proctor_core::name::RunId;
use proctor_core::spec::LogSpec;
use proctor_core::time::Millis;
use proctor_sys::fifo;
use proctor_sys::poll::Waker;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use thread::Thread;

/// If many services write, a single thread becomes the bottleneck while a core is idle. Two are as
/// many as a small machine has cores; the second starts with the second service.
const MAX_THREADS: usize = 2;

/// Moves of one pipe before others are checked: a spamming service cannot starve the others.
const TURN: u32 = 4;

/// Maximum bytes of one move; the capacity of a pipe.
const MOVE: usize = fifo::CAPACITY;

/// Wait before a pipe whose log could not be written is retried.
const RETRY: Millis = Millis(500);

/// Idle time before the starts of silent services are marked, and the number marked at once: a
/// thousand services that start together are started first.
const UNMARKED: Duration = Duration::from_millis(5);
const MARKS: u32 = 16;

const BELL: u64 = u64::MAX;

/// A command of the keeper to the pump. `slot` is the keeper's number of a service.
pub(crate) enum Command {
    /// Passes a run's pipes. `fresh`: the run is being created, so its start is not marked yet.
    Begin {
        slot: u32,
        folder: ServiceFolder,
        spec: Arc<LogSpec>,
        run: RunId,
        pipes: Pipes,
        fresh: bool,
    },
    /// The run is over: store the rest, mark the exit, close the pipes, respond.
    End {
        slot: u32,
        run: RunId,
        exit: Exit,
    },
    /// Sets the log settings. Sent before there is a run: allocations during process creation leave
    /// holes in the heap.
    Configure {
        slot: u32,
        folder: ServiceFolder,
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
    /// These are in flight to the other thread's table.
    Sent([bool; 2]),
}

/// All output of run `run` of `slot` is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drained {
    pub(crate) slot: u32,
    pub(crate) run: RunId,
}

/// The keeper's handle to the pump.
pub(crate) struct Pump {
    /// A service stays with one thread.
    threads: Vec<Thread>,
    /// No more threads can be created.
    no_more: bool,
    /// Rung by the threads when there are responses or there is room again. It has the same number
    /// in all their tables.
    bell: Arc<Waker>,
    answers: Sender<Drained>,
    drained: Receiver<Drained>,
}

impl Pump {
    pub(crate) fn start() -> io::Result<Pump> {
        let (answers, drained) = channel();
        let bell = Arc::new(Waker::new()?);
        let threads = vec![Thread::start(&bell, answers.clone())?];
        Ok(Pump { threads, no_more: false, bell, answers, drained })
    }

    pub(crate) fn send(&mut self, command: Command) {
        self.thread_of(command.slot()).send(command);
    }

    fn thread_of(&mut self, slot: u32) -> &mut Thread {
        let wanted = slot as usize % MAX_THREADS;
        while self.threads.len() <= wanted && !self.no_more {
            match Thread::start(&self.bell, self.answers.clone()) {
                Ok(thread) => self.threads.push(thread),
                Err(error) => {
                    log!("the log pump continues with {} thread: {error}", self.threads.len());
                    self.no_more = true;
                }
            }
        }
        let there = self.threads.len();
        &mut self.threads[wanted % there]
    }

    /// Wakes the pump for sent commands. Called once a round, after everything else, so that it
    /// does not compete with a service that is being started.
    pub(crate) fn ring(&mut self) {
        self.threads.iter_mut().for_each(Thread::ring);
    }

    /// Readable if runs were drained or there is room again.
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

    /// Lets the threads finish; output that no longer fits stays in the pipes.
    pub(crate) fn stop(&mut self) {
        self.threads.iter_mut().for_each(Thread::stop);
        self.threads.iter_mut().for_each(Thread::join);
    }
}
