//! What the operations see of the engine. Reading never waits for anything; writing is a message to the one
//! owner of the state.

use crate::error::EngineError;
use proctor_core::config::{Problem, Setting};
use proctor_core::lifecycle::Wish;
use proctor_core::logindex::{ExitMark, Stream};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::time::Wall;
use proctor_core::wire::{ServiceState, Tracking, Whom};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Handle to the engine; cheap to clone.
#[derive(Clone)]
pub struct Engine;

/// Everything known now. Lives behind a lock held for microseconds; see [`Engine::read`].
#[derive(Debug, Default)]
pub struct View {
    /// Grows with every change.
    pub generation: u64,
    pub services: BTreeMap<ServiceName, ServiceView>,
    pub groups: BTreeMap<String, Vec<ServiceName>>,
    pub config: Option<PathBuf>,
    pub keeper: Option<KeeperView>,
    pub settings: Vec<Setting>,
    /// What a person should know about this Proctor itself: damaged state, a configuration that no longer parses.
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
    pub argv: Vec<String>,
    pub working_dir: String,
    pub autostart: bool,
    pub port: Option<u16>,
    /// `None` until the keeper has confirmed the definition.
    pub state: Option<ServiceState>,
    pub health: Option<Health>,
    /// The settings changed since the current run began; a restart applies them.
    pub stale: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// Not checked yet in this run.
    Unknown,
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

/// Of the whole tree of a service.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Of one core; since the last look, or since the run began if nobody looked before.
    pub cpu_percent: f64,
    pub cpu_seconds: f64,
    /// Proportional set size where it can be read, else resident set size.
    pub memory_bytes: u64,
    pub processes: u32,
}

/// A configuration to apply.
#[derive(Debug, Clone, Default)]
pub struct ConfigRequest {
    /// `proctor.yaml`; `None`: the one applied last, else `SUPERVISOR_TARGET_CMD`, else the built-in example if `example`.
    pub path: Option<PathBuf>,
    pub example: bool,
    /// The caller's environment; `None`: the daemon's own.
    pub environment: Option<Vec<(String, String)>>,
}

#[derive(Debug, Clone, Default)]
pub struct Applied {
    /// The file's path, `SUPERVISOR_TARGET_CMD`, or `the built-in example`.
    pub source: String,
    pub added: Vec<ServiceName>,
    pub changed: Vec<ServiceName>,
    pub removed: Vec<ServiceName>,
    pub unchanged: Vec<ServiceName>,
}

#[derive(Debug, Clone)]
pub struct NewService {
    pub name: String,
    /// JSON object with the keys of a service in `proctor.yaml`.
    pub definition: String,
    /// Folder that relative paths are relative to, and the default working directory.
    pub base_dir: String,
    pub environment: Option<Vec<(String, String)>>,
    /// Replace an added service of this name instead of refusing.
    pub replace: bool,
}

#[derive(Debug, Clone, Default)]
pub struct LogQuery {
    /// Folders below `logs/`; a removed service's logs may still be read.
    pub services: Vec<ServiceName>,
    /// Where an earlier page ended; everything else below narrows what comes after it.
    pub cursor: Option<String>,
    /// Without a cursor: begin this many matching lines before the end. `None`: from the oldest line.
    pub tail: Option<usize>,
    pub since: Option<Wall>,
    pub until: Option<Wall>,
    pub stream: Option<Stream>,
    pub grep: Option<String>,
    /// Stop after about this many bytes of line content.
    pub max_bytes: usize,
}

#[derive(Debug, Clone)]
pub struct LogPage {
    pub items: Vec<LogItem>,
    /// Pass it back to go on from here.
    pub cursor: String,
    /// More is there already.
    pub more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogItem {
    pub service: ServiceName,
    pub stream: Stream,
    pub wall: Wall,
    pub run: RunId,
    pub what: LogWhat,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogWhat {
    /// Without its line end. `cut`: a piece of a line longer than a page; the rest follows.
    Line {
        bytes: Vec<u8>,
        cut: bool,
    },
    Started,
    Exited(ExitMark),
    Dropped(u32),
}

impl Engine {
    /// Look at the state; `look` must be quick and must not call back.
    pub fn read<R>(&self, look: impl FnOnce(&View) -> R) -> R {
        let _ = look;
        unimplemented!()
    }

    /// Wait until the generation is larger than `seen`; returns it.
    pub async fn changed(&self, seen: u64) -> u64 {
        let _ = seen;
        unimplemented!()
    }

    /// Names for words of a command line: a service, all instances of one, a group, or `all`.
    pub fn select(&self, words: &[String]) -> Result<Vec<ServiceName>, EngineError> {
        let _ = words;
        unimplemented!()
    }

    /// Define what a configuration says and drop what it no longer says; starts and restarts nothing. All or nothing.
    pub async fn apply(&self, request: ConfigRequest) -> Result<Applied, EngineError> {
        let _ = request;
        unimplemented!()
    }

    /// Check a configuration without applying it: its effective settings, or all its problems.
    pub async fn check(&self, request: ConfigRequest) -> Result<Vec<Setting>, EngineError> {
        let _ = request;
        unimplemented!()
    }

    /// Define a service at run time and keep it in `services.json`.
    pub async fn add(&self, service: NewService) -> Result<Vec<ServiceName>, EngineError> {
        let _ = service;
        unimplemented!()
    }

    /// Stop and forget services added at run time; one from the file is refused.
    pub async fn remove(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        let _ = names;
        unimplemented!()
    }

    /// Before a start: do all these programs exist, are their ports free? Changes nothing.
    pub fn check_startable(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        let _ = names;
        unimplemented!()
    }

    /// Persist the wish, then tell the keeper. Returns when the keeper has it, not when it is fulfilled.
    pub async fn set_wish(&self, names: &[ServiceName], wish: Wish) -> Result<(), EngineError> {
        let _ = (names, wish);
        unimplemented!()
    }

    /// Restart; `args` replaces the arguments (not the program) from now on.
    pub async fn restart(
        &self,
        names: &[ServiceName],
        args: Option<Vec<String>>,
    ) -> Result<(), EngineError> {
        let _ = (names, args);
        unimplemented!()
    }

    pub async fn signal(
        &self,
        name: &ServiceName,
        signal: i32,
        whom: Whom,
    ) -> Result<(), EngineError> {
        let _ = (name, signal, whom);
        unimplemented!()
    }

    /// CPU and memory of the trees of these services, sampled now.
    pub async fn usage(&self, names: &[ServiceName]) -> BTreeMap<ServiceName, Usage> {
        let _ = names;
        unimplemented!()
    }

    pub async fn read_logs(&self, query: LogQuery) -> Result<LogPage, EngineError> {
        let _ = query;
        unimplemented!()
    }

    /// Wait until one of these logs may have more than `cursor` has seen.
    pub async fn logs_changed(&self, services: &[ServiceName], cursor: &str) {
        let _ = (services, cursor);
        unimplemented!()
    }

    /// Delete the logs of services that were removed, once they have ended.
    pub async fn delete_logs(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        let _ = names;
        unimplemented!()
    }

    /// The text of the built-in example configuration.
    pub fn example() -> &'static str {
        unimplemented!()
    }

    /// End Proctor: the keeper stops what is to be stopped, then everything of ours leaves.
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        unimplemented!()
    }

    /// Replace keeper and daemon by this binary, in place.
    pub async fn upgrade(&self, binary: PathBuf) -> Result<(), EngineError> {
        let _ = binary;
        unimplemented!()
    }

    /// Whom to thank for the problems of a configuration, for people.
    pub fn describe(problems: &[Problem]) -> String {
        let _ = problems;
        unimplemented!()
    }
}
