//! The standard streams of a run that is about to be made: FIFOs for what it writes, or the terminal of a `proctor run`.

use crate::records::Folder;
use proctor_core::home::Home;
use proctor_core::name::{RunId, ServiceName};
use proctor_sys::failpoint::{self, Point};
use proctor_sys::terminal_offer::{self, OfferPaths};
use proctor_sys::{fifo, input_fifo};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

pub(crate) struct Streams {
    out: fifo::FifoEnds,
    err: fifo::FifoEnds,
    terminal: Option<RunTerminal>,
}

/// A terminal in the place of standard input and output.
struct RunTerminal {
    fd: OwnedFd,
    /// It is also the standard error.
    with_stderr: bool,
    offer: OfferPaths,
}

/// The step that failed, and why.
type Failed = (&'static str, io::Error);

impl Streams {
    /// Make the FIFOs of a run, which belong to `owner`. Where a terminal is offered, the one for its output comes with it.
    pub(crate) fn make(
        home: &Home,
        folder: &Folder,
        run: RunId,
        owner: Option<(u32, u32)>,
    ) -> Result<Streams, Failed> {
        let in_output = |error| ("make the output of", error);
        let [out, err] = folder.fifos(run);
        let offer = OfferPaths {
            terminal: home.terminal(&folder.name),
            output: home.terminal_output(&folder.name),
        };
        let offered =
            terminal_offer::open(&offer, &out).map_err(|error| ("open the terminal of", error))?;
        let (out, terminal) = match offered {
            Some(offered) => {
                let (fd, with_stderr) = (offered.terminal, offered.with_stderr);
                (offered.output, Some(RunTerminal { fd, with_stderr, offer }))
            }
            None => (fifo::create(&out, owner).map_err(in_output)?, None),
        };
        let err = fifo::create(&err, owner).map_err(in_output)?;
        failpoint::step(Point::RunPipes).map_err(in_output)?;
        Ok(Streams { out, err, terminal })
    }

    /// Our ends of standard output and standard error.
    pub(crate) fn ours(&self) -> [BorrowedFd<'_>; 2] {
        [self.out.ours.as_fd(), self.err.ours.as_fd()]
    }

    /// The standard input that somebody offers to a run without a terminal.
    pub(crate) fn input(&self, home: &Home, name: &ServiceName) -> Option<OwnedFd> {
        if self.terminal.is_some() { None } else { input_fifo::take(&home.input(name)) }
    }

    pub(crate) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Descriptors of the run's own ends, with this input where it has no terminal.
    pub(crate) fn stdio(&self, input: BorrowedFd<'_>) -> [RawFd; 3] {
        let (out, err) = (self.out.theirs.as_raw_fd(), self.err.theirs.as_raw_fd());
        match &self.terminal {
            None => [input.as_raw_fd(), out, err],
            Some(RunTerminal { fd, with_stderr, .. }) => {
                let fd = fd.as_raw_fd();
                [fd, fd, if *with_stderr { fd } else { err }]
            }
        }
    }

    /// The process was made: an offer is used up, and only our ends are left.
    pub(crate) fn used(self) -> [OwnedFd; 2] {
        if let Some(terminal) = &self.terminal {
            terminal.offer.remove();
        }
        [self.out.ours, self.err.ours]
    }
}
