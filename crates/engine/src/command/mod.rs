//! Runs one command to its end for a caller: returns its exit and output, and leaves no process behind.
//!
//! Both streams are read all the time, so no amount of output blocks the command. Everything that it started is
//! killed when it ends, when its timeout expires, when the operation is cancelled or when the daemon ends. A
//! program that is to stay is a service. `mark` describes how processes are found after a daemon was killed.

mod capture;
pub(crate) mod command_environment;
mod engine_command;
mod process_mark;

use crate::error::EngineError;
use capture::Capture;
pub use command_environment::CommandEnvironment;
pub(crate) use engine_command::{Program, ProgramOutput};
use process_mark::ProcessMark;
pub(crate) use process_mark::{VARIABLE as MARK_VARIABLE, left_behind, sweep};
use proctor_core::config::secret::shown_text;
use proctor_core::home::Home;
use proctor_sys::cgroup::{self, Hierarchy};
use proctor_sys::process::Process;
use proctor_sys::process_tree::{SearchScope, Tree};
use proctor_sys::{clock, die_with_parent, signal};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{timeout, timeout_at};

/// Maximum number of concurrent commands: each has two buffers, and a person needs fewer.
const MAX_COMMANDS: usize = 32;

/// Time that the pipes stay open after the command has ended: a helper that is about to end may still write.
const LAST_WORDS: Duration = Duration::from_secs(1);

const READ_CHUNK: usize = 16 << 10;

/// A fully resolved command.
#[derive(Debug, Clone)]
pub struct CommandPlan {
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// The whole environment; the last value of a name counts.
    pub env: Vec<(String, String)>,
    pub working_dir: PathBuf,
    pub limit: Duration,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutcome {
    pub end: CommandExit,
    /// Invalid UTF-8 is replaced; see [`CommandOutcome::truncated`].
    pub stdout: String,
    pub stderr: String,
    /// The output exceeded the limit; its beginning and its end are kept.
    pub truncated: bool,
    pub took: Duration,
    /// Processes that the command had started and that still ran: they were killed.
    pub left: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandExit {
    Code(i32),
    Signal(i32),
    /// The timeout expired, and all its processes were killed.
    TimedOut,
    /// It could not be started; the text says why.
    NotStarted(String),
}

/// Runs commands, a limited number at once.
pub(crate) struct Commands {
    home: Home,
    room: Semaphore,
    /// Looked for when the first command is run.
    groups: OnceLock<Option<Hierarchy>>,
}

impl Commands {
    pub(crate) fn new(home: Home) -> Commands {
        Commands { home, room: Semaphore::new(MAX_COMMANDS), groups: OnceLock::new() }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// The parent of the commands' cgroups; `None` if cgroups cannot be used.
    fn groups(&self) -> Option<&Hierarchy> {
        self.groups.get_or_init(|| Hierarchy::find(&self.home.label())).as_ref()
    }

    /// Runs it to its end. If the future is dropped early, its whole process tree is killed.
    pub(crate) async fn run(&self, plan: CommandPlan) -> Result<CommandOutcome, EngineError> {
        let busy = || {
            EngineError::Failed(format!(
                "the limit of {MAX_COMMANDS} running commands is reached; try again later"
            ))
        };
        let _room = self.room.try_acquire().map_err(|_| busy())?;
        let begun = Instant::now();
        let deadline = begun + plan.limit;
        let mut mark = ProcessMark::new(&self.home, self.groups());
        let finished = match start(&plan, &self.home, &mut mark) {
            Ok(child) => {
                let pair = [Capture::default(), Capture::default()];
                RunningCommand::new(child, mark).finish(deadline.into(), pair).await?.finished()
            }
            Err(why) => {
                mark.forget();
                CommandOutcome::not_started(why)
            }
        };
        Ok(CommandOutcome { took: begun.elapsed(), ..finished })
    }
}

impl CommandOutcome {
    fn not_started(why: String) -> CommandOutcome {
        let (end, took) = (CommandExit::NotStarted(why), Duration::ZERO);
        CommandOutcome {
            end,
            stdout: String::new(),
            stderr: String::new(),
            truncated: false,
            took,
            left: Vec::new(),
        }
    }
}

fn start(plan: &CommandPlan, home: &Home, mark: &mut ProcessMark) -> Result<Child, String> {
    let Some((program, arguments)) = plan.argv.split_first() else {
        return Err("the command is empty".into());
    };
    let path = plan.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| &**value);
    let file = proctor_sys::program::resolve(program, &plan.working_dir, path)
        .map_err(|missing| unstartable(program, &plan.working_dir, &missing.to_string()))?;
    let mut command = std::process::Command::new(&file);
    std::os::unix::process::CommandExt::arg0(&mut command, program);
    command
        .args(arguments)
        .env_clear()
        // So that `proctor` called by a command talks to the Proctor that runs it.
        .envs(home.explicit().map(|folder| ("PROCTOR_HOME", folder)))
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&plan.working_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    mark.put_on(&mut command);
    die_with_parent::hold(&mut command, Some(signal::SIGKILL));
    let spawned = Command::from(command).spawn();
    spawned.map_err(|error| unstartable(program, &plan.working_dir, &error.to_string()))
}

/// A command that has ended.
struct EndedCommand {
    end: CommandExit,
    out: Capture,
    err: Capture,
    left: Vec<String>,
}

impl EndedCommand {
    fn finished(self) -> CommandOutcome {
        let ((stdout, cut), (stderr, also_cut)) = (self.out.text(), self.err.text());
        let (end, truncated, left) = (self.end, cut || also_cut, self.left);
        CommandOutcome { end, stdout, stderr, truncated, took: Duration::ZERO, left }
    }
}

fn unstartable(program: &str, folder: &Path, why: &str) -> String {
    match folder.is_dir() {
        true => format!("cannot run '{}': {}", shown_text(program), shown_text(why)),
        false => format!("the working directory {} is not a folder", folder.display()),
    }
}

/// A started command. If it is dropped, it is killed with everything it started.
struct RunningCommand {
    child: Option<Child>,
    tree: Tree,
    mark: Option<ProcessMark>,
    /// Bytes for its standard input.
    input: Vec<u8>,
    /// Search for processes that it leaves running, among all processes of the machine.
    thorough: bool,
    /// Ask it to end before it is killed, because it cleans up then.
    gentle: bool,
    /// When the other end of this channel is dropped or sends, the command is ended like after a timeout.
    wanted: Option<oneshot::Receiver<()>>,
    /// The channel sent: the command does not end by itself.
    is_stuck: bool,
}

impl RunningCommand {
    fn new(child: Child, mark: ProcessMark) -> RunningCommand {
        let tree = mark.tree(child.id().unwrap_or(0));
        let (child, mark, input) = (Some(child), Some(mark), Vec::new());
        let (thorough, gentle, wanted, is_stuck) = (true, false, None, false);
        RunningCommand { child, tree, mark, input, thorough, gentle, wanted, is_stuck }
    }

    async fn finish(
        mut self,
        deadline: tokio::time::Instant,
        [out, err]: [Capture; 2],
    ) -> Result<EndedCommand, EngineError> {
        let gone = || EngineError::Failed("the task that ran the command failed".into());
        let child = self.child.as_mut().ok_or_else(gone)?;
        let mut out = Stream::new(child.stdout.take(), out);
        let mut err = Stream::new(child.stderr.take(), err);
        let ended = {
            let feeding = feed(child.stdin.take(), &self.input);
            let reading = async { tokio::join!(out.read(), err.read(), feeding) };
            let over = time_over(deadline, self.wanted.take());
            tokio::pin!(reading, over);
            tokio::select! {
                ended = child.wait() => Ok(ended),
                // The command itself closed its streams: its end is still to come.
                _ = &mut reading => tokio::select! {
                    ended = child.wait() => Ok(ended),
                    is_stuck = &mut over => Err(is_stuck),
                },
                is_stuck = &mut over => Err(is_stuck),
            }
        };
        let end = match ended {
            Ok(Ok(status)) => {
                self.tree.reaped_at = Some(clock::ticks_since_boot());
                end_of(status)
            }
            Ok(Err(error)) => {
                return Err(EngineError::Failed(format!("cannot wait for the command: {error}")));
            }
            Err(is_stuck) => {
                self.is_stuck = is_stuck;
                CommandExit::TimedOut
            }
        };
        // Other owners of the pipes get a moment, unless the timeout has expired.
        if end != CommandExit::TimedOut {
            let moment = (tokio::time::Instant::now() + LAST_WORDS).min(deadline);
            let _ = timeout_at(moment, async { tokio::join!(out.read(), err.read()) }).await;
        }
        let left = match self.mark.take_if(|_| !self.thorough && end != CommandExit::TimedOut) {
            Some(mark) => {
                mark.forget();
                Vec::new()
            }
            None => self.clear(&end).await?,
        };
        let _ = timeout(LAST_WORDS, async { tokio::join!(out.read(), err.read()) }).await;
        Ok(EndedCommand { end, out: out.capture, err: err.capture, left })
    }

    /// Ends the remaining processes and returns them, without the command itself.
    async fn clear(&mut self, end: &CommandExit) -> Result<Vec<String>, EngineError> {
        if self.gentle
            && *end == CommandExit::TimedOut
            && let Some(child) = &mut self.child
            && end_gently(child, self.thorough || self.is_stuck).await
        {
            self.tree.reaped_at = Some(clock::ticks_since_boot());
        }
        let tree = self.tree.clone();
        let itself =
            self.child.as_ref().and_then(Child::id).filter(|_| *end == CommandExit::TimedOut);
        let left = crate::blocking(move || {
            let members = tree.members(SearchScope::Everywhere);
            let others = members.iter().filter(|member| Some(member.pid) != itself);
            let left: Vec<String> = others.map(|member| shown_process(member.pid)).collect();
            // Only a cgroup tells for certain that nobody was born while the others were looked at.
            let is_over = members.is_empty()
                && tree
                    .cgroup
                    .as_deref()
                    .is_some_and(|group| cgroup::populated(group) == Some(false));
            (left, if is_over { 0 } else { process_mark::end(&tree) })
        });
        let (left, immortal) = left.await?;
        if let Some(mut child) = self.child.take()
            && *end == CommandExit::TimedOut
        {
            let _ = timeout(LAST_WORDS, child.wait()).await;
        }
        match (immortal, self.mark.take()) {
            (0, Some(mark)) => mark.forget(),
            (0, None) => {}
            // Its file stays, and the next daemon tries again.
            (immortal, _) => tracing::error!(immortal, "cannot kill processes of a command"),
        }
        Ok(left)
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let Some(mark) = self.mark.take() else { return };
        let (gentle, thorough) = (self.gentle, self.thorough);
        match &self.child {
            Some(child) if gentle && thorough => ask_to_end(child),
            Some(_) if gentle => {}
            Some(_) | None => self.tree.kill(SearchScope::Everywhere),
        }
        // Reaped here, or by the keeper if the daemon is ending; then the file is left to the next daemon.
        let (child, mut tree) = (self.child.take(), self.tree.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Some(mut child) = child {
                    if gentle && !end_gently(&mut child, thorough).await {
                        tree.kill(SearchScope::Everywhere);
                    }
                    reap(child, &mut tree).await;
                }
                if matches!(crate::blocking(move || process_mark::end(&tree)).await, Ok(0)) {
                    mark.forget();
                }
            });
        }
    }
}

/// `sleep (pid 4711)`
fn shown_process(pid: u32) -> String {
    let name = proctor_sys::proc::name(pid).unwrap_or_else(|| "a process".into());
    format!("{name} (pid {pid})")
}

/// True if the channel sent before the deadline.
async fn time_over(deadline: tokio::time::Instant, wanted: Option<oneshot::Receiver<()>>) -> bool {
    match wanted {
        Some(wanted) => matches!(timeout_at(deadline, wanted).await, Ok(Ok(()))),
        None => {
            tokio::time::sleep_until(deadline).await;
            false
        }
    }
}

/// Waits for its end and asks it to end: `at_once` if it may wait for other programs, else after a moment. True if it ended.
async fn end_gently(child: &mut Child, at_once: bool) -> bool {
    if !at_once && timeout(LAST_WORDS, child.wait()).await.is_ok() {
        return true;
    }
    ask_to_end(child);
    timeout(LAST_WORDS, child.wait()).await.is_ok()
}

/// Signals the command alone: if its children ended first, it would treat that as a failure, and continue.
fn ask_to_end(child: &Child) {
    if let Some(process) = child.id().and_then(Process::open) {
        let _ = process.signal(signal::SIGTERM);
    }
}

/// Reaps the child; its pid may be reused afterwards.
async fn reap(mut child: Child, tree: &mut Tree) {
    if child.wait().await.is_ok() {
        tree.reaped_at = Some(clock::ticks_since_boot());
    }
}

fn end_of(status: ExitStatus) -> CommandExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => CommandExit::Code(code),
        (None, signal) => CommandExit::Signal(signal.unwrap_or(0)),
    }
}

/// One of its streams, and the output captured from it.
struct Stream<R> {
    pipe: Option<R>,
    capture: Capture,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(pipe: Option<R>, capture: Capture) -> Stream<R> {
        Stream { pipe, capture }
    }

    /// Reads to the end. May be dropped and restarted.
    async fn read(&mut self) {
        let mut chunk = Vec::with_capacity(READ_CHUNK);
        while let Some(pipe) = &mut self.pipe {
            chunk.clear();
            match pipe.read_buf(&mut chunk).await {
                Ok(1..) => self.capture.push(&chunk),
                Ok(0) | Err(_) => self.pipe = None,
            }
            if self.capture.is_over() {
                // The kernel tells the writer that nobody reads any more.
                self.pipe = None;
            }
        }
    }
}

/// Writes all input; the command may end without reading it.
async fn feed(pipe: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(input).await;
    }
}

#[cfg(test)]
mod tests;
