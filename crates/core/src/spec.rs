//! A service's settings, fully resolved: what the keeper needs and nothing it would have to interpret.
//!
//! The daemon makes specs out of configuration; the keeper receives them as messages and stores them
//! in the runtime directory, so that it can restart a service while the daemon is down.

use crate::name::ServiceName;
use crate::time::Millis;

/// Everything the keeper knows about a service before it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSpec {
    pub name: ServiceName,
    pub exec: ExecSpec,
    pub stop: StopSpec,
    pub restart: RestartSpec,
    pub logs: LogSpec,
}

/// How the process is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// Program and arguments; never empty. A program without `/` is looked up in the service's `PATH`.
    pub argv: Vec<String>,
    /// Variables of this service, laid over the shared environment named by `base_env`.
    pub env: Vec<(String, String)>,
    pub base_env: EnvId,
    /// Absolute.
    pub working_dir: String,
    pub credentials: Option<Credentials>,
    pub umask: Option<u32>,
    pub limits: Vec<Limit>,
    pub nice: Option<i32>,
    pub oom_score_adj: Option<i32>,
}

/// An environment shared by many services, named by a hash of its content: a thousand services that
/// inherit the same shell cost one copy of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvId(pub u64);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    pub resource: Resource,
    /// `None` is "unlimited".
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// The resources of `setrlimit` that a service may be limited in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    AddressSpace,
    Core,
    Cpu,
    Data,
    FileSize,
    LockedMemory,
    OpenFiles,
    Processes,
    Stack,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopSpec {
    /// Signal number that asks the service to end.
    pub signal: i32,
    /// How long it may take before the whole tree is killed.
    pub grace: Millis,
    pub on_shutdown: OnShutdown,
}

/// What an orderly end of Proctor does to a running service. A crash always leaves it running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnShutdown {
    Stop,
    Leave,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RestartSpec {
    pub policy: Policy,
    /// Exit codes that count as success; zero unless configured.
    pub success_codes: Vec<i32>,
    /// Restarts allowed within `window`; `None` is no limit.
    pub max_restarts: Option<u32>,
    pub window: Millis,
    /// Wait before the first restart after a crash. `None`: the first is immediate and the ladder
    /// begins at [`RestartSpec::FIRST_STEP`] with the second.
    pub delay: Option<Millis>,
    pub max_delay: Millis,
    /// Factor from one wait to the next; at least 1.
    pub backoff: f64,
    /// Share of the wait that is random, 0 to 1.
    pub jitter: f64,
    /// Uptime after which the ladder begins anew.
    pub stable_after: Millis,
    /// When the budget is spent: try again after this long, or stay `failed`.
    pub cool_off: Option<Millis>,
}

impl RestartSpec {
    /// Second wait of an unconfigured ladder: long enough for a port to be released, too short to notice.
    pub const FIRST_STEP: Millis = Millis(250);

    /// The most that `max_restarts` may be: each restart of the window is remembered, and more than this many in
    /// a window is a loop by any measure.
    pub const MOST_RESTARTS: u32 = 1000;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Restart after every exit.
    Always,
    /// Restart after an exit that is not a success.
    OnFailure,
    /// Leave it, whatever the exit was.
    Never,
    /// Expected to finish: a success is `stopped`, anything else `failed`.
    OneShot,
}

/// Rotation and retention of each of the service's two streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSpec {
    /// A segment is closed at the first line end after this many bytes.
    pub segment_bytes: u64,
    /// ... or when it is this old.
    pub max_age: Option<Millis>,
    /// Segments kept of each stream, the open one included; at least 2.
    pub max_segments: u32,
    /// Bytes kept of both streams together, the open segments included.
    pub max_total_bytes: u64,
    pub on_full: OnFull,
}

/// The choice for a disk that is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// Delete the service's oldest closed segments; when there are none, count and drop output, with a mark in the log.
    Drop,
    /// Delete nothing and leave output in the pipe; the service blocks when the pipe is full.
    Block,
}
