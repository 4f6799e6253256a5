//! `services.json`: what must survive a reboot — which configuration is in force, wishes, arguments that replaced
//! the configured ones, and services added at run time.
//!
//! Written whole by the one owner of the state, before the keeper is told. A file that cannot be understood is set
//! aside, never overwritten, and the services that run are kept.

use crate::definition::Definition;
use crate::environment::Environment;
use crate::error::EngineError;
use crate::source::{Source, Texts};
use proctor_core::access::ClientName;
use proctor_core::lease::KeptLease;
use proctor_core::lifecycle::Wish;
use proctor_core::name::{RunId, ServiceName};
use proctor_sys::atomic;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const VERSION: u32 = 1;

/// A thousand added services, each with an environment of its own, stay below; more than this was not written by us.
const MAX_BYTES: u64 = 256 << 20;

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    version: u32,
    /// The configuration file in force.
    #[serde(default)]
    config: Option<PathBuf>,
    /// ... or the built-in example is.
    #[serde(default)]
    example: bool,
    /// ... or `SUPERVISOR_TARGET_CMD` is.
    #[serde(default)]
    target: bool,
    /// ... or one that is not known any more, because a file like this one was damaged. What it forbade is not known either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lost: bool,
    /// What its files said when it was applied: somebody who edits them changes nothing until they apply them.
    #[serde(default)]
    pub(crate) texts: Texts,
    /// The environment it was applied with; `None`: the daemon's own.
    #[serde(default)]
    pub(crate) environment: Option<BTreeMap<String, String>>,
    /// Variables that its `security` block uses: no service inherits them, also while the file cannot be read.
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
    /// Arguments given with a restart; they hold until others are given.
    #[serde(default)]
    pub(crate) args: BTreeMap<ServiceName, Vec<String>>,
    #[serde(default)]
    pub(crate) added: BTreeMap<ServiceName, Added>,
    /// Which settings the services' processes were made with, so that a new daemon knows whose are out of date.
    #[serde(default)]
    pub(crate) execs: BTreeMap<ServiceName, Execs>,
}

/// `Once` is not kept: what ran one time does not run again because of a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredWish {
    Up,
    Down,
}

/// A service added at run time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Added {
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

impl Added {
    /// One of which only the keeper knows something.
    pub(crate) fn lost() -> Added {
        let base_dir = "/".into();
        Added { definition: None, base_dir, environment: None, owner: None, lease: None }
    }
}

/// Hashes of the exec parts of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Execs {
    /// As defined: runs after `run` are made with it.
    pub(crate) defined: u64,
    /// The latest run when the file was written.
    pub(crate) run: Option<StoredRun>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRun {
    pub(crate) id: RunId,
    pub(crate) exec: u64,
}

impl Default for Stored {
    fn default() -> Stored {
        Stored {
            version: VERSION,
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
        }
    }
}

impl Stored {
    pub(crate) fn source(&self) -> Option<Source> {
        match &self.config {
            Some(path) => Some(Source::File(path.clone())),
            None if self.target => Some(Source::Target),
            None if self.example => Some(Source::Example),
            None => None,
        }
    }

    pub(crate) fn set_source(&mut self, source: &Source) {
        self.config = source.file();
        self.target = *source == Source::Target;
        self.example = *source == Source::Example;
        self.lost = false;
    }

    /// Note which services inherit another environment than `usual`.
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

    /// The services that inherit another environment than [`Stored::environment`], and which.
    pub(crate) fn inherited(
        &self,
    ) -> impl Iterator<Item = (&ServiceName, &BTreeMap<String, String>)> {
        let known = |(name, id)| Some((name, self.environments.get(id)?));
        self.inherited.iter().filter_map(known)
    }

    /// The entry that an added service comes from: its own name, or that of all its instances.
    pub(crate) fn added_key(&self, name: &ServiceName) -> Option<ServiceName> {
        if self.added.contains_key(name) {
            return Some(name.clone());
        }
        let base = ServiceName::parse(name.base()).ok()?;
        self.added.contains_key(&base).then_some(base)
    }

    /// Forget an added service with everything that is kept of its instances.
    pub(crate) fn drop_added(&mut self, key: &ServiceName) {
        let kept = self.wishes.keys().chain(self.args.keys()).chain(self.execs.keys());
        let own = kept.filter(|name| self.added_key(name).as_ref() == Some(key));
        for name in own.cloned().collect::<BTreeSet<_>>() {
            self.forget(&name);
        }
        self.added.remove(key);
    }

    /// Forget what is kept under this name beside its definition.
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

/// What was found at the start.
#[derive(Debug)]
pub(crate) enum Found {
    Stored(Box<Stored>),
    Nothing,
    /// Set aside; `problem` says why and where to.
    Damaged {
        problem: String,
    },
}

/// Where the file is.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    path: PathBuf,
    /// A file that could be neither read nor set aside: nothing is written over it.
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
    /// Read the file and clear away what a killed writer left. Blocks.
    pub(crate) fn open(path: PathBuf) -> (Store, Found) {
        let mut store = Store { path, blocked: None };
        store.sweep();
        let found = match read(&store.path) {
            Ok(None) => Found::Nothing,
            Ok(Some(stored)) => Found::Stored(Box::new(stored)),
            Err(why) => Found::Damaged { problem: store.set_aside(&why) },
        };
        (store, found)
    }

    /// Write the file. Nothing else writes it.
    pub(crate) async fn save(&self, stored: &Stored) -> Result<(), Unwritable> {
        let path = self.path.clone();
        let unwritable = move |why: String| Unwritable { path, why };
        if let Some(why) = &self.blocked {
            return Err(unwritable(why.clone()));
        }
        let bytes = match serde_json::to_vec_pretty(stored) {
            Ok(bytes) => bytes,
            Err(error) => return Err(unwritable(error.to_string())),
        };
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || atomic::write(&path, &bytes)).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(unwritable(error.to_string())),
            Err(error) => Err(unwritable(error.to_string())),
        }
    }

    fn set_aside(&mut self, why: &str) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut aside = self.path.clone().into_os_string();
        aside.push(format!(".damaged-{now}"));
        let (file, aside) = (self.path.display(), PathBuf::from(aside));
        let problem = match std::fs::rename(&self.path, &aside) {
            Ok(()) => format!("{file} {why}; it was moved to {}", aside.display()),
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
            tracing::info!(file = %leftover.display(), "removing what a killed writer left");
            if let Err(error) = std::fs::remove_file(&leftover) {
                tracing::warn!(file = %leftover.display(), %error, "cannot remove it");
            }
        }
    }
}

/// `Err` says what is wrong with the file, as the rest of a sentence.
fn read(path: &Path) -> Result<Option<Stored>, String> {
    let found = match std::fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    if !found.is_file() || found.len() > MAX_BYTES {
        return Err("is not a file of ours".into());
    }
    let bytes = std::fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    parse(&bytes).map(Some)
}

/// The version first: of another one nothing else is known.
pub(crate) fn parse(bytes: &[u8]) -> Result<Stored, String> {
    let version =
        serde_json::from_slice::<Version>(bytes).map_err(|e| format!("is damaged: {e}"))?;
    if version.version != VERSION {
        let found = version.version;
        return Err(format!("has version {found}; this program knows version {VERSION}"));
    }
    serde_json::from_slice(bytes).map_err(|error| format!("is damaged: {error}"))
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::record::BootId;
    use proctor_core::time::{Millis, Mono, Now, Wall};

    /// The shape that version 1 promises; written by hand, never regenerated.
    const RELEASED: &str = r#"{
        "version": 1, "config": "/srv/proctor.yaml", "example": false, "environment": {"A": "1"},
        "wishes": {"web": "up", "db@2": "down"}, "args": {"web": ["--port", "80"]},
        "added": {"job": {"definition": {"command": "true"}, "base_dir": "/srv", "environment": null}}
    }"#;

    #[test]
    fn a_file_of_version_one_is_understood() {
        let stored: Stored = serde_json::from_str(RELEASED).unwrap();
        assert_eq!(stored.source(), Some(Source::File("/srv/proctor.yaml".into())));
        let web = ServiceName::parse("web").unwrap();
        assert_eq!(stored.wishes[&web], StoredWish::Up);
        assert_eq!(stored.args[&web], ["--port", "80"]);
        let job = &stored.added[&ServiceName::parse("job").unwrap()];
        assert_eq!(job.definition, Some(serde_json::json!({"command": "true"})));
        let again: Stored = serde_json::from_slice(&serde_json::to_vec(&stored).unwrap()).unwrap();
        assert_eq!(again, stored);
    }

    /// … with owners and leases.
    const OWNED: &str = r#"{
        "version": 1,
        "added": {"job": {"definition": {"command": "true"}, "base_dir": "/srv", "environment": null, "owner": "claude-code",
                  "lease": {"length": 1800000, "until": 1763193600000000, "ends": 7200000000, "boot": "00112233445566778899aabbccddeeff"}}}
    }"#;

    #[test]
    fn whose_a_service_is_and_until_when_is_understood() {
        let stored: Stored = serde_json::from_str(OWNED).unwrap();
        let job = &stored.added[&ServiceName::parse("job").unwrap()];
        assert_eq!(job.owner, ClientName::parse("claude-code"));
        let (now, boot) = (
            Mono(7_000_000_000),
            BootId(*b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"),
        );
        let lease = job.lease.as_ref().unwrap().resume(Now { mono: now, wall: Wall(0) }, boot);
        assert_eq!(lease.left(now), Millis::seconds(200 + 180));
        let again: Stored = serde_json::from_slice(&serde_json::to_vec(&stored).unwrap()).unwrap();
        assert_eq!(again, stored);
    }

    #[test]
    fn what_is_dropped_leaves_nothing_of_its_instances() {
        let name = |text: &str| ServiceName::parse(text).unwrap();
        let mut stored: Stored = serde_json::from_str(OWNED).unwrap();
        for service in ["job@1", "job@2", "jobs"] {
            stored.wishes.insert(name(service), StoredWish::Up);
        }
        stored.args.insert(name("job@2"), Vec::new());
        stored.drop_added(&name("job"));
        assert_eq!(stored.wishes.keys().collect::<Vec<_>>(), [&name("jobs")]);
        assert!(stored.args.is_empty() && stored.added.is_empty());
    }

    #[tokio::test]
    async fn what_was_saved_comes_back_and_leftovers_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("services.json");
        let (store, found) = Store::open(path.clone());
        assert!(matches!(found, Found::Nothing));
        let mut stored = Stored::default();
        stored.set_source(&Source::Example);
        store.save(&stored).await.unwrap();
        std::fs::write(folder.path().join(".services.json.4294967295-1-0.tmp"), "{").unwrap();
        let (_, found) = Store::open(path);
        assert!(matches!(found, Found::Stored(back) if *back == stored));
        let mut left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, [".services.json.spare", "services.json"]);
    }

    #[tokio::test]
    async fn what_is_not_understood_is_set_aside_and_kept() {
        let good = r#"{"version":1}"#;
        let bad =
            ["", "{", "[]", "{}", r#"{"version":2}"#, r#"{"version":1,"wishes":{"../x":"up"}}"#];
        for text in bad {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("services.json");
            std::fs::write(&path, text).unwrap();
            let (store, found) = Store::open(path.clone());
            assert!(matches!(found, Found::Damaged { .. }), "{text:?} was taken");
            assert!(!path.exists());
            let entry = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap();
            let aside = entry.file_name().into_string().unwrap();
            assert!(aside.starts_with("services.json.damaged-"), "{aside}");
            assert_eq!(std::fs::read_to_string(entry.path()).unwrap(), text);
            store.save(&Stored::default()).await.unwrap();
            assert!(path.exists());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("services.json");
        std::fs::write(&path, good).unwrap();
        assert!(matches!(Store::open(path).1, Found::Stored(_)));
    }

    #[test]
    fn no_part_of_a_file_is_taken_for_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("services.json");
        for length in 0..RELEASED.len() {
            std::fs::write(&path, &RELEASED[..length]).unwrap();
            assert!(read(&path).is_err(), "{length} bytes were taken");
        }
        std::fs::write(&path, RELEASED).unwrap();
        assert!(read(&path).unwrap().is_some());
    }

    #[tokio::test]
    async fn what_can_be_neither_read_nor_moved_aside_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let (store, found) = Store::open(folder.path().join("file/services.json"));
        let Found::Damaged { problem } = found else { panic!("{found:?}") };
        assert!(problem.contains("cannot be read"), "{problem}");
        assert!(problem.contains("cannot be moved aside"), "{problem}");
        let error = store.save(&Stored::default()).await.unwrap_err().to_string();
        assert!(error.contains("cannot be moved aside"), "{error}");
    }

    #[test]
    fn a_folder_in_place_of_the_file_is_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("services.json");
        std::fs::create_dir(&path).unwrap();
        let (_, found) = Store::open(path.clone());
        let Found::Damaged { problem } = found else { panic!("{found:?}") };
        assert!(problem.contains("is not a file of ours; it was moved to"), "{problem}");
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_state_folder_that_is_gone_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone/services.json");
        let (store, _) = Store::open(path.clone());
        let error = store.save(&Stored::default()).await.unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write {}: ", path.display())), "{error}");
    }
}
