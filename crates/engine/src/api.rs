//! The engine's interface for the operations. Reads never wait; writes are messages to the one owner of the
//! state.

mod repositories;

pub use crate::args_override::RestartWith;
use crate::audit::Audit;
pub use crate::command::{CommandEnvironment, CommandExit, CommandOutcome, CommandPlan};
use crate::command::{Commands, command_environment};
use crate::error::EngineError;
pub use crate::events::{Event, EventKind, Events, OperationEvent, ReadFrom as EventsFrom, RunEnd};
use crate::files::Files;
use crate::git::Git;
use crate::keeper_link::{Ask, Link};
pub use crate::lease::LeaseChange;
pub use crate::logs::query::{LogItem, LogLine, LogPage, LogQuery, LogWhat, Repeats};
use crate::owner::{Answer, Command};
pub use crate::ownership::{OwnerUse, Ownership};
use crate::registry::Registry;
pub use crate::service_view::{
    FailedChecks, Health, KeeperView, PortSeen, ServiceView, UnhealthyRun, Usage, View,
};
use crate::tokens::{self, Tokens};
use crate::usage::Meter;
use crate::{
    apply_config, binary_check, config_source, listening_ports, logs, service_selection,
    start_checks,
};
use proctor_core::access::{ClientName, Principal, TokenId};
use proctor_core::assistant_policy::AssistantPolicy;
use proctor_core::config::Setting;
use proctor_core::config::listen::Listeners;
use proctor_core::config::security::Security;
use proctor_core::home::Home;
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use proctor_core::time::Millis;
use proctor_core::wire::{RunView, Whom};
use proctor_sys::port::Listening;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// The value of [`Applied::source`] for the built-in example.
pub const EXAMPLE_SOURCE: &str = "the built-in example";

/// Handle to the engine; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    home: Home,
    registry: Arc<Registry>,
    link: Link,
    owner: mpsc::Sender<Command>,
    meter: Meter,
    commands: Arc<Commands>,
    git: Arc<Git>,
    tokens: Arc<Tokens>,
    audit: Audit,
    files: Files,
}

/// A configuration to apply.
#[derive(Debug, Clone, Default)]
pub struct ConfigRequest {
    /// Path of `proctor.yaml`; `None`: the one applied last, else `SUPERVISOR_TARGET_CMD`, else the built-in
    /// example if `example`.
    pub path: Option<PathBuf>,
    pub example: bool,
    /// The caller's environment; `None`: the one this configuration was applied with before, else the daemon's
    /// own.
    pub environment: Option<Vec<(String, String)>>,
    /// Services at work inherit this environment, too, instead of the one they were started with.
    pub refresh_environment: bool,
    /// Services to start afterwards, in words of a command line; an empty list: those with autostart. `None`:
    /// start nothing. The request fails, with nothing changed, if one of them cannot start.
    pub start: Option<Vec<String>>,
    /// Set for an assistant: the request fails if it changes anything that the assistant must not change.
    pub hands: Option<AssistantPolicy>,
}

#[derive(Debug, Clone, Default)]
pub struct Applied {
    pub source: String,
    /// The services selected by [`ConfigRequest::start`]. They are wanted from now on; the keeper does not know yet.
    pub starting: Vec<ServiceName>,
    /// New services among `starting`: the keeper got their wish with their definition.
    pub begun: BTreeSet<ServiceName>,
    pub added: Vec<ServiceName>,
    pub changed: Vec<ServiceName>,
    pub removed: Vec<ServiceName>,
    pub unchanged: Vec<ServiceName>,
}

#[derive(Debug, Clone)]
pub struct NewService {
    pub name: String,
    /// JSON object with the keys of a service in `proctor.yaml`.
    pub definition: String,
    /// Base of relative paths, and the default working directory.
    pub base_dir: String,
    pub environment: Option<Vec<(String, String)>>,
    /// Replaces an added service of this name instead of failing.
    pub replace: bool,
    /// Keeps an existing service that has the same definition and the same owner.
    pub keep: bool,
    /// The program that adds it.
    pub owner: Option<ClientName>,
    /// Length of the lease. If not given: the owner's previous lease, else no lease.
    pub lease: Option<Millis>,
    /// The wish that follows, stored with the definition. Fails, with nothing changed, if the service cannot
    /// start.
    pub start: Option<Wish>,
}

/// Maximum time for a removed service to end before its logs are deleted.
const GONE_TIMEOUT: Duration = Duration::from_secs(60);

/// Polling interval of a followed log if the kernel cannot report changes.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Engine {
    pub(crate) fn new(
        home: Home,
        registry: Arc<Registry>,
        link: Link,
        owner: mpsc::Sender<Command>,
        tokens: Arc<Tokens>,
        audit: Audit,
    ) -> Engine {
        let (commands, meter) = (Arc::new(Commands::new(home.clone())), Meter::new());
        let git = Arc::new(Git::new(Arc::clone(&commands)));
        let files = Files::new(home.clone(), Arc::clone(&registry));
        let inner =
            Inner { home, registry, link, owner, meter, commands, git, tokens, audit, files };
        Engine { inner: Arc::new(inner) }
    }

    /// Returns the owner of this secret; touches no disk. `guessable`: also compares the configured token,
    /// which a person may have chosen badly.
    pub fn authenticate(&self, presented: &str, guessable: bool) -> Option<Principal> {
        let guard = self.inner.registry.guard();
        let configured = guard.token.as_ref().filter(|_| guessable);
        self.inner.tokens.authenticate(presented, configured)
    }

    /// Checks that an HTTP server responds there, with a status from 200 to 399. `Err` says why not.
    pub async fn answers(&self, url: &str, patience: Duration) -> Result<(), String> {
        crate::http_probe::check(url, patience).await
    }

    /// Checks that this expression is a valid search pattern.
    pub fn check_pattern(&self, pattern: &str) -> Result<(), EngineError> {
        logs::check_pattern(pattern)
    }

    /// Files below the folders that the configuration declares.
    pub fn files(&self) -> &Files {
        &self.inner.files
    }

    /// The audit log.
    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    /// Reads the security settings.
    pub fn security<R>(&self, look: impl FnOnce(&Security) -> R) -> R {
        look(&self.inner.registry.guard().security)
    }

    /// The tokens of network clients.
    pub fn tokens(&self) -> &Tokens {
        &self.inner.tokens
    }

    /// Waits until this token becomes invalid.
    pub async fn token_gone(&self, id: &TokenId) {
        if id.0 == tokens::CONFIGURED {
            return self.inner.registry.configured_token_changed().await;
        }
        self.inner.tokens.gone(id).await;
    }

    /// Creates or revokes tokens, on a thread that may wait for the disk.
    pub async fn change_tokens<R: Send + 'static>(
        &self,
        change: impl FnOnce(&Tokens) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        let tokens = Arc::clone(&self.inner.tokens);
        crate::blocking(move || change(&tokens)).await
    }

    /// Reads the state; `look` must be quick and must not call back.
    pub fn read<R>(&self, look: impl FnOnce(&View) -> R) -> R {
        self.inner.registry.read(look)
    }

    /// Waits until the generation is larger than `seen`; returns it.
    pub async fn changed(&self, seen: u64) -> u64 {
        self.inner.registry.changed(seen).await
    }

    /// The addresses that the configuration in force sets for the fronts.
    pub fn listeners(&self) -> watch::Receiver<Arc<Listeners>> {
        self.inner.registry.listeners()
    }

    /// Reports the state of a front's listener; `None`: it is off.
    pub fn set_listening(&self, front: &'static str, state: Option<Result<SocketAddr, String>>) {
        self.inner.registry.set_listening(front, state);
    }

    /// Waits until every front has bound its listener or reported why it cannot, at most `limit`.
    pub async fn listeners_settled(&self, limit: Duration) {
        self.inner.registry.listeners_settled(limit).await;
    }

    /// Resolves words of a command line: a service, all instances of one, a group, or `all`.
    pub fn select(&self, words: &[String]) -> Result<Vec<ServiceName>, EngineError> {
        self.read(|view| service_selection::select(view, words))
    }

    /// The services of a request that names none: those of the only name there is, or of the primary one.
    pub fn meant(&self) -> Result<Vec<ServiceName>, EngineError> {
        self.read(service_selection::meant_by_nothing)
    }

    /// The defaults for a command: from a service, from the caller, or from the configuration in force.
    pub fn surroundings(
        &self,
        service: Option<&ServiceName>,
        given: (Option<Vec<(String, String)>>, Option<PathBuf>),
    ) -> Result<CommandEnvironment, EngineError> {
        command_environment::of(&self.inner.registry, service, given)
    }

    /// Returns true if a configuration is in force.
    pub fn is_configured(&self) -> bool {
        self.inner.registry.current().is_some()
    }

    /// A variable from the environment of the configuration in force, or else from the daemon's own.
    pub fn variable(&self, name: &str) -> Option<String> {
        let current = self.inner.registry.current();
        let given = current.as_ref().and_then(|current| current.given.as_ref());
        let value = match given {
            Some(given) => given.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// Runs a command to its end. If the future is dropped early, the command and its whole process tree are
    /// killed.
    pub async fn run_command(&self, plan: CommandPlan) -> Result<CommandOutcome, EngineError> {
        self.inner.commands.run(plan).await
    }

    /// Events from a position on, at most `most` of those that are wanted. Does not wait; see
    /// [`Engine::changed`].
    pub fn events(&self, from: EventsFrom, most: usize, wanted: impl Fn(&Event) -> bool) -> Events {
        self.inner.registry.events(from, most, wanted)
    }

    /// Adds an event that is not about a service.
    pub fn happened(&self, what: EventKind) {
        self.inner.registry.happened(what);
    }

    /// Defines the services of a configuration and drops those it no longer has; starts and restarts nothing.
    /// All or nothing.
    pub async fn apply(&self, request: ConfigRequest) -> Result<Applied, EngineError> {
        self.command(|answer| Command::Apply { request, answer }).await
    }

    /// Checks a configuration without applying it: returns its effective settings, or all its problems.
    pub async fn check(&self, request: ConfigRequest) -> Result<Vec<Setting>, EngineError> {
        let current = self.inner.registry.current();
        crate::blocking(move || apply_config::check(request, current.as_deref())).await?
    }

    /// Checks a named file without an engine: the result depends on nothing that runs. Blocks.
    pub fn check_alone(request: ConfigRequest) -> Result<Vec<Setting>, EngineError> {
        apply_config::check(request, None)
    }

    /// Defines a service at run time and stores it in `services.json`.
    pub async fn add(&self, service: NewService) -> Result<Vec<ServiceName>, EngineError> {
        self.command(|answer| Command::Add { service, answer }).await
    }

    /// Stops and removes services added at run time; fails for one from the file. They stay visible until they
    /// have ended.
    pub async fn remove(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        let names = names.to_vec();
        self.command(|answer| Command::Remove { names, answer }).await
    }

    /// Changes the leases of services added at run time; fails for one from the file.
    pub async fn change_lease(
        &self,
        names: &[ServiceName],
        change: LeaseChange,
    ) -> Result<(), EngineError> {
        let names = names.to_vec();
        self.command(|answer| Command::Lease { names, change, answer }).await
    }

    /// Marks those of these services that belong to `client` as in use: their leases are renewed until the
    /// result is dropped.
    pub fn using(&self, client: &ClientName, names: &[ServiceName]) -> Vec<OwnerUse> {
        let mut own: Vec<Arc<Ownership>> = self.read(|view| {
            let services = names.iter().filter_map(|name| view.services.get(name));
            let own = services.filter(|service| service.owner() == Some(client));
            own.filter_map(|service| service.tenure.clone()).collect()
        });
        // Instances share one tenure.
        own.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let begin = |tenure| OwnerUse::begin(tenure, Arc::clone(&self.inner.registry));
        own.into_iter().map(begin).collect()
    }

    /// Checks before a start that all programs exist and their ports are free. Changes nothing. Services that
    /// have a run are skipped: they are started, and the port is theirs.
    pub fn check_startable(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        start_checks::check_start(&self.inner.registry, names)
    }

    /// Checks before a restart, which creates a new process for each.
    pub fn check_restartable(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        start_checks::check_restart(&self.inner.registry, names)
    }

    /// Stores the wish, then tells the keeper. Returns when the keeper has it, not when it is fulfilled. A wish
    /// to stop is sent even if it cannot be stored; the result then says why.
    pub async fn set_wish(
        &self,
        names: &[ServiceName],
        wish: Wish,
    ) -> Result<Option<String>, EngineError> {
        let names = names.to_vec();
        self.command(|answer| Command::SetWish { names, wish, answer }).await
    }

    pub async fn restart(
        &self,
        names: &[ServiceName],
        with: RestartWith,
    ) -> Result<(), EngineError> {
        let names = names.to_vec();
        self.command(|answer| Command::Restart { names, with, answer }).await
    }

    pub async fn signal(
        &self,
        name: &ServiceName,
        signal: i32,
        whom: Whom,
    ) -> Result<(), EngineError> {
        self.inner.link.ask(Ask::Signal(name.clone(), signal, whom)).await
    }

    /// CPU and memory of the process trees of these services, measured now; with `ports`, also their TCP ports.
    pub async fn usage(&self, names: &[ServiceName], ports: bool) -> BTreeMap<ServiceName, Usage> {
        self.inner.meter.usage(&self.inner.registry, names, ports).await
    }

    /// The current state of each of these ports. A service without a run listens nowhere.
    pub async fn look_at_ports(&self, ports: &[(ServiceName, u16)]) -> Vec<PortSeen> {
        let run = |name: &ServiceName| self.inner.registry.runs(std::slice::from_ref(name)).pop();
        let asked: Vec<_> = ports.iter().map(|(name, port)| (run(name), *port)).collect();
        let look = move || {
            let listening = Listening::now();
            let one = |(run, port): (Option<(ServiceName, RunView)>, u16)| {
                run.map_or(PortSeen::Closed, |(_, run)| {
                    listening_ports::look(&run, port, &listening)
                })
            };
            asked.into_iter().map(one).collect()
        };
        crate::blocking(look).await.unwrap_or_default()
    }

    pub async fn read_logs(&self, query: LogQuery) -> Result<LogPage, EngineError> {
        let folder = self.inner.home.logs();
        crate::blocking(move || logs::read(&folder, &query)).await?
    }

    /// The cursor of a page, reduced to one of its services.
    pub fn cursor_for(&self, cursor: &str, service: &ServiceName) -> Result<String, EngineError> {
        logs::cursor_for(cursor, service)
    }

    /// Waits until one of these logs may have more than `cursor` has seen.
    pub async fn logs_changed(&self, services: &[ServiceName], cursor: &str) {
        match logs::Watch::after(&self.inner.home.logs(), services, cursor) {
            Ok(mut watch) => watch.changed().await,
            Err(error) => {
                tracing::warn!(%error, "cannot watch logs");
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// Deletes the logs of removed services, after they have ended.
    pub async fn delete_logs(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        let left =
            |view: &View| names.iter().find(|name| view.services.contains_key(name)).cloned();
        let gone = async {
            let mut seen = self.read(|view| view.generation);
            while self.read(left).is_some() {
                seen = self.changed(seen).await;
            }
        };
        if tokio::time::timeout(GONE_TIMEOUT, gone).await.is_err()
            && let Some(name) = self.read(left)
        {
            return Err(EngineError::Failed(format!(
                "cannot delete the logs of '{name}': it has not ended"
            )));
        }
        let (folder, names) = (self.inner.home.logs(), names.to_vec());
        crate::blocking(move || names.iter().try_for_each(|name| logs::delete(&folder, name)))
            .await?
    }

    /// Ends Proctor: the keeper stops the services it has to stop, then all our processes exit.
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        self.inner.link.ask(Ask::Shutdown).await
    }

    /// The version that a binary reports; fails if it is not a Proctor.
    pub async fn version_of(&self, binary: &Path) -> Result<String, EngineError> {
        binary_check::version(binary).await
    }

    /// Replaces keeper and daemon by this binary, in place; returns its version. Fails if it is not a Proctor.
    pub async fn upgrade(&self, binary: PathBuf) -> Result<String, EngineError> {
        let version = binary_check::version(&binary).await?;
        let Ok(binary) = binary.into_os_string().into_string() else {
            return Err(EngineError::Failed("the name of the binary is not UTF-8".into()));
        };
        self.inner.link.ask(Ask::Upgrade(binary)).await?;
        Ok(version)
    }

    /// The text of the built-in example.
    pub fn example() -> &'static str {
        config_source::EXAMPLE
    }

    async fn command<R>(&self, make: impl FnOnce(Answer<R>) -> Command) -> Result<R, EngineError> {
        let (answer, result) = oneshot::channel();
        // The owner ends only with the daemon.
        self.inner.owner.send(make(answer)).await.map_err(|_| EngineError::KeeperGone)?;
        result.await.map_err(|_| EngineError::KeeperGone)?
    }
}
