//! Reports from services under test: one datagram when their main begins, one when everything is
//! written.

use super::clock::Nanoseconds;
use super::interrupt;
use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

/// Four numbers of eight bytes, in native byte order.
const SIZE: usize = 32;
/// Maximum size of a unix socket's address, including its zero.
const MAX_ADDRESS_BYTES: usize = 108;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    pub(crate) pid: u32,
    pub(crate) kind: Kind,
    pub(crate) begin: Nanoseconds,
    pub(crate) end: Nanoseconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Begun,
    Written,
}

/// The socket, and the gate at which services wait until all may write at once.
pub(crate) struct Reports {
    socket: UnixDatagram,
    gate: File,
}

impl Reports {
    pub(crate) fn listen(path: &Path) -> Result<Reports> {
        if path.as_os_str().len() >= MAX_ADDRESS_BYTES {
            bail!("{} is too long for a socket: give a shorter --scratch DIR", path.display());
        }
        let socket = UnixDatagram::bind(path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        socket.set_read_timeout(Some(interrupt::LOOK)).context("cannot set a timeout")?;
        let gate_path = path.with_extension("gate");
        let gate = File::create(&gate_path)
            .with_context(|| format!("cannot make {}", gate_path.display()))?;
        flock(&gate, FlockOperation::LockExclusive).context("cannot close the gate")?;
        Ok(Reports { socket, gate })
    }

    pub(crate) fn open_gate(&self) -> Result<()> {
        flock(&self.gate, FlockOperation::Unlock).context("cannot open the gate")
    }

    /// The next report; `None` if none arrives in time.
    pub(crate) fn next(&self, limit: Duration) -> Result<Option<Report>> {
        let begin = Instant::now();
        loop {
            let mut bytes = [0; SIZE];
            match self.socket.recv(&mut bytes) {
                Ok(SIZE) => return decode(&bytes).map(Some),
                Ok(size) => bail!("a report of {size} bytes"),
                Err(why)
                    if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(why) => return Err(why).context("cannot receive reports"),
            }
            interrupt::check()?;
            if begin.elapsed() >= limit {
                return Ok(None);
            }
        }
    }
}

fn decode(bytes: &[u8; SIZE]) -> Result<Report> {
    let (words, _) = bytes.as_chunks::<8>();
    let [pid, kind, begin, end] =
        words.iter().map(|word| u64::from_ne_bytes(*word)).collect::<Vec<_>>()[..]
    else {
        bail!("a report is four words");
    };
    let kind = match kind {
        0 => Kind::Begun,
        1 => Kind::Written,
        other => bail!("a report of kind {other}"),
    };
    Ok(Report { pid: u32::try_from(pid).context("a report with no pid")?, kind, begin, end })
}
