//! The current definition of a service: its configuration, resolved into the spec that the keeper needs.
//!
//! Users are looked up here, which may run a program of the directory service. Call it where blocking is
//! allowed.

use crate::environment::{Environment, hash_bytes};
use crate::error::EngineError;
use crate::ownership::Ownership;
use crate::secrets;
use proctor_core::config::{HealthCheck, ServiceDef, UserRef};
use proctor_core::name::ServiceName;
use proctor_core::spec::{Credentials, ExecSpec, ServiceSpec};
use proctor_core::stored;
use proctor_sys::user::{self, Account, Unknown};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) origin: Origin,
    /// As configured; its `argv` is without the override in `spec`.
    def: ServiceDef,
    spec: ServiceSpec,
    environment: Arc<Environment>,
    exec: u64,
    /// Set for an added service.
    tenure: Option<Arc<Ownership>>,
    /// Arguments given with a restart, in place of those in `def`.
    args_override: Option<Vec<String>>,
}

/// The place where a service is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In the configuration that was applied last.
    File,
    /// Added at run time.
    Added,
}

impl Definition {
    /// `arguments` replaces the configured `args`.
    pub(crate) fn new(
        def: ServiceDef,
        origin: Origin,
        environment: &Arc<Environment>,
        arguments: Option<&[String]>,
    ) -> Result<Definition, EngineError> {
        secrets::learn_variables(
            def.env.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        );
        let argv = match arguments {
            None => def.argv.clone(),
            Some(arguments) => with_arguments(&def, arguments)?,
        };
        let account = account(&def)?;
        let mut exec = ExecSpec {
            argv,
            env: def.env.clone(),
            base_env: environment.id(),
            working_dir: def.working_dir.clone(),
            credentials: account.as_ref().and_then(credentials),
            umask: def.umask,
            limits: def.limits.clone(),
            nice: def.nice,
            oom_score_adj: def.oom_score_adj,
        };
        // Like inherited variables, those of the user's account apply at the next start and are not a change by
        // themselves.
        let hash = exec_hash(&exec);
        let own = account.into_iter().flat_map(|account| account.variables);
        exec.env.splice(0..0, own.filter(|(name, _)| !def.env.iter().any(|(key, _)| key == name)));
        let spec = ServiceSpec {
            name: def.name.clone(),
            exec,
            stop: def.stop.clone(),
            restart: def.restart.clone(),
            logs: def.logs.clone(),
        };
        Ok(Definition {
            origin,
            def,
            spec,
            environment: Arc::clone(environment),
            exec: hash,
            tenure: None,
            args_override: arguments.map(<[String]>::to_vec),
        })
    }

    pub(crate) fn held_by(self, tenure: &Arc<Ownership>) -> Definition {
        Definition { tenure: Some(Arc::clone(tenure)), ..self }
    }

    pub(crate) fn with_arguments(&self, arguments: &[String]) -> Result<Definition, EngineError> {
        let (def, tenure) = (self.def.clone(), self.tenure.clone());
        let new = Definition::new(def, self.origin, &self.environment, Some(arguments))?;
        Ok(Definition { tenure, ..new })
    }

    /// The definition without the arguments of a restart.
    pub(crate) fn as_configured(&self) -> Result<Definition, EngineError> {
        let (def, tenure) = (self.def.clone(), self.tenure.clone());
        let new = Definition::new(def, self.origin, &self.environment, None)?;
        Ok(Definition { tenure, ..new })
    }

    /// Arguments given with a restart, in place of the configured ones.
    pub(crate) fn args_override(&self) -> Option<&[String]> {
        self.args_override.as_deref()
    }

    /// Returns true if the arguments can be replaced. A shell command is one text; the shell would silently
    /// ignore words appended to it, unless it has arguments already.
    pub(crate) fn takes_arguments(def: &ServiceDef) -> bool {
        let uses_arguments = def.argv.len() > def.command_words && def.command_words > 3;
        let is_shell = matches!(def.argv.as_slice(), [program, flag, ..]
            if flag == "-c" && matches!(program.as_str(), "/bin/sh" | "sh"));
        uses_arguments || !is_shell
    }

    pub(crate) fn name(&self) -> &ServiceName {
        &self.def.name
    }

    pub(crate) fn def(&self) -> &ServiceDef {
        &self.def
    }

    pub(crate) fn spec(&self) -> &ServiceSpec {
        &self.spec
    }

    pub(crate) fn tenure(&self) -> Option<&Arc<Ownership>> {
        self.tenure.as_ref()
    }

    pub(crate) fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    pub(crate) fn health(&self) -> Option<&HealthCheck> {
        self.def.health.as_ref()
    }

    /// Hash of the part that cannot change in a running process: equal hashes, equal processes.
    pub(crate) fn exec(&self) -> u64 {
        self.exec
    }

    /// Returns true if both definitions are equal.
    pub(crate) fn same_as(&self, other: &Definition) -> bool {
        self.def == other.def && self.spec == other.spec
    }

    /// The value of a variable as the service's process sees it.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        let find = |vars: &'_ [(String, String)]| vars.iter().rposition(|(key, _)| key == name);
        if let Some(at) = find(&self.spec.exec.env) {
            return Some(&self.spec.exec.env[at].1);
        }
        let shared = self.environment.shared();
        find(shared).map(|at| shared[at].1.as_str())
    }
}

/// Stored in `services.json`, so it stays the same for the same settings in every version.
fn exec_hash(exec: &ExecSpec) -> u64 {
    hash_bytes(stored::v1::exec_bytes(exec).into_iter())
}

fn with_arguments(def: &ServiceDef, arguments: &[String]) -> Result<Vec<String>, EngineError> {
    if !Definition::takes_arguments(def) {
        let name = &def.name;
        let message = format!("{name} runs through a shell: its arguments are part of its command");
        return Err(EngineError::Failed(message));
    }
    Ok(def.argv.iter().take(def.command_words).chain(arguments).cloned().collect())
}

/// The account that the service runs as; `None` for the account of Proctor.
fn account(def: &ServiceDef) -> Result<Option<Account>, EngineError> {
    let Some(UserRef { user, group, supplementary }) = &def.user else { return Ok(None) };
    let service = def.name.clone();
    let unknown = |unknown| match unknown {
        Unknown::User(user) | Unknown::Group(user) => EngineError::UnknownUser { service, user },
        Unknown::NoGroup(_) => EngineError::Failed(format!("{service}: {unknown}")),
    };
    user::account(user, group.as_deref(), supplementary).map(Some).map_err(unknown)
}

/// `None` if the service runs as Proctor's own user: only root can change users.
fn credentials(account: &Account) -> Option<Credentials> {
    let (found, ourselves) = (&account.credentials, user::effective());
    let is_ours = ourselves.0 != 0 && ourselves == (found.uid, found.gid);
    (!is_ours || account.has_more_groups).then(|| found.clone())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proctor_core::assistant_policy::AssistantAccess;
    use proctor_core::config::own_secrets::OwnSecrets;
    use proctor_core::spec::{LogSpec, OnFull, OnShutdown, Policy, RestartSpec, StopSpec};
    use proctor_core::time::Millis;
    use std::collections::BTreeMap;

    /// A plain service for tests.
    pub(crate) fn plain(name: &str, argv: &[&str]) -> ServiceDef {
        ServiceDef {
            name: ServiceName::parse(name).unwrap(),
            description: None,
            groups: Vec::new(),
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            command_words: argv.len().min(1),
            env: Vec::new(),
            working_dir: "/".into(),
            user: None,
            umask: None,
            limits: Vec::new(),
            nice: None,
            oom_score_adj: None,
            port: None,
            autostart: true,
            primary: false,
            assistants: AssistantAccess::default(),
            stop: StopSpec {
                signal: 15,
                grace: Millis::seconds(10),
                on_shutdown: OnShutdown::Stop,
            },
            restart: RestartSpec {
                policy: Policy::OnFailure,
                success_codes: vec![0],
                max_restarts: Some(10),
                window: Millis::seconds(600),
                delay: None,
                max_delay: Millis::seconds(60),
                backoff: 2.0,
                jitter: 0.1,
                stable_after: Millis::seconds(10),
                cool_off: None,
            },
            logs: LogSpec {
                segment_bytes: 1 << 24,
                max_age: None,
                max_segments: 8,
                max_total_bytes: 1 << 27,
                on_full: OnFull::Drop,
            },
            health: None,
        }
    }

    pub(crate) fn environment(pairs: &[(&str, &str)]) -> Arc<Environment> {
        let all: BTreeMap<String, String> =
            pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Arc::new(Environment::new(all, &OwnSecrets::default()).unwrap())
    }

    pub(crate) fn definition(def: ServiceDef, origin: Origin) -> Arc<Definition> {
        Arc::new(Definition::new(def, origin, &environment(&[("PATH", "/bin")]), None).unwrap())
    }

    #[test]
    fn new_arguments_follow_the_program_and_make_another_process() {
        let first = definition(plain("web", &["node", "a.js"]), Origin::File);
        let second = first.with_arguments(&["b.js".into(), "-v".into()]).unwrap();
        assert_eq!(second.spec().exec.argv, ["node", "b.js", "-v"]);
        assert_ne!(first.exec(), second.exec());
        assert!(!first.same_as(&second));
        let back = second.with_arguments(&["a.js".into()]).unwrap();
        assert!(first.same_as(&back) && first.exec() == back.exec());
        assert!(first.same_as(&second.as_configured().unwrap()));
        // The command's own words stay; only the words of `args` are replaced.
        let mut def = plain("web", &["npm", "run", "dev", "--old"]);
        def.command_words = 3;
        let npm = definition(def, Origin::File).with_arguments(&["--new".into()]).unwrap();
        assert_eq!(npm.spec().exec.argv, ["npm", "run", "dev", "--new"]);
        assert_eq!(npm.args_override(), Some(&["--new".to_owned()][..]));
        let shell = definition(plain("web", &["/bin/sh", "-c", "node $FLAGS"]), Origin::File);
        assert!(shell.with_arguments(&["x".into()]).is_err());
    }

    #[test]
    fn a_service_that_changes_only_its_policy_stays_the_same_process() {
        let first = definition(plain("web", &["node"]), Origin::File);
        let mut def = plain("web", &["node"]);
        def.restart.policy = Policy::Always;
        let second = definition(def, Origin::File);
        assert!(!first.same_as(&second));
        assert_eq!(first.exec(), second.exec());
    }

    #[test]
    fn a_services_own_variable_wins_over_the_inherited_one() {
        let mut def = plain("web", &["node"]);
        assert_eq!(definition(def.clone(), Origin::File).variable("PATH"), Some("/bin"));
        def.env = vec![("PATH".into(), "/mine".into())];
        assert_eq!(definition(def.clone(), Origin::File).variable("PATH"), Some("/mine"));
        assert_eq!(definition(def, Origin::File).variable("NONE"), None);
    }

    #[test]
    fn a_user_brings_the_variables_of_its_account_and_its_own_settings_win() {
        let mut def = plain("web", &["node"]);
        let plain_hash = definition(def.clone(), Origin::File).exec();
        assert_eq!(definition(def.clone(), Origin::File).variable("LOGNAME"), None);
        let user =
            UserRef { user: "4294967000".into(), group: Some("0".into()), supplementary: vec![] };
        def.user = Some(user);
        let bare = definition(def.clone(), Origin::File);
        let seen = |definition: &Definition| {
            ["HOME", "USER", "LOGNAME", "SHELL"]
                .map(|name| definition.variable(name).unwrap().to_owned())
        };
        assert_eq!(seen(&bare), ["/", "4294967000", "4294967000", "/bin/sh"]);
        assert_ne!(bare.exec(), plain_hash);
        def.env = vec![("HOME".into(), "/srv".into())];
        let own = definition(def, Origin::File);
        assert_eq!(seen(&own), ["/srv", "4294967000", "4294967000", "/bin/sh"]);
        assert_eq!(own.spec().exec.env.iter().filter(|(name, _)| name == "HOME").count(), 1);
    }

    #[test]
    fn an_unknown_user_is_named_with_its_service() {
        let mut def = plain("web", &["node"]);
        let who = |user: &str, group: Option<&str>| {
            Some(UserRef { user: user.into(), group: group.map(Into::into), supplementary: vec![] })
        };
        for (user, group, unknown) in
            [("no-such-user", None, "no-such-user"), ("0", Some("no-such-group"), "no-such-group")]
        {
            def.user = who(user, group);
            let error = Definition::new(def.clone(), Origin::File, &environment(&[]), None);
            let text = error.unwrap_err().to_string();
            assert_eq!(text, format!("web: no user or group '{unknown}' on this machine"));
        }
        def.user = who("4294967000", None);
        let error = Definition::new(def, Origin::File, &environment(&[]), None).unwrap_err();
        assert!(error.to_string().contains("4294967000:GROUP"), "{error}");
    }
}
