//! Status of a service in every response, without secrets.
//!
//! [`ServiceStatus::of`] makes it from the engine's view and the clock; `show` displays it.

mod address;
pub(crate) mod output;
mod show;

use crate::text_output::counted;
use crate::timestamps::{WallTime, rfc3339, seconds_between, span};
use address::url;
use proctor_core::config::signal;
use proctor_core::lifecycle::{Exit, FailReason, SpawnFailure, Wish};
use proctor_core::time::{Mono, Now};
use proctor_core::wire::{LastExit, PhaseView, ServiceState};
use proctor_engine::api::{Health, ServiceView, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub(crate) use show::{detail, overview, style_of};

/// A service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceStatus {
    pub name: String,
    pub state: State,
    /// Pid of the main process
    pub pid: Option<u32>,
    /// Id of the current run
    pub run: Option<String>,
    /// Start of the current run in RFC 3339
    pub started: Option<WallTime>,
    /// Time of the last state change in RFC 3339
    pub since: Option<WallTime>,
    /// Uptime of the current run in seconds
    pub uptime_seconds: Option<u64>,
    /// Restarts made by the restart policy; requested restarts are not counted
    pub restarts: u64,
    pub last_exit: Option<ExitStatus>,
    pub wish: WishWord,
    /// Reason for this state, if it is not obvious
    pub why: Option<String>,
    /// Next step and its time
    pub next: Option<String>,
    /// Number of processes that are still left during a stop
    pub left: Option<u32>,
    pub health: Option<HealthStatus>,
    /// CPU use of all its processes in percent of one core
    pub cpu_percent: Option<f64>,
    /// Memory of all its processes in bytes
    pub memory_bytes: Option<u64>,
    pub processes: Option<u32>,
    /// Configured port
    pub port: Option<u16>,
    /// TCP ports its processes listen on now; empty if CPU and memory are not measured
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<u16>,
    /// URL of the service, if one of the ports is clearly the right one
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Cursor to the end of its output, for `log.read`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_cursor: Option<String>,
    /// Command; secrets are masked
    pub command: String,
    pub working_dir: String,
    pub description: Option<String>,
    pub groups: Vec<String>,
    /// Added at run time (true) or defined in the configuration file (false)
    pub added: bool,
    /// Default service of requests without a name
    #[serde(default)]
    pub primary: bool,
    /// Settings changed since the start; a restart applies them
    pub stale: bool,
    /// Arguments of a restart that replace the configured ones until the next stop or restart; secrets are masked
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_override: Option<String>,
    /// Last lines of its output, if requested or if they explain the state
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Program that started the service
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Seconds until the service is removed, unless its owner uses it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds_left: Option<u64>,
}

/// State that people see of a phase.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum State {
    Stopped,
    Waiting,
    Starting,
    Running,
    Backoff,
    Stopping,
    Failed,
    Cooling,
}

impl State {
    pub const ALL: [State; 8] = [
        State::Stopped,
        State::Waiting,
        State::Starting,
        State::Running,
        State::Backoff,
        State::Stopping,
        State::Failed,
        State::Cooling,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            State::Stopped => "stopped",
            State::Waiting => "waiting",
            State::Starting => "starting",
            State::Running => "running",
            State::Backoff => "backoff",
            State::Stopping => "stopping",
            State::Failed => "failed",
            State::Cooling => "cooling",
        }
    }
}

/// Requested state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WishWord {
    Up,
    Once,
    Down,
}

/// End of the last run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExitStatus {
    pub kind: ExitKind,
    /// With kind `code`: exit code
    pub code: Option<i32>,
    /// With kinds `signal` and `oom`: number of the signal
    pub signal: Option<i32>,
    /// Sentence: `exit code 1`, `killed by SIGKILL`; with the last error if a health check ended the run
    pub text: String,
    /// Time in RFC 3339
    pub at: String,
    pub run: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExitKind {
    Code,
    Signal,
    /// The kernel killed it because of lack of memory
    Oom,
    /// It ended while no process of Proctor could observe it
    Unknown,
    /// The program never ran
    SpawnFailed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthStatus {
    pub state: HealthState,
    /// Time of the last check in RFC 3339
    pub at: Option<String>,
    /// Number of consecutive failures
    pub failures: u32,
    pub why: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// Not checked yet in this run
    Unknown,
    /// Failing during the start period; the failures do not count
    Starting,
    Healthy,
    Failing,
}

impl ServiceStatus {
    pub fn of(view: &ServiceView, now: Now, usage: Option<&Usage>) -> ServiceStatus {
        let state = view.state.as_ref();
        let run = state.and_then(|state| state.phase.run());
        ServiceStatus {
            name: view.name.to_string(),
            state: state_of(view),
            pid: run.map(|r| r.pid).filter(|pid| *pid != 0),
            run: run.map(|r| r.id.to_string()),
            started: run.map(|r| WallTime(r.started)),
            since: state.map(|s| WallTime(s.since)),
            uptime_seconds: run.map(|r| seconds_between(r.started, now.wall) as u64),
            restarts: state.map_or(0, |s| s.restarts),
            last_exit: state.and_then(|s| s.last_exit.as_ref()).map(|last| exit_status(view, last)),
            wish: wish_word(state.map_or(Wish::Down, |s| s.wish)),
            why: state.and_then(|state| why(view, state)),
            next: state.and_then(|s| next(s, now.mono)),
            left: state.and_then(left),
            health: view.health.as_ref().map(health_status),
            cpu_percent: usage.map(|u| (u.cpu_percent * 10.0).round() / 10.0),
            memory_bytes: usage.map(|u| u.memory_bytes),
            processes: usage.map(|u| u.processes),
            port: view.port,
            url: usage.and_then(|u| url(view.origin.as_deref(), view.port, u.ports.as_deref()?)),
            ports: usage.and_then(|u| u.ports.clone()).unwrap_or_default(),
            command: view.command.clone(),
            working_dir: view.working_dir.clone(),
            description: view.description.clone(),
            groups: view.groups.clone(),
            added: view.added,
            primary: view.primary,
            stale: view.stale,
            args_override: view.args_override.clone(),
            log_cursor: None,
            output: Vec::new(),
            owner: view.owner().map(ToString::to_string),
            lease_seconds_left: view.lease_seconds_left(now.mono),
        }
    }
}

fn state_of(view: &ServiceView) -> State {
    let phase = view.state.as_ref().map_or(&PhaseView::Down, |state| &state.phase);
    match phase {
        PhaseView::Down if view.start_pending => State::Starting,
        PhaseView::Down => State::Stopped,
        PhaseView::Held => State::Waiting,
        PhaseView::Backoff { .. } => State::Backoff,
        PhaseView::Starting { .. } => State::Starting,
        PhaseView::Up { .. } => State::Running,
        PhaseView::Stopping { .. } => State::Stopping,
        PhaseView::Failed { .. } => State::Failed,
        PhaseView::Cooling { .. } => State::Cooling,
    }
}

pub(crate) fn wish_word(wish: Wish) -> WishWord {
    match wish {
        Wish::Up => WishWord::Up,
        Wish::Once => WishWord::Once,
        Wish::Down => WishWord::Down,
    }
}

fn why(view: &ServiceView, state: &ServiceState) -> Option<String> {
    match &state.phase {
        PhaseView::Stopping { run, .. } => view.unhealthy(run.id).map(ToString::to_string),
        PhaseView::Failed { why: FailReason::BudgetSpent { restarts } } => {
            Some(format!("gave up after {}", counted(*restarts, "restart")))
        }
        PhaseView::Failed { why: FailReason::Exited } => {
            Some("it ended without success, and its policy does not restart it".into())
        }
        PhaseView::Cooling { .. } => Some("too many restarts".into()),
        PhaseView::Held => Some("a service it depends on is not running".into()),
        PhaseView::Down => done(state).map(|last| format!("done: {}", exit_text(&last.exit))),
        PhaseView::Backoff { .. } | PhaseView::Starting { .. } | PhaseView::Up { .. } => None,
    }
}

/// Returns the exit of a service that finished by itself and is not restarted.
fn done(state: &ServiceState) -> Option<&LastExit> {
    match state.wish {
        Wish::Up => state.last_exit.as_ref(),
        // After a single run the state looks like that of a stopped service.
        Wish::Once | Wish::Down => None,
    }
}

fn next(state: &ServiceState, now: Mono) -> Option<String> {
    let until = |at: Mono| span(at.since(now).0 as f64 / 1000.0);
    match &state.phase {
        PhaseView::Backoff { until: at } => Some(format!("restart in {}", until(*at))),
        PhaseView::Cooling { until: at } => Some(format!("retry in {}", until(*at))),
        PhaseView::Stopping { kill_at, .. } => {
            let end = match kill_at {
                Some(at) => format!("killed in {}", until(*at)),
                None => "killed, not gone yet".into(),
            };
            let again = match state.wish {
                Wish::Up | Wish::Once => ", then started again",
                Wish::Down => "",
            };
            Some(end + again)
        }
        PhaseView::Down
        | PhaseView::Held
        | PhaseView::Starting { .. }
        | PhaseView::Up { .. }
        | PhaseView::Failed { .. } => None,
    }
}

fn left(state: &ServiceState) -> Option<u32> {
    match &state.phase {
        PhaseView::Stopping { left, .. } => Some(*left),
        PhaseView::Down
        | PhaseView::Held
        | PhaseView::Backoff { .. }
        | PhaseView::Starting { .. }
        | PhaseView::Up { .. }
        | PhaseView::Failed { .. }
        | PhaseView::Cooling { .. } => None,
    }
}

fn exit_status(view: &ServiceView, last: &LastExit) -> ExitStatus {
    let (kind, code, signal) = match &last.exit {
        Exit::Code(code) => (ExitKind::Code, Some(*code), None),
        Exit::Backgrounded => (ExitKind::Code, Some(0), None),
        Exit::Signal { signal, oom: false, .. } => (ExitKind::Signal, None, Some(*signal)),
        Exit::Signal { signal, oom: true, .. } => (ExitKind::Oom, None, Some(*signal)),
        Exit::SpawnFailed(_) => (ExitKind::SpawnFailed, None, None),
        Exit::Unknown => (ExitKind::Unknown, None, None),
    };
    let mut text = exit_text(&last.exit);
    if let Some(checks) = view.unhealthy(last.run) {
        text += &format!(" ({checks})");
    }
    ExitStatus { kind, code, signal, text, at: rfc3339(last.at), run: last.run.to_string() }
}

fn exit_text(exit: &Exit) -> String {
    match exit {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal { oom: true, .. } => "killed by the kernel: out of memory".into(),
        Exit::Signal { signal: number, core, oom: false } => {
            let core = if *core { " (core dumped)" } else { "" };
            format!("killed by {}{core}", signal::long_name(*number))
        }
        Exit::SpawnFailed(failure) => spawn_failure_text(failure),
        Exit::Unknown => "exit status unknown".into(),
        Exit::Backgrounded => BACKGROUNDED.into(),
    }
}

/// Exit of a program that puts itself into the background, with the remedy.
const BACKGROUNDED: &str = "exit code 0, with processes left in the background, which were stopped; Proctor needs the program in the \
     foreground: use its option for that, often --foreground, --nodaemon or `daemon off`";

fn spawn_failure_text(failure: &SpawnFailure) -> String {
    /// Errno values `ENOEXEC` and `EACCES`.
    const NO_PROGRAM: i32 = 8;
    const NO_ACCESS: i32 = 13;
    let SpawnFailure { step, subject, errno } = failure;
    let hint = match (step.as_str(), *errno) {
        ("run", NO_PROGRAM) => {
            "; it is not a program of this machine, or a script without a first line such as #!/bin/sh"
        }
        ("run", NO_ACCESS) => {
            "; its user may not execute it: check the modes of the file (chmod +x) and of its folders"
        }
        _ => "",
    };
    format!("could not {step} {subject}: {}{hint}", errno_text(*errno))
}

/// Text of an errno: 2 is `No such file or directory`.
fn errno_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn health_status(health: &Health) -> HealthStatus {
    let of = |state, at, failures, why| HealthStatus { state, at, failures, why };
    match health {
        Health::Unknown => of(HealthState::Unknown, None, 0, None),
        Health::Starting { at, why } => {
            of(HealthState::Starting, Some(rfc3339(*at)), 0, Some(why.clone()))
        }
        Health::Healthy { at } => of(HealthState::Healthy, Some(rfc3339(*at)), 0, None),
        Health::Failing { at, failures, why } => {
            of(HealthState::Failing, Some(rfc3339(*at)), *failures, Some(why.clone()))
        }
    }
}
