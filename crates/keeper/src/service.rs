//! The keeper's record of one service: small, because there may be thousands.

use crate::service_folder::ServiceFolder;
use proctor_core::lifecycle::{Machine, Phase};
use proctor_core::name::{RunId, ServiceName};
use proctor_core::record_encoding::OnceVariables;
use proctor_core::spec::{LogSpec, OnFull, OnShutdown, Policy, RestartSpec, ServiceSpec, StopSpec};
use proctor_core::state_file::{Layout, RunHeader, StoredState};
use proctor_core::time::{Millis, Mono, Wall};
use proctor_core::wire::{PhaseView, RunView, ServiceState};
use proctor_sys::process::Process;
use proctor_sys::process_tree::Tree;
use proctor_sys::spawn::Spawned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) struct Service {
    pub(crate) name: ServiceName,
    /// The encoded spec; decoded when a process is created. `None` if it was lost and must be
    /// defined again.
    pub(crate) spec: Option<Box<[u8]>>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) machine: Machine,
    /// Layout of its state file, once there is one.
    pub(crate) stored: Option<Layout>,
    pub(crate) run: Option<Run>,
    /// Variables for the next run.
    pub(crate) once: Option<Box<OnceVariables>>,
    /// The service is forgotten when its run has ended.
    pub(crate) removing: bool,
    /// An exit is reported after its last line is stored, or at this time at the latest.
    pub(crate) quiet_until: Option<Mono>,
    pub(crate) changed: bool,
    /// Its entry in the list of timers.
    timer: Option<Mono>,
}

/// Settings that are needed without creating a process. Most services share the same.
#[derive(PartialEq)]
pub(crate) struct Policies {
    pub(crate) restart: RestartSpec,
    pub(crate) stop: StopSpec,
    pub(crate) logs: Arc<LogSpec>,
}

impl Policies {
    /// Cautious defaults for a service whose settings were lost.
    pub(crate) fn careful() -> Arc<Policies> {
        Arc::new(Policies {
            restart: RestartSpec {
                policy: Policy::Never,
                success_codes: vec![0],
                max_restarts: Some(0),
                window: Millis::seconds(60),
                delay: None,
                max_delay: Millis::seconds(60),
                backoff: 1.0,
                jitter: 0.0,
                stable_after: Millis::seconds(10),
                cool_off: None,
            },
            stop: StopSpec {
                signal: proctor_sys::signal::SIGTERM,
                grace: Millis::seconds(10),
                on_shutdown: OnShutdown::Leave,
            },
            logs: Arc::new(LogSpec {
                segment_bytes: 16 << 20,
                max_age: None,
                max_segments: u32::MAX,
                max_total_bytes: u64::MAX,
                on_full: OnFull::Block,
            }),
        })
    }
}

/// The process of a run, or the rest of its tree.
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) pid: u32,
    pub(crate) started: Wall,
    pub(crate) cgroup: Option<ServiceFolder>,
    pub(crate) main: MainProcess,
    /// Start tick of a main process that is not our child, if known.
    pub(crate) began: Option<u64>,
    /// This process started it, so its orphans become our children.
    pub(crate) is_ours: bool,
    /// Set until it is known whether the program could be executed.
    pub(crate) spawned: Option<Spawned>,
    /// The stop signal was sent to its group.
    pub(crate) asked: bool,
    /// We killed it, so the kill is not attributed to the kernel.
    pub(crate) killed: bool,
    /// Members counted at the last check after the main process was gone.
    pub(crate) left: u32,
}

/// The relation to the main process.
pub(crate) enum MainProcess {
    /// Our own child: its pid is safe until we reap it.
    Child,
    /// Another process's child since a keeper died: safe only through its descriptor.
    Adopted(Process),
    /// Reaped; the tick distinguishes later owners of its pid.
    Gone { reaped_at: u64 },
}

impl Service {
    pub(crate) fn new(
        name: ServiceName,
        spec: Option<Box<[u8]>>,
        policies: Arc<Policies>,
        machine: Machine,
    ) -> Service {
        Service {
            name,
            spec,
            policies,
            machine,
            stored: None,
            run: None,
            once: None,
            removing: false,
            quiet_until: None,
            changed: true,
            timer: None,
        }
    }

    pub(crate) fn redefine(&mut self, encoded: Box<[u8]>, policies: Arc<Policies>) {
        self.spec = Some(encoded);
        self.policies = policies;
    }

    /// Whether the main process is gone but part of the tree may be left.
    pub(crate) fn has_leftovers(&self) -> bool {
        matches!(&self.run, Some(Run { main: MainProcess::Gone { .. }, .. }))
    }

    /// The state to store for the next keeper.
    pub(crate) fn to_store(&self, run: Option<RunHeader>) -> StoredState {
        StoredState { name: self.name.clone(), machine: self.machine.clone(), run }
    }

    pub(crate) fn state(&self) -> ServiceState {
        ServiceState {
            name: self.name.clone(),
            wish: self.machine.wish(),
            phase: self.phase_view(),
            since: self.machine.since(),
            restarts: self.machine.restarts(),
            last_exit: self.machine.last_exit().cloned(),
        }
    }

    fn phase_view(&self) -> PhaseView {
        match self.machine.phase() {
            Phase::Down => PhaseView::Down,
            Phase::Held => PhaseView::Held,
            Phase::Backoff { until } => PhaseView::Backoff { until: *until },
            Phase::Starting { run } => PhaseView::Starting { run: self.run_view(*run) },
            Phase::Up { run, .. } => PhaseView::Up { run: self.run_view(*run) },
            Phase::Stopping(stopping) => PhaseView::Stopping {
                run: self.run_view(stopping.run),
                kill_at: (!stopping.killed).then_some(stopping.kill_at),
                left: self.run.as_ref().map_or(0, |run| run.left),
            },
            Phase::Failed { why } => PhaseView::Failed { why: why.clone() },
            Phase::Cooling { until } => PhaseView::Cooling { until: *until },
        }
    }

    fn run_view(&self, id: RunId) -> RunView {
        let run = self.run.as_ref().filter(|run| run.id == id);
        RunView {
            id,
            pid: run.map_or(0, |run| run.pid),
            started: run.map_or(self.machine.since(), |run| run.started),
            cgroup: run.and_then(|run| run.cgroup.as_ref()).map(ServiceFolder::text),
        }
    }
}

impl Run {
    pub(crate) fn header(&self) -> RunHeader {
        let cgroup = self.cgroup.as_ref().map(ServiceFolder::text);
        RunHeader { run: self.id, started: self.started, cgroup }
    }

    pub(crate) fn tree(&self, mark: String) -> Tree {
        let reaped_at = match self.main {
            MainProcess::Gone { reaped_at } => Some(reaped_at),
            MainProcess::Child | MainProcess::Adopted(_) => None,
        };
        let cgroup = self.cgroup.as_ref().map(ServiceFolder::path);
        Tree { pid: self.pid, cgroup, mark, began: self.began, reaped_at }
    }
}

/// All services by a stable number and by name, with lists of those that need something, so that
/// the loop does not visit thousands.
#[derive(Default)]
pub(crate) struct Services {
    /// Boxed, because the nodes of a tree are half empty.
    slots: BTreeMap<u32, Box<Service>>,
    names: BTreeMap<ServiceName, u32>,
    /// Numbers are not reused: a pending event for a forgotten service must not reach a new one.
    next: u32,
    /// The policies of the service that was defined last.
    policies: Option<Arc<Policies>>,
    /// Services that were handed out for changes; the lists below are not updated yet.
    touched: Vec<u32>,
    timers: BTreeSet<(Mono, u32)>,
    leftovers: BTreeSet<u32>,
    unsaid: BTreeSet<u32>,
}

impl Services {
    pub(crate) fn get(&self, slot: u32) -> Option<&Service> {
        self.slots.get(&slot).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Service> {
        if self.touched.last() != Some(&slot) {
            self.touched.push(slot);
        }
        self.slots.get_mut(&slot).map(Box::as_mut)
    }

    pub(crate) fn find(&self, name: &ServiceName) -> Option<u32> {
        self.names.get(name).copied()
    }

    pub(crate) fn add(&mut self, service: Service) -> u32 {
        let slot = self.next;
        self.next = slot.checked_add(1).expect("four thousand million services were never added");
        self.names.insert(service.name.clone(), slot);
        self.slots.insert(slot, Box::new(service));
        self.touched.push(slot);
        slot
    }

    /// The policies of a spec, shared with the previous service if they are equal.
    pub(crate) fn policies(&mut self, spec: &ServiceSpec) -> Arc<Policies> {
        let (restart, stop) = (spec.restart.clone(), spec.stop.clone());
        let wanted = Policies { restart, stop, logs: Arc::new(spec.logs.clone()) };
        let last = self.policies.take().filter(|last| **last == wanted);
        let policies = last.unwrap_or_else(|| Arc::new(wanted));
        self.policies = Some(Arc::clone(&policies));
        policies
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<Service> {
        let service = *self.slots.remove(&slot)?;
        self.names.remove(&service.name);
        self.touched.push(slot);
        if let Some(timer) = service.timer {
            self.timers.remove(&(timer, slot));
        }
        Some(service)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Service)> {
        self.slots.iter().map(|(slot, service)| (*slot, service.as_ref()))
    }

    pub(crate) fn slots_where(&self, wanted: impl Fn(&Service) -> bool) -> Vec<u32> {
        self.iter().filter(|(_, service)| wanted(service)).map(|(slot, _)| slot).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// The next time at which a service needs something.
    pub(crate) fn deadline(&mut self) -> Option<Mono> {
        self.follow();
        self.timers.first().map(|(at, _)| *at)
    }

    pub(crate) fn due(&mut self, now: Mono) -> Vec<u32> {
        self.follow();
        self.timers.iter().take_while(|(at, _)| *at <= now).map(|(_, slot)| *slot).collect()
    }

    /// Services whose main process is gone but part of the tree may be left.
    pub(crate) fn leftovers(&mut self) -> Vec<u32> {
        self.follow();
        self.leftovers.iter().copied().collect()
    }

    /// Sends all states, for a client that knows nothing.
    pub(crate) fn tell_all(&mut self, mut tell: impl FnMut(&Service)) {
        self.follow();
        self.unsaid.clear();
        for service in self.slots.values_mut() {
            service.changed = false;
            tell(service);
        }
    }

    /// Sends each unsent state once. `tell` returns whether there is room for more.
    pub(crate) fn tell_changes(&mut self, mut tell: impl FnMut(&Service) -> bool) {
        self.follow();
        let slots = &mut self.slots;
        let mut has_room = true;
        self.unsaid.retain(|slot| {
            let Some(service) = slots.get_mut(slot) else { return false };
            if !has_room || service.quiet_until.is_some() {
                return true;
            }
            service.changed = false;
            has_room = tell(service);
            false
        });
    }

    /// Frees the memory of a burst of work.
    pub(crate) fn shrink(&mut self) {
        self.follow();
        self.touched = Vec::new();
    }

    fn follow(&mut self) {
        for slot in std::mem::take(&mut self.touched) {
            let service = self.slots.get_mut(&slot);
            let has_leftovers = service.as_ref().is_some_and(|service| service.has_leftovers());
            keep(&mut self.leftovers, slot, has_leftovers);
            keep(&mut self.unsaid, slot, service.as_ref().is_some_and(|service| service.changed));
            let Some(service) = service else { continue };
            let timer =
                [service.machine.deadline(), service.quiet_until].into_iter().flatten().min();
            if timer != service.timer {
                let old = std::mem::replace(&mut service.timer, timer);
                old.map(|at| self.timers.remove(&(at, slot)));
                timer.map(|at| self.timers.insert((at, slot)));
            }
        }
    }
}

fn keep(set: &mut BTreeSet<u32>, slot: u32, wanted: bool) {
    if wanted {
        set.insert(slot);
    } else {
        set.remove(&slot);
    }
}
