//! Services that are added and removed while Proctor runs; they are kept in `services.json`.

use crate::api::NewService;
use crate::definition::{Definition, Origin};
use crate::environment::Environment;
use crate::error::EngineError;
use crate::owner::Owner;
use crate::source;
use crate::startable;
use crate::store::{Added, StoredWish};
use proctor_core::config::Problem;
use proctor_core::name::ServiceName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Resolve an added service into its instances. Blocks.
pub(crate) fn prepare(
    name: &ServiceName,
    added: &Added,
    environment: &Arc<Environment>,
    args: &BTreeMap<ServiceName, Vec<String>>,
) -> Result<Vec<Arc<Definition>>, EngineError> {
    let Some(definition) = &added.definition else { return Err(crate::owner::lost(name)) };
    let (text, base) = (definition.to_string(), added.base_dir.as_str());
    let services = source::parse_service("service", name.as_str(), &text, base, environment)?;
    let define = |def: proctor_core::config::ServiceDef| {
        let args = args.get(&def.name).filter(|_| Definition::takes_arguments(&def));
        Definition::new(def, Origin::Added, environment, args.map(Vec::as_slice)).map(Arc::new)
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
        self.refuse_taken(&before, service.replace)?;
        let given = service.environment.map(|pairs| pairs.into_iter().collect());
        let definition = Some(object(&service.definition)?);
        let added = Added { definition, base_dir: service.base_dir, environment: given };
        let definitions = self.prepare_added(&name, added.clone()).await?;
        if service.start.is_some() {
            self.refuse_unstartable_added(&definitions, &before).await?;
        }

        let names: Vec<ServiceName> = definitions.iter().map(|d| d.name().clone()).collect();
        let gone: Vec<ServiceName> =
            before.into_keys().filter(|old| !names.contains(old)).collect();
        let mut stored = self.stored.clone();
        for old in &gone {
            stored.forget(old);
            stored.added.remove(old);
        }
        for name in &names {
            // Arguments of before belong to the definition of before.
            stored.args.remove(name);
            // With the definition, so that a daemon that dies now leaves neither without the other.
            let wish = service.start.map(StoredWish::of);
            stored.wishes.extend(wish.map(|wish| (name.clone(), wish)));
        }
        stored.added.insert(name.clone(), added);
        self.note_execs(&mut stored, &definitions);
        self.save(stored).await?;

        tracing::info!(service = service.name, instances = names.len(), "added");
        self.registry.define(&definitions);
        self.registry.removing(&gone);
        for key in gone.iter().chain([&name]) {
            self.clear_troubles(key);
        }
        self.tell(&definitions, &gone).await?;
        Ok(names)
    }

    pub(crate) async fn remove(&mut self, names: Vec<ServiceName>) -> Result<(), EngineError> {
        let names: BTreeSet<ServiceName> = names.into_iter().collect();
        let mut stored = self.stored.clone();
        let mut keys = BTreeSet::new();
        for name in &names {
            let key = self.added_key(name)?;
            stored.added.remove(&key);
            stored.forget(name);
            keys.insert(key);
        }
        // One definition makes all its instances: they go together.
        let left = |name: &&ServiceName| {
            let key = self.stored.added_key(name);
            !names.contains(*name) && key.is_some_and(|key| keys.contains(&key))
        };
        if let Some(left) = self.registry.defined().keys().find(left) {
            let base = left.base();
            let message = format!("'{base}' has more instances ({left}): remove all of '{base}'");
            return Err(EngineError::Failed(message));
        }
        self.save(stored).await?;
        let names: Vec<ServiceName> = names.into_iter().collect();
        tracing::info!(services = names.len(), "removing");
        self.registry.removing(&names);
        for key in keys {
            self.clear_troubles(&key);
        }
        self.tell(&[], &names).await
    }

    async fn prepare_added(
        &mut self,
        name: &ServiceName,
        added: Added,
    ) -> Result<Vec<Arc<Definition>>, EngineError> {
        let environment = self.environments.share(added.environment.as_ref())?;
        let name = name.clone();
        crate::blocking(move || prepare(&name, &added, &environment, &BTreeMap::new())).await?
    }

    async fn refuse_unstartable_added(
        &self,
        definitions: &[Arc<Definition>],
        before: &BTreeMap<ServiceName, Option<Arc<Definition>>>,
    ) -> Result<(), EngineError> {
        let old: Vec<ServiceName> = before.keys().cloned().collect();
        let (definitions, freed) = (definitions.to_vec(), self.registry.ports(&old));
        crate::blocking(move || startable::check(definitions, &freed)).await?
    }

    /// A name that is taken is refused, unless it is to be replaced or nobody knows what it was.
    fn refuse_taken(
        &self,
        before: &BTreeMap<ServiceName, Option<Arc<Definition>>>,
        replace: bool,
    ) -> Result<(), EngineError> {
        for (name, definition) in before {
            if self.added_key(name).is_err() {
                return Err(self.of_the_file(name));
            }
            if definition.is_some() && !replace {
                return Err(EngineError::AlreadyExists(name.clone()));
            }
        }
        Ok(())
    }

    /// All services of the same configured name.
    fn of_base(&self, name: &ServiceName) -> BTreeMap<ServiceName, Option<Arc<Definition>>> {
        let mut all = self.registry.defined();
        all.retain(|other, _| other.base() == name.base());
        all
    }

    /// The entry of `services.json` that a service comes from, or why there is none.
    fn added_key(&self, name: &ServiceName) -> Result<ServiceName, EngineError> {
        if !self.registry.exists(name) {
            let unknown = |view: &_| crate::select::unknown(view, name.as_str());
            return Err(self.registry.read(unknown));
        }
        self.stored.added_key(name).ok_or_else(|| self.of_the_file(name))
    }

    fn of_the_file(&self, name: &ServiceName) -> EngineError {
        let source = self.registry.current().map(|current| current.source.to_string());
        let file = source.unwrap_or_else(|| "a configuration".into());
        EngineError::DefinedInFile(name.clone(), PathBuf::from(file))
    }

    /// Whatever was wrong with this service is not any more.
    fn clear_troubles(&mut self, key: &ServiceName) {
        self.troubles.services.remove(key);
        self.registry.set_problems(self.troubles.texts());
    }
}

fn object(text: &str) -> Result<serde_json::Value, EngineError> {
    let problem = |message: String| {
        let file = "service".to_owned();
        EngineError::BadConfig(vec![Problem { file, line: 0, column: 0, message, help: None }])
    };
    match serde_json::from_str(text) {
        Ok(value @ serde_json::Value::Object(_)) => Ok(value),
        Ok(_) => Err(problem("a service is an object with the keys of a service".into())),
        Err(error) => Err(problem(format!("not JSON: {error}"))),
    }
}
