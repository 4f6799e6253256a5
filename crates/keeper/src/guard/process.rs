//! The guard process: one loop, no threads, and as little memory as possible.

use super::{MESSAGE, Message};
use crate::write_log;
use proctor_core::home::Home;
use proctor_sys::failpoint::{self, Point};
use proctor_sys::small_file::Lock;
use proctor_sys::{allocator, inherited_fds, process, socket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Time without a keeper before the guard starts one. A live daemon becomes one sooner.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(1);

/// Longer time in the foreground, where a parent restarts the keeper and the daemon waits 3 s for
/// that.
const FOREGROUND_KEEPER_TIMEOUT: Duration = Duration::from_secs(10);

/// Upper bound of the time between starts of keepers that keep dying.
const MAX_KEEPER_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between two checks for a keeper: nothing signals the release of a lock.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Idle time before memory is freed.
const QUIET: Duration = Duration::from_secs(1);

/// A keeper that does not read its response for this long counts as gone.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The inputs of a guard.
pub struct GuardOptions {
    pub home: Home,
    /// The connection to the keeper that started us.
    pub link: OwnedFd,
    /// Program and arguments of a new keeper; the first argument is its title.
    pub program: String,
    pub keeper: Vec<String>,
    /// A parent process restarts the keeper.
    pub foreground: bool,
}

/// Runs as the guard until a keeper ends it.
pub fn run_guard(options: GuardOptions) -> io::Result<()> {
    process::reap_none()?;
    let mut guard = Guard::new(options);
    let _ = guard.listen();
    while guard.round()? == Flow::GoOn {}
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    GoOn,
    End,
}

struct Guard {
    home: Home,
    program: String,
    keeper: Vec<String>,
    open_files: (Option<u64>, Option<u64>),
    /// The socket for the next keeper; `None` while it cannot be created.
    listener: Option<Listener>,
    /// The connection to the keeper.
    link: Option<OwnedFd>,
    held: HeldDescriptors,
    is_retired: bool,
    has_rested: bool,
    first_patience: Duration,
    patience: Duration,
    alone_since: Instant,
}

struct Listener {
    socket: OwnedFd,
    place: (u64, u64),
}

impl Guard {
    fn new(options: GuardOptions) -> Guard {
        let patience = if options.foreground { FOREGROUND_KEEPER_TIMEOUT } else { KEEPER_TIMEOUT };
        Guard {
            home: options.home,
            program: options.program,
            keeper: options.keeper,
            open_files: inherited_fds::raise_open_files(),
            listener: None,
            link: Some(options.link),
            held: HeldDescriptors::default(),
            is_retired: false,
            has_rested: false,
            first_patience: patience,
            patience,
            alone_since: Instant::now(),
        }
    }

    fn listen(&mut self) -> io::Result<()> {
        let path = self.home.guard_socket();
        let socket = socket::listen_for_packets(&path)?;
        let metadata = std::fs::symlink_metadata(&path)?;
        self.listener = Some(Listener { socket, place: (metadata.dev(), metadata.ino()) });
        Ok(())
    }

    /// Waits for an event and handles it.
    fn round(&mut self) -> io::Result<Flow> {
        let (knocks, speaks) = self.wait()?;
        if knocks {
            self.accept();
        } else if speaks {
            self.has_rested = false;
            if self.obey() == Flow::End {
                return Ok(Flow::End);
            }
        } else if self.link.is_some() {
            self.rest();
        }
        if self.link.is_none() {
            return Ok(self.look_for_keeper());
        }
        Ok(Flow::GoOn)
    }

    /// Whether a keeper connects, and whether ours sent something.
    fn wait(&self) -> io::Result<(bool, bool)> {
        let timeout = match (&self.link, self.has_rested) {
            (None, _) => Some(LOOK_AGAIN),
            (Some(_), false) => Some(QUIET),
            (Some(_), true) => None,
        };
        let timeout = timeout.map(timespec);
        let sources = [
            self.listener.as_ref().map(|it| it.socket.as_fd()),
            self.link.as_ref().map(AsFd::as_fd),
        ];
        let mut fds: Vec<PollFd<'_>> = sources
            .iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((false, false)),
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next =
            |source: &Option<BorrowedFd<'_>>| source.is_some() && ready.next() == Some(true);
        Ok((next(&sources[0]), next(&sources[1])))
    }

    /// The newest keeper counts, because it has the lock.
    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let Ok(link) = socket::accept(&listener.socket) else { return };
        let ours = rustix::process::geteuid().as_raw();
        if socket::peer(&link).is_ok_and(|(user, _)| user == ours) {
            self.link = Some(link);
            self.is_retired = false;
            self.patience = self.first_patience;
            self.held.begin_generation();
        }
    }

    /// Handles all messages of the keeper.
    fn obey(&mut self) -> Flow {
        let mut bytes = [0; MESSAGE];
        loop {
            let Some(link) = &self.link else { return Flow::GoOn };
            let (length, fds) = match socket::receive_packet(link, &mut bytes) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flow::GoOn,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => (0, Vec::new()),
            };
            if length == 0 {
                self.hang_up();
                return Flow::GoOn;
            }
            match Message::decode(&bytes[..length]) {
                Some(Message::Hello) => self.answer(),
                Some(Message::Pipes(key)) => self.held.add_pipes(key, fds),
                Some(Message::Process(key)) => self.held.add_process(key, fds),
                Some(Message::Release(key)) => self.held.release(key),
                Some(Message::Settled) => self.held.forget_older_generations(),
                Some(Message::Retire) => self.is_retired = true,
                Some(Message::End) => return Flow::End,
                Some(Message::Held | Message::HeldAll) | None => {}
            }
        }
    }

    fn hang_up(&mut self) {
        self.link = None;
        self.alone_since = Instant::now();
    }

    /// Sends every pidfd and the end marker.
    fn answer(&mut self) {
        let Some(link) = &self.link else { return };
        let processes: Vec<BorrowedFd<'_>> = self.held.processes().collect();
        let told = processes
            .chunks(socket::MAX_PASSED_FDS)
            .map(|fds| send_within(link, Message::Held, fds))
            .chain(std::iter::once_with(|| send_within(link, Message::HeldAll, &[])))
            .all(|sent| sent.unwrap_or(false));
        if !told {
            self.hang_up();
        }
    }

    /// Starts a keeper if there has been none for long enough. If two guards do so, the lock leaves
    /// one keeper.
    fn look_for_keeper(&mut self) -> Flow {
        match self.place() {
            SocketOwner::Ours => {}
            // The runtime folder was deleted; the next keeper must still find us.
            SocketOwner::Free => drop(self.listen()),
            // A later guard holds everything that we hold.
            SocketOwner::Taken => return Flow::End,
        }
        let locks = [self.home.lock(), self.home.state_lock()];
        if locks.iter().any(|path| Lock::holder(path).is_some()) {
            self.alone_since = Instant::now();
        }
        if self.alone_since.elapsed() < self.patience {
            return Flow::GoOn;
        }
        if self.is_retired {
            return Flow::End;
        }
        write_log("guard", format_args!("no keeper is running: starting one"));
        failpoint::moment(Point::GuardStart);
        if let Err(error) = self.start_keeper() {
            write_log("guard", format_args!("cannot start a keeper: {error}"));
        }
        self.alone_since = Instant::now();
        self.patience = (self.patience * 2).min(MAX_KEEPER_TIMEOUT);
        Flow::GoOn
    }

    fn place(&self) -> SocketOwner {
        let there = std::fs::symlink_metadata(self.home.guard_socket());
        let there = there.ok().map(|metadata| (metadata.dev(), metadata.ino()));
        match (there, &self.listener) {
            (None, _) => SocketOwner::Free,
            (Some(there), Some(listener)) if there == listener.place => SocketOwner::Ours,
            (Some(_), _) => SocketOwner::Taken,
        }
    }

    fn start_keeper(&self) -> io::Result<()> {
        let [title, arguments @ ..] = &self.keeper[..] else { return Ok(()) };
        // The services of the new keeper inherit this limit.
        inherited_fds::restore_open_files(self.open_files);
        let started = Command::new(&self.program).arg0(title).args(arguments).spawn();
        inherited_fds::raise_open_files();
        started.map(drop)
    }

    fn rest(&mut self) {
        self.has_rested = true;
        self.held.shrink();
        allocator::give_back();
        allocator::let_go_of_code();
    }
}

/// The owner of our socket's name.
enum SocketOwner {
    Ours,
    Free,
    Taken,
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

/// Sends a message and waits a bounded time for room; returns false at the timeout.
fn send_within(link: &OwnedFd, message: Message, fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
    if socket::send_packet(link, &message.encode(), fds)? {
        return Ok(true);
    }
    let mut room = [PollFd::new(link, PollFlags::OUT)];
    poll(&mut room, Some(&timespec(ANSWER_TIMEOUT)))?;
    socket::send_packet(link, &message.encode(), fds)
}

/// The descriptors of runs, ordered by key.
#[derive(Default)]
struct HeldDescriptors {
    runs: Vec<HeldRun>,
    generation: u32,
}

struct HeldRun {
    key: u64,
    /// Generation of the keeper that named it last.
    generation: u32,
    pipes: [Option<OwnedFd>; 2],
    process: Option<OwnedFd>,
}

impl HeldDescriptors {
    fn begin_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    fn run(&mut self, key: u64) -> &mut HeldRun {
        let generation = self.generation;
        let at = self.runs.binary_search_by_key(&key, |run| run.key).unwrap_or_else(|at| {
            self.runs.insert(at, HeldRun { key, generation, pipes: [None, None], process: None });
            at
        });
        self.runs[at].generation = generation;
        &mut self.runs[at]
    }

    /// Keeps pipes that are already held: they are the same.
    fn add_pipes(&mut self, key: u64, fds: Vec<OwnedFd>) {
        let run = self.run(key);
        if run.pipes.iter().all(Option::is_none) {
            let mut fds = fds.into_iter();
            run.pipes = [fds.next(), fds.next()];
        }
    }

    fn add_process(&mut self, key: u64, fds: Vec<OwnedFd>) {
        let run = self.run(key);
        run.process = run.process.take().or_else(|| fds.into_iter().next());
    }

    fn release(&mut self, key: u64) {
        if let Ok(at) = self.runs.binary_search_by_key(&key, |run| run.key) {
            self.runs.remove(at);
        }
    }

    fn forget_older_generations(&mut self) {
        self.runs.retain(|run| run.generation == self.generation);
    }

    fn processes(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.runs.iter().filter_map(|run| run.process.as_ref().map(AsFd::as_fd))
    }

    fn shrink(&mut self) {
        self.runs.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| std::fs::File::open("/dev/null").unwrap().into()).collect()
    }

    #[test]
    fn what_the_next_keeper_does_not_name_is_let_go() {
        let mut held = HeldDescriptors::default();
        for key in [7, 3, 9] {
            held.add_pipes(key, some(2));
            held.add_process(key, some(1));
        }
        held.release(3);
        held.release(4);
        held.begin_generation();
        held.add_pipes(9, some(2));
        assert_eq!(held.processes().count(), 2, "a keeper may still ask for all");
        held.forget_older_generations();
        assert_eq!(held.runs.iter().map(|run| run.key).collect::<Vec<_>>(), [9]);
        assert_eq!(held.processes().count(), 1, "its pidfd is not forgotten with a new generation");
    }
}
