//! Creates a service's process.
//!
//! Everything that allocates happens in `PreparedPlan::new`, before the fork. Between fork and exec the
//! child makes only system calls, because other threads of the keeper may hold any lock at that
//! moment.
//!
//! The child writes its own identity into the run record before it executes the service's program.
//! It holds the record's lock (shared through the fork) until the exec closes it. So a keeper that
//! dies at any step leaves no process, or a recorded one, or one that the next keeper can wait for
//! by that lock.

mod child;
mod clone;
mod prepared;
mod stack;

use crate::failpoint::{self, Point};
use crate::process_tag::ProcessTag;
use clone::KeptMemory;
use prepared::PreparedPlan;
pub use prepared::Strings;
use proctor_core::lifecycle::SpawnFailure;
use proctor_core::name::RunId;
use proctor_core::record_encoding::BootId;
use proctor_core::spec::{Credentials, Limit};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// All inputs for one new process.
pub struct Plan<'a> {
    /// The program to execute; `None` for the first word of `argv`.
    pub program: Option<&'a str>,
    pub argv: &'a [String],
    pub environment: Environment<'a>,
    pub working_dir: &'a str,
    pub credentials: Option<&'a Credentials>,
    pub umask: Option<u32>,
    pub limits: &'a [Limit],
    pub nice: Option<i32>,
    pub oom_score_adj: Option<i32>,
    /// Standard input, output and error.
    pub stdio: [RawFd; 3],
    /// Standard input is a terminal that becomes the controlling one.
    pub is_terminal: bool,
    /// Descriptors to be found at 3, 4, …
    pub passed: &'a [BorrowedFd<'a>],
    /// The record into which the child writes its identity.
    pub record: Option<Record<'a>>,
    /// The cgroup to start in.
    pub cgroup: Option<Group<'a>>,
    /// The tag by which it and all it starts are recognised.
    pub tag: Option<ProcessTag>,
    pub boot: BootId,
}

impl Plan<'_> {
    fn program(&self) -> Option<&str> {
        self.program.or(self.argv.first().map(String::as_str))
    }
}

/// A whole environment as `NAME=value`: the shared variables without the hidden ones (in order),
/// and the service's own.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    pub shared: &'a Strings,
    pub hidden: &'a [usize],
    pub own: &'a [String],
}

/// The place of the child's identity; the caller holds the lock on the file.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    pub file: &'a File,
    pub offset: u64,
    pub run: RunId,
}

/// A cgroup, and the way a process enters it.
#[derive(Debug, Clone, Copy)]
pub struct Group<'a> {
    pub folder: &'a OwnedFd,
    /// The child is forked outside and moves itself, because a process forked directly into the
    /// group is killed: see [`can_be_born_in`].
    pub walks_in: bool,
}

/// Whether a process forked directly into this cgroup survives.
///
/// Linux up to at least 6.18 compares the kill counts of the parent's group and of the new one, and
/// kills the child if they differ. In a keeper whose own group was killed once before, no service
/// would survive.
pub fn can_be_born_in(folder: &OwnedFd) -> bool {
    let mask = crate::signal::block_all();
    let lived = clone::lives_in(folder.as_raw_fd());
    crate::signal::restore_mask(&mask);
    lived
}

/// A created process; [`Spawned::outcome`] tells whether its program could be executed.
#[derive(Debug)]
pub struct Spawned {
    pub pid: u32,
    report: File,
    /// Memory the child may still use; `None` only during drop.
    kept: Option<KeptMemory>,
}

/// The result of a spawn.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The service's own program runs.
    Running,
    Failed(SpawnFailure),
    /// Not known yet.
    Pending,
}

/// Steps of the child, reported if one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum SpawnStep {
    Session = 1,
    Stdio,
    Terminal,
    Cgroup,
    Umask,
    Limits,
    Nice,
    OomScore,
    Groups,
    Group,
    User,
    WorkingDir,
    Identity,
    Exec,
}

/// Descriptors that the child must not overwrite are at or above this number.
const FIRST_FREE: RawFd = 16;

/// Size of an error report: step, index of the candidate, errno.
const REPORT: usize = 8;

/// Frees the memory kept for reuse by the next children.
pub fn forget_spares() {
    prepared::forget_spares();
}

/// Creates the process. An error means that no process exists.
pub fn spawn(plan: &Plan<'_>) -> Result<Spawned, SpawnFailure> {
    let fail = |step: &str, subject: &str, error: io::Error| SpawnFailure {
        step: step.into(),
        subject: subject.into(),
        errno: error.raw_os_error().unwrap_or(libc::EINVAL),
    };
    let program = plan.program().unwrap_or_default();
    failpoint::step(Point::SpawnPrepare).map_err(|error| fail("prepare", program, error))?;
    // Held until the fork is done.
    let passed = clear_of_targets(plan.passed)
        .map_err(|error| fail("pass descriptors to", program, error))?;
    let prepared =
        PreparedPlan::new(plan, &passed).map_err(|error| fail("prepare", program, error))?;
    let (report, theirs) =
        report_pipe().map_err(|error| fail("create a pipe for", program, error))?;
    failpoint::step(Point::SpawnFork)
        .map_err(|error| fail("create a process for", program, error))?;
    let mask = crate::signal::block_all();
    let made = clone::make(prepared, theirs.as_raw_fd());
    crate::signal::restore_mask(&mask);
    let (pid, kept) = made.map_err(|error| fail("create a process for", program, error))?;
    failpoint::moment(Point::SpawnForked);
    Ok(Spawned { pid, report: File::from(report), kept: Some(kept) })
}

/// The pipe for the child's report. Both ends are non-blocking, and the child's end is clear of its
/// targets.
fn report_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::pipe::PipeFlags;
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    if theirs.as_raw_fd() >= FIRST_FREE {
        return Ok((ours, theirs));
    }
    Ok((ours, rustix::io::fcntl_dupfd_cloexec(&theirs, FIRST_FREE)?))
}

/// Duplicates descriptors to numbers that no target (3, 4, …) will overwrite.
fn clear_of_targets(passed: &[BorrowedFd<'_>]) -> io::Result<Vec<OwnedFd>> {
    passed.iter().map(|fd| Ok(rustix::io::fcntl_dupfd_cloexec(fd, FIRST_FREE)?)).collect()
}

impl Spawned {
    /// Reads the child's report.
    pub fn outcome(&mut self) -> Outcome {
        let mut bytes = [0; REPORT];
        match self.report.read(&mut bytes) {
            Ok(0) => Outcome::Running,
            Ok(REPORT) => Outcome::Failed(self.failure(bytes)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Outcome::Pending,
            Ok(_) | Err(_) => Outcome::Failed(SpawnFailure {
                step: "start".into(),
                subject: self.program(0),
                errno: libc::EIO,
            }),
        }
    }

    fn failure(&self, bytes: [u8; REPORT]) -> SpawnFailure {
        let errno = i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let (step, subject) = match bytes[0] {
            n if n == SpawnStep::WorkingDir as u8 => {
                let folder = self.prepared().map(|prepared| text(&prepared.working_dir));
                ("enter the working directory", folder.unwrap_or_default())
            }
            n if n == SpawnStep::Exec as u8 => ("run", self.program(usize::from(bytes[1]))),
            n => (step_words(n), self.program(0)),
        };
        SpawnFailure { step: step.into(), subject, errno }
    }

    fn program(&self, index: usize) -> String {
        let candidates = self.prepared().map_or(&[][..], |prepared| &prepared.candidates);
        candidates.get(index).or(candidates.first()).map(text).unwrap_or_default()
    }

    fn prepared(&self) -> Option<&PreparedPlan> {
        self.kept.as_ref().map(KeptMemory::prepared)
    }
}

/// Readable when the program runs (end of file) or failed to run (an error report).
impl AsFd for Spawned {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        if let Some(kept) = self.kept.take() {
            clone::let_go(&self.report, kept);
        }
    }
}

fn text(bytes: &CString) -> String {
    bytes.to_string_lossy().into_owned()
}

fn step_words(step: u8) -> &'static str {
    const WORDS: &[(SpawnStep, &str)] = &[
        (SpawnStep::Session, "begin a session for"),
        (SpawnStep::Stdio, "connect the output of"),
        (SpawnStep::Terminal, "attach the terminal of"),
        (SpawnStep::Cgroup, "enter the cgroup for"),
        (SpawnStep::Umask, "set the umask of"),
        (SpawnStep::Limits, "set the limits of"),
        (SpawnStep::Nice, "set the priority of"),
        (SpawnStep::OomScore, "set the OOM score of"),
        (SpawnStep::Groups, "set the supplementary groups of"),
        (SpawnStep::Group, "set the group of"),
        (SpawnStep::User, "set the user of"),
        (SpawnStep::Identity, "record the identity of"),
    ];
    WORDS.iter().find(|(known, _)| *known as u8 == step).map_or("start", |(_, words)| *words)
}
