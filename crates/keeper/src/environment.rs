//! Shared environments, stored once however many services inherit them.

use crate::log;
use crate::records;
use proctor_core::home::Home;
use proctor_core::record_encoding::SharedVariables;
use proctor_core::spec::{EnvId, ExecSpec};
use proctor_sys::spawn::{Environment, Strings};
use std::collections::{BTreeMap, HashMap};
use std::io;

/// Environments by id. There are few: one for each shell that started something.
pub(crate) struct Environments {
    known: HashMap<EnvId, Shared>,
}

/// One environment, by name and in the form for a process.
struct Shared {
    vars: Vec<(String, String)>,
    strings: Strings,
}

impl Shared {
    fn new(vars: Vec<(String, String)>) -> io::Result<Shared> {
        let texts: Vec<String> = vars.iter().map(text).collect();
        let strings = Strings::new(texts.iter().map(String::as_str))?;
        Ok(Shared { vars, strings })
    }
}

fn text((name, value): &(impl AsRef<str>, impl AsRef<str>)) -> String {
    format!("{}={}", name.as_ref(), value.as_ref())
}

/// The whole environment of a run: shared, then the service's own, then ours.
pub(crate) struct RunEnvironment {
    shared: Strings,
    /// Indexes of shared variables that are overridden here.
    hidden: Vec<usize>,
    own: Vec<String>,
}

impl RunEnvironment {
    pub(crate) fn view(&self) -> Environment<'_> {
        Environment { shared: &self.shared, hidden: &self.hidden, own: &self.own }
    }
}

impl Environments {
    /// Loads those that an earlier keeper stored.
    pub(crate) fn load(home: &Home) -> Environments {
        let mut known = HashMap::new();
        for (name, path) in records::entries(&home.environments()) {
            let Ok(id) = u64::from_str_radix(&name, 16) else { continue };
            let read = match records::read::<SharedVariables>(&path) {
                Ok(None) => continue,
                Ok(Some(SharedVariables(vars))) => {
                    Shared::new(vars).map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            match read {
                Ok(shared) => drop(known.insert(EnvId(id), shared)),
                Err(error) => {
                    log!(
                        "{error}; services that inherit it do not start until the daemon sends it again"
                    )
                }
            }
        }
        Environments { known }
    }

    pub(crate) fn add(&mut self, home: &Home, id: EnvId, vars: Vec<(String, String)>) {
        if self.known.get(&id).is_some_and(|known| known.vars == vars) {
            return;
        }
        store(home, id, &vars);
        match Shared::new(vars) {
            Ok(shared) => drop(self.known.insert(id, shared)),
            Err(error) => log!("an environment cannot be used: {error}"),
        }
    }

    /// Writes all of them again.
    pub(crate) fn store(&self, home: &Home) {
        for (id, shared) in &self.known {
            store(home, *id, &shared.vars);
        }
    }

    /// Returns `None` if the shared environment was lost and the daemon has not sent it again.
    pub(crate) fn of(&self, exec: &ExecSpec, ours: &[(&str, &str)]) -> Option<RunEnvironment> {
        let shared = self.known.get(&exec.base_env)?;
        let own = exec.env.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        // The last value of a name wins.
        let own: BTreeMap<&str, &str> = own.chain(ours.iter().copied()).collect();
        let names = shared.vars.iter().enumerate();
        let hidden = names.filter(|(_, (name, _))| own.contains_key(name.as_str()));
        Some(RunEnvironment {
            shared: shared.strings.clone(),
            hidden: hidden.map(|(index, _)| index).collect(),
            own: own.into_iter().map(|var| text(&var)).collect(),
        })
    }
}

fn store(home: &Home, id: EnvId, vars: &[(String, String)]) {
    let path = home.environments().join(format!("{:x}", id.0));
    if let Err(error) = records::write(&path, &SharedVariables(vars.to_vec())) {
        log!("{error}");
    }
}
