//! Everything known now, in one place: the view that readers see and, beside it, what only the engine needs.
//!
//! The lock is held for the time of a few map operations, never across an await. Two tasks write: the pump, with
//! what the keeper says, and the owner of the state, with what is defined. Every change of the view is one more
//! generation, however many services it touched: a thousand starts are a few hundred changes, not a million.

mod listeners;

use crate::api::{FailedChecks, Health, View};
use crate::board::{Board, Record, unknown, up};
use crate::definition::{Definition, Origin};
use crate::events::{Event, Events, From, Happening};
use crate::files::Roots;
use crate::lease::OverLease;
use crate::link::News;
use crate::probes::CheckedRun;
use crate::secrets;
use crate::settings::Settings;
use crate::source::Current;
use crate::tokens::secret::Digest;
use crate::view::UnhealthyRun;
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
    board: RwLock<Board>,
    generation: watch::Sender<u64>,
    listeners: watch::Sender<Arc<Listeners>>,
    /// Listeners that wait for the first `up`, so that its configuration decides where they bind.
    held_listeners: Mutex<Option<Listeners>>,
    guard: watch::Sender<Arc<Guard>>,
    roots: RwLock<Arc<Roots>>,
    own_secrets: RwLock<Arc<OwnSecrets>>,
    probing: Notify,
    vanishing: Notify,
    renewing: Notify,
}

/// What is waited for after a request: more states than these, with this wish if it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    pub(crate) states: u64,
    pub(crate) wish: Option<Wish>,
}

/// Who may do what, with the configured token as it is compared.
pub(crate) struct Guard {
    pub(crate) security: Security,
    pub(crate) token: Option<Digest>,
}

impl Guard {
    fn new(security: Security) -> Guard {
        let token = security.token.as_ref().map(|token| {
            secrets::learn(&token.0);
            Digest::of(&token.0)
        });
        Guard { security, token }
    }
}

impl Registry {
    pub(crate) fn new() -> Registry {
        Registry {
            board: RwLock::default(),
            generation: watch::Sender::new(0),
            listeners: watch::Sender::new(Arc::new(Listeners::OFF)),
            held_listeners: Mutex::default(),
            guard: watch::Sender::new(Arc::new(Guard::new(Security::CLOSED))),
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

    /// Take in what the keeper said, in its order.
    pub(crate) fn observe(&self, news: Vec<News>) {
        self.change(|board| {
            for news in news {
                board.observe(news);
            }
        });
    }

    /// Define services or replace their definitions.
    pub(crate) fn define(&self, definitions: &[Arc<Definition>]) {
        self.change(|board| {
            for definition in definitions {
                board.define(definition);
            }
        });
    }

    /// These are to go; they stay visible until the keeper has stopped them.
    pub(crate) fn removing(&self, names: &[ServiceName]) {
        self.change(|board| {
            for name in names {
                board.removing(name);
            }
        });
    }

    /// The keeper does not have it (any more).
    pub(crate) fn forget(&self, name: &ServiceName) {
        self.change(|board| board.forget(name));
    }

    /// A service of the keeper that nobody defines and everybody keeps.
    pub(crate) fn keep_unknown(&self, name: &ServiceName, origin: Origin) {
        self.change(|board| {
            board.records.entry(name.clone()).or_default();
            let view = &mut board.view.services;
            view.entry(name.clone()).or_insert_with(|| unknown(name)).added =
                origin == Origin::Added;
        });
    }

    /// What is known from before about the run that exists now: the exec part it was made with.
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

    /// The configuration in force and its settings.
    pub(crate) fn set_current(&self, current: Option<Arc<Current>>, settings: &[Setting]) {
        let settings = Arc::new(Settings::pack(settings));
        self.change(|board| {
            board.view.config = current.as_ref().and_then(|current| current.source.file());
            board.view.settings = settings;
            board.current = current;
            board.events.push(None, Happening::Configured);
        });
    }

    /// The variables that nothing inherits from now on.
    pub(crate) fn set_own_secrets(&self, secrets: OwnSecrets) {
        *self.own_secrets.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(secrets);
    }

    pub(crate) fn own_secrets(&self) -> Arc<OwnSecrets> {
        Arc::clone(&self.own_secrets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Who may do what from now on.
    pub(crate) fn set_security(&self, security: Security) {
        self.guard.send_replace(Arc::new(Guard::new(security)));
    }

    pub(crate) fn guard(&self) -> Arc<Guard> {
        Arc::clone(&self.guard.borrow())
    }

    /// Waits until the configured token is another one, or none.
    pub(crate) async fn configured_token_changed(&self) {
        let mut guards = self.guard.subscribe();
        let first = self.guard();
        let same = |now: &Arc<Guard>| match (&now.token, &first.token) {
            (Some(now), Some(first)) => now.is(first),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        // An error would mean that the sender is gone, which is ours.
        let _changed = guards.wait_for(|now| !same(now)).await;
    }

    /// What is kept of files that are changed.
    pub(crate) fn backups(&self) -> Backups {
        self.guard().security.backups
    }

    /// The folders for file operations from now on.
    pub(crate) fn set_roots(&self, roots: Arc<Roots>) {
        *self.roots.write().expect("nothing panics while it holds the roots") = roots;
    }

    pub(crate) fn roots(&self) -> Arc<Roots> {
        Arc::clone(&self.roots.read().expect("nothing panics while it holds the roots"))
    }

    /// How a listener is; `None`: it is off.
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

    /// Exactly these services are about to be started.
    pub(crate) fn set_start_pending(&self, names: &BTreeSet<&ServiceName>) {
        self.change(|board| {
            for (name, service) in &mut board.view.services {
                service.start_pending = names.contains(name);
            }
        });
    }

    /// The result of a health check, if it is about the run that exists now.
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
                board.events.push(Some(name), Happening::Unhealthy(checks));
            }
        });
        reasons
    }

    /// The services whose runs may have been unhealthy.
    pub(crate) fn checked_services(&self) -> Vec<ServiceName> {
        let board = self.modify();
        let checked = |record: &Record| record.definition.as_ref()?.health().map(drop);
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

    /// From here on, what is taken in is news.
    pub(crate) fn begin_events(&self) {
        self.modify().events.begin();
    }

    /// Something is different that the board does not have.
    pub(crate) fn touch(&self) {
        self.change(|_| {});
    }

    /// A lease is over.
    pub(crate) fn lease_over(&self, over: &OverLease) {
        let owner = over.owner.as_ref().map(ClientName::as_str);
        tracing::info!(service = %over.service, owner, "its lease is over: it is stopped and removed");
        self.change(|board| board.events.push(Some(&over.service), Happening::LeaseOver));
    }

    /// Something happened that is not a service's doing.
    pub(crate) fn happened(&self, what: Happening) {
        self.change(|board| board.events.push(None, what));
    }

    pub(crate) fn events(
        &self,
        from: From,
        most: usize,
        wanted: impl Fn(&Event) -> bool,
    ) -> Events {
        self.look().events.read(from, most, wanted)
    }

    pub(crate) fn current(&self) -> Option<Arc<Current>> {
        self.look().current.clone()
    }

    /// Known, and not on its way out.
    pub(crate) fn exists(&self, name: &ServiceName) -> bool {
        self.look().records.get(name).is_some_and(|record| !record.removing)
    }

    pub(crate) fn definition(&self, name: &ServiceName) -> Option<Arc<Definition>> {
        let board = self.look();
        let record = board.records.get(name).filter(|record| !record.removing)?;
        record.definition.clone()
    }

    /// Every service that is not on its way out, with its definition if it has one.
    pub(crate) fn defined(&self) -> BTreeMap<ServiceName, Option<Arc<Definition>>> {
        let board = self.look();
        let staying = board.records.iter().filter(|(_, record)| !record.removing);
        staying.map(|(name, record)| (name.clone(), record.definition.clone())).collect()
    }

    /// Those of these that are not known, not even as on their way out.
    pub(crate) fn unknown(&self, names: &[ServiceName]) -> BTreeSet<ServiceName> {
        let board = self.look();
        names.iter().filter(|name| !board.records.contains_key(*name)).cloned().collect()
    }

    /// Has the keeper taken the definition of this service?
    pub(crate) fn is_settled(&self, name: &ServiceName) -> bool {
        self.look().records.get(name).is_some_and(|record| record.settled)
    }

    /// The exec parts that the latest runs were made with.
    pub(crate) fn began(&self) -> BTreeMap<ServiceName, (RunId, u64)> {
        let board = self.look();
        let began = |(name, record): (&ServiceName, &crate::board::Record)| {
            Some((name.clone(), record.began?))
        };
        board.records.iter().filter_map(began).collect()
    }

    /// The exec part that the run of this service was made with, if it has one; 0 if nobody knows.
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

    /// How many states the keeper has sent of a service.
    pub(crate) fn states_of(&self, name: &ServiceName) -> u64 {
        self.look().records.get(name).map_or(0, |record| record.states)
    }

    /// Wait until the keeper has sent a newer state of each of these than those counted before. Of a service that comes
    /// and goes all the time, that may be one from before the wish: then it is waited for one that has it.
    pub(crate) async fn newer_states(&self, counted: &BTreeMap<ServiceName, Awaited>) {
        let newer = |(name, awaited): &(&ServiceName, &Awaited)| {
            let board = self.look();
            let state = board.view.services.get(*name).and_then(|service| service.state.as_ref());
            let wished = match (awaited.wish, state) {
                (Some(wish), Some(state)) => state.wish == wish,
                (None, _) | (_, None) => true,
            };
            // One that is gone has nothing more to say.
            let record = board.records.get(*name);
            record.is_none_or(|record| record.states > awaited.states && wished)
        };
        // Each is looked at until it has come, and not again.
        let mut missing: Vec<(&ServiceName, &Awaited)> = counted.iter().collect();
        loop {
            let seen = self.read(|view| view.generation);
            while missing.pop_if(|last| newer(last)).is_some() {}
            if missing.is_empty() {
                return;
            }
            self.changed(seen).await;
        }
    }

    /// The runs of these services that exist now.
    pub(crate) fn runs(&self, names: &[ServiceName]) -> Vec<(ServiceName, RunView)> {
        let board = self.look();
        let run = |name: &ServiceName| {
            let state = board.view.services.get(name)?.state.as_ref()?;
            Some((name.clone(), state.phase.run()?.clone()))
        };
        names.iter().filter_map(run).collect()
    }

    /// Wait for health checks that need a look, and take them.
    pub(crate) async fn probes_to_look_at(&self) -> BTreeSet<ServiceName> {
        loop {
            let names = std::mem::take(&mut self.modify().probe);
            if !names.is_empty() {
                return names;
            }
            self.probing.notified().await;
        }
    }

    /// The run of this service that is to be checked, and how.
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

    /// Wait for services that the keeper dropped though they are defined, and take them.
    pub(crate) async fn vanished(&self) -> BTreeSet<ServiceName> {
        loop {
            let names = std::mem::take(&mut self.modify().vanished);
            if !names.is_empty() {
                return names;
            }
            self.vanishing.notified().await;
        }
    }

    /// A lease has moved far enough to be written down.
    pub(crate) fn renewed(&self) {
        self.renewing.notify_one();
    }

    pub(crate) async fn renewals(&self) {
        self.renewing.notified().await;
    }

    fn look(&self) -> std::sync::RwLockReadGuard<'_, Board> {
        self.board.read().expect("nothing panics while it changes the board")
    }

    fn modify(&self) -> std::sync::RwLockWriteGuard<'_, Board> {
        self.board.write().expect("nothing panics while it changes the board")
    }

    fn change(&self, change: impl FnOnce(&mut Board)) {
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
