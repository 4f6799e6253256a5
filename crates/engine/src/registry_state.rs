//! The data of the registry, and how each message of the keeper changes it. Plain data: no lock, no task, no
//! clock.

use crate::api::{Health, KeeperView, ServiceView, View};
use crate::config_source::CurrentConfig;
use crate::definition::{Definition, Origin};
use crate::events::{EventKind, EventRing};
use crate::keeper_link::KeeperEvent;
use crate::secrets;
use proctor_core::assistant_policy::AssistantAccess;
use proctor_core::config::redact;
use proctor_core::config::secret::shown_text;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::wire::{PhaseView, ServiceState};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Default)]
pub(crate) struct RegistryState {
    pub(crate) view: View,
    pub(crate) records: BTreeMap<ServiceName, ServiceRecord>,
    pub(crate) current: Option<Arc<CurrentConfig>>,
    /// Services whose health check has to be updated, because their run or definition changed.
    pub(crate) probe: BTreeSet<ServiceName>,
    /// Services that are defined here although the keeper dropped them.
    pub(crate) vanished: BTreeSet<ServiceName>,
    pub(crate) events: EventRing,
}

/// Data that the engine keeps for a service, in addition to its view.
#[derive(Default)]
pub(crate) struct ServiceRecord {
    /// `None`: the keeper has the service, and its definition is not known here.
    pub(crate) definition: Option<Arc<Definition>>,
    /// Hash of the exec part that the keeper uses for new runs.
    confirmed: Option<u64>,
    /// The keeper has accepted exactly this definition.
    pub(crate) settled: bool,
    /// The latest run, and the hash of the exec part it was started with.
    pub(crate) began: Option<(RunId, u64)>,
    /// Number of states that the keeper has sent for it.
    pub(crate) states: u64,
    /// Being removed: stays visible until the keeper has stopped it.
    pub(crate) removing: bool,
}

impl RegistryState {
    pub(crate) fn observe(&mut self, news: KeeperEvent) {
        match news {
            KeeperEvent::Hello { protocol: _, pid, started, tracking } => {
                self.view.keeper = Some(KeeperView { pid, started, tracking });
            }
            KeeperEvent::State(state) => self.state(*state),
            KeeperEvent::Removed(name) => self.removed(name),
            KeeperEvent::Defined { name, exec } => {
                if let Some(record) = self.records.get_mut(&name) {
                    record.confirmed = Some(exec);
                    record.settled = record.definition.as_ref().is_some_and(|d| d.exec() == exec);
                }
            }
            KeeperEvent::SnapshotEnd | KeeperEvent::Ending { .. } => {}
        }
    }

    fn state(&mut self, state: ServiceState) {
        let name = state.name.clone();
        let record = self.records.entry(name.clone()).or_default();
        record.states += 1;
        let run = state.phase.run().map(|run| run.id);
        let service = self.view.services.entry(name.clone()).or_insert_with(|| unknown(&name));
        let before = service.state.as_ref().and_then(|old| old.phase.run()).map(|run| run.id);
        if let Some(run) = run
            && before != Some(run)
        {
            record.began = record.confirmed.map(|exec| (run, exec));
        }
        let checked = record.definition.as_ref().is_some_and(|d| d.health().is_some());
        match run {
            Some(_) if checked && before != run => service.health = Some(Health::Unknown),
            Some(_) => {}
            None => drop(service.health.take_if(|health| !explains(health, &state.phase))),
        }
        if checked {
            self.probe.insert(name.clone());
        }
        self.events.state(service.state.as_ref(), &state);
        service.state = Some(state);
        self.vanished.remove(&name);
        self.refresh_stale(&name);
    }

    fn removed(&mut self, name: ServiceName) {
        let Some(record) = self.records.get_mut(&name) else { return };
        if record.removing || record.definition.is_none() {
            return self.forget(&name);
        }
        // It was defined again while its removal was in progress; the owner sends the definition again.
        (record.confirmed, record.settled, record.began) = (None, false, None);
        if let Some(service) = self.view.services.get_mut(&name) {
            (service.state, service.health, service.stale) = (None, None, false);
        }
        self.probe.insert(name.clone());
        self.vanished.insert(name);
    }

    pub(crate) fn define(&mut self, definition: &Arc<Definition>) {
        let name = definition.name();
        self.leave_groups(name);
        let record = self.records.entry(name.clone()).or_default();
        record.definition = Some(Arc::clone(definition));
        (record.settled, record.removing) = (false, false);
        let old = self.view.services.remove(name);
        if old.is_none() {
            self.events.push(Some(name), EventKind::Defined);
        }
        let service = describe(definition, old);
        self.view.services.insert(name.clone(), service);
        for group in &definition.def().groups {
            let members = self.view.groups.entry(group.clone()).or_default();
            if let Err(at) = members.binary_search(name) {
                members.insert(at, name.clone());
            }
        }
        self.probe.insert(name.clone());
        self.refresh_stale(name);
    }

    pub(crate) fn removing(&mut self, name: &ServiceName) {
        self.leave_groups(name);
        if let Some(record) = self.records.get_mut(name) {
            record.removing = true;
        }
    }

    pub(crate) fn forget(&mut self, name: &ServiceName) {
        self.leave_groups(name);
        self.records.remove(name);
        if self.view.services.remove(name).is_some() {
            self.events.push(Some(name), EventKind::Removed);
        }
        self.vanished.remove(name);
        self.probe.insert(name.clone());
    }

    fn leave_groups(&mut self, name: &ServiceName) {
        let definition = self.records.get(name).and_then(|record| record.definition.clone());
        for group in definition.iter().flat_map(|definition| &definition.def().groups) {
            let Some(members) = self.view.groups.get_mut(group) else { continue };
            if let Ok(at) = members.binary_search(name) {
                members.remove(at);
            }
            if members.is_empty() {
                self.view.groups.remove(group);
            }
        }
    }

    /// Updates `stale`: the service runs, and a new run would have other settings.
    pub(crate) fn refresh_stale(&mut self, name: &ServiceName) {
        let (Some(service), Some(record)) =
            (self.view.services.get_mut(name), self.records.get(name))
        else {
            return;
        };
        let state = service.state.as_ref();
        let run = state.and_then(|state| state.phase.run()).map(|run| run.id);
        service.stale = match (run, record.began, &record.definition) {
            (Some(run), Some((began, exec)), Some(definition)) => {
                run == began && exec != definition.exec()
            }
            _ => false,
        };
    }
}

/// Returns true if the last health check explains why there is no run, so that a failed service shows it was
/// unhealthy.
fn explains(health: &Health, phase: &PhaseView) -> bool {
    let failed = match phase {
        PhaseView::Backoff { .. } | PhaseView::Failed { .. } | PhaseView::Cooling { .. } => true,
        PhaseView::Down
        | PhaseView::Held
        | PhaseView::Starting { .. }
        | PhaseView::Up { .. }
        | PhaseView::Stopping { .. } => false,
    };
    failed && matches!(health, Health::Failing { .. })
}

/// The run that is up in this state.
pub(crate) fn up(state: &ServiceState) -> Option<RunId> {
    match &state.phase {
        PhaseView::Up { run } => Some(run.id),
        PhaseView::Down
        | PhaseView::Held
        | PhaseView::Backoff { .. }
        | PhaseView::Starting { .. }
        | PhaseView::Stopping { .. }
        | PhaseView::Failed { .. }
        | PhaseView::Cooling { .. } => None,
    }
}

/// The view of a service; observations of the old view are kept.
fn describe(definition: &Definition, old: Option<ServiceView>) -> ServiceView {
    let def = definition.def();
    let start_pending = old.as_ref().is_some_and(|old| old.start_pending);
    let (state, health, unhealthy_runs) =
        old.map_or_else(Default::default, |old| (old.state, old.health, old.unhealthy_runs));
    let runs = state.as_ref().is_some_and(|state| state.phase.run().is_some());
    let checked = def.health.is_some() && runs;
    ServiceView {
        name: def.name.clone(),
        added: definition.origin == Origin::Added,
        description: def
            .description
            .as_deref()
            .map(|text| secrets::hide(&shown_text(text)).into_owned()),
        groups: def.groups.clone(),
        // A secret variable may have been substituted into the command; its name is not available here.
        command: secrets::hide(&redact::command_line(&definition.spec().exec.argv)).into_owned(),
        working_dir: def.working_dir.clone(),
        autostart: def.autostart,
        port: def.port,
        origin: def.health.as_ref().map(|health| origin(&health.url).to_owned()),
        primary: def.primary,
        assistants: def.assistants,
        tenure: definition.tenure().cloned(),
        state,
        health: checked.then(|| health.unwrap_or(Health::Unknown)),
        unhealthy_runs,
        args_override: definition
            .args_override()
            .map(|args| secrets::hide(&redact::command_line(args)).into_owned()),
        stale: false,
        start_pending,
    }
}

/// `http://host:port` of a URL.
fn origin(url: &str) -> &str {
    let from = url.find("://").map_or(0, |at| at + 3);
    let end = url[from..].find(['/', '?', '#']).map_or(url.len(), |at| from + at);
    &url[..end]
}

/// A service that only the keeper knows.
pub(crate) fn unknown(name: &ServiceName) -> ServiceView {
    ServiceView {
        name: name.clone(),
        added: false,
        description: None,
        groups: Vec::new(),
        command: String::new(),
        working_dir: String::new(),
        autostart: false,
        port: None,
        origin: None,
        primary: false,
        assistants: AssistantAccess::default(),
        tenure: None,
        state: None,
        health: None,
        unhealthy_runs: Vec::new(),
        args_override: None,
        stale: false,
        start_pending: false,
    }
}
