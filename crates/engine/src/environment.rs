//! Environments that services inherit: which variables of a caller are passed on, and the id of each
//! environment.
//!
//! A thousand services started from one shell share one environment. It is sent to the keeper once and named by
//! a hash of its content. Variables that a service sets itself are in its spec, not here.

use crate::error::EngineError;
use crate::secrets;
use proctor_core::config::own_secrets::OwnSecrets;
use proctor_core::spec::EnvId;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Variables of the caller's shell session, or of the run of one service or command. They would be wrong for
/// another process, and a process with a command's mark is killed when that command ends.
const NOT_INHERITED: [&str; 9] = [
    "_",
    "SHLVL",
    "OLDPWD",
    "PWD",
    "PROCTOR_HOME",
    "PROCTOR_SERVICE",
    "PROCTOR_RUN",
    "PROCTOR_INSTANCE",
    crate::command::MARK_VARIABLE,
];

/// The kernel starts nothing with more than about 6 MB of arguments and environment, and one frame to the
/// keeper must hold it.
const MAX_BYTES: usize = 6 << 20;

/// An environment, read once and shared by all services that were defined with it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Environment {
    /// All variables, for `${VAR}` in configurations.
    all: Arc<BTreeMap<String, String>>,
    /// Proctor's secrets, which services do not inherit.
    secrets: OwnSecrets,
    /// The variables that services inherit, sorted.
    shared: Vec<(String, String)>,
    id: EnvId,
}

impl Environment {
    pub(crate) fn new(
        all: BTreeMap<String, String>,
        secrets: &OwnSecrets,
    ) -> Result<Environment, EngineError> {
        let size: usize = all.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        if size > MAX_BYTES {
            let message = format!("the environment has {size} bytes; the maximum is {MAX_BYTES}");
            return Err(EngineError::Failed(message));
        }
        Ok(Environment::of(Arc::new(all), secrets))
    }

    fn of(all: Arc<BTreeMap<String, String>>, secrets: &OwnSecrets) -> Environment {
        let inherited = |name: &str| {
            let legal = !name.is_empty() && !name.contains(['=', '\0']);
            legal && !NOT_INHERITED.contains(&name)
        };
        let pairs = || all.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let found = secrets.clone().with_tokens_of(pairs());
        let shared: Vec<(String, String)> = pairs()
            .filter(|(name, value)| inherited(name) && !value.contains('\0'))
            .filter(|(name, value)| !found.holds(name, value))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let id =
            EnvId(hash(shared.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()])));
        Environment { all, secrets: secrets.clone(), shared, id }
    }

    /// This environment, with `secrets` not inherited by services.
    pub(crate) fn hiding(self: &Arc<Self>, secrets: &OwnSecrets) -> Arc<Environment> {
        match self.secrets == *secrets {
            true => Arc::clone(self),
            false => Arc::new(Environment::of(Arc::clone(&self.all), secrets)),
        }
    }

    /// Proctor's secrets, which services do not inherit.
    pub(crate) fn secrets(&self) -> &OwnSecrets {
        &self.secrets
    }

    /// The daemon's own environment. Variables that are not UTF-8 cannot be sent in our messages and are left
    /// out.
    pub(crate) fn own() -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            match (name.into_string(), value.into_string()) {
                (Ok(name), Ok(value)) => {
                    all.insert(name, value);
                }
                (Ok(name), Err(_)) => {
                    tracing::warn!(
                        variable = name,
                        "left a variable out of the environment: its value is not UTF-8"
                    );
                }
                (Err(_), _) => {
                    tracing::warn!("left a variable out of the environment: its name is not UTF-8")
                }
            }
        }
        all
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all.get(name).map(String::as_str)
    }

    pub(crate) fn all(&self) -> &BTreeMap<String, String> {
        &self.all
    }

    pub(crate) fn shared(&self) -> &[(String, String)] {
        &self.shared
    }

    pub(crate) fn id(&self) -> EnvId {
        self.id
    }
}

/// Environments in use; equal ones are shared.
#[derive(Debug, Default)]
pub(crate) struct Environments {
    known: BTreeMap<u64, Weak<Environment>>,
}

impl Environments {
    /// The shared copy of this environment; `None` is the daemon's own. Services do not inherit `secrets`.
    pub(crate) fn share(
        &mut self,
        given: Option<&BTreeMap<String, String>>,
        secrets: &OwnSecrets,
    ) -> Result<Arc<Environment>, EngineError> {
        let all = given.cloned().unwrap_or_else(Environment::own);
        let pairs = all.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
        let key = hash(pairs.chain(secrets.names().iter().map(String::as_str)));
        let same = |known: &Arc<Environment>| *known.all == all && known.secrets == *secrets;
        if let Some(known) = self.known.get(&key).and_then(Weak::upgrade).filter(same) {
            return Ok(known);
        }
        secrets::learn_variables(all.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let fresh = Arc::new(Environment::new(all, secrets)?);
        self.known.retain(|_, environment| environment.strong_count() > 0);
        self.known.insert(key, Arc::downgrade(&fresh));
        Ok(fresh)
    }
}

/// FNV-1a over texts, each ended by a byte that no variable contains. Must stay stable: it is written to disk
/// and compared across versions of this program.
pub(crate) fn hash<'a>(texts: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = texts.flat_map(|text| text.bytes().chain([0]));
    hash_bytes(bytes)
}

pub(crate) fn hash_bytes(bytes: impl Iterator<Item = u8>) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.fold(BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn the_callers_session_and_our_own_secrets_are_not_inherited_but_can_be_looked_up() {
        let all = map(&[
            ("PATH", "/bin"),
            ("PWD", "/here"),
            ("_", "x"),
            ("SHLVL", "3"),
            ("PROCTOR_RUN", "9"),
            ("PROCTOR_COMMAND", "1-2-3"),
            ("PROCTOR_TOKEN", "an-admin's"),
            ("SUPERVISOR_TOKEN", "another-one"),
            ("COPY", "it is another-one"),
            ("SUPERVISOR_PORT", "3000"),
            ("DEPLOY", "of the security block"),
            ("", "nameless"),
            ("NUL", "a\0b"),
        ]);
        let environment = Arc::new(Environment::new(all, &OwnSecrets::default()).unwrap());
        let names = |environment: &Environment| {
            let shared = environment.shared().iter();
            shared.map(|(name, _)| name.clone()).collect::<Vec<String>>()
        };
        assert_eq!(names(&environment), ["DEPLOY", "PATH", "SUPERVISOR_PORT"]);
        assert_eq!(environment.get("PWD"), Some("/here"));
        assert_eq!(environment.get("SUPERVISOR_TOKEN"), Some("another-one"));
        let hiding = environment.hiding(&OwnSecrets::named(["DEPLOY".to_owned()].into()));
        assert_eq!(names(&hiding), ["PATH", "SUPERVISOR_PORT"]);
        assert_eq!(hiding.get("DEPLOY"), Some("of the security block"));
    }

    #[test]
    fn the_id_depends_on_what_is_inherited_and_on_nothing_else() {
        let id = |pairs: &[(&str, &str)]| {
            Environment::new(map(pairs), &OwnSecrets::default()).unwrap().id()
        };
        assert_eq!(id(&[("A", "1"), ("PWD", "/x")]), id(&[("PWD", "/y"), ("A", "1")]));
        assert_ne!(id(&[("A", "1")]), id(&[("A", "2")]));
        assert_ne!(id(&[("A", "1B")]), id(&[("A1", "B")]));
        // The value must never change: it names files of the keeper.
        assert_eq!(id(&[("A", "1")]), EnvId(0xac7c_528c_d594_f67d));
    }

    #[test]
    fn equal_environments_are_one_and_huge_ones_are_refused() {
        let (mut environments, none) = (Environments::default(), OwnSecrets::default());
        let first = environments.share(Some(&map(&[("A", "1")])), &none).unwrap();
        let second = environments.share(Some(&map(&[("A", "1")])), &none).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let hiding = OwnSecrets::named(["A".to_owned()].into());
        let third = environments.share(Some(&map(&[("A", "1")])), &hiding).unwrap();
        assert!(third.shared().is_empty() && first.shared().len() == 1);
        let huge = map(&[("A", &"x".repeat(MAX_BYTES))]);
        assert!(environments.share(Some(&huge), &none).is_err());
    }
}
