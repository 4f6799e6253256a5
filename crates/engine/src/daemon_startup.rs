//! Startup of a daemon: compares the stored state with the keeper's, and plans the messages that make them
//! equal.
//!
//! The plan is complete before anything is sent. Rule for wishes: a wish is sent only if the keeper has another
//! one or does not know the service. Repeating a wish would restart a service that has failed or finished. A
//! service in the keeper without a stored wish was defined but not started, and a new daemon does not start it.
//! While other services are at work, `autostart` does not start services without a stored wish either: only a
//! fresh Proctor does that.

use crate::added_services;
use crate::apply_config::{self, Inheritance, at_work, refuse_clashes};
use crate::config_source::{CurrentConfig, Files, describe};
use crate::definition::{Definition, Origin};
use crate::environment::Environments;
use crate::error::EngineError;
use crate::files::Roots;
use crate::keeper_link::Ask;
use crate::lease::ExpiredLease;
use crate::owner::Owner;
use crate::ownership::Ownership;
use crate::registry::Registry;
use crate::service_store::{
    AddedService, Execs, LoadedStore, StoredRun, StoredServices, StoredWish,
};
use proctor_core::config::Setting;
use proctor_core::config::listen::Listeners;
use proctor_core::config::own_secrets::OwnSecrets;
use proctor_core::config::security::Security;
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use proctor_core::wire::ServiceState;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Problems that stay until somebody fixes them, for `daemon status`.
#[derive(Debug, Default)]
pub(crate) struct StartupProblems {
    pub(crate) store: Option<String>,
    pub(crate) listeners: Option<String>,
    pub(crate) config: Option<String>,
    /// By the name they were added under.
    pub(crate) services: BTreeMap<ServiceName, String>,
}

impl StartupProblems {
    pub(crate) fn texts(&self) -> Vec<String> {
        let services = self.services.iter().map(|(name, text)| format!("{name}: {text}"));
        let own = self.store.iter().chain(&self.config).chain(&self.listeners);
        own.cloned().chain(services).collect()
    }
}

/// The plan that the owner carries out first.
#[derive(Debug, Default)]
pub(crate) struct Startup {
    /// The `services.json` that was found; empty if there was none.
    pub(crate) before: StoredServices,
    /// The new content of `services.json`.
    pub(crate) stored: StoredServices,
    definitions: Vec<Arc<Definition>>,
    removes: Vec<ServiceName>,
    wishes: Vec<(ServiceName, Wish)>,
    /// Services of the keeper that have no known definition and are kept.
    kept: BTreeMap<ServiceName, Origin>,
    /// The exec parts that current runs were started with.
    began: BTreeMap<ServiceName, u64>,
    current: Option<Arc<CurrentConfig>>,
    settings: Vec<Setting>,
    /// From the configuration.
    listeners: Option<Listeners>,
    /// The listeners wait for the configuration that the starting command is about to apply.
    pub(crate) holds_listeners: bool,
    security: Option<Security>,
    /// Variables that no service inherits.
    own_secrets: OwnSecrets,
    /// Empty if the configuration cannot be read: its restrictions are not known.
    roots: Arc<Roots>,
    pub(crate) troubles: StartupProblems,
    pub(crate) environments: Environments,
    /// Tenures of all added services.
    pub(crate) tenures: BTreeMap<ServiceName, Arc<Ownership>>,
    /// Added services whose lease expired.
    pub(crate) over: Vec<ExpiredLease>,
}

const CLOSED: &str = "the configuration in force was lost, and with it its permissions: no network client is accepted \
                      until `proctor up` applies one";

type Snapshot = BTreeMap<ServiceName, ServiceState>;

impl Startup {
    /// Makes the plan. Blocks: it reads configurations and looks up users.
    ///
    /// `awaits_up`: the command that starts this Proctor applies a configuration next, which decides what
    /// starts.
    pub(crate) fn plan(found: LoadedStore, snapshot: &Snapshot, awaits_up: bool) -> Startup {
        let holds_listeners = awaits_up && snapshot.is_empty();
        let mut plan = Startup { holds_listeners, ..Startup::default() };
        plan.take_stored(found, snapshot);
        // Arguments of a restart apply as long as the service is at work.
        plan.stored.args.retain(|name, _| snapshot.get(name).is_some_and(at_work));
        plan.end_leases();
        plan.read_configuration(snapshot);
        plan.listen_without_file();
        plan.read_added(snapshot);
        plan.sort_out_rest(snapshot);
        plan.recall_runs(snapshot);
        plan.decide_wishes(snapshot);
        plan
    }

    /// Shows the plan to readers; [`Owner::start`] sends it to the keeper.
    pub(crate) fn show(&self, registry: &Registry) {
        registry.define(&self.definitions);
        for (name, origin) in &self.kept {
            registry.keep_unknown(name, *origin);
        }
        let starts = self.wishes.iter().filter(|(_, wish)| *wish != Wish::Down);
        registry.set_start_pending(&starts.map(|(name, _)| name).collect());
        registry.removing(&self.removes);
        for (name, exec) in &self.began {
            registry.recall_run(name, *exec);
        }
        registry.set_current(self.current.clone(), &self.settings);
        registry.set_security(self.security.clone().unwrap_or(Security::CLOSED));
        registry.set_own_secrets(self.own_secrets.clone());
        registry.set_roots(Arc::clone(&self.roots));
        let listeners = self.listeners.clone().unwrap_or(Listeners::OFF);
        match self.holds_listeners {
            true => registry.hold_listeners(listeners),
            false => registry.set_listeners(listeners),
        }
        registry.set_problems(self.troubles.texts());
        registry.begin_events();
    }

    /// Without a readable file, the keeper's services are the only record: all of them are kept.
    fn take_stored(&mut self, found: LoadedStore, snapshot: &Snapshot) {
        let problem = match found {
            LoadedStore::Stored(stored) => {
                self.before.clone_from(&stored);
                self.stored = *stored;
                return;
            }
            LoadedStore::Nothing if snapshot.is_empty() => return,
            LoadedStore::Nothing => "services.json is missing".to_owned(),
            LoadedStore::Damaged { problem } => problem,
        };
        for (name, state) in snapshot {
            self.stored.added.insert(name.clone(), AddedService::lost());
            self.stored.wishes.insert(name.clone(), StoredWish::of(state.wish));
        }
        self.stored.lost = true;
        let advice = "running services are kept; apply the configuration and add services again";
        self.troubles.store = Some(format!("{problem}; {advice}"));
    }

    /// While services are at work, a new daemon changes nothing: it uses the texts of the applied
    /// configuration, not the files, which may be edited right now. A fresh Proctor reads the files.
    fn read_configuration(&mut self, snapshot: &Snapshot) {
        let Some(source) = self.stored.source() else { return };
        let goes_on = snapshot.values().any(at_work) && !self.stored.texts.is_empty();
        self.own_secrets = OwnSecrets::named(self.stored.secret_variables.clone());
        let inheritance = self.inheritance(snapshot);
        let files = || match goes_on {
            true => Files::kept(self.stored.texts.clone()),
            false => Files::default(),
        };
        let given = self.stored.environment.clone();
        let prepared = inheritance.and_then(|inheritance| {
            let prepared =
                apply_config::prepare(&source, &inheritance, &self.stored.args, files())?;
            refuse_clashes(&source, &prepared.definitions, &self.stored)?;
            Ok(prepared)
        });
        match prepared {
            Ok(prepared) => {
                for definition in &prepared.definitions {
                    self.stored.added.remove(definition.name());
                }
                self.definitions = prepared.definitions;
                self.settings = prepared.settings;
                self.listeners = Some(prepared.listeners);
                self.security = Some(prepared.security);
                self.own_secrets = prepared.own_secrets;
                self.roots = prepared.roots;
                self.stored.texts = prepared.texts;
                self.stored.set_inherited(&self.definitions, &prepared.environment);
                for problem in prepared.ambiguities {
                    tracing::warn!(%problem, "the next `proctor up` will reject this");
                }
            }
            Err(error) => {
                tracing::error!(%source, %error, "cannot apply the configuration again");
                let text = format!("cannot apply {source}; its services stay as they were");
                self.troubles.config = Some(format!("{text}: {}", in_full(&error)));
            }
        }
        self.current = Some(Arc::new(CurrentConfig { source, given }));
    }

    /// The environments of services at work; the others inherit the environment of the configuration.
    fn inheritance(&mut self, snapshot: &Snapshot) -> Result<Inheritance, EngineError> {
        let secrets = &self.own_secrets;
        let environment = self.environments.share(self.stored.environment.as_ref(), secrets)?;
        let mut kept = BTreeMap::new();
        for (name, variables) in self.stored.inherited() {
            if snapshot.get(name).is_some_and(at_work) {
                kept.insert(name.clone(), self.environments.share(Some(variables), secrets)?);
            }
        }
        Ok(Inheritance { environment, kept, before: BTreeMap::new() })
    }

    /// Without a readable configuration, the environment sets the addresses. A lost configuration may have
    /// closed addresses that the defaults open.
    fn listen_without_file(&mut self) {
        if self.listeners.is_some() {
            return;
        }
        if self.stored.lost {
            self.troubles.listeners = Some(CLOSED.to_owned());
            return;
        }
        let given = self.stored.environment.as_ref().filter(|_| self.current.is_some());
        let var = |name: &str| match given {
            Some(given) => given.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        if self.current.is_none() {
            self.security = Security::without_file(&var).ok();
        }
        match Listeners::without_file(&var) {
            Ok(listeners) => self.listeners = Some(listeners),
            Err(problems) => self.troubles.listeners = Some(describe(&problems)),
        }
    }

    fn read_added(&mut self, snapshot: &Snapshot) {
        for (name, added) in self.stored.added.clone() {
            let tenure = self.tenures.entry(name.clone()).or_default();
            let prepared =
                self.environments.share(added.environment.as_ref(), &self.own_secrets).and_then(
                    |env| added_services::prepare(&name, &added, tenure, &env, &self.stored.args),
                );
            match prepared {
                Ok(definitions) => self.definitions.extend(definitions),
                Err(error) => {
                    tracing::error!(service = %name, %error, "cannot define an added service");
                    self.keep_added(&name, snapshot);
                    self.troubles.services.insert(name, in_full(&error));
                }
            }
        }
    }

    /// Keeps its instances in the keeper, or at least its name, so that it can be seen and removed.
    fn keep_added(&mut self, key: &ServiceName, snapshot: &Snapshot) {
        let of_key = |name: &&ServiceName| self.stored.added_key(name).as_ref() == Some(key);
        let mut names: Vec<ServiceName> = snapshot.keys().filter(of_key).cloned().collect();
        if names.is_empty() {
            names.push(key.clone());
        }
        self.kept.extend(names.into_iter().map(|name| (name, Origin::Added)));
    }

    /// Handles services of the keeper without a definition. They belong to the file if that cannot be read now;
    /// otherwise they were removed just before the last daemon died.
    fn sort_out_rest(&mut self, snapshot: &Snapshot) {
        let defined: BTreeSet<&ServiceName> = self.definitions.iter().map(|d| d.name()).collect();
        for name in snapshot.keys() {
            if defined.contains(name) || self.kept.contains_key(name) {
                continue;
            }
            let over = self.over.iter().any(|over| over.service.base() == name.base());
            if self.troubles.config.is_some() && !over {
                self.kept.insert(name.clone(), Origin::File);
            } else {
                self.removes.push(name.clone());
                self.stored.forget(name);
            }
        }
    }

    fn recall_runs(&mut self, snapshot: &Snapshot) {
        for definition in &self.definitions {
            let name = definition.name();
            let run = snapshot.get(name).and_then(|state| state.phase.run()).map(|run| run.id);
            let before = self.stored.execs.get(name);
            let made_with = |execs: &Execs| match execs.run {
                Some(stored) if Some(stored.id) == run => stored.exec,
                // The run began after the file was written, with the definition of that time.
                Some(_) | None => execs.defined,
            };
            let began = run.map(|id| (id, before.map_or(definition.exec(), made_with)));
            self.began.extend(began.map(|(_, exec)| (name.clone(), exec)));
            let run = began.map(|(id, exec)| StoredRun { id, exec });
            self.stored.execs.insert(name.clone(), Execs { defined: definition.exec(), run });
        }
    }

    fn decide_wishes(&mut self, snapshot: &Snapshot) {
        // After `down` all wishes are down; services added to the file since then wait for the next `up`, too.
        let is_down = !self.stored.wishes.is_empty()
            && self.stored.wishes.values().all(|wish| *wish == StoredWish::Down);
        let begins = !snapshot.values().any(at_work) && !is_down && !self.holds_listeners;
        for definition in &self.definitions {
            let name = definition.name();
            let keeper = snapshot.get(name).map(|state| state.wish);
            let stored = self.stored.wishes.get(name).copied();
            let wish = decide_wish(stored, keeper, begins && definition.def().autostart);
            if stored.is_none() && wish == Some(Wish::Up) {
                // Stored, so that a daemon that dies now does not forget to start it.
                self.stored.wishes.insert(name.clone(), StoredWish::Up);
            }
            self.wishes.extend(wish.map(|wish| (name.clone(), wish)));
        }
        for name in self.kept.keys() {
            let Some(keeper) = snapshot.get(name).map(|state| state.wish) else { continue };
            let wish = decide_wish(self.stored.wishes.get(name).copied(), Some(keeper), false);
            self.wishes.extend(wish.map(|wish| (name.clone(), wish)));
        }
    }
}

/// The wish to send, if any.
fn decide_wish(stored: Option<StoredWish>, keeper: Option<Wish>, autostart: bool) -> Option<Wish> {
    match (stored, keeper) {
        (Some(stored), Some(keeper)) => (StoredWish::of(keeper) != stored).then(|| stored.wish()),
        (Some(StoredWish::Up), None) => Some(Wish::Up),
        (Some(StoredWish::Down), None) | (None, Some(_)) => None,
        (None, None) => autostart.then_some(Wish::Up),
    }
}

impl Owner {
    /// Carries out the plan. Failures are logged; giving up here would help nobody.
    pub(crate) async fn start(&mut self, startup: Startup) {
        let Startup { stored, definitions, removes, wishes, over, .. } = startup;
        if let Err(error) = self.save(stored).await {
            tracing::error!(%error, "cannot write the state");
            self.troubles.store.get_or_insert(error.to_string());
        }
        tracing::info!(
            services = definitions.len(),
            removed = removes.len(),
            wishes = wishes.len(),
            "resuming the stored state"
        );
        over.iter().for_each(|over| self.registry.lease_over(over));
        if let Err(error) = self.tell(&definitions, &removes).await {
            tracing::error!(%error, "the keeper rejected a definition");
            self.troubles.config.get_or_insert(format!("not every service is defined: {error}"));
        }
        let asks = wishes.into_iter().map(|(name, wish)| Ask::Wish(name, wish)).collect();
        for error in self.link.ask_all(asks).await.into_iter().filter_map(Result::err) {
            tracing::error!(%error, "the keeper rejected a wish");
        }
        self.registry.set_start_pending(&BTreeSet::new());
        self.registry.set_problems(self.troubles.texts());
    }
}

/// The error with every problem of a configuration, not only their number.
fn in_full(error: &EngineError) -> String {
    if let EngineError::BadConfig(problems) = error {
        describe(problems)
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests;
