//! Shared environments: what services inherit, stored once however many share it.

use crate::log;
use crate::records;
use proctor_core::home::Home;
use proctor_core::record::StoredEnv;
use proctor_core::spec::{EnvId, ExecSpec};
use std::collections::HashMap;

/// The environments known by id. Few: one for each shell that something was started from.
pub(crate) struct Environments {
    known: HashMap<EnvId, Vec<(String, String)>>,
}

impl Environments {
    /// Those that an earlier keeper stored.
    pub(crate) fn load(home: &Home) -> Environments {
        let mut known = HashMap::new();
        for (name, path) in records::entries(&home.environments()) {
            let Ok(id) = u64::from_str_radix(&name, 16) else { continue };
            match records::read::<StoredEnv>(&path) {
                Ok(Some(StoredEnv(vars))) => drop(known.insert(EnvId(id), vars)),
                Ok(None) => {}
                Err(error) => {
                    log!(
                        "{error}; services that inherit it are not started before it is known again"
                    )
                }
            }
        }
        Environments { known }
    }

    pub(crate) fn add(&mut self, home: &Home, id: EnvId, vars: Vec<(String, String)>) {
        if self.known.get(&id) == Some(&vars) {
            return;
        }
        store(home, id, &vars);
        self.known.insert(id, vars);
    }

    /// Write all of them, as when they were added.
    pub(crate) fn store(&self, home: &Home) {
        for (id, vars) in &self.known {
            store(home, *id, vars);
        }
    }

    /// The whole environment of a run as `NAME=value`: shared, then the service's own, then ours. `None`: what is shared
    /// was lost, and the daemon has not sent it again yet.
    pub(crate) fn of(&self, exec: &ExecSpec, ours: &[(&str, &str)]) -> Option<Vec<String>> {
        let shared = self.known.get(&exec.base_env)?;
        let own = exec.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let mut all: Vec<(&str, &str)> =
            Vec::with_capacity(shared.len() + exec.env.len() + ours.len());
        let mut place: HashMap<&str, usize> = HashMap::with_capacity(all.capacity());
        let shared = shared.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in shared.chain(own).chain(ours.iter().copied()) {
            match place.get(name) {
                Some(at) => all[*at].1 = value,
                None => {
                    place.insert(name, all.len());
                    all.push((name, value));
                }
            }
        }
        Some(all.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
    }
}

fn store(home: &Home, id: EnvId, vars: &[(String, String)]) {
    let path = home.environments().join(format!("{:x}", id.0));
    if let Err(error) = records::write(&path, &StoredEnv(vars.to_vec())) {
        log!("{error}");
    }
}
