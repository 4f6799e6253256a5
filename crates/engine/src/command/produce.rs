//! A program that the engine itself needs, for what it writes: bytes, as many as are wanted.

use super::capture::Capture;
use super::mark::Mark;
use super::{Commands, End, Running};
use crate::error::EngineError;
use proctor_sys::fence::Fence;
use proctor_sys::{leash, signal};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::sync::oneshot;

/// A program with everything decided.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Absolute.
    pub(crate) file: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// All of its environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) working_dir: PathBuf,
    pub(crate) input: Vec<u8>,
    /// Its standard input, instead of those bytes.
    pub(crate) file_input: Option<File>,
    pub(crate) limit: Duration,
    /// Of its output, this much from the beginning; then nobody reads it any more.
    pub(crate) most: usize,
    pub(crate) fence: Option<Fence>,
    /// It, and all that it starts, each have this many bytes at most.
    pub(crate) memory: Option<u64>,
    /// It may start programs that stay: they are looked for when it has ended.
    pub(crate) thorough: bool,
    /// It tidies up when it is asked to end, as well as it can. One that starts no programs of others is about to end anyway:
    /// it gets a moment before it is asked, and nobody asks when the daemon dies.
    pub(crate) gentle: bool,
    /// Until the other end of this is dropped; then its time is over. A value that is sent also ends one that is
    /// [gentle](Self::gentle) without a moment before it is asked.
    pub(crate) wanted: Option<oneshot::Receiver<()>>,
    /// Receives its process id.
    pub(crate) started: Option<oneshot::Sender<u32>>,
    /// Stays open in it, and in all that it starts.
    pub(crate) kept: Option<OwnedFd>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Produced {
    pub(crate) end: End,
    pub(crate) stdout: Vec<u8>,
    /// There was more than was wanted.
    pub(crate) cut: bool,
    pub(crate) stderr: String,
}

impl Commands {
    /// Run it to its end. Dropped early, everything of it is killed.
    pub(crate) async fn produce(&self, program: Program) -> Result<Produced, EngineError> {
        let deadline = Instant::now() + program.limit;
        let may_stay = program.thorough || program.gentle;
        // One that starts no programs of others leaves nothing that a cgroup would be needed for.
        let groups = self.groups().filter(|_| program.thorough);
        let mut mark = if may_stay { Mark::new(&self.home, groups) } else { Mark::unnoted() };
        let mut command = std::process::Command::new(&program.file);
        command
            .args(&program.args)
            .env_clear()
            .envs(program.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&program.working_dir)
            .stdin(match program.file_input {
                Some(file) => file.into(),
                None if program.input.is_empty() => Stdio::null(),
                None => Stdio::piped(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        mark.put_on(&mut command);
        leash::hold(
            &mut command,
            match (program.gentle, program.thorough) {
                (false, _) => Some(signal::SIGKILL),
                (true, true) => Some(signal::SIGTERM),
                // What it has just made it does not know of yet, and would leave behind.
                (true, false) => None,
            },
        );
        if let Some(fence) = &program.fence {
            fence.around(&mut command);
        }
        if let Some(bytes) = program.memory {
            leash::limit_memory(&mut command, bytes);
        }
        if let Some(kept) = program.kept {
            leash::keep_open(&mut command, kept);
        }
        let child = match Command::from(command).spawn() {
            Ok(child) => child,
            Err(error) => {
                mark.forget();
                let end = End::NotStarted(error.to_string());
                let (stdout, stderr) = (Vec::new(), String::new());
                return Ok(Produced { end, stdout, cut: false, stderr });
            }
        };
        if let (Some(started), Some(pid)) = (program.started, child.id()) {
            let _ = started.send(pid);
        }
        let mut running = Running::new(child, mark);
        running.input = program.input;
        (running.thorough, running.gentle) = (program.thorough, program.gentle);
        running.wanted = program.wanted;
        // Nobody is ended for complaining too much.
        let captures = [Capture::beginning(program.most), Capture::default()];
        let over = running.finish(deadline.into(), captures).await?;
        let ((stdout, cut), (stderr, _)) = (over.out.bytes(), over.err.text());
        Ok(Produced { end: over.end, stdout, cut, stderr })
    }
}
