//! A command of a user while a hostile client opens and keeps thousands of connections to a port.
//!
//! A closed connection is opened again, as a hostile client would. The load of the crowd itself is
//! part of the measurement.

use super::super::adapter::{Adapter, Case};
use super::super::book::{Book, Measure, Port};
use super::super::clock::milliseconds;
use super::super::options::Plan;
use super::super::process;
use super::super::scratch::Scratch;
use super::super::session::{SOCKET, Session, outside};
use super::{Programs, ROTATE, cli};
use crate::step::output;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use serde_json::Value;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two bytes of a slow client.
const ROUND: Duration = Duration::from_secs(1);

/// Steps of a round, so that the crowd does not act all at once.
const STEPS: usize = 50;

/// Reconnections in one step: 500 a second.
const AGAIN: usize = 10;

pub(crate) struct Crowds<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) programs: &'a Programs,
    pub(crate) plan: &'a Plan,
}

impl Crowds<'_> {
    pub(crate) fn measure(&self, who: &str, adapter: &dyn Adapter, book: &mut Book) -> Result<()> {
        let folder = self.scratch.fresh(who)?;
        let socket = folder.join(SOCKET).display().to_string();
        let case =
            Case { folder, services: 1, command: self.programs.idle(&socket), rotate: ROTATE };
        let mut session = Session::launch(adapter, case)?;
        session.all_begun()?;
        session.settle(self.plan.settle)?;
        self.worst(who, adapter, &session, Measure::CrowdNone, book)?;
        let mut most = 0;
        for (port, address) in listening(adapter, &session.case)? {
            for (measure, manner) in [
                (Measure::CrowdIdle(port), Manner::Idle),
                (Measure::CrowdSlow(port), Manner::Slow(port)),
            ] {
                let crowd = Crowd::gather(address, self.plan.crowd, manner)?;
                self.worst(who, adapter, &session, measure, book)?;
                most = most.max(session.supervisors()?.into_iter().map(process::pss).sum());
                let held = crowd.disperse();
                println!(
                    "  {measure:?}: {held} of {} connections were open at the end",
                    self.plan.crowd
                );
            }
        }
        book.add(Measure::CrowdMemory, who, most as f64);
        Ok(())
    }

    /// The 99th percentile of a whole `status` command.
    fn worst(
        &self,
        who: &str,
        adapter: &dyn Adapter,
        session: &Session<'_>,
        measure: Measure,
        book: &mut Book,
    ) -> Result<()> {
        let command = adapter.status(&session.case, 0).context("it has no status")?;
        let times = cli::times(self.programs, self.plan, command, &session.case)?;
        book.add(measure, who, milliseconds(times[(times.len() - 1) * 99 / 100]));
        Ok(())
    }
}

/// The actual ports.
pub(super) fn listening(adapter: &dyn Adapter, case: &Case) -> Result<Vec<(Port, SocketAddr)>> {
    let command = adapter.own_status(case).context("it does not say where it listens")?;
    let mut command = outside(command, &case.folder);
    command.stdout(Stdio::piped());
    let status: Value = serde_json::from_str(&output(command)?).context("the status is no JSON")?;
    let port = |port: Port| {
        let address = status["listening"][port.name()].as_str()?;
        Some((port, address.parse().ok()?))
    };
    let ports: Vec<_> = [Port::Tcp, Port::Http].into_iter().filter_map(port).collect();
    ensure!(!ports.is_empty(), "it listens nowhere: {status}");
    Ok(ports)
}

#[derive(Debug, Clone, Copy)]
enum Manner {
    /// Sends nothing at all.
    Idle,
    /// Starts a request and never ends it.
    Slow(Port),
}

impl Manner {
    /// The bytes to send in this round.
    fn says(self, round: usize) -> &'static [u8] {
        match (self, round) {
            (Manner::Idle, _) => b"",
            (Manner::Slow(Port::Tcp), 0) => b"{\"op\":\"",
            (Manner::Slow(Port::Http), 0) => b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
            (Manner::Slow(Port::Tcp | Port::Http), _) => b"x",
        }
    }
}

/// Connections, and the thread that keeps them.
struct Crowd {
    over: Arc<AtomicBool>,
    held: Arc<AtomicUsize>,
    keeper: JoinHandle<()>,
}

impl Crowd {
    /// Returns when every connection was started and the thread has visited each once.
    fn gather(address: SocketAddr, size: usize, manner: Manner) -> Result<Crowd> {
        let first: Vec<Member> =
            (0..size).map(|_| Member::connect(address, manner)).collect::<Result<_>>()?;
        let (over, held) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, count) = (Arc::clone(&over), Arc::clone(&held));
        let keeper = std::thread::spawn(move || keep(first, address, manner, &told, &count));
        Ok(Crowd { over, held, keeper })
    }

    /// Ends the crowd; returns the number of connections at the end.
    fn disperse(self) -> usize {
        self.over.store(true, Ordering::Relaxed);
        self.keeper.thread().unpark();
        // The thread returns only the count.
        let _ = self.keeper.join();
        self.held.load(Ordering::Relaxed)
    }
}

fn keep(
    mut crowd: Vec<Member>,
    address: SocketAddr,
    manner: Manner,
    over: &AtomicBool,
    held: &AtomicUsize,
) {
    let step = crowd.len().div_ceil(STEPS);
    while !over.load(Ordering::Relaxed) {
        let mut open = 0;
        for members in crowd.chunks_mut(step) {
            open += go_on(members, address, manner);
            std::thread::park_timeout(ROUND / STEPS as u32);
        }
        held.store(open, Ordering::Relaxed);
    }
}

/// Returns the number of members that are still connected.
fn go_on(members: &mut [Member], address: SocketAddr, manner: Manner) -> usize {
    let (mut left, mut open) = (AGAIN, 0);
    for member in members {
        if member.go_on(manner) {
            open += 1;
        } else if left > 0 {
            left -= 1;
            // A failed connection is retried in the next round.
            if let Ok(new) = Member::connect(address, manner) {
                *member = new;
            }
        }
    }
    open
}

struct Member {
    stream: TcpStream,
    rounds: usize,
    open: bool,
}

impl Member {
    /// Does not wait: if there is no room now, the kernel retries by itself.
    fn connect(address: SocketAddr, manner: Manner) -> Result<Member> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)
            .context("cannot make a socket")?;
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => bail!("cannot connect to {address}: {error}"),
        }
        let stream = TcpStream::from(socket);
        let mut member = Member { stream, rounds: 0, open: true };
        // It will be connected in a moment; on loopback it mostly is.
        member.go_on(manner);
        Ok(member)
    }

    /// Sends the next piece; returns false once the other side has closed.
    fn go_on(&mut self, manner: Manner) -> bool {
        if !self.open {
            return false;
        }
        let waiting = |error: &io::Error| {
            matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotConnected)
        };
        let here = match self.stream.read(&mut [0; 256]) {
            Ok(length) => length > 0,
            Err(error) => waiting(&error),
        };
        let said = match self.stream.write(manner.says(self.rounds)) {
            Ok(_) => true,
            Err(error) => waiting(&error),
        };
        self.rounds += 1;
        self.open = here && said;
        self.open
    }
}
