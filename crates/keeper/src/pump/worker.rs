//! The work of a pump thread: waits for output and commands, and gives every pipe its turn.

use super::stream_copy::{Pipe, ServiceStreams, UnmarkedRun};
use super::thread::Shared;
use super::writer::WriteOutcome;
use super::{BELL, Command, Drained, MARKS, Pipes, RETRY, TURN, UNMARKED};
use crate::log;
use crate::service_folder::ServiceFolder;
use proctor_core::lifecycle::Exit;
use proctor_core::log_index::{ExitMark, Stream};
use proctor_core::name::RunId;
use proctor_core::spec::LogSpec;
use proctor_core::time::Mono;
use proctor_sys::poll::{Interest, Poller, Ready};
use proctor_sys::{allocator, clock, socket};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::Duration;

pub(super) struct Worker {
    inbox: Receiver<Command>,
    chute: OwnedFd,
    shared: Arc<Shared>,
    answers: Sender<Drained>,
    poller: Poller,
    null: File,
    /// Boxed, because a hash table is half empty.
    lanes: HashMap<u32, Box<ServiceStreams>>,
    /// Pipes that may hold more bytes than their last turn moved.
    pub(super) busy: VecDeque<u64>,
    /// Pipes whose log cannot be written now, and the time of the retry.
    stalled: BTreeSet<u64>,
    retry_at: Option<Mono>,
    /// Responses were sent, but the keeper was not notified yet.
    answered: bool,
    /// Services whose start is marked when there is nothing more urgent.
    unmarked: VecDeque<u32>,
}

/// The poller's token of a pipe. A service has the pipes of one run at a time.
fn token(slot: u32, stream: Stream) -> u64 {
    u64::from(slot) * 2 + stream as u64
}

fn place(token: u64) -> (u32, Stream) {
    ((token / 2) as u32, Stream::BOTH[(token % 2) as usize])
}

impl Worker {
    pub(super) fn new(
        inbox: Receiver<Command>,
        chute: OwnedFd,
        shared: Arc<Shared>,
        answers: Sender<Drained>,
    ) -> io::Result<Worker> {
        let poller = Poller::new()?;
        poller.add(shared.wake.as_fd(), BELL, Interest::Read)?;
        let null = File::options().write(true).open("/dev/null")?;
        let (lanes, busy, stalled) = (HashMap::new(), VecDeque::new(), BTreeSet::new());
        let (retry_at, unmarked) = (None, VecDeque::new());
        Ok(Worker {
            inbox,
            chute,
            shared,
            answers,
            poller,
            null,
            lanes,
            busy,
            stalled,
            retry_at,
            answered: false,
            unmarked,
        })
    }

    pub(super) fn run(mut self) {
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
            } else if ready.is_empty() {
                self.mark_some(MARKS);
            }
            self.take_turns();
        }
    }

    /// Maximum wait for events.
    fn patience(&self) -> Option<Duration> {
        if !self.busy.is_empty() {
            return Some(Duration::ZERO);
        }
        let left = |at: Mono| Duration::from_micros(at.0.saturating_sub(clock::now().mono.0));
        let retry = self.retry_at.map(left);
        let marks = (!self.unmarked.is_empty()).then_some(UNMARKED);
        [retry, marks].into_iter().flatten().min()
    }

    /// Queues the pipes that have output, and those whose retry is due.
    pub(super) fn see(&mut self, ready: &[Ready]) {
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

    fn pipe(&mut self, token: u64) -> Option<&mut Pipe> {
        let (slot, stream) = place(token);
        self.lanes.get_mut(&slot)?.pipes[stream as usize].as_mut()
    }

    fn queue(&mut self, token: u64) {
        if let Some(pipe) = self.pipe(token).filter(|pipe| !pipe.queued) {
            pipe.queued = true;
            self.busy.push_back(token);
        }
    }

    /// Runs pending commands and notifies the keeper once; returns false at the end.
    fn obey(&mut self) -> bool {
        let goes_on = self.carry_out();
        if std::mem::take(&mut self.answered) {
            self.shared.bell.ring();
        }
        goes_on
    }

    fn carry_out(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(command) => self.perform(command),
                Err(TryRecvError::Empty) => return true,
                // The keeper is ending: the pending output is stored.
                Err(TryRecvError::Disconnected) => {
                    self.take_turns();
                    self.mark_some(u32::MAX);
                    return false;
                }
            }
        }
    }

    fn perform(&mut self, command: Command) {
        match command {
            Command::Begin { slot, folder, spec, run, pipes, fresh } => {
                let pipes = self.received(pipes);
                self.begin(slot, folder, spec, run, pipes, fresh);
            }
            Command::End { slot, run, exit } => self.end(slot, run, &exit),
            Command::Configure { slot, folder, spec } => {
                self.lane(slot, folder, &spec).configure(&spec);
            }
            Command::Forget { slot } => drop(self.lanes.remove(&slot)),
        }
    }

    /// Receives the descriptors of a command, which were sent before it.
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

    fn lane(
        &mut self,
        slot: u32,
        folder: ServiceFolder,
        spec: &Arc<LogSpec>,
    ) -> &mut ServiceStreams {
        let new = || Box::new(ServiceStreams::new(folder, Arc::clone(spec)));
        self.lanes.entry(slot).or_insert_with(new)
    }

    pub(super) fn begin(
        &mut self,
        slot: u32,
        folder: ServiceFolder,
        spec: Arc<LogSpec>,
        run: RunId,
        pipes: [Option<OwnedFd>; 2],
        fresh: bool,
    ) {
        let lane = self.lane(slot, folder, &spec);
        lane.unmarked = Some(UnmarkedRun { run, wall: clock::now().wall, fresh });
        self.unmarked.push_back(slot);
        for (stream, fd) in Stream::BOTH.into_iter().zip(pipes) {
            let (Some(fd), token) = (fd, token(slot, stream)) else { continue };
            if let Err(error) = self.poller.add(fd.as_fd(), token, Interest::ReadEdge) {
                log!("cannot watch the output of run {run}: {error}");
                continue;
            }
            if let Some(lane) = self.lanes.get_mut(&slot) {
                lane.pipes[stream as usize] = Some(Pipe { fd, run, queued: false, grown: false });
            }
            // A pipe that was taken over may already hold output; its edge may have passed.
            if !fresh {
                self.queue(token);
            }
        }
    }

    /// Stores the rest of the run's output, marks its end and closes its pipes.
    fn end(&mut self, slot: u32, run: RunId, exit: &Exit) {
        if let Some(lane) = self.lanes.get_mut(&slot) {
            lane.end(run, ExitMark::of(exit), &self.null);
        }
        for token in Stream::BOTH.map(|stream| token(slot, stream)) {
            self.stalled.remove(&token);
        }
        let _ = self.answers.send(Drained { slot, run });
        self.answered = true;
    }

    /// When idle: marks the starts of some services that have written nothing yet.
    fn mark_some(&mut self, most: u32) {
        /// This many marks used memory that is not needed again soon.
        const MANY: usize = 256;
        for _ in 0..most {
            let Some(slot) = self.unmarked.pop_front() else { break };
            if let Some(lane) = self.lanes.get_mut(&slot) {
                lane.mark_start_and_close();
            }
        }
        if self.unmarked.is_empty() && self.unmarked.capacity() >= MANY {
            self.unmarked = VecDeque::new();
            allocator::give_back();
            allocator::let_go_of_code();
        }
    }

    /// Gives one turn to each pipe that has output.
    fn take_turns(&mut self) {
        for _ in 0..self.busy.len() {
            let Some(token) = self.busy.pop_front() else { return };
            let Some(pipe) = self.pipe(token) else { continue };
            pipe.queued = false;
            match self.turn(token) {
                WriteOutcome::Moved(_) => self.queue(token),
                WriteOutcome::Empty => {}
                WriteOutcome::Stalled | WriteOutcome::Full => {
                    self.stalled.insert(token);
                    self.retry_at.get_or_insert_with(|| clock::now().mono.plus(RETRY));
                }
            }
        }
    }

    fn turn(&mut self, token: u64) -> WriteOutcome {
        let (slot, stream) = place(token);
        let Some(lane) = self.lanes.get_mut(&slot) else { return WriteOutcome::Empty };
        // A single writer gets a long turn; if others wait, each gets one move.
        let turn = if self.busy.is_empty() { TURN } else { 1 };
        for _ in 0..turn {
            match lane.store(stream, &self.null) {
                WriteOutcome::Moved(_) => {}
                other @ (WriteOutcome::Empty | WriteOutcome::Stalled | WriteOutcome::Full) => {
                    return other;
                }
            }
        }
        WriteOutcome::Moved(0)
    }
}
