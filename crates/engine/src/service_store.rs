//! `services.json`: the state that must survive a reboot. It holds the configuration in force, wishes,
//! arguments of restarts, and services added at run time.
//!
//! The one owner of the state writes it as a whole, before it tells the keeper. An invalid file is moved aside,
//! never overwritten, and the running services are kept.

use crate::audit::ChainAnchor;
use crate::config_source::{ConfigSource, Texts};
use crate::definition::Definition;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::sealed_json;
use crate::trusted_folders;
use proctor_core::access::ClientName;
use proctor_core::lease::KeptLease;
use proctor_core::lifecycle::Wish;
use proctor_core::name::{RunId, ServiceName};
use proctor_sys::{atomic, own_file, small_file};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

const VERSION: u32 = 1;

/// Maximum size. A thousand added services, each with its own environment, stay below; a larger file is not
/// ours.
pub(crate) const MAX_BYTES: u64 = 256 << 20;

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct StoredServices {
    version: u32,
    /// The file has a checksum (`sealed_json`); this version always writes one.
    #[serde(default)]
    sealed: bool,
    /// The configuration file in force.
    #[serde(default)]
    config: Option<PathBuf>,
    /// The built-in example is in force.
    #[serde(default)]
    example: bool,
    /// `SUPERVISOR_TARGET_CMD` is in force.
    #[serde(default)]
    target: bool,
    /// The configuration in force is not known, because this file was damaged. Its restrictions are not known
    /// either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lost: bool,
    /// The texts of its files when it was applied: edits take effect when they are applied.
    #[serde(default)]
    pub(crate) texts: Texts,
    /// The environment it was applied with; `None`: the daemon's own.
    #[serde(default)]
    pub(crate) environment: Option<BTreeMap<String, String>>,
    /// Variables that its `security` block uses. No service inherits them, even while the file cannot be read.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) secret_variables: BTreeSet<String>,
    /// Services of the file that were started with another environment, and its id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    inherited: BTreeMap<ServiceName, u64>,
    /// The environments of `inherited`, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    environments: BTreeMap<u64, BTreeMap<String, String>>,
    #[serde(default)]
    pub(crate) wishes: BTreeMap<ServiceName, StoredWish>,
    /// Arguments given with a restart; they apply while the service is at work and its definition is unchanged.
    #[serde(default)]
    pub(crate) args: BTreeMap<ServiceName, Vec<String>>,
    #[serde(default)]
    pub(crate) added: BTreeMap<ServiceName, AddedService>,
    /// The settings that the services' processes were started with, so that a new daemon knows which are stale.
    #[serde(default)]
    pub(crate) execs: BTreeMap<ServiceName, Execs>,
    /// The position of the audit log when this was written, so that its removal is detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audit: Option<ChainAnchor>,
}

/// A stored wish. `Once` is not stored: a service that ran once does not run again after a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredWish {
    Up,
    Down,
}

/// A service added at run time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct AddedService {
    /// `None`: lost with a damaged file; the keeper may still have the service.
    pub(crate) definition: Option<serde_json::Value>,
    pub(crate) base_dir: String,
    /// `None`: the daemon's own.
    pub(crate) environment: Option<BTreeMap<String, String>>,
    /// The program that added it; `None`: a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<ClientName>,
    /// `None`: it stays until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lease: Option<KeptLease>,
}

impl AddedService {
    /// An entry for a service that only the keeper knows.
    pub(crate) fn lost() -> AddedService {
        let base_dir = "/".into();
        AddedService { definition: None, base_dir, environment: None, owner: None, lease: None }
    }
}

/// Hashes of the exec parts of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Execs {
    /// As defined: runs after `run` use it.
    pub(crate) defined: u64,
    /// The latest run when the file was written.
    pub(crate) run: Option<StoredRun>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRun {
    pub(crate) id: RunId,
    pub(crate) exec: u64,
}

impl Default for StoredServices {
    fn default() -> StoredServices {
        StoredServices {
            version: VERSION,
            sealed: true,
            config: None,
            example: false,
            target: false,
            lost: false,
            texts: Texts::new(),
            environment: None,
            secret_variables: BTreeSet::new(),
            inherited: BTreeMap::new(),
            environments: BTreeMap::new(),
            wishes: BTreeMap::new(),
            args: BTreeMap::new(),
            added: BTreeMap::new(),
            execs: BTreeMap::new(),
            audit: None,
        }
    }
}

impl StoredServices {
    pub(crate) fn source(&self) -> Option<ConfigSource> {
        match &self.config {
            Some(path) => Some(ConfigSource::File(path.clone())),
            None if self.target => Some(ConfigSource::Target),
            None if self.example => Some(ConfigSource::Example),
            None => None,
        }
    }

    pub(crate) fn set_source(&mut self, source: &ConfigSource) {
        self.config = source.file();
        self.target = *source == ConfigSource::Target;
        self.example = *source == ConfigSource::Example;
        self.lost = false;
    }

    /// Records the services that inherit another environment than `usual`.
    pub(crate) fn set_inherited(&mut self, definitions: &[Arc<Definition>], usual: &Environment) {
        self.inherited.clear();
        self.environments.clear();
        for definition in definitions {
            let own = definition.environment();
            if own.id() != usual.id() {
                self.inherited.insert(definition.name().clone(), own.id().0);
                self.environments.entry(own.id().0).or_insert_with(|| own.all().clone());
            }
        }
    }

    /// The services that inherit another environment than [`StoredServices::environment`], and that environment.
    pub(crate) fn inherited(
        &self,
    ) -> impl Iterator<Item = (&ServiceName, &BTreeMap<String, String>)> {
        let known = |(name, id)| Some((name, self.environments.get(id)?));
        self.inherited.iter().filter_map(known)
    }

    /// The key of an added service: its own name, or the name shared by its instances.
    pub(crate) fn added_key(&self, name: &ServiceName) -> Option<ServiceName> {
        if self.added.contains_key(name) {
            return Some(name.clone());
        }
        let base = ServiceName::parse(name.base()).ok()?;
        self.added.contains_key(&base).then_some(base)
    }

    /// Removes an added service with all data of its instances.
    pub(crate) fn drop_added(&mut self, key: &ServiceName) {
        let kept = self.wishes.keys().chain(self.args.keys()).chain(self.execs.keys());
        let own = kept.filter(|name| self.added_key(name).as_ref() == Some(key));
        for name in own.cloned().collect::<BTreeSet<_>>() {
            self.forget(&name);
        }
        self.added.remove(key);
    }

    /// Removes all data under this name except its definition.
    pub(crate) fn forget(&mut self, name: &ServiceName) {
        self.wishes.remove(name);
        self.args.remove(name);
        self.execs.remove(name);
    }
}

impl StoredWish {
    pub(crate) fn of(wish: Wish) -> StoredWish {
        match wish {
            Wish::Up => StoredWish::Up,
            Wish::Once | Wish::Down => StoredWish::Down,
        }
    }

    pub(crate) fn wish(self) -> Wish {
        match self {
            StoredWish::Up => Wish::Up,
            StoredWish::Down => Wish::Down,
        }
    }
}

/// The result of reading the file at the start.
#[derive(Debug)]
pub(crate) enum LoadedStore {
    Stored(Box<StoredServices>),
    Nothing,
    /// Moved aside; `problem` says why and where to.
    Damaged {
        problem: String,
    },
}

/// The file and its fallback.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    path: PathBuf,
    /// In the runtime folder: holds the state while `path` cannot be written.
    fallback: PathBuf,
    /// Set if the file could neither be read nor moved aside: it must not be overwritten.
    blocked: Option<String>,
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("cannot write {path}: {why}", path = .path.display())]
pub(crate) struct Unwritable {
    path: PathBuf,
    why: String,
}

impl From<Unwritable> for EngineError {
    fn from(Unwritable { path, why }: Unwritable) -> EngineError {
        EngineError::Unwritable { path, why }
    }
}

impl Store {
    /// Reads the file and removes temporary files of a killed writer. Blocks.
    pub(crate) fn open(path: PathBuf, fallback: PathBuf) -> (Store, LoadedStore) {
        let mut store = Store { path, fallback, blocked: None };
        store.sweep();
        let found = match read(&store.path) {
            Ok(None) => LoadedStore::Nothing,
            Ok(Some(stored)) => LoadedStore::Stored(Box::new(stored)),
            Err(why) => LoadedStore::Damaged { problem: store.set_aside(&why) },
        };
        match store.newer_fallback() {
            Some(stored) => (store, LoadedStore::Stored(stored)),
            None => (store, found),
        }
    }

    /// Returns true if the state was written to the fallback.
    pub(crate) fn has_fallback(&self) -> bool {
        self.fallback.symlink_metadata().is_ok()
    }

    /// The fallback, unless it is older than the file: then it was not removed after a later successful write.
    fn newer_fallback(&self) -> Option<Box<StoredServices>> {
        let modified = |path: &Path| path.symlink_metadata().ok()?.modified().ok();
        let newer = modified(&self.fallback)? >= modified(&self.path).unwrap_or(UNIX_EPOCH);
        newer.then(|| read(&self.fallback).ok().flatten()).flatten().map(Box::new)
    }

    /// Writes the file. Nothing else writes it.
    pub(crate) async fn save(&self, stored: &StoredServices) -> Result<(), Unwritable> {
        if let Some(why) = &self.blocked {
            return Err(Unwritable { path: self.path.clone(), why: why.clone() });
        }
        self.save_at(&self.path, stored).await?;
        let fallback = self.fallback.clone();
        drop(crate::blocking(move || small_file::remove(&fallback)).await);
        Ok(())
    }

    /// Writes the fallback, which survives a restart of Proctor but not of the machine.
    pub(crate) async fn save_in_fallback(&self, stored: &StoredServices) -> Result<(), Unwritable> {
        self.save_at(&self.fallback, stored).await
    }

    async fn save_at(&self, path: &Path, stored: &StoredServices) -> Result<(), Unwritable> {
        let unwritable = |why: String| Unwritable { path: path.into(), why };
        let (bytes, to) = (encode(stored).map_err(unwritable)?, path.to_path_buf());
        let written = tokio::task::spawn_blocking(move || atomic::write(&to, &bytes)).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unwritable(error.to_string())),
            Err(error) => Err(unwritable(error.to_string())),
        }
    }

    fn set_aside(&mut self, why: &str) -> String {
        let file = self.path.display();
        let problem = match own_file::set_aside(&self.path) {
            Ok(aside) => format!("{file} {why}; it was moved to {}", aside.display()),
            Err(error) => {
                let problem = format!("{file} {why}, and it cannot be moved aside: {error}");
                self.blocked = Some(problem.clone());
                problem
            }
        };
        tracing::error!(problem, "the stored state is damaged");
        problem
    }

    fn sweep(&self) {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        for leftover in atomic::leftovers(folder).unwrap_or_default() {
            tracing::info!(file = %leftover.display(), "removing a temporary file of a killed writer");
            if let Err(error) = std::fs::remove_file(&leftover) {
                tracing::warn!(file = %leftover.display(), %error, "cannot remove a temporary file");
            }
        }
    }
}

/// Reads the file. `Err` is the rest of a sentence about the file.
fn read(path: &Path) -> Result<Option<StoredServices>, String> {
    let unreadable = |error: io::Error| {
        let is_foreign =
            error.kind() == io::ErrorKind::FileTooLarge || own_file::is_misplaced(&error);
        match is_foreign {
            true => "is not a file written by Proctor".into(),
            false => format!("cannot be read: {error}"),
        }
    };
    let opened = match own_file::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(unreadable)?,
    };
    trusted_folders::check_own(path, &opened)?;
    parse(&small_file::read_opened(opened, MAX_BYTES).map_err(unreadable)?).map(Some)
}

/// Parses the version first: the fields of another version are not known.
pub(crate) fn parse(bytes: &[u8]) -> Result<StoredServices, String> {
    let damaged = |error: serde_json::Error| format!("is damaged: {error}");
    let Version { version, sealed } = serde_json::from_slice(bytes).map_err(damaged)?;
    if version != VERSION {
        return Err(format!("has version {version}; this program knows version {VERSION}"));
    }
    sealed_json::check(bytes, sealed)?;
    serde_json::from_slice(bytes)
        .map(|stored| StoredServices { sealed: true, ..stored })
        .map_err(damaged)
}

pub(crate) fn encode(stored: &StoredServices) -> Result<Vec<u8>, String> {
    let body = serde_json::to_vec_pretty(stored).map_err(|error| error.to_string())?;
    Ok(sealed_json::seal(&body))
}

#[derive(Deserialize)]
struct Version {
    version: u32,
    #[serde(default)]
    sealed: bool,
}

#[cfg(test)]
mod tests;
