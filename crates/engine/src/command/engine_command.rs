//! Runs a program for the engine itself and returns its output as bytes, up to a limit.

use super::capture::Capture;
use super::process_mark::ProcessMark;
use super::{CommandExit, Commands, RunningCommand};
use crate::error::EngineError;
use proctor_sys::landlock::Ruleset;
use proctor_sys::{die_with_parent, signal};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;
use tokio::sync::oneshot;

/// A fully resolved program.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Absolute path.
    pub(crate) file: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// The whole environment.
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) working_dir: PathBuf,
    pub(crate) input: Vec<u8>,
    /// Standard input from a file, instead of those bytes.
    pub(crate) file_input: Option<File>,
    pub(crate) limit: Duration,
    /// Maximum number of bytes read from the beginning of its output; then the pipe is closed.
    pub(crate) most: usize,
    pub(crate) fence: Option<Ruleset>,
    /// Memory limit of each of its processes, in bytes.
    pub(crate) memory: Option<u64>,
    /// It may start lasting processes: they are searched for after it has ended.
    pub(crate) thorough: bool,
    /// It cleans up when it is asked to end. One that starts no other programs is about to end anyway: it gets
    /// a moment before it is asked, and is not asked when the daemon dies.
    pub(crate) gentle: bool,
    /// Until the other end of this is dropped; then its time is over. A value that is sent also ends one that is
    /// [gentle](Self::gentle) without a moment before it is asked.
    pub(crate) wanted: Option<oneshot::Receiver<()>>,
    /// Receives its process id.
    pub(crate) started: Option<oneshot::Sender<u32>>,
    /// Stays open in it, and in all that it starts.
    pub(crate) kept: Option<OwnedFd>,
}

/// The result of a program.
#[derive(Debug)]
pub(crate) struct ProgramOutput {
    pub(crate) end: CommandExit,
    pub(crate) stdout: Vec<u8>,
    /// The output was truncated.
    pub(crate) cut: bool,
    pub(crate) stderr: String,
}

impl Commands {
    /// Runs it to its end. If the future is dropped early, its whole process tree is killed.
    pub(crate) async fn produce(&self, program: Program) -> Result<ProgramOutput, EngineError> {
        let deadline = Instant::now() + program.limit;
        let may_stay = program.thorough || program.gentle;
        // One that starts no programs of others leaves nothing that a cgroup would be needed for.
        let groups = self.groups().filter(|_| program.thorough);
        let mut mark =
            if may_stay { ProcessMark::new(&self.home, groups) } else { ProcessMark::unnoted() };
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
        die_with_parent::hold(
            &mut command,
            match (program.gentle, program.thorough) {
                (false, _) => Some(signal::SIGKILL),
                (true, true) => Some(signal::SIGTERM),
                // It does not know yet of files that it has just created, and would leave them behind.
                (true, false) => None,
            },
        );
        if let Some(fence) = &program.fence {
            fence.around(&mut command);
        }
        if let Some(bytes) = program.memory {
            die_with_parent::limit_memory(&mut command, bytes);
        }
        if let Some(kept) = program.kept {
            die_with_parent::keep_open(&mut command, kept);
        }
        let child = match Command::from(command).spawn() {
            Ok(child) => child,
            Err(error) => {
                mark.forget();
                let end = CommandExit::NotStarted(error.to_string());
                let (stdout, stderr) = (Vec::new(), String::new());
                return Ok(ProgramOutput { end, stdout, cut: false, stderr });
            }
        };
        if let (Some(started), Some(pid)) = (program.started, child.id()) {
            let _ = started.send(pid);
        }
        let mut running = RunningCommand::new(child, mark);
        running.input = program.input;
        (running.thorough, running.gentle) = (program.thorough, program.gentle);
        running.wanted = program.wanted;
        // The error output has no limit that ends the program.
        let captures = [Capture::beginning(program.most), Capture::default()];
        let over = running.finish(deadline.into(), captures).await?;
        let ((stdout, cut), (stderr, _)) = (over.out.bytes(), over.err.text());
        Ok(ProgramOutput { end: over.end, stdout, cut, stderr })
    }
}
