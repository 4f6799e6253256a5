//! What is known now, as readers see it. The registry keeps it; nothing here waits or changes.

use crate::settings::Settings;
use crate::tenure::Tenure;
use proctor_core::access::ClientName;
use proctor_core::hands::Assistants;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::{Mono, Wall};
use proctor_core::wire::{ServiceState, Tracking};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Reasons kept of each service: more than a usual restart budget.
const MAX_UNHEALTHY_RUNS: usize = 16;

/// Everything known now. Lives behind a lock held for microseconds; see [`crate::api::Engine::read`].
#[derive(Debug, Default)]
pub struct View {
    /// Grows with every change.
    pub generation: u64,
    pub services: BTreeMap<ServiceName, ServiceView>,
    pub groups: BTreeMap<String, Vec<ServiceName>>,
    pub config: Option<PathBuf>,
    pub keeper: Option<KeeperView>,
    pub settings: Arc<Settings>,
    /// The listeners on the network that are wanted, by front: their real address, or why there is none.
    pub listening: BTreeMap<&'static str, Result<SocketAddr, String>>,
    /// Fronts that have a listener, on or off.
    pub(crate) fronts: BTreeSet<&'static str>,
    /// Fronts that have yet to report after the last change of their addresses.
    pub(crate) binding: BTreeSet<&'static str>,
    /// What is wrong and needs somebody to do something.
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
    /// In the configuration file (false), or added at run time (true).
    pub added: bool,
    pub description: Option<String>,
    pub groups: Vec<String>,
    /// As it may be shown: secrets are masked.
    pub command: String,
    pub working_dir: String,
    pub autostart: bool,
    pub port: Option<u16>,
    /// `http://host:port` of its health check.
    pub origin: Option<String>,
    /// Meant when no service is named.
    pub primary: bool,
    /// What assistants may do with it.
    pub assistants: Assistants,
    /// Of one that was added: whose it is, and until when it stays.
    pub tenure: Option<Arc<Tenure>>,
    /// `None` until the keeper has confirmed the definition.
    pub state: Option<ServiceState>,
    pub health: Option<Health>,
    /// The latest runs that Proctor ended because they were unhealthy, oldest first. See `unhealthy_file`.
    pub unhealthy_runs: Vec<UnhealthyRun>,
    /// Arguments given with a restart, in place of the configured ones; secrets are masked.
    pub args_override: Option<String>,
    /// The settings changed since the current run began; a restart applies them.
    pub stale: bool,
    /// A daemon that takes up its work is about to start it, and the keeper has not heard of that yet.
    pub start_pending: bool,
}

impl ServiceView {
    /// The program that added it.
    pub fn owner(&self) -> Option<&ClientName> {
        self.tenure.as_ref().and_then(|tenure| tenure.owner())
    }

    /// Why Proctor ended `run`, if its health check was the reason.
    pub fn unhealthy(&self, run: RunId) -> Option<&FailedChecks> {
        self.unhealthy_runs.iter().find(|it| it.run == run).map(|it| &*it.checks)
    }

    /// Remembers why `run` is ended; the oldest reason makes room.
    pub(crate) fn add_unhealthy(&mut self, run: RunId, checks: Arc<FailedChecks>) {
        self.unhealthy_runs.retain(|it| it.run != run);
        if self.unhealthy_runs.len() >= MAX_UNHEALTHY_RUNS {
            self.unhealthy_runs.remove(0);
        }
        self.unhealthy_runs.push(UnhealthyRun { run, checks });
    }

    /// How long it stays if its owner does not use it any more; `None`: until it is removed.
    pub fn lease_seconds_left(&self, now: Mono) -> Option<u64> {
        let left = self.tenure.as_ref().and_then(|tenure| tenure.left(now))?;
        Some(left.0.div_ceil(1000))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Not checked yet in this run.
    Unknown,
    /// Never healthy in this run, and still within `health_check.start_period`; the last check said `why`.
    Starting {
        at: Wall,
        why: String,
    },
    Healthy {
        at: Wall,
    },
    /// `failures` in a row; the last said `why`.
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

/// The failed checks that ended a run: `unhealthy: GET http://localhost:3000/: connection refused, 3 failures in a row`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedChecks {
    /// Without its query, which may hold a secret.
    pub url: String,
    /// The last error.
    pub why: String,
    /// In a row.
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

/// Of the whole tree of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Of one core; since the last look, or since the run began if nobody looked before.
    pub cpu_percent: f64,
    pub cpu_seconds: f64,
    /// Proportional set size where it can be read, else resident set size.
    pub memory_bytes: u64,
    pub processes: u32,
    /// The TCP ports that it listens on; `None`: nobody asked.
    pub ports: Option<Vec<u16>>,
}

/// A port that a service should listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PortSeen {
    Open,
    Closed,
    /// Somebody else listens there: `node (pid 4711)`, if that may be known.
    Taken {
        by: Option<String>,
    },
}
