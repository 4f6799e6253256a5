//! The current state: the view that readers see and, next to it, data that only the engine needs.
//!
//! The lock is held for a few map operations, never across an await. Two tasks write: the pump, with the
//! keeper's messages, and the owner of the state, with definitions. Each change of the view is one new
//! generation, however many services it touches: a thousand starts make a few hundred changes, not a million.

mod listeners;

use crate::api::{FailedChecks, Health, View};
use crate::config_source::CurrentConfig;
use crate::definition::{Definition, Origin};
use crate::events::{Event, EventKind, Events, ReadFrom};
use crate::files::Roots;
use crate::health_checks::CheckedRun;
use crate::keeper_link::KeeperEvent;
use crate::lease::ExpiredLease;
use crate::packed_settings::PackedSettings;
use crate::registry_state::{RegistryState, ServiceRecord, unknown, up};
use crate::secrets;
use crate::service_view::UnhealthyRun;
use crate::tokens::secret::Digest;
use proctor_core::access::ClientName;
use proctor_core::config::Setting;
use proctor_core::config::backups::Backups;
use proctor_core::config::listen::Listeners;
use proctor_core::config::own_secrets::OwnSecrets;
use proctor_core::config::security::Security;
use proctor_core::lifecycle::Wish;
use proctor_core::name::{RunId, ServiceName};
use proctor_core::wire::RunView;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use tokio::sync::{Notify, watch};

pub(crate) struct Registry {
    board: RwLock<RegistryState>,
    generation: watch::Sender<u64>,
    listeners: watch::Sender<Arc<Listeners>>,
    /// Listeners that wait for the first `up`, so that its configuration sets their addresses.
    held_listeners: Mutex<Option<Listeners>>,
    guard: watch::Sender<Arc<AccessRules>>,
    roots: RwLock<Arc<Roots>>,
    own_secrets: RwLock<Arc<OwnSecrets>>,
    probing: Notify,
    vanishing: Notify,
    renewing: Notify,
}

/// The state to wait for after a request: more states than `states`, with this wish if one is given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AwaitedState {
    pub(crate) states: u64,
    pub(crate) wish: Option<Wish>,
}

/// The security settings, with the configured token in the form it is compared.
pub(crate) struct AccessRules {
    pub(crate) security: Security,
    pub(crate) token: Option<Digest>,
}

impl AccessRules {
    fn new(security: Security) -> AccessRules {
        let token = security.token.as_ref().map(|token| {
            secrets::learn(&token.0);
            Digest::of(&token.0)
        });
        AccessRules { security, token }
    }
}

impl Registry {
    pub(crate) fn new() -> Registry {
        Registry {
            board: RwLock::default(),
            generation: watch::Sender::new(0),
            listeners: watch::Sender::new(Arc::new(Listeners::OFF)),
            held_listeners: Mutex::default(),
            guard: watch::Sender::new(Arc::new(AccessRules::new(Security::CLOSED))),
            roots: RwLock::default(),
            own_secrets: RwLock::default(),
            probing: Notify::new(),
            vanishing: Notify::new(),
            renewing: Notify::new(),
        }
    }

    pub(crate) fn read<R>(&self, look: impl FnOnce(&View) -> R) -> R {
        look(&self.look().view)
    }

    pub(crate) async fn changed(&self, seen: u64) -> u64 {
        let mut generation = self.generation.subscribe();
        let newer = generation.wait_for(|now| *now > seen).await;
        *newer.expect("the sender lives in this registry")
    }

    /// Applies messages of the keeper, in its order.
    pub(crate) fn observe(&self, news: Vec<KeeperEvent>) {
        self.change(|board| {
            for news in news {
                board.observe(news);
            }
        });
    }

    /// Defines services or replaces their definitions.
    pub(crate) fn define(&self, definitions: &[Arc<Definition>]) {
        self.change(|board| {
            for definition in definitions {
                board.define(definition);
            }
        });
    }

    /// Marks services as being removed; they stay visible until the keeper has stopped them.
    pub(crate) fn removing(&self, names: &[ServiceName]) {
        self.change(|board| {
            for name in names {
                board.removing(name);
            }
        });
    }

    /// Removes a service that the keeper does not have.
    pub(crate) fn forget(&self, name: &ServiceName) {
        self.change(|board| board.forget(name));
    }

    /// Shows a service of the keeper whose definition is missing but which is kept.
    pub(crate) fn keep_unknown(&self, name: &ServiceName, origin: Origin) {
        self.change(|board| {
            board.records.entry(name.clone()).or_default();
            let view = &mut board.view.services;
            view.entry(name.clone()).or_insert_with(|| unknown(name)).added =
                origin == Origin::Added;
        });
    }

    /// Sets the exec part that the current run was started with, as stored by an earlier daemon.
    pub(crate) fn recall_run(&self, name: &ServiceName, exec: u64) {
        self.change(|board| {
            let state = board.view.services.get(name).and_then(|service| service.state.as_ref());
            let run = state.and_then(|state| state.phase.run()).map(|run| run.id);
            if let (Some(run), Some(record)) = (run, board.records.get_mut(name)) {
                record.began = Some((run, exec));
                board.refresh_stale(name);
            }
        });
    }

    /// Sets the configuration in force and its settings.
    pub(crate) fn set_current(&self, current: Option<Arc<CurrentConfig>>, settings: &[Setting]) {
        let settings = Arc::new(PackedSettings::pack(settings));
        self.change(|board| {
            board.view.config = current.as_ref().and_then(|current| current.source.file());
            board.view.settings = settings;
            board.current = current;
            board.events.push(None, EventKind::Configured);
        });
    }

    /// Sets the variables that no service inherits.
    pub(crate) fn set_own_secrets(&self, secrets: OwnSecrets) {
        *self.own_secrets.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(secrets);
    }

    pub(crate) fn own_secrets(&self) -> Arc<OwnSecrets> {
        Arc::clone(&self.own_secrets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the security settings.
    pub(crate) fn set_security(&self, security: Security) {
        self.guard.send_replace(Arc::new(AccessRules::new(security)));
    }

    pub(crate) fn guard(&self) -> Arc<AccessRules> {
        Arc::clone(&self.guard.borrow())
    }

    /// Waits until the configured token is changed or removed.
    pub(crate) async fn configured_token_changed(&self) {
        let mut guards = self.guard.subscribe();
        let first = self.guard();
        let same = |now: &Arc<AccessRules>| match (&now.token, &first.token) {
            (Some(now), Some(first)) => now.is(first),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        // An error would mean that the sender is gone, but this registry owns it.
        let _changed = guards.wait_for(|now| !same(now)).await;
    }

    /// The backups of changed files.
    pub(crate) fn backups(&self) -> Backups {
        self.guard().security.backups
    }

    /// Replaces the folders for file operations.
    pub(crate) fn set_roots(&self, roots: Arc<Roots>) {
        *self.roots.write().expect("nothing panics while it holds the roots") = roots;
    }

    pub(crate) fn roots(&self) -> Arc<Roots> {
        Arc::clone(&self.roots.read().expect("nothing panics while it holds the roots"))
    }

    /// Reports the state of a front's listener; `None`: it is off.
    pub(crate) fn set_listening(
        &self,
        front: &'static str,
        state: Option<Result<SocketAddr, String>>,
    ) {
        self.change(|board| {
            board.view.fronts.insert(front);
            board.view.binding.remove(front);
            match state {
                Some(state) => board.view.listening.insert(front, state),
                None => board.view.listening.remove(front),
            };
        });
    }

    pub(crate) fn set_problems(&self, problems: Vec<String>) {
        self.change(|board| board.view.problems = problems);
    }

    /// Marks exactly these services as about to be started.
    pub(crate) fn set_start_pending(&self, names: &BTreeSet<&ServiceName>) {
        self.change(|board| {
            for (name, service) in &mut board.view.services {
                service.start_pending = names.contains(name);
            }
        });
    }

    /// Stores the result of a health check, if it is for the current run.
    pub(crate) fn set_health(&self, name: &ServiceName, run: RunId, health: Health) {
        self.change(|board| {
            if let Some(service) = board.view.services.get_mut(name)
                && service.state.as_ref().is_some_and(|state| up(state) == Some(run))
            {
                board.events.health(service, &health);
                service.health = Some(health);
            }
        });
    }

    /// Remembers why the keeper is asked to end `run`, before it does. Returns all reasons that are to be stored, if this one is
    /// new.
    pub(crate) fn set_unhealthy(
        &self,
        name: &ServiceName,
        run: RunId,
        checks: FailedChecks,
    ) -> Option<Vec<UnhealthyRun>> {
        let mut reasons = None;
        self.change(|board| {
            if let Some(service) = board.view.services.get_mut(name)
                && service.state.as_ref().is_some_and(|state| up(state) == Some(run))
            {
                let checks = Arc::new(checks);
                service.add_unhealthy(run, Arc::clone(&checks));
                reasons = Some(service.unhealthy_runs.clone());
                board.events.push(Some(name), EventKind::Unhealthy(checks));
            }
        });
        reasons
    }

    /// The services whose runs may have been unhealthy.
    pub(crate) fn checked_services(&self) -> Vec<ServiceName> {
        let board = self.modify();
        let checked = |record: &ServiceRecord| record.definition.as_ref()?.health().map(drop);
        let records = board.records.iter().filter(|(_, record)| checked(record).is_some());
        records.map(|(name, _)| name.clone()).collect()
    }

    /// The reasons that an earlier daemon stored.
    pub(crate) fn recall_unhealthy(&self, name: &ServiceName, reasons: Vec<UnhealthyRun>) {
        self.change(|board| {
            if let Some(service) = board.view.services.get_mut(name) {
                service.unhealthy_runs = reasons;
            }
        });
    }

    /// Starts recording events; changes before this are the initial state.
    pub(crate) fn begin_events(&self) {
        self.modify().events.begin();
    }

    /// Notifies readers of a change outside the board.
    pub(crate) fn touch(&self) {
        self.change(|_| {});
    }

    /// Reports an expired lease.
    pub(crate) fn lease_over(&self, over: &ExpiredLease) {
        let owner = over.owner.as_ref().map(ClientName::as_str);
        tracing::info!(service = %over.service, owner, "its lease expired: stopping and removing it");
        self.change(|board| board.events.push(Some(&over.service), EventKind::LeaseOver));
    }

    /// Adds an event that is not about a service.
    pub(crate) fn happened(&self, what: EventKind) {
        self.change(|board| board.events.push(None, what));
    }

    pub(crate) fn events(
        &self,
        from: ReadFrom,
        most: usize,
        wanted: impl Fn(&Event) -> bool,
    ) -> Events {
        self.look().events.read(from, most, wanted)
    }

    pub(crate) fn current(&self) -> Option<Arc<CurrentConfig>> {
        self.look().current.clone()
    }

    /// Returns true if the service is known and not being removed.
    pub(crate) fn exists(&self, name: &ServiceName) -> bool {
        self.look().records.get(name).is_some_and(|record| !record.removing)
    }

    pub(crate) fn definition(&self, name: &ServiceName) -> Option<Arc<Definition>> {
        let board = self.look();
        let record = board.records.get(name).filter(|record| !record.removing)?;
        record.definition.clone()
    }

    /// All services that are not being removed, with their definitions if known.
    pub(crate) fn defined(&self) -> BTreeMap<ServiceName, Option<Arc<Definition>>> {
        let board = self.look();
        let staying = board.records.iter().filter(|(_, record)| !record.removing);
        staying.map(|(name, record)| (name.clone(), record.definition.clone())).collect()
    }

    /// Those of these services that are not known, not even as being removed.
    pub(crate) fn unknown(&self, names: &[ServiceName]) -> BTreeSet<ServiceName> {
        let board = self.look();
        names.iter().filter(|name| !board.records.contains_key(*name)).cloned().collect()
    }

    /// Returns true if the keeper has accepted the definition of this service.
    pub(crate) fn is_settled(&self, name: &ServiceName) -> bool {
        self.look().records.get(name).is_some_and(|record| record.settled)
    }

    /// The latest run of each service, with the exec part it was started with.
    pub(crate) fn began(&self) -> BTreeMap<ServiceName, (RunId, u64)> {
        let board = self.look();
        let began = |(name, record): (&ServiceName, &crate::registry_state::ServiceRecord)| {
            Some((name.clone(), record.began?))
        };
        board.records.iter().filter_map(began).collect()
    }

    /// The exec part of the service's current run, if it has one; 0 if it is not known.
    pub(crate) fn began_with(&self, name: &ServiceName) -> Option<u64> {
        let board = self.look();
        let run = board.view.services.get(name)?.state.as_ref()?.phase.run()?.id;
        let began = board.records.get(name).and_then(|record| record.began);
        Some(began.filter(|(id, _)| *id == run).map_or(0, |(_, exec)| exec))
    }

    /// The ports of those of these services that run.
    pub(crate) fn ports(&self, names: &[ServiceName]) -> BTreeSet<u16> {
        let runs = |(name, _): &(ServiceName, RunView)| {
            self.read(|view| view.services.get(name).and_then(|service| service.port))
        };
        self.runs(names).iter().filter_map(runs).collect()
    }

    /// Number of states that the keeper has sent for a service.
    pub(crate) fn states_of(&self, name: &ServiceName) -> u64 {
        self.look().records.get(name).map_or(0, |record| record.states)
    }

    /// Waits until the keeper has sent a newer state of each service than those counted before. If a service
    /// changes all the time, the newer state may precede the wish; so the state must also have the wish.
    pub(crate) async fn newer_states(&self, counted: &BTreeMap<ServiceName, AwaitedState>) {
        let newer = |(name, awaited): &(&ServiceName, &AwaitedState)| {
            let board = self.look();
            let state = board.view.services.get(*name).and_then(|service| service.state.as_ref());
            let wished = match (awaited.wish, state) {
                (Some(wish), Some(state)) => state.wish == wish,
                (None, _) | (_, None) => true,
            };
            // A removed service sends no more states.
            let record = board.records.get(*name);
            record.is_none_or(|record| record.states > awaited.states && wished)
        };
        // Each service is checked until its state has arrived, and not again.
        let mut missing: Vec<(&ServiceName, &AwaitedState)> = counted.iter().collect();
        loop {
            let seen = self.read(|view| view.generation);
            while missing.pop_if(|last| newer(last)).is_some() {}
            if missing.is_empty() {
                return;
            }
            self.changed(seen).await;
        }
    }

    /// The current runs of these services.
    pub(crate) fn runs(&self, names: &[ServiceName]) -> Vec<(ServiceName, RunView)> {
        let board = self.look();
        let run = |name: &ServiceName| {
            let state = board.view.services.get(name)?.state.as_ref()?;
            Some((name.clone(), state.phase.run()?.clone()))
        };
        names.iter().filter_map(run).collect()
    }

    /// Waits for health checks that have to be updated, and takes them.
    pub(crate) async fn probes_to_look_at(&self) -> BTreeSet<ServiceName> {
        loop {
            let names = std::mem::take(&mut self.modify().probe);
            if !names.is_empty() {
                return names;
            }
            self.probing.notified().await;
        }
    }

    /// The run of this service to check, and how.
    pub(crate) fn probe_of(&self, name: &ServiceName) -> Option<CheckedRun> {
        let board = self.look();
        let service = board.view.services.get(name)?;
        let state = service.state.as_ref()?;
        let check = board.records.get(name)?.definition.as_ref()?.health()?;
        let run = up(state)?;
        let started = state.phase.run()?.started;
        let has_started =
            matches!(service.health, Some(Health::Healthy { .. } | Health::Failing { .. }));
        Some(CheckedRun { run, started, has_started, check: check.clone() })
    }

    /// Waits for services that the keeper dropped although they are defined, and takes them.
    pub(crate) async fn vanished(&self) -> BTreeSet<ServiceName> {
        loop {
            let names = std::mem::take(&mut self.modify().vanished);
            if !names.is_empty() {
                return names;
            }
            self.vanishing.notified().await;
        }
    }

    /// Reports that a lease has moved far enough to be stored.
    pub(crate) fn renewed(&self) {
        self.renewing.notify_one();
    }

    pub(crate) async fn renewals(&self) {
        self.renewing.notified().await;
    }

    fn look(&self) -> std::sync::RwLockReadGuard<'_, RegistryState> {
        self.board.read().expect("nothing panics while it changes the board")
    }

    fn modify(&self) -> std::sync::RwLockWriteGuard<'_, RegistryState> {
        self.board.write().expect("nothing panics while it changes the board")
    }

    fn change(&self, change: impl FnOnce(&mut RegistryState)) {
        let mut board = self.modify();
        change(&mut board);
        board.view.generation += 1;
        let generation = board.view.generation;
        let (probes, vanished) = (!board.probe.is_empty(), !board.vanished.is_empty());
        drop(board);
        self.generation.send_replace(generation);
        if probes {
            self.probing.notify_one();
        }
        if vanished {
            self.vanishing.notify_one();
        }
    }
}
