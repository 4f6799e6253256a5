//! The keeper's handle of one pump thread: sent commands, and its end.

use super::worker::Worker;
use super::{Command, Drained, Pipes};
use crate::log;
use proctor_sys::poll::Waker;
use proctor_sys::{inherited_fds, socket};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

pub(super) struct Thread {
    /// `None` makes the thread finish its commands and end.
    commands: Option<Sender<Command>>,
    /// The channel for the descriptors of commands.
    chute: OwnedFd,
    /// Commands that wait for room for their descriptors, and those after them.
    outbox: VecDeque<Command>,
    shared: Arc<Shared>,
    /// Something was sent since the last ring.
    unheard: bool,
    thread: Option<JoinHandle<()>>,
}

/// Shared by both sides, under the same descriptor numbers in both tables.
pub(super) struct Shared {
    /// Rung by the keeper when there are commands.
    pub(super) wake: Waker,
    /// Rung by the thread when there are responses or there is room again.
    pub(super) bell: Arc<Waker>,
    /// The keeper waits for room.
    pub(super) wants_room: AtomicBool,
}

impl Thread {
    pub(super) fn start(bell: &Arc<Waker>, answers: Sender<Drained>) -> io::Result<Thread> {
        let (commands, inbox) = channel();
        let (chute, theirs) = socket::chute()?;
        let (bell, wants_room) = (Arc::clone(bell), AtomicBool::new(false));
        let shared = Arc::new(Shared { wake: Waker::new()?, bell, wants_room });
        let (begun, has_begun) = channel();
        let (number, for_worker) = (theirs.as_raw_fd(), Arc::clone(&shared));
        let work = move || {
            let own = own_table(&for_worker, number);
            let worker = inherited_fds::take(number)
                .ok_or_else(|| io::ErrorKind::NotFound.into())
                .and_then(|chute| Worker::new(inbox, chute, for_worker, answers));
            let (worker, failure) = match worker {
                Ok(worker) => (Some(worker), None),
                Err(error) => (None, Some(error)),
            };
            // The keeper waits for this.
            let _ = begun.send((own, failure));
            if let Some(worker) = worker {
                worker.run();
            }
        };
        // Small: the pump keeps nothing on its stack.
        let builder = std::thread::Builder::new().name("logs".into()).stack_size(256 << 10);
        let thread = Some(builder.spawn(work)?);
        let (own, failure) = has_begun.recv().unwrap_or((false, Some(io::ErrorKind::Other.into())));
        if own {
            drop(theirs);
        } else {
            // With a shared table the descriptor now belongs to the worker.
            let _ = theirs.into_raw_fd();
        }
        if let Some(error) = failure {
            return Err(error);
        }
        let (commands, outbox, unheard) = (Some(commands), VecDeque::new(), false);
        Ok(Thread { commands, chute, outbox, shared, unheard, thread })
    }

    pub(super) fn send(&mut self, command: Command) {
        self.outbox.push_back(command);
        self.flush();
    }

    /// Sends commands that waited for room.
    pub(super) fn send_rest(&mut self) {
        if !self.outbox.is_empty() {
            self.flush();
        }
    }

    /// Sends as many commands as there is room for.
    fn flush(&mut self) {
        while let (Some(commands), Some(command)) = (&self.commands, self.outbox.pop_front()) {
            match self.pass(command) {
                Ok(command) => {
                    // The thread ends only by `stop`, after which nothing is sent.
                    let _ = commands.send(command);
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

    pub(super) fn ring(&mut self) {
        if std::mem::take(&mut self.unheard) {
            self.shared.wake.ring();
        }
    }

    /// Sends a command's descriptors before the command; returns the command if there is no room.
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

    /// Lets the thread finish the sent commands; other output stays in the pipes.
    pub(super) fn stop(&mut self) {
        self.outbox.clear();
        self.commands = None;
        self.shared.wake.ring();
    }

    pub(super) fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn own_table(shared: &Shared, chute: RawFd) -> bool {
    let numbers = [&shared.wake, &*shared.bell].map(|bell| bell.as_fd().as_raw_fd());
    inherited_fds::own_table(&[numbers[0], numbers[1], chute])
}
