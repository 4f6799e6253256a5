//! Applies a configuration, all or nothing: one problem in it, and nothing changes.

use crate::api::{Applied, ConfigRequest, ServiceView, View};
use crate::config_source::{self, ConfigSource, CurrentConfig, Files, Texts};
use crate::definition::{Definition, Origin};
use crate::environment::{Environment, Environments};
use crate::error::EngineError;
use crate::files::Roots;
use crate::owner::Owner;
use crate::registry_state::{RegistryState, unknown};
use crate::service_selection::select;
use crate::service_store::{StoredServices, StoredWish};
use crate::start_checks;
use proctor_core::assistant_policy::AssistantPolicy;
use proctor_core::config::grants::Grants;
use proctor_core::config::listen::Listeners;
use proctor_core::config::own_secrets::OwnSecrets;
use proctor_core::config::security::Security;
use proctor_core::config::{Config, Problem, ServiceDef, Setting};
use proctor_core::name::ServiceName;
use proctor_core::wire::{PhaseView, ServiceState};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// A configuration that was read and validated.
pub(crate) struct PreparedConfig {
    pub(crate) definitions: Vec<Arc<Definition>>,
    pub(crate) settings: Vec<Setting>,
    pub(crate) listeners: Listeners,
    pub(crate) security: Security,
    /// Variables that no service inherits.
    pub(crate) own_secrets: OwnSecrets,
    /// The folders for file operations, held open.
    pub(crate) roots: Arc<Roots>,
    /// The texts it was read from.
    pub(crate) texts: Texts,
    /// The variables it was read with.
    pub(crate) environment: Arc<Environment>,
    /// Problems for which a new configuration is rejected.
    pub(crate) ambiguities: Vec<Problem>,
}

impl PreparedConfig {
    fn refuse_ambiguities(self) -> Result<PreparedConfig, EngineError> {
        match self.ambiguities.is_empty() {
            true => Ok(self),
            false => Err(EngineError::BadConfig(self.ambiguities)),
        }
    }
}

/// The variables that a configuration is read with, and those that its services inherit.
pub(crate) struct Inheritance {
    /// For `${VAR}` in the file, and inherited by every service that `kept` does not name.
    pub(crate) environment: Arc<Environment>,
    /// Environments that running services were started with. `up` from another terminal does not change them.
    pub(crate) kept: BTreeMap<ServiceName, Arc<Environment>>,
    /// The definitions in force.
    pub(crate) before: BTreeMap<ServiceName, Arc<Definition>>,
}

/// Reads a configuration and resolves it. Blocks, changes nothing.
pub(crate) fn prepare(
    source: &ConfigSource,
    Inheritance { environment, kept, before }: &Inheritance,
    args: &BTreeMap<ServiceName, Vec<String>>,
    files: Files,
) -> Result<PreparedConfig, EngineError> {
    // Destructured field by field: a new field that grants rights must also be compared when an assistant
    // applies a configuration.
    let Config {
        services,
        groups: _,
        settings,
        listeners,
        security,
        own_secrets,
        roots,
        ambiguities,
    } = config_source::load(source, environment, &files)?;
    let environment = environment.hiding(&own_secrets);
    let kept = hiding(kept, &own_secrets);
    // A changed definition ends the arguments of a restart.
    let is_unchanged = |def: &ServiceDef| before.get(&def.name).is_none_or(|old| old.def() == def);
    let define = |def: ServiceDef| {
        let keeps = |_: &&Vec<String>| Definition::takes_arguments(&def) && is_unchanged(&def);
        let args = args.get(&def.name).filter(keeps);
        let args = args.map(Vec::as_slice);
        let inherited = kept.get(&def.name).unwrap_or(&environment);
        Definition::new(def, Origin::File, inherited, args).map(Arc::new)
    };
    let definitions = services.into_iter().map(define).collect::<Result<_, _>>()?;
    let roots = Arc::new(Roots::open(&source.roots(roots)));
    let texts = files.texts();
    Ok(PreparedConfig {
        definitions,
        settings,
        listeners,
        security,
        own_secrets,
        roots,
        texts,
        environment,
        ambiguities,
    })
}

/// These environments without the secrets. Equal environments stay shared.
fn hiding(
    kept: &BTreeMap<ServiceName, Arc<Environment>>,
    secrets: &OwnSecrets,
) -> BTreeMap<ServiceName, Arc<Environment>> {
    let mut known: Vec<(&Arc<Environment>, Arc<Environment>)> = Vec::new();
    let mut hidden = BTreeMap::new();
    for (name, old) in kept {
        let same = known.iter().find(|(seen, _)| Arc::ptr_eq(seen, old));
        let new = same.map_or_else(|| old.hiding(secrets), |(_, new)| Arc::clone(new));
        if same.is_none() {
            known.push((old, Arc::clone(&new)));
        }
        hidden.insert(name.clone(), new);
    }
    hidden
}

/// Returns the effective settings of a configuration, or all its problems. Blocks, changes nothing.
pub(crate) fn check(
    request: ConfigRequest,
    current: Option<&CurrentConfig>,
) -> Result<Vec<Setting>, EngineError> {
    let asked = config_source::choose(request, current)?;
    let environment =
        Environments::default().share(asked.given.as_ref(), &OwnSecrets::default())?;
    let inheritance = Inheritance { environment, kept: BTreeMap::new(), before: BTreeMap::new() };
    let prepared =
        prepare(&asked.source, &inheritance, &BTreeMap::new(), config_source::Files::default())?;
    Ok(prepared.refuse_ambiguities()?.settings)
}

/// Fails if the file names a service that was added at run time.
pub(crate) fn refuse_clashes(
    source: &ConfigSource,
    definitions: &[Arc<Definition>],
    stored: &StoredServices,
) -> Result<(), EngineError> {
    let known = stored.added.iter().filter(|(_, added)| added.definition.is_some());
    let added: BTreeSet<&str> = known.map(|(name, _)| name.base()).collect();
    let bases: BTreeSet<&str> = definitions.iter().map(|d| d.name().base()).collect();
    let problem = |base: &&str| Problem {
        file: source.to_string(),
        line: 0,
        column: 0,
        message: format!("services.{base}: a service of this name was added at run time"),
        help: Some(format!("remove the added service first: proctor remove {base}")),
    };
    let problems: Vec<Problem> = bases.intersection(&added).map(problem).collect();
    if problems.is_empty() { Ok(()) } else { Err(EngineError::BadConfig(problems)) }
}

/// The changes that a new configuration makes.
#[derive(Default)]
struct Difference {
    /// New and changed definitions, to be sent to the keeper.
    defines: Vec<Arc<Definition>>,
    removes: Vec<ServiceName>,
    applied: Applied,
}

impl Owner {
    pub(crate) async fn apply(
        &mut self,
        mut request: ConfigRequest,
    ) -> Result<Applied, EngineError> {
        let current = self.registry.current();
        let (start, hands) = (request.start.take(), request.hands.take());
        let refresh = request.refresh_environment;
        let asked = config_source::choose(request, current.as_deref())?;
        if let Some(current) = &current {
            self.refuse_second(&current.source, &asked.source)?;
        }
        let prepared = self.prepare(&asked, refresh).await?.refuse_ambiguities()?;
        refuse_clashes(&asked.source, &prepared.definitions, &self.stored)?;
        let mut difference = self.difference(&prepared.definitions);
        if let Some(words) = start {
            let starting = self.starting(&words, &prepared.definitions)?;
            self.refuse_unstartable(&starting, &prepared.definitions, &difference).await?;
            difference.applied.starting = starting;
        }
        if let Some(hands) = hands {
            self.refuse_wider(&prepared, current.as_deref())?;
            self.refuse_hands(&hands, &difference.applied)?;
        }

        let mut stored = self.stored.clone();
        stored.set_source(&asked.source);
        stored.texts.clone_from(&prepared.texts);
        stored.environment.clone_from(&asked.given);
        stored.secret_variables.clone_from(prepared.own_secrets.names());
        stored.set_inherited(&prepared.definitions, &prepared.environment);
        for name in &difference.removes {
            stored.forget(name);
        }
        for definition in &prepared.definitions {
            // A service whose definition was lost now belongs to the file that defines it.
            stored.added.remove(definition.name());
        }
        // StoredServices with the configuration: if the daemon dies before it tells the keeper, the next daemon does
        // the rest.
        let wanted = difference.applied.starting.iter();
        stored.wishes.extend(wanted.map(|name| (name.clone(), StoredWish::Up)));
        for definition in prepared.definitions.iter().filter(|it| it.args_override().is_none()) {
            stored.args.remove(definition.name());
        }
        self.note_execs(&mut stored, &prepared.definitions);
        let hidden = self.hide_from_added(&prepared.own_secrets).await;
        self.note_execs(&mut stored, &hidden);
        self.save(stored).await?;

        let source = asked.source.to_string();
        let Difference { mut defines, removes, mut applied } = difference;
        defines.extend(hidden);
        if removes.is_empty() {
            applied.begun = self.registry.unknown(&applied.starting);
        }
        let counts = (applied.added.len(), applied.changed.len(), applied.removed.len());
        tracing::info!(source, added = counts.0, changed = counts.1, removed = counts.2, "applied");
        self.registry.define(&defines);
        self.registry.removing(&removes);
        self.registry.set_current(Some(Arc::new(asked)), &prepared.settings);
        // Takes effect before a client can connect to a new address.
        self.registry.set_security(prepared.security);
        self.registry.set_own_secrets(prepared.own_secrets);
        self.registry.set_roots(prepared.roots);
        self.registry.set_listeners(prepared.listeners);
        self.troubles.config = None;
        self.troubles.listeners = None;
        for definition in &prepared.definitions {
            self.troubles.services.remove(definition.name());
        }
        self.registry.set_problems(self.troubles.texts());
        if applied.begun.is_empty() {
            self.tell(&defines, &removes).await?;
        } else {
            self.tell_and_begin(&defines, &applied.begun).await?;
        }
        Ok(Applied { source, ..applied })
    }

    /// The services that these words select after these definitions are applied.
    fn starting(
        &self,
        words: &[String],
        definitions: &[Arc<Definition>],
    ) -> Result<Vec<ServiceName>, EngineError> {
        if words.is_empty() {
            let autostart = definitions.iter().filter(|definition| definition.def().autostart);
            return Ok(autostart.map(|definition| definition.name().clone()).collect());
        }
        let of_file = self.of_file();
        let mut board = RegistryState::default();
        for (name, added) in self.registry.defined() {
            match added {
                _ if of_file.contains_key(&name) => {}
                Some(definition) => board.define(&definition),
                None => drop(board.view.services.insert(name.clone(), unknown(&name))),
            }
        }
        definitions.iter().for_each(|definition| board.define(definition));
        select(&board.view, words)
    }

    /// Fails if a service that gets a new process cannot start. Ports of the runs that it replaces count as
    /// free.
    async fn refuse_unstartable(
        &self,
        starting: &[ServiceName],
        definitions: &[Arc<Definition>],
        difference: &Difference,
    ) -> Result<(), EngineError> {
        let defined: BTreeMap<&ServiceName, &Arc<Definition>> =
            definitions.iter().map(|definition| (definition.name(), definition)).collect();
        let anew = |name: &ServiceName| {
            let new = defined.get(name).map(|definition| Arc::clone(definition));
            let definition = new.or_else(|| self.registry.definition(name))?;
            let stays = self.registry.began_with(name) == Some(definition.exec());
            (!stays).then_some(definition)
        };
        let anew: Vec<Arc<Definition>> = starting.iter().filter_map(anew).collect();
        let ending = anew.iter().map(|definition| definition.name()).chain(&difference.removes);
        let freed = self.registry.ports(&ending.cloned().collect::<Vec<_>>());
        let registry = Arc::clone(&self.registry);
        crate::blocking(move || start_checks::check(&registry, anew, &freed)).await?
    }

    /// Fails if an assistant's file allows more than the configuration in force. The first configuration sets
    /// the first roots.
    fn refuse_wider(
        &self,
        prepared: &PreparedConfig,
        current: Option<&CurrentConfig>,
    ) -> Result<(), EngineError> {
        let (guard, roots) = (self.registry.guard(), self.registry.roots().declared());
        let listeners = Arc::clone(&self.registry.listeners().borrow());
        let own_secrets = self.registry.own_secrets();
        let is_first = current.is_none_or(|current| current.source == ConfigSource::Example);
        let old = Grants {
            security: &guard.security,
            listeners: &listeners,
            own_secrets: &own_secrets,
            roots: (!is_first).then_some(&roots),
        };
        let roots = prepared.roots.declared();
        let PreparedConfig { security, listeners, own_secrets, .. } = prepared;
        let new = Grants { security, listeners, own_secrets, roots: Some(&roots) };
        let keys = new.wider_than(&old);
        if keys.is_empty() { Ok(()) } else { Err(EngineError::Widens { keys }) }
    }

    /// An assistant may add services by a file, but may change by it only services that it may change
    /// otherwise.
    fn refuse_hands(&self, hands: &AssistantPolicy, applied: &Applied) -> Result<(), EngineError> {
        let services: BTreeSet<_> = self.registry.read(|view| {
            let known = |names: &[ServiceName]| {
                let known = names.iter().filter_map(|name| view.services.get(name));
                known.cloned().collect::<Vec<ServiceView>>()
            };
            let begun = known(&applied.starting).into_iter().filter(|service| !goes_on(service));
            let all = known(&applied.removed).into_iter().chain(known(&applied.changed));
            all.chain(begun)
                .filter_map(|service| {
                    let why = hands.may_change(service.assistants, service.owner()).err()?;
                    Some((service.name, why))
                })
                .collect()
        });
        let services: Vec<_> = services.into_iter().collect();
        if services.is_empty() { Ok(()) } else { Err(EngineError::AssistantRefused { services }) }
    }

    async fn prepare(
        &mut self,
        asked: &CurrentConfig,
        refresh: bool,
    ) -> Result<PreparedConfig, EngineError> {
        let environment = self.environments.share(asked.given.as_ref(), &OwnSecrets::default())?;
        let kept = if refresh { BTreeMap::new() } else { self.environments_at_work() };
        let of_file = self.of_file().into_iter();
        let before = of_file.filter_map(|(name, old)| Some((name, old?))).collect();
        let inheritance = Inheritance { environment, kept, before };
        let (source, mut args) = (asked.source.clone(), self.stored.args.clone());
        // A service that does not run is started with its configured arguments.
        args.retain(|name, _| self.is_at_work(name));
        crate::blocking(move || prepare(&source, &inheritance, &args, Files::default())).await?
    }

    /// Returns true if the service runs or will start by itself.
    pub(crate) fn is_at_work(&self, name: &ServiceName) -> bool {
        let look = |view: &View| Some(at_work(view.services.get(name)?.state.as_ref()?));
        self.registry.read(look) == Some(true)
    }

    /// Environments of those services of the file that are at work.
    fn environments_at_work(&self) -> BTreeMap<ServiceName, Arc<Environment>> {
        let of_file = self.of_file().into_iter();
        let kept = of_file
            .filter(|(name, _)| self.is_at_work(name))
            .filter_map(|(name, definition)| Some((name, Arc::clone(definition?.environment()))));
        kept.collect()
    }

    /// One Proctor runs one configuration: another is rejected while services of the first are at work. The
    /// built-in example may always be replaced.
    fn refuse_second(
        &self,
        current: &ConfigSource,
        asked: &ConfigSource,
    ) -> Result<(), EngineError> {
        if current.same_as(asked)
            || *current == ConfigSource::Example
            || !self.file_services_at_work()
        {
            return Ok(());
        }
        let running = PathBuf::from(current.to_string());
        Err(EngineError::HomeInUse { running, asked: PathBuf::from(asked.to_string()) })
    }

    fn file_services_at_work(&self) -> bool {
        let of_file = self.of_file();
        self.registry.read(|view| {
            let states = of_file.keys().filter_map(|name| view.services.get(name)?.state.as_ref());
            states.into_iter().any(at_work)
        })
    }

    /// The services of the configuration in force, or of its last readable version.
    fn of_file(&self) -> BTreeMap<ServiceName, Option<Arc<Definition>>> {
        let mut all = self.registry.defined();
        all.retain(|name, definition| match definition {
            Some(definition) => definition.origin == Origin::File,
            None => self.stored.added_key(name).is_none(),
        });
        all
    }

    fn difference(&self, definitions: &[Arc<Definition>]) -> Difference {
        let mut before = self.of_file();
        let everything = self.registry.defined();
        let Difference { mut defines, mut applied, .. } = Difference::default();
        for definition in definitions {
            let name = definition.name().clone();
            before.remove(&name);
            match everything.get(&name) {
                Some(Some(old)) if old.same_as(definition) => {
                    // Retries definitions that the keeper rejected or never answered.
                    if !self.registry.is_settled(&name) {
                        defines.push(Arc::clone(definition));
                    }
                    applied.unchanged.push(name);
                }
                Some(_) => {
                    defines.push(Arc::clone(definition));
                    applied.changed.push(name);
                }
                None => {
                    defines.push(Arc::clone(definition));
                    applied.added.push(name);
                }
            }
        }
        let removes: Vec<ServiceName> = before.into_keys().collect();
        applied.removed.clone_from(&removes);
        Difference { defines, removes, applied }
    }
}

/// Returns true if the service runs and a start changes nothing.
fn goes_on(service: &ServiceView) -> bool {
    let up = |state: &ServiceState| matches!(state.phase, PhaseView::Up { .. });
    !service.stale && service.state.as_ref().is_some_and(up)
}

/// Returns true if the service runs or will start by itself.
pub(crate) fn at_work(state: &ServiceState) -> bool {
    match &state.phase {
        PhaseView::Down | PhaseView::Failed { .. } => false,
        PhaseView::Held
        | PhaseView::Backoff { .. }
        | PhaseView::Starting { .. }
        | PhaseView::Up { .. }
        | PhaseView::Stopping { .. }
        | PhaseView::Cooling { .. } => true,
    }
}
