//! Services that are added and removed at run time; they are stored in `services.json`.

use crate::api::NewService;
use crate::config_source;
use crate::definition::{Definition, Origin};
use crate::environment::Environment;
use crate::error::EngineError;
use crate::lease::{self, ExpiredLease, LeaseChange};
use crate::owner::{Owner, Removal};
use crate::ownership::Ownership;
use crate::service_store::{AddedService, StoredServices, StoredWish};
use crate::start_checks;
use proctor_core::access::ClientName;
use proctor_core::config::Problem;
use proctor_core::config::own_secrets::OwnSecrets;
use proctor_core::lease::Lease;
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Resolves an added service into its instances. Blocks.
pub(crate) fn prepare(
    name: &ServiceName,
    added: &AddedService,
    tenure: &Arc<Ownership>,
    environment: &Arc<Environment>,
    args: &BTreeMap<ServiceName, Vec<String>>,
) -> Result<Vec<Arc<Definition>>, EngineError> {
    let Some(definition) = &added.definition else { return Err(crate::owner::lost(name)) };
    let (text, base) = (definition.to_string(), added.base_dir.as_str());
    let services =
        config_source::parse_service("service", name.as_str(), &text, base, environment)?;
    let define = |def: proctor_core::config::ServiceDef| {
        let args = args.get(&def.name).filter(|_| Definition::takes_arguments(&def));
        let made = Definition::new(def, Origin::Added, environment, args.map(Vec::as_slice))?;
        Ok(Arc::new(made.held_by(tenure)))
    };
    services.into_iter().map(define).collect()
}

impl Owner {
    pub(crate) async fn add(
        &mut self,
        service: NewService,
    ) -> Result<Vec<ServiceName>, EngineError> {
        let name = ServiceName::parse(&service.name)?;
        let before = self.of_base(&name);
        let taken = self.is_taken(&before)? && !service.replace;
        if taken && !(service.keep && self.belongs_to(&name, service.owner.as_ref())) {
            return Err(self.already_exists(&name, &service));
        }
        let added = self.added(&name, &service)?;
        let tenure = Arc::new(added.tenure());
        let definitions = self.prepare_added(&name, added.clone(), &tenure).await?;
        if taken {
            return self.keep(&name, &service, &before, &definitions).await;
        }
        if service.start.is_some() {
            self.refuse_unstartable_added(&definitions, &before).await?;
        }

        let names: Vec<ServiceName> = definitions.iter().map(|d| d.name().clone()).collect();
        let is_new = before.is_empty();
        let gone: Vec<ServiceName> =
            before.into_keys().filter(|old| !names.contains(old)).collect();
        let mut stored = self.stored.clone();
        for old in &gone {
            stored.forget(old);
            stored.added.remove(old);
        }
        for name in &names {
            // The stored arguments belong to the previous definition.
            stored.args.remove(name);
        }
        wish_all(&mut stored, &names, service.start);
        stored.added.insert(name.clone(), added);
        self.note_execs(&mut stored, &definitions);
        self.save(stored).await?;

        tracing::info!(service = service.name, instances = names.len(), "added");
        self.tenures.insert(name.clone(), tenure);
        self.registry.define(&definitions);
        self.registry.removing(&gone);
        for key in gone.iter().chain([&name]) {
            self.clear_troubles(key);
        }
        match self.tell(&definitions, &gone).await {
            Err(error) if is_new => Err(self.take_back(&name, &names, error).await),
            told => told.map(|()| names),
        }
    }

    /// Removes a new service that the keeper rejected. Returns the keeper's error.
    async fn take_back(
        &mut self,
        key: &ServiceName,
        names: &[ServiceName],
        error: EngineError,
    ) -> EngineError {
        let mut stored = self.stored.clone();
        stored.added.remove(key);
        names.iter().for_each(|name| stored.forget(name));
        if let Err(unwritable) = self.save(stored).await {
            tracing::error!(service = %key, %unwritable, "cannot remove a failed addition from services.json");
        }
        self.tenures.remove(key);
        self.registry.removing(names);
        if let Err(left) = self.tell(&[], names).await {
            tracing::error!(service = %key, error = %left, "cannot remove a failed addition from the keeper");
        }
        error
    }

    /// Keeps an existing service whose definition and owner match the request.
    async fn keep(
        &mut self,
        key: &ServiceName,
        service: &NewService,
        before: &BTreeMap<ServiceName, Option<Arc<Definition>>>,
        definitions: &[Arc<Definition>],
    ) -> Result<Vec<ServiceName>, EngineError> {
        let same = |new: &Arc<Definition>| {
            let old = before.get(new.name()).and_then(Option::as_ref);
            old.is_some_and(|old| old.def() == new.def())
        };
        if before.len() != definitions.len() || !definitions.iter().all(same) {
            return Err(self.already_exists(key, service));
        }
        let names: Vec<ServiceName> = before.keys().cloned().collect();
        if service.start.is_some() {
            let (registry, names) = (Arc::clone(&self.registry), names.clone());
            crate::blocking(move || start_checks::check_start(&registry, &names)).await??;
        }
        let mut stored = self.stored.clone();
        wish_all(&mut stored, &names, service.start);
        self.save(stored).await?;
        if let Some(length) = service.lease {
            self.change_lease(names.clone(), LeaseChange::For(length)).await?;
        }
        Ok(names)
    }

    /// Builds the stored entry of a new service. A replacement by its owner without a lease keeps the old
    /// lease.
    fn added(&self, name: &ServiceName, service: &NewService) -> Result<AddedService, EngineError> {
        let before =
            self.tenures.get(name).filter(|tenure| tenure.owner() == service.owner.as_ref());
        let before = before.and_then(|tenure| tenure.lease()).map(Lease::length);
        let lease = service.lease.or(before).map(|length| lease::begin(length).1);
        Ok(AddedService {
            definition: Some(object(&service.definition)?),
            base_dir: service.base_dir.clone(),
            environment: service.environment.clone().map(|pairs| pairs.into_iter().collect()),
            owner: service.owner.clone(),
            lease,
        })
    }

    pub(crate) async fn remove(
        &mut self,
        names: Vec<ServiceName>,
        why: Removal,
    ) -> Result<(), EngineError> {
        let names: BTreeSet<ServiceName> = names.into_iter().collect();
        let mut stored = self.stored.clone();
        let mut keys = BTreeSet::new();
        for name in &names {
            let key = self.added_key(name)?;
            stored.added.remove(&key);
            stored.forget(name);
            keys.insert(key);
        }
        // One definition produces all its instances, so they are removed together.
        let left = |name: &&ServiceName| {
            let key = self.stored.added_key(name);
            !names.contains(*name) && key.is_some_and(|key| keys.contains(&key))
        };
        if let Some(left) = self.registry.defined().keys().find(left) {
            let base = left.base();
            let message = format!("'{base}' has more instances ({left}): remove all of '{base}'");
            return Err(EngineError::Failed(message));
        }
        let owner = |key: &ServiceName| self.tenures.get(key).and_then(|it| it.owner().cloned());
        let over = |key: &ServiceName| ExpiredLease { service: key.clone(), owner: owner(key) };
        let over: Vec<ExpiredLease> = match why {
            Removal::Asked => Vec::new(),
            Removal::LeaseOver => keys.iter().map(over).collect(),
        };
        self.save(stored).await?;
        let names: Vec<ServiceName> = names.into_iter().collect();
        tracing::info!(services = names.len(), "removing");
        over.iter().for_each(|over| self.registry.lease_over(over));
        self.registry.removing(&names);
        for key in keys {
            self.clear_troubles(&key);
        }
        self.tell(&[], &names).await
    }

    async fn prepare_added(
        &mut self,
        name: &ServiceName,
        added: AddedService,
        tenure: &Arc<Ownership>,
    ) -> Result<Vec<Arc<Definition>>, EngineError> {
        let secrets = self.registry.own_secrets();
        let environment = self.environments.share(added.environment.as_ref(), &secrets)?;
        let (name, tenure) = (name.clone(), Arc::clone(tenure));
        let none = BTreeMap::new();
        crate::blocking(move || prepare(&name, &added, &tenure, &environment, &none)).await?
    }

    /// Returns new definitions of added services that inherited a variable which a configuration now declares
    /// secret.
    pub(crate) async fn hide_from_added(&mut self, secrets: &OwnSecrets) -> Vec<Arc<Definition>> {
        if *self.registry.own_secrets() == *secrets {
            return Vec::new();
        }
        let mut changed = Vec::new();
        for (name, added) in self.stored.added.clone() {
            let tenure = self.tenures.get(&name).cloned().unwrap_or_default();
            let args = self.stored.args.clone();
            let shared = self.environments.share(added.environment.as_ref(), secrets);
            let key = name.clone();
            let work = move || prepare(&key, &added, &tenure, &shared?, &args);
            match crate::blocking(work).await.and_then(|made| made) {
                Ok(definitions) => changed.extend(definitions),
                Err(error) => {
                    tracing::warn!(service = %name, %error, "cannot define the service again; it keeps its environment with the secret variables")
                }
            }
        }
        let old = |name: &ServiceName| self.registry.definition(name);
        changed.retain(|new| old(new.name()).is_some_and(|old| !old.same_as(new)));
        changed
    }

    async fn refuse_unstartable_added(
        &self,
        definitions: &[Arc<Definition>],
        before: &BTreeMap<ServiceName, Option<Arc<Definition>>>,
    ) -> Result<(), EngineError> {
        let old: Vec<ServiceName> = before.keys().cloned().collect();
        let (definitions, freed) = (definitions.to_vec(), self.registry.ports(&old));
        let registry = Arc::clone(&self.registry);
        crate::blocking(move || start_checks::check(&registry, definitions, &freed)).await?
    }

    /// Returns true if the name is in use. Fails for a service of the configuration file. A service whose
    /// definition was lost does not count.
    fn is_taken(
        &self,
        before: &BTreeMap<ServiceName, Option<Arc<Definition>>>,
    ) -> Result<bool, EngineError> {
        if let Some(filed) = before.keys().find(|name| self.added_key(name).is_err()) {
            return Err(self.of_the_file(filed));
        }
        Ok(before.values().any(Option::is_some))
    }

    fn belongs_to(&self, key: &ServiceName, owner: Option<&ClientName>) -> bool {
        self.tenures.get(key).is_some_and(|tenure| tenure.owner() == owner)
    }

    fn already_exists(&self, key: &ServiceName, service: &NewService) -> EngineError {
        let owner = self.tenures.get(key).and_then(|tenure| tenure.owner());
        let how = match owner {
            owner if owner == service.owner.as_ref() && service.keep => {
                " with another definition".into()
            }
            owner if owner == service.owner.as_ref() => String::new(),
            Some(owner) => format!("; {owner} started it"),
            None => "; a person started it".into(),
        };
        EngineError::AlreadyExists { name: key.clone(), how }
    }

    /// All services of one configured name.
    fn of_base(&self, name: &ServiceName) -> BTreeMap<ServiceName, Option<Arc<Definition>>> {
        let mut all = self.registry.defined();
        all.retain(|other, _| other.base() == name.base());
        all
    }

    /// The key in `services.json` that a service comes from. Fails for a service of the configuration file.
    pub(crate) fn added_key(&self, name: &ServiceName) -> Result<ServiceName, EngineError> {
        if !self.registry.exists(name) {
            let unknown = |view: &_| crate::service_selection::unknown(view, name.as_str());
            return Err(self.registry.read(unknown));
        }
        self.stored.added_key(name).ok_or_else(|| self.of_the_file(name))
    }

    fn of_the_file(&self, name: &ServiceName) -> EngineError {
        let source = self.registry.current().map(|current| current.source.to_string());
        let file = source.unwrap_or_else(|| "a configuration".into());
        EngineError::DefinedInFile(name.clone(), PathBuf::from(file))
    }

    /// Clears the recorded problem of this service.
    fn clear_troubles(&mut self, key: &ServiceName) {
        self.troubles.services.remove(key);
        self.registry.set_problems(self.troubles.texts());
    }
}

/// Stores the wishes together with the definition, so that a daemon that dies now leaves neither without the
/// other.
fn wish_all(stored: &mut StoredServices, names: &[ServiceName], wish: Option<Wish>) {
    let Some(wish) = wish.map(StoredWish::of) else { return };
    stored.wishes.extend(names.iter().map(|name| (name.clone(), wish)));
}

fn object(text: &str) -> Result<serde_json::Value, EngineError> {
    let problem = |message: String| {
        let file = "service".to_owned();
        EngineError::BadConfig(vec![Problem { file, line: 0, column: 0, message, help: None }])
    };
    match serde_json::from_str(text) {
        Ok(value @ serde_json::Value::Object(_)) => Ok(value),
        Ok(_) => Err(problem(
            "a service definition must be a JSON object with the keys of a service".into(),
        )),
        Err(error) => Err(problem(format!("invalid JSON: {error}"))),
    }
}
