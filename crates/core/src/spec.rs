//! The fully resolved settings of a service: everything the keeper needs, nothing left to
//! interpret.
//!
//! The daemon makes specs out of configuration. The keeper receives them as messages and stores
//! them in the runtime directory, so that it can restart a service while the daemon is down.

use crate::name::ServiceName;
use crate::time::Millis;

/// All settings of a service that the keeper knows.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSpec {
    pub name: ServiceName,
    pub exec: ExecSpec,
    pub stop: StopSpec,
    pub restart: RestartSpec,
    pub logs: LogSpec,
}

/// The program to execute and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// Program and arguments; never empty. A program without `/` is looked up in the service's
    /// `PATH`.
    pub argv: Vec<String>,
    /// Variables of this service, laid over the shared environment named by `base_env`.
    pub env: Vec<(String, String)>,
    pub base_env: EnvId,
    /// Absolute path.
    pub working_dir: String,
    pub credentials: Option<Credentials>,
    pub umask: Option<u32>,
    pub limits: Vec<Limit>,
    pub nice: Option<i32>,
    pub oom_score_adj: Option<i32>,
}

/// An environment shared by many services, named by a hash of its content. A thousand services that
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
    /// `None` means unlimited.
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// The `setrlimit` resources that a service can limit.
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
    /// Number of the signal that asks the service to end.
    pub signal: i32,
    /// Time between the stop signal and the kill of the whole tree.
    pub grace: Millis,
    pub on_shutdown: OnShutdown,
}

/// The effect of an orderly shutdown of Proctor on a running service. A crash always leaves the
/// service running.
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
    /// Maximum number of restarts within `window`; `None` means no limit.
    pub max_restarts: Option<u32>,
    pub window: Millis,
    /// Wait before the first restart after a crash. `None`: the first restart is immediate, and the
    /// second waits [`RestartSpec::FIRST_STEP`].
    pub delay: Option<Millis>,
    pub max_delay: Millis,
    /// Factor from one wait to the next; at least 1.
    pub backoff: f64,
    /// Random share of the wait, 0 to 1.
    pub jitter: f64,
    /// Uptime after which the waits start over.
    pub stable_after: Millis,
    /// Wait before a new attempt when the restart budget is spent; `None` leaves the service
    /// `failed`.
    pub cool_off: Option<Millis>,
}

impl RestartSpec {
    /// Second wait if no delay is configured: long enough for a port to be released, too short to
    /// notice.
    pub const FIRST_STEP: Millis = Millis(250);

    /// Upper limit of `max_restarts`. The machine remembers each restart in the window, and more
    /// than this many in a window is a loop by any measure.
    pub const MAX_RESTARTS: u32 = 1000;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Restart after every exit.
    Always,
    /// Restart after an exit that is not a success.
    OnFailure,
    /// Never restart.
    Never,
    /// Expected to finish: success leads to `stopped`, anything else to `failed`.
    OneShot,
}

/// Rotation and retention of each of the service's two streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSpec {
    /// A segment is closed at the first line end after this many bytes,
    pub segment_bytes: u64,
    /// or when it reaches this age.
    pub max_age: Option<Millis>,
    /// Maximum number of segments for each stream, including the open one; at least 2.
    pub max_segments: u32,
    /// Maximum bytes of both streams together, including the open segments.
    pub max_total_bytes: u64,
    pub on_full: OnFull,
}

/// The reaction to a full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// Deletes the service's oldest closed segments. If there are none, drops output, counts it and
    /// marks the gap in the log.
    Drop,
    /// Deletes nothing and leaves output in the pipe; the service blocks when the pipe is full.
    Block,
}
