//! The output of one service: its pipes and its logs. Unneeded parts are not allocated, because
//! there may be thousands of services.

use super::MOVE;
use super::segments::Segments;
use super::writer::{WriteOutcome, Writer};
use crate::service_folder::ServiceFolder;
use proctor_core::log_index::{ExitMark, IndexMark, Stream};
use proctor_core::name::RunId;
use proctor_core::spec::{LogSpec, OnFull};
use proctor_core::time::Wall;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::fifo;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Our end of one stream of one run.
pub(super) struct Pipe {
    pub(super) fd: OwnedFd,
    pub(super) run: RunId,
    /// The pipe is in the queue, where each pipe has one place: more would give it more turns than
    /// others.
    pub(super) queued: bool,
    /// The buffer was grown; only services that write need that.
    pub(super) grown: bool,
}

/// A run whose start may not be marked yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnmarkedRun {
    pub(super) run: RunId,
    pub(super) wall: Wall,
    /// The run is being created, so its start cannot be marked yet.
    pub(super) fresh: bool,
}

pub(super) struct ServiceStreams {
    folder: ServiceFolder,
    spec: Arc<LogSpec>,
    pub(super) pipes: [Option<Pipe>; 2],
    writers: [Option<Box<Writer>>; 2],
    /// Bytes on disk of the streams without a writer, once counted.
    unwritten_bytes: Option<u64>,
    pub(super) unmarked: Option<UnmarkedRun>,
}

impl ServiceStreams {
    pub(super) fn new(folder: ServiceFolder, spec: Arc<LogSpec>) -> ServiceStreams {
        let (pipes, writers) = ([None, None], [None, None]);
        ServiceStreams { folder, spec, pipes, writers, unwritten_bytes: None, unmarked: None }
    }

    pub(super) fn configure(&mut self, spec: &Arc<LogSpec>) {
        self.spec = Arc::clone(spec);
        for writer in self.writers.iter_mut().flatten() {
            writer.spec = Arc::clone(spec);
        }
    }

    fn writer(&mut self, stream: Stream) -> &mut Writer {
        let (folder, spec, unwritten) = (&self.folder, &self.spec, &mut self.unwritten_bytes);
        self.writers[stream as usize].get_or_insert_with(|| {
            *unwritten = None;
            Box::new(Writer::new(folder.path(), stream, Arc::clone(spec)))
        })
    }

    /// Marks the start of a run, before any other entry of it.
    fn mark_start(&mut self) {
        let Some(UnmarkedRun { run, wall, fresh }) = self.unmarked.take() else { return };
        let writer = self.writer(Stream::Stdout);
        if fresh || !writer.knows(run) {
            writer.mark(run, IndexMark::RunStarted, wall);
        }
    }

    /// Marks the start of a run that has written nothing, without keeping its log open.
    pub(super) fn mark_start_and_close(&mut self) {
        let was_open = self.writers[Stream::Stdout as usize].is_some();
        self.mark_start();
        if !was_open {
            self.writers[Stream::Stdout as usize] = None;
            self.unwritten_bytes = None;
        }
    }

    /// Moves bytes once from the pipe to the log.
    pub(super) fn store(&mut self, stream: Stream, null: &File) -> WriteOutcome {
        let Some(mut pipe) = self.pipes[stream as usize].take() else { return WriteOutcome::Empty };
        let stored = self.store_from(stream, &pipe, null);
        if matches!(stored, WriteOutcome::Moved(_)) && !std::mem::replace(&mut pipe.grown, true) {
            fifo::grow(&pipe.fd);
        }
        self.pipes[stream as usize] = Some(pipe);
        stored
    }

    fn store_from(&mut self, stream: Stream, pipe: &Pipe, null: &File) -> WriteOutcome {
        // An empty pipe is no reason to create a log.
        if self.writers[stream as usize].is_none() && fifo::waiting(&pipe.fd) == 0 {
            return WriteOutcome::Empty;
        }
        self.mark_start();
        self.retain(fifo::waiting(&pipe.fd).min(MOVE as u64));
        match self.writer(stream).store(&pipe.fd, pipe.run, MOVE) {
            WriteOutcome::Full => self.make_room(stream, pipe, null),
            stored @ (WriteOutcome::Moved(_) | WriteOutcome::Empty | WriteOutcome::Stalled) => {
                stored
            }
        }
    }

    /// Keeps both streams together within the configured size, including `more` bytes to come. A
    /// stream may use the space that the other does not need. The larger stream loses its oldest
    /// segment, so a flood on one never deletes the other's half.
    fn retain(&mut self, more: u64) {
        while self.bytes().saturating_add(more) > self.spec.max_total_bytes && self.delete_oldest()
        {
        }
    }

    /// Bytes of both streams on disk.
    fn bytes(&mut self) -> u64 {
        let (folder, writers) = (&self.folder, &self.writers);
        let unwritten = *self.unwritten_bytes.get_or_insert_with(|| {
            let unwritten = Stream::BOTH.into_iter().filter(|s| writers[*s as usize].is_none());
            unwritten.map(|stream| Segments::look(folder.path(), stream).bytes()).sum()
        });
        unwritten + self.writers.iter().flatten().map(|writer| writer.bytes()).sum::<u64>()
    }

    /// Deletes the oldest closed segment of the larger stream, or else of the other; returns false
    /// if there is none.
    fn delete_oldest(&mut self) -> bool {
        let [out, err] = Stream::BOTH.map(|stream| self.writer(stream).bytes());
        let [first, second] = Stream::BOTH;
        let order = if err > out { [second, first] } else { [first, second] };
        order.into_iter().any(|stream| self.writer(stream).delete_oldest())
    }

    /// Handles a full disk as configured. If output may be dropped, deletes this service's oldest
    /// segments first, one at a time. If the service should wait, deletes nothing.
    pub(super) fn make_room(&mut self, stream: Stream, pipe: &Pipe, null: &File) -> WriteOutcome {
        let made = match self.spec.on_full {
            OnFull::Block => false,
            OnFull::Drop => self.delete_oldest(),
        };
        match made {
            true => self.writer(stream).try_again(),
            false => self.writer(stream).overflow(&pipe.fd, null),
        }
    }

    /// Stores the remaining output of a run that is over, marks its end and closes its pipes.
    pub(super) fn end(&mut self, run: RunId, exit: ExitMark, null: &File) {
        for stream in Stream::BOTH {
            let pipe = self.pipes[stream as usize].take_if(|pipe| pipe.run == run);
            if let Some(pipe) = pipe {
                self.drain(stream, &pipe, null);
            }
        }
        self.mark_start();
        failpoint::moment(Point::LogEnd);
        self.writer(Stream::Stdout).mark_exit(run, exit);
        failpoint::moment(Point::LogEnded);
    }

    fn drain(&mut self, stream: Stream, pipe: &Pipe, null: &File) {
        // Reads only the bytes that are there now; another holder of the pipe must not keep us
        // here.
        let mut left = fifo::waiting(&pipe.fd);
        while left > 0 {
            match self.store_from(stream, pipe, null) {
                // Zero bytes moved means that an old segment was deleted to make room, which cannot
                // repeat forever.
                WriteOutcome::Moved(bytes) => left = left.saturating_sub(bytes),
                WriteOutcome::Empty => break,
                // The log cannot be written: the rest is lost and marked as such.
                WriteOutcome::Stalled | WriteOutcome::Full => {
                    self.writer(stream).lost(pipe.run, left);
                    break;
                }
            }
        }
    }
}
