//! The current state as readers see it. The registry maintains it; nothing here waits or changes.

use crate::ownership::Ownership;
use crate::packed_settings::PackedSettings;
use proctor_core::access::ClientName;
use proctor_core::assistant_policy::AssistantAccess;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::{Mono, Wall};
use proctor_core::wire::{ServiceState, Tracking};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Maximum number of reasons kept for each service: more than a usual restart budget.
const MAX_UNHEALTHY_RUNS: usize = 16;

/// The current state. Protected by a lock held for microseconds; see [`crate::api::Engine::read`].
#[derive(Debug, Default)]
pub struct View {
    /// Increases with every change.
    pub generation: u64,
    pub services: BTreeMap<ServiceName, ServiceView>,
    pub groups: BTreeMap<String, Vec<ServiceName>>,
    pub config: Option<PathBuf>,
    pub keeper: Option<KeeperView>,
    pub settings: Arc<PackedSettings>,
    /// Configured network listeners, by front: the actual address, or the error.
    pub listening: BTreeMap<&'static str, Result<SocketAddr, String>>,
    /// Fronts that have a listener, on or off.
    pub(crate) fronts: BTreeSet<&'static str>,
    /// Fronts that have not yet reported after the last change of their addresses.
    pub(crate) binding: BTreeSet<&'static str>,
    /// Problems that need somebody's attention.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct KeeperView {
    pub pid: u32,
    pub started: Wall,
    pub tracking: Tracking,
}

#[derive(Debug, Clone)]
pub struct ServiceView {
    pub name: ServiceName,
    /// True if added at run time, false if from the configuration file.
    pub added: bool,
    pub description: Option<String>,
    pub groups: Vec<String>,
    /// Displayable form: secrets are masked.
    pub command: String,
    pub working_dir: String,
    pub autostart: bool,
    pub port: Option<u16>,
    /// `http://host:port` of its health check.
    pub origin: Option<String>,
    /// Used when a request names no service.
    pub primary: bool,
    /// The rights of assistants on it.
    pub assistants: AssistantAccess,
    /// Owner and lease of an added service.
    pub tenure: Option<Arc<Ownership>>,
    /// `None` until the keeper has confirmed the definition.
    pub state: Option<ServiceState>,
    pub health: Option<Health>,
    /// The latest runs that Proctor ended because they were unhealthy, oldest first. Lost when the daemon ends.
    pub unhealthy_runs: Vec<UnhealthyRun>,
    /// Arguments given with a restart, in place of the configured ones; secrets are masked.
    pub args_override: Option<String>,
    /// The settings changed since the current run began; a restart applies them.
    pub stale: bool,
    /// A new daemon is about to start it, and has not yet told the keeper.
    pub start_pending: bool,
}

impl ServiceView {
    /// The program that added it.
    pub fn owner(&self) -> Option<&ClientName> {
        self.tenure.as_ref().and_then(|tenure| tenure.owner())
    }

    /// The failed checks, if Proctor ended `run` because of them.
    pub fn unhealthy(&self, run: RunId) -> Option<&FailedChecks> {
        self.unhealthy_runs.iter().find(|it| it.run == run).map(|it| &*it.checks)
    }

    /// Records why `run` is ended; the oldest reason is dropped.
    pub(crate) fn add_unhealthy(&mut self, run: RunId, checks: Arc<FailedChecks>) {
        self.unhealthy_runs.retain(|it| it.run != run);
        if self.unhealthy_runs.len() >= MAX_UNHEALTHY_RUNS {
            self.unhealthy_runs.remove(0);
        }
        self.unhealthy_runs.push(UnhealthyRun { run, checks });
    }

    /// Time until it is removed if its owner does not use it any more; `None`: no lease.
    pub fn lease_seconds_left(&self, now: Mono) -> Option<u64> {
        let left = self.tenure.as_ref().and_then(|tenure| tenure.left(now))?;
        Some(left.0.div_ceil(1000))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Not checked yet in this run.
    Unknown,
    /// Never healthy in this run, and still within `health_check.start_period`; `why` is the last failure.
    Starting {
        at: Wall,
        why: String,
    },
    Healthy {
        at: Wall,
    },
    /// `failures` in a row; `why` is the last one.
    Failing {
        at: Wall,
        failures: u32,
        why: String,
    },
}

/// A run that Proctor ended because of its health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnhealthyRun {
    pub run: RunId,
    pub checks: Arc<FailedChecks>,
}

/// The failed checks that ended a run: `unhealthy: GET http://localhost:3000/: connection refused, 3 failures
/// in a row`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedChecks {
    /// Without its query, which may contain a secret.
    pub url: String,
    /// The last error.
    pub why: String,
    /// Number of failures in a row.
    pub failures: u32,
}

impl fmt::Display for FailedChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailedChecks { url, why, failures } = self;
        write!(f, "unhealthy: GET {url}: {why}, ")?;
        match failures {
            1 => write!(f, "1 failure"),
            _ => write!(f, "{failures} failures in a row"),
        }
    }
}

/// Resource usage of a service's process tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Percent of one core, since the last measurement, or since the run began if there was none.
    pub cpu_percent: f64,
    pub cpu_seconds: f64,
    /// Proportional set size where it can be read, else resident set size.
    pub memory_bytes: u64,
    pub processes: u32,
    /// TCP ports that it listens on; `None`: not requested.
    pub ports: Option<Vec<u16>>,
}

/// The state of a port that a service should listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSeen {
    Open,
    Closed,
    /// Another process listens there: `node (pid 4711)`, if it can be read.
    Taken {
        by: Option<String>,
    },
}
