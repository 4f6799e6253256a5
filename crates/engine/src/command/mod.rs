//! One command, run to its end for whoever asked: its exit, its output, and nothing of it left afterwards.
//!
//! Both streams are read all the time, so no amount of output blocks the command. When it ends, when its time is over, when
//! the operation is cancelled or the daemon ends: everything that it started is killed. A program that is to stay is a
//! service. How processes are found after a daemon was killed is in `mark`.

mod capture;
mod mark;
mod produce;
pub(crate) mod surroundings;

use crate::error::EngineError;
use capture::Capture;
use mark::Mark;
pub(crate) use mark::{VARIABLE as MARK_VARIABLE, left_behind, sweep};
use proctor_core::config::secret::shown_text;
use proctor_core::home::Home;
use proctor_sys::cgroup::{self, Hierarchy};
use proctor_sys::process::Process;
use proctor_sys::tree::{Look, Tree};
use proctor_sys::{clock, leash, signal};
pub(crate) use produce::{Produced, Program};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
pub use surroundings::Surroundings;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{timeout, timeout_at};

/// Commands at once: each holds two buffers, and more than this is no person's work.
const MOST: usize = 32;

/// When the command has ended, its output usually ends with it; a helper that is about to end may write for this long.
const LAST_WORDS: Duration = Duration::from_secs(1);

const READ_CHUNK: usize = 16 << 10;

/// A command, with nothing left to look up.
#[derive(Debug, Clone)]
pub struct CommandPlan {
    /// Program and arguments; never empty.
    pub argv: Vec<String>,
    /// All of its environment; the last value of a name counts.
    pub env: Vec<(String, String)>,
    pub working_dir: PathBuf,
    pub limit: Duration,
}

/// What became of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub end: End,
    /// What is no UTF-8 is replaced; see [`Finished::truncated`].
    pub stdout: String,
    pub stderr: String,
    /// There was more output than is kept; the beginning and the end are there.
    pub truncated: bool,
    pub took: Duration,
    /// Processes that the command had started and that were still there: they were killed.
    pub left: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Code(i32),
    Signal(i32),
    /// Its time was over, and all of it was killed.
    TimedOut,
    /// No process came of it: why.
    NotStarted(String),
}

/// Runs commands, a bounded number at once.
pub(crate) struct Commands {
    home: Home,
    room: Semaphore,
    /// Looked for when the first command is run.
    groups: OnceLock<Option<Hierarchy>>,
}

impl Commands {
    pub(crate) fn new(home: Home) -> Commands {
        Commands { home, room: Semaphore::new(MOST), groups: OnceLock::new() }
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    /// Where the cgroups of commands are, if there are cgroups.
    fn groups(&self) -> Option<&Hierarchy> {
        self.groups.get_or_init(|| Hierarchy::find(&self.home.label())).as_ref()
    }

    /// Run it to its end. Dropped early, everything of it is killed.
    pub(crate) async fn run(&self, plan: CommandPlan) -> Result<Finished, EngineError> {
        let busy = || EngineError::Failed(format!("{MOST} commands are running already"));
        let _room = self.room.try_acquire().map_err(|_| busy())?;
        let begun = Instant::now();
        let deadline = begun + plan.limit;
        let mut mark = Mark::new(&self.home, self.groups());
        let finished = match start(&plan, &self.home, &mut mark) {
            Ok(child) => {
                let pair = [Capture::default(), Capture::default()];
                Running::new(child, mark).finish(deadline.into(), pair).await?.finished()
            }
            Err(why) => {
                mark.forget();
                Finished::not_started(why)
            }
        };
        Ok(Finished { took: begun.elapsed(), ..finished })
    }
}

impl Finished {
    fn not_started(why: String) -> Finished {
        let (end, took) = (End::NotStarted(why), Duration::ZERO);
        Finished {
            end,
            stdout: String::new(),
            stderr: String::new(),
            truncated: false,
            took,
            left: Vec::new(),
        }
    }
}

fn start(plan: &CommandPlan, home: &Home, mark: &mut Mark) -> Result<Child, String> {
    let Some((program, arguments)) = plan.argv.split_first() else {
        return Err("there is no command".into());
    };
    let path = plan.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| &**value);
    let file = proctor_sys::program::resolve(program, &plan.working_dir, path)
        .map_err(|missing| unstartable(program, &plan.working_dir, &missing.to_string()))?;
    let mut command = std::process::Command::new(&file);
    std::os::unix::process::CommandExt::arg0(&mut command, program);
    command
        .args(arguments)
        .env_clear()
        // So that `proctor` called by a command speaks to the Proctor that runs it.
        .envs(home.explicit().map(|folder| ("PROCTOR_HOME", folder)))
        .envs(plan.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&plan.working_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    mark.put_on(&mut command);
    leash::hold(&mut command, Some(signal::SIGKILL));
    let spawned = Command::from(command).spawn();
    spawned.map_err(|error| unstartable(program, &plan.working_dir, &error.to_string()))
}

/// A command that has ended.
struct Over {
    end: End,
    out: Capture,
    err: Capture,
    left: Vec<String>,
}

impl Over {
    fn finished(self) -> Finished {
        let ((stdout, cut), (stderr, also_cut)) = (self.out.text(), self.err.text());
        let (end, truncated, left) = (self.end, cut || also_cut, self.left);
        Finished { end, stdout, stderr, truncated, took: Duration::ZERO, left }
    }
}

fn unstartable(program: &str, folder: &Path, why: &str) -> String {
    match folder.is_dir() {
        true => format!("'{}' cannot be run: {}", shown_text(program), shown_text(why)),
        false => format!("the working directory {} is not a folder", folder.display()),
    }
}

/// A command that has been started. Dropped, it is killed with everything it started.
struct Running {
    child: Option<Child>,
    tree: Tree,
    mark: Option<Mark>,
    /// For its standard input.
    input: Vec<u8>,
    /// What it leaves running when it ends by itself is looked for: at every process of the machine.
    thorough: bool,
    /// It is asked to end before it is killed, because it tidies up then.
    gentle: bool,
    /// Until the other end of this is dropped, or something is sent; then its time is over.
    wanted: Option<oneshot::Receiver<()>>,
    /// Something was sent: it does not end by itself.
    is_stuck: bool,
}

impl Running {
    fn new(child: Child, mark: Mark) -> Running {
        let tree = mark.tree(child.id().unwrap_or(0));
        let (child, mark, input) = (Some(child), Some(mark), Vec::new());
        let (thorough, gentle, wanted, is_stuck) = (true, false, None, false);
        Running { child, tree, mark, input, thorough, gentle, wanted, is_stuck }
    }

    async fn finish(
        mut self,
        deadline: tokio::time::Instant,
        [out, err]: [Capture; 2],
    ) -> Result<Over, EngineError> {
        let gone = || EngineError::Failed("the command was lost".into());
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
                // Closed by the command itself: its end is still to come.
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
            Ok(Err(error)) => return Err(EngineError::Failed(format!("cannot wait: {error}"))),
            Err(is_stuck) => {
                self.is_stuck = is_stuck;
                End::TimedOut
            }
        };
        // Whoever still has the pipes is given a moment, unless the time is over anyway.
        if end != End::TimedOut {
            let moment = (tokio::time::Instant::now() + LAST_WORDS).min(deadline);
            let _ = timeout_at(moment, async { tokio::join!(out.read(), err.read()) }).await;
        }
        let left = match self.mark.take_if(|_| !self.thorough && end != End::TimedOut) {
            Some(mark) => {
                mark.forget();
                Vec::new()
            }
            None => self.clear(&end).await?,
        };
        let _ = timeout(LAST_WORDS, async { tokio::join!(out.read(), err.read()) }).await;
        Ok(Over { end, out: out.capture, err: err.capture, left })
    }

    /// End what is left: the processes that there were beside the command itself.
    async fn clear(&mut self, end: &End) -> Result<Vec<String>, EngineError> {
        if self.gentle
            && *end == End::TimedOut
            && let Some(child) = &mut self.child
            && end_gently(child, self.thorough || self.is_stuck).await
        {
            self.tree.reaped_at = Some(clock::ticks_since_boot());
        }
        let tree = self.tree.clone();
        let itself = self.child.as_ref().and_then(Child::id).filter(|_| *end == End::TimedOut);
        let left = crate::blocking(move || {
            let members = tree.members(Look::Everywhere);
            let others = members.iter().filter(|member| Some(member.pid) != itself);
            let left: Vec<String> = others.map(|member| shown_process(member.pid)).collect();
            // Only a cgroup tells for certain that nobody was born while the others were looked at.
            let is_over = members.is_empty()
                && tree
                    .cgroup
                    .as_deref()
                    .is_some_and(|group| cgroup::populated(group) == Some(false));
            (left, if is_over { 0 } else { mark::end(&tree) })
        });
        let (left, immortal) = left.await?;
        if let Some(mut child) = self.child.take()
            && *end == End::TimedOut
        {
            let _ = timeout(LAST_WORDS, child.wait()).await;
        }
        match (immortal, self.mark.take()) {
            (0, Some(mark)) => mark.forget(),
            (0, None) => {}
            // Its file stays, and the next daemon tries again.
            (immortal, _) => tracing::error!(immortal, "processes of a command cannot be killed"),
        }
        Ok(left)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(mark) = self.mark.take() else { return };
        let (gentle, thorough) = (self.gentle, self.thorough);
        match &self.child {
            Some(child) if gentle && thorough => ask_to_end(child),
            Some(_) if gentle => {}
            Some(_) | None => self.tree.kill(Look::Everywhere),
        }
        // Reaped here; if the daemon is ending, by the keeper, and the file is left to the next daemon.
        let (child, mut tree) = (self.child.take(), self.tree.clone());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Some(mut child) = child {
                    if gentle && !end_gently(&mut child, thorough).await {
                        tree.kill(Look::Everywhere);
                    }
                    reap(child, &mut tree).await;
                }
                if matches!(crate::blocking(move || mark::end(&tree)).await, Ok(0)) {
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

/// Returns whether something was sent.
async fn time_over(deadline: tokio::time::Instant, wanted: Option<oneshot::Receiver<()>>) -> bool {
    match wanted {
        Some(wanted) => matches!(timeout_at(deadline, wanted).await, Ok(Ok(()))),
        None => {
            tokio::time::sleep_until(deadline).await;
            false
        }
    }
}

/// Wait for it to end, and ask it to: `at_once` if it may wait for somebody else, and otherwise after a moment. Has it ended?
async fn end_gently(child: &mut Child, at_once: bool) -> bool {
    if !at_once && timeout(LAST_WORDS, child.wait()).await.is_ok() {
        return true;
    }
    ask_to_end(child);
    timeout(LAST_WORDS, child.wait()).await.is_ok()
}

/// The command alone: if what it has called were to end before it, it would take that for a failure, and go on without.
fn ask_to_end(child: &Child) {
    if let Some(process) = child.id().and_then(Process::open) {
        let _ = process.signal(signal::SIGTERM);
    }
}

/// From now on its pid may be another's.
async fn reap(mut child: Child, tree: &mut Tree) {
    if child.wait().await.is_ok() {
        tree.reaped_at = Some(clock::ticks_since_boot());
    }
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(code),
        (None, signal) => End::Signal(signal.unwrap_or(0)),
    }
}

/// One of its streams, and what came of it so far.
struct Stream<R> {
    pipe: Option<R>,
    capture: Capture,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(pipe: Option<R>, capture: Capture) -> Stream<R> {
        Stream { pipe, capture }
    }

    /// Read to the end. May be dropped and begun again.
    async fn read(&mut self) {
        let mut chunk = Vec::with_capacity(READ_CHUNK);
        while let Some(pipe) = &mut self.pipe {
            chunk.clear();
            match pipe.read_buf(&mut chunk).await {
                Ok(1..) => self.capture.push(&chunk),
                Ok(0) | Err(_) => self.pipe = None,
            }
            if self.capture.is_over() {
                // Whoever writes on is told by the kernel that nobody reads it.
                self.pipe = None;
            }
        }
    }
}

/// Give it all there is; it may end without reading it.
async fn feed(pipe: Option<ChildStdin>, input: &[u8]) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(input).await;
    }
}

#[cfg(test)]
mod tests;
