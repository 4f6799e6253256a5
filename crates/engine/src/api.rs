//! What the operations see of the engine. Reading never waits for anything; writing is a message to the one
//! owner of the state.

mod repositories;

pub use crate::args_override::RestartWith;
use crate::audit::Audit;
pub use crate::command::{CommandPlan, End, Finished, Surroundings};
use crate::command::{Commands, surroundings};
use crate::error::EngineError;
pub use crate::events::{Ended, Event, Events, From as EventsFrom, Happening, OperationNews};
use crate::files::Files;
use crate::git::Git;
pub use crate::lease::LeaseChange;
use crate::link::{Ask, Link};
pub use crate::logs::query::{LogItem, LogLine, LogPage, LogQuery, LogWhat, Repeats};
use crate::owner::{Answer, Command};
use crate::registry::Registry;
pub use crate::tenure::{Tenure, Use};
use crate::tokens::{self, Tokens};
use crate::usage::Meter;
pub use crate::view::{
    FailedChecks, Health, KeeperView, PortSeen, ServiceView, UnhealthyRun, Usage, View,
};
use crate::{apply, logs, ports, select, source, startable, upgrade};
use proctor_core::access::{ClientName, Principal, TokenId};
use proctor_core::config::Setting;
use proctor_core::config::listen::Listeners;
use proctor_core::config::security::Security;
use proctor_core::hands::Hands;
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

/// What [`Applied::source`] says of the built-in example.
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
    /// `proctor.yaml`; `None`: the one applied last, else `SUPERVISOR_TARGET_CMD`, else the built-in example if `example`.
    pub path: Option<PathBuf>,
    pub example: bool,
    /// The caller's environment; `None`: the one this configuration was applied with before, else the daemon's own.
    pub environment: Option<Vec<(String, String)>>,
    /// Services at work inherit this environment, too, instead of the one they were started with.
    pub refresh_environment: bool,
    /// What is to be started afterwards, in words of a command line; none at all: what has autostart. Refused, with nothing
    /// changed, where that has no chance. `None`: nothing is.
    pub start: Option<Vec<String>>,
    /// An assistant asks: what it must not touch stays as it is, or nothing changes.
    pub hands: Option<Hands>,
}

#[derive(Debug, Clone, Default)]
pub struct Applied {
    pub source: String,
    /// The services that [`ConfigRequest::start`] means; they are wanted from now on, but the keeper was not told yet
    pub starting: Vec<ServiceName>,
    /// ... except of these, which nobody knew before: it was told together with what they are.
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
    /// Folder that relative paths are relative to, and the default working directory.
    pub base_dir: String,
    pub environment: Option<Vec<(String, String)>>,
    /// Replace an added service of this name instead of refusing.
    pub replace: bool,
    /// One that is there with the same definition and the same owner is kept as it is.
    pub keep: bool,
    /// The program that adds it.
    pub owner: Option<ClientName>,
    /// How long it stays. If not given: what the owner gave it before, else until it is removed.
    pub lease: Option<Millis>,
    /// What will be wished of it next, kept with its definition. Refused, with nothing changed, if it cannot be started.
    pub start: Option<Wish>,
}

/// How long a removed service may take to end before its logs are deleted.
const GONE_WITHIN: Duration = Duration::from_secs(60);

/// Without a way to be told, look again this often while somebody follows a log.
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

    /// Whose secret this is; touches no disk. `guessable`: the configured token is looked at, too, which a person may have
    /// chosen badly.
    pub fn authenticate(&self, presented: &str, guessable: bool) -> Option<Principal> {
        let guard = self.inner.registry.guard();
        let configured = guard.token.as_ref().filter(|_| guessable);
        self.inner.tokens.authenticate(presented, configured)
    }

    /// Does an HTTP server answer there, with a status from 200 to 399? `Err` says why not.
    pub async fn answers(&self, url: &str, patience: Duration) -> Result<(), String> {
        crate::probe::check(url, patience).await
    }

    /// Could lines be looked for by this expression?
    pub fn check_pattern(&self, pattern: &str) -> Result<(), EngineError> {
        logs::check_pattern(pattern)
    }

    /// Files below the folders that the configuration declares.
    pub fn files(&self) -> &Files {
        &self.inner.files
    }

    /// Where it is written down who did what.
    pub fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    /// Look at who may do what.
    pub fn security<R>(&self, look: impl FnOnce(&Security) -> R) -> R {
        look(&self.inner.registry.guard().security)
    }

    /// Those who may come in by a network front.
    pub fn tokens(&self) -> &Tokens {
        &self.inner.tokens
    }

    /// Waits until this token is valid no longer.
    pub async fn token_gone(&self, id: &TokenId) {
        if id.0 == tokens::CONFIGURED {
            return self.inner.registry.configured_token_changed().await;
        }
        self.inner.tokens.gone(id).await;
    }

    /// Make or revoke tokens, where waiting for the disk does no harm.
    pub async fn change_tokens<R: Send + 'static>(
        &self,
        change: impl FnOnce(&Tokens) -> R + Send + 'static,
    ) -> Result<R, EngineError> {
        let tokens = Arc::clone(&self.inner.tokens);
        crate::blocking(move || change(&tokens)).await
    }

    /// Look at the state; `look` must be quick and must not call back.
    pub fn read<R>(&self, look: impl FnOnce(&View) -> R) -> R {
        self.inner.registry.read(look)
    }

    /// Wait until the generation is larger than `seen`; returns it.
    pub async fn changed(&self, seen: u64) -> u64 {
        self.inner.registry.changed(seen).await
    }

    /// Where the configuration in force wants the fronts to listen.
    pub fn listeners(&self) -> watch::Receiver<Arc<Listeners>> {
        self.inner.registry.listeners()
    }

    /// How a front's listener is; `None`: it is off.
    pub fn set_listening(&self, front: &'static str, state: Option<Result<SocketAddr, String>>) {
        self.inner.registry.set_listening(front, state);
    }

    /// Wait until every front has bound its listener or reported why it cannot, at most `limit`.
    pub async fn listeners_settled(&self, limit: Duration) {
        self.inner.registry.listeners_settled(limit).await;
    }

    /// Names for words of a command line: a service, all instances of one, a group, or `all`.
    pub fn select(&self, words: &[String]) -> Result<Vec<ServiceName>, EngineError> {
        self.read(|view| select::select(view, words))
    }

    /// The services that are meant where none is named: those of the only name there is, or of the primary one.
    pub fn meant(&self) -> Result<Vec<ServiceName>, EngineError> {
        self.read(select::meant_by_nothing)
    }

    /// What a command gets that says nothing itself: of a service, of the caller, or of the configuration in force.
    pub fn surroundings(
        &self,
        service: Option<&ServiceName>,
        given: (Option<Vec<(String, String)>>, Option<PathBuf>),
    ) -> Result<Surroundings, EngineError> {
        surroundings::of(&self.inner.registry, service, given)
    }

    /// Is a configuration in force?
    pub fn is_configured(&self) -> bool {
        self.inner.registry.current().is_some()
    }

    /// A variable of the environment that the configuration in force was applied with, or else of the daemon's own.
    pub fn variable(&self, name: &str) -> Option<String> {
        let current = self.inner.registry.current();
        let given = current.as_ref().and_then(|current| current.given.as_ref());
        let value = match given {
            Some(given) => given.get(name).cloned(),
            None => std::env::var(name).ok(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// Run a command to its end. Dropped early, everything of it is killed.
    pub async fn run_command(&self, plan: CommandPlan) -> Result<Finished, EngineError> {
        self.inner.commands.run(plan).await
    }

    /// Events from somewhere on, at most `most` of those that are wanted. Waits for none; see [`Engine::changed`].
    pub fn events(&self, from: EventsFrom, most: usize, wanted: impl Fn(&Event) -> bool) -> Events {
        self.inner.registry.events(from, most, wanted)
    }

    /// Put something that is not a service's doing among the events.
    pub fn happened(&self, what: Happening) {
        self.inner.registry.happened(what);
    }

    /// Define what a configuration says and drop what it no longer says; starts and restarts nothing. All or nothing.
    pub async fn apply(&self, request: ConfigRequest) -> Result<Applied, EngineError> {
        self.command(|answer| Command::Apply { request, answer }).await
    }

    /// Check a configuration without applying it: its effective settings, or all its problems.
    pub async fn check(&self, request: ConfigRequest) -> Result<Vec<Setting>, EngineError> {
        let current = self.inner.registry.current();
        crate::blocking(move || apply::check(request, current.as_deref())).await?
    }

    /// The same without an engine, for a file that is named: it depends on nothing that runs. Blocks.
    pub fn check_alone(request: ConfigRequest) -> Result<Vec<Setting>, EngineError> {
        apply::check(request, None)
    }

    /// Define a service at run time and keep it in `services.json`.
    pub async fn add(&self, service: NewService) -> Result<Vec<ServiceName>, EngineError> {
        self.command(|answer| Command::Add { service, answer }).await
    }

    /// Stop and forget services added at run time; one from the file is refused. They stay visible until they ended.
    pub async fn remove(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        let names = names.to_vec();
        self.command(|answer| Command::Remove { names, answer }).await
    }

    /// Change the leases of services added at run time; one from the file is refused.
    pub async fn change_lease(
        &self,
        names: &[ServiceName],
        change: LeaseChange,
    ) -> Result<(), EngineError> {
        let names = names.to_vec();
        self.command(|answer| Command::Lease { names, change, answer }).await
    }

    /// A program does something with those of these services that are its own: their leases are renewed until the answer is
    /// dropped.
    pub fn using(&self, client: &ClientName, names: &[ServiceName]) -> Vec<Use> {
        let mut own: Vec<Arc<Tenure>> = self.read(|view| {
            let services = names.iter().filter_map(|name| view.services.get(name));
            let own = services.filter(|service| service.owner() == Some(client));
            own.filter_map(|service| service.tenure.clone()).collect()
        });
        // Instances have theirs in common.
        own.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let begin = |tenure| Use::begin(tenure, Arc::clone(&self.inner.registry));
        own.into_iter().map(begin).collect()
    }

    /// Before a start: do all these programs exist, are their ports free? Changes nothing. Services that have a run
    /// are not looked at: they are started, and the port is theirs.
    pub fn check_startable(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        startable::check_start(&self.inner.registry, names)
    }

    /// The same before a restart, which makes a new process of each.
    pub fn check_restartable(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        startable::check_restart(&self.inner.registry, names)
    }

    /// Persist the wish, then tell the keeper. Returns when the keeper has it, not when it is fulfilled. A wish to stop goes to
    /// the keeper also when it cannot be persisted now; the answer says why not.
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

    /// CPU and memory of the trees of these services, sampled now; with `ports`, where they listen, too.
    pub async fn usage(&self, names: &[ServiceName], ports: bool) -> BTreeMap<ServiceName, Usage> {
        self.inner.meter.usage(&self.inner.registry, names, ports).await
    }

    /// How it is about each of these ports of services, now. A service without a run listens nowhere.
    pub async fn look_at_ports(&self, ports: &[(ServiceName, u16)]) -> Vec<PortSeen> {
        let run = |name: &ServiceName| self.inner.registry.runs(std::slice::from_ref(name)).pop();
        let asked: Vec<_> = ports.iter().map(|(name, port)| (run(name), *port)).collect();
        let look = move || {
            let listening = Listening::now();
            let one = |(run, port): (Option<(ServiceName, RunView)>, u16)| {
                run.map_or(PortSeen::Closed, |(_, run)| ports::look(&run, port, &listening))
            };
            asked.into_iter().map(one).collect()
        };
        crate::blocking(look).await.unwrap_or_default()
    }

    pub async fn read_logs(&self, query: LogQuery) -> Result<LogPage, EngineError> {
        let folder = self.inner.home.logs();
        crate::blocking(move || logs::read(&folder, &query)).await?
    }

    /// The cursor of a page, for one of the services on it.
    pub fn cursor_for(&self, cursor: &str, service: &ServiceName) -> Result<String, EngineError> {
        logs::cursor_for(cursor, service)
    }

    /// Wait until one of these logs may have more than `cursor` has seen.
    pub async fn logs_changed(&self, services: &[ServiceName], cursor: &str) {
        match logs::Watch::after(&self.inner.home.logs(), services, cursor) {
            Ok(mut watch) => watch.changed().await,
            Err(error) => {
                tracing::warn!(%error, "logs cannot be watched");
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    /// Delete the logs of services that were removed, once they have ended.
    pub async fn delete_logs(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        let left =
            |view: &View| names.iter().find(|name| view.services.contains_key(name)).cloned();
        let gone = async {
            let mut seen = self.read(|view| view.generation);
            while self.read(left).is_some() {
                seen = self.changed(seen).await;
            }
        };
        if tokio::time::timeout(GONE_WITHIN, gone).await.is_err()
            && let Some(name) = self.read(left)
        {
            return Err(EngineError::Failed(format!("'{name}' has not ended; its logs are kept")));
        }
        let (folder, names) = (self.inner.home.logs(), names.to_vec());
        crate::blocking(move || names.iter().try_for_each(|name| logs::delete(&folder, name)))
            .await?
    }

    /// End Proctor: the keeper stops what is to be stopped, then everything of ours leaves.
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        self.inner.link.ask(Ask::Shutdown).await
    }

    /// What this binary says that it is; what is no Proctor is refused.
    pub async fn version_of(&self, binary: &Path) -> Result<String, EngineError> {
        upgrade::version(binary).await
    }

    /// Replace keeper and daemon by this binary, in place; returns its version. What does not say that it is a Proctor is
    /// refused.
    pub async fn upgrade(&self, binary: PathBuf) -> Result<String, EngineError> {
        let version = upgrade::version(&binary).await?;
        let Ok(binary) = binary.into_os_string().into_string() else {
            return Err(EngineError::Failed("the name of the binary is not UTF-8".into()));
        };
        self.inner.link.ask(Ask::Upgrade(binary)).await?;
        Ok(version)
    }

    /// The text of the built-in example.
    pub fn example() -> &'static str {
        source::EXAMPLE
    }

    async fn command<R>(&self, make: impl FnOnce(Answer<R>) -> Command) -> Result<R, EngineError> {
        let (answer, result) = oneshot::channel();
        // The owner is gone only when the daemon ends.
        self.inner.owner.send(make(answer)).await.map_err(|_| EngineError::KeeperGone)?;
        result.await.map_err(|_| EngineError::KeeperGone)?
    }
}
