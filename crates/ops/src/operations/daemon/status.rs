//! `daemon.status`: shows the state of Proctor itself.

use crate::error::OpError;
use crate::operation::{Context, Effect, Meta, Method, Operation, Target};
use crate::status::{ServiceStatus, State};
use crate::text_output::{Page, Show, Style};
use crate::timestamps::{rfc3339, seconds_between, span};
use crate::tools;
use proctor_core::time::Wall;
use proctor_core::wire::Tracking;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub struct DaemonStatus;

#[derive(Debug, Clone, Default, clap::Args, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Input {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub version: String,
    pub daemon: Process,
    /// Parent process of all services; null while it is being replaced
    pub keeper: Option<Process>,
    /// Method that finds the processes of a service: cgroup_v2, cgroup_hybrid or processes
    pub tracking: Option<String>,
    /// Folder for files that survive a reboot
    pub state_dir: String,
    /// Folder for files that do not survive a reboot
    pub runtime_dir: String,
    pub config: Option<String>,
    /// Listening addresses, by interface
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub listening: BTreeMap<String, String>,
    /// Toolsets offered to assistants that do not ask for others
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub toolsets: Vec<String>,
    /// Number of services in each state
    pub services: BTreeMap<String, u32>,
    /// Counter that grows with every change
    pub generation: u64,
    /// Problems that need attention
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    pub pid: u32,
    /// Start time in RFC 3339
    pub started: String,
    pub uptime_seconds: u64,
}

impl Operation for DaemonStatus {
    type Input = Input;
    type Output = Output;
    const META: Meta = Meta {
        cli: &["daemon", "status"],
        summary: "Show the status of Proctor itself",
        details: "\
Examples:
  proctor daemon status
  proctor daemon status --json",
        launches: false,
        ..Meta::of("daemon.status", Effect::Read, Target::Nothing).at(Method::Get, "/daemon", "")
    };

    async fn run(context: &Context, _: Input) -> Result<Output, OpError> {
        let now = proctor_sys::clock::now();
        let process = |pid: u32, started: Wall| Process {
            pid,
            started: rfc3339(started),
            uptime_seconds: seconds_between(started, now.wall) as u64,
        };
        Ok(context.engine.read(|view| {
            let mut services: BTreeMap<String, u32> = BTreeMap::new();
            for service in view.services.values() {
                let state = ServiceStatus::of(service, now, None).state;
                *services.entry(state.as_str().to_owned()).or_default() += 1;
            }
            let mut problems = view.problems.clone();
            problems.extend(context.engine.tokens().problem());
            problems.extend(context.engine.audit().problem());
            let mut listening = BTreeMap::new();
            for (front, state) in &view.listening {
                match state {
                    Ok(address) => drop(listening.insert((*front).into(), address.to_string())),
                    Err(why) => problems.push(format!("{front}: {why}")),
                }
            }
            Output {
                version: env!("CARGO_PKG_VERSION").into(),
                daemon: process(std::process::id(), context.started),
                keeper: view.keeper.as_ref().map(|keeper| process(keeper.pid, keeper.started)),
                tracking: view.keeper.as_ref().map(|keeper| tracking(keeper.tracking).into()),
                state_dir: context.home.state.display().to_string(),
                runtime_dir: context.home.runtime.display().to_string(),
                config: view.config.as_ref().map(|path| path.display().to_string()),
                toolsets: tools::offered(context).iter().map(ToString::to_string).collect(),
                services,
                generation: view.generation,
                listening,
                problems,
            }
        }))
    }
}

fn tracking(tracking: Tracking) -> &'static str {
    match tracking {
        Tracking::CgroupV2 => "cgroup_v2",
        Tracking::CgroupHybrid => "cgroup_hybrid",
        Tracking::Processes => "processes",
    }
}

impl Output {
    fn counts(&self) -> String {
        let words: Vec<String> = State::ALL
            .iter()
            .filter_map(|state| {
                self.services.get(state.as_str()).map(|n| format!("{n} {}", state.as_str()))
            })
            .collect();
        if words.is_empty() { "none".into() } else { words.join(", ") }
    }
}

impl Show for Output {
    fn generation(&self) -> Option<u64> {
        Some(self.generation)
    }

    fn show(&self, page: &mut Page) {
        let process = |p: &Process| format!("pid {}, up {}", p.pid, span(p.uptime_seconds as f64));
        page.line()
            .name("Proctor")
            .plain(format!(" {} is ", self.version))
            .add(Style::Good, "running");
        let mut fact = |label: &str, text: String| {
            page.line().dim(format!("  {label:<10}")).plain(text);
        };
        fact("daemon", process(&self.daemon));
        fact("keeper", self.keeper.as_ref().map_or("being replaced".into(), process));
        fact("services", self.counts());
        fact("config", self.config.clone().unwrap_or_else(|| "none".into()));
        fact("state", self.state_dir.clone());
        fact("runtime", self.runtime_dir.clone());
        fact("tracking", self.tracking.clone().unwrap_or_else(|| "not known yet".into()));
        for (front, address) in &self.listening {
            fact(front, address.clone());
        }
        for problem in &self.problems {
            page.line().add(Style::Bad, "problem: ").plain(problem);
        }
    }
}
