//! The one owner of the state: all changes of definitions and wishes pass through here, one after the other.
//!
//! The order is always the same: decide, write `services.json`, update the registry, tell the keeper. If a
//! daemon dies in between, the next one does the rest, because the file holds the wanted state. Commands wait
//! in a bounded queue; wishes that wait together are written together.

use crate::api::{Applied, ConfigRequest, NewService, RestartWith};
use crate::audit::Audit;
use crate::daemon_startup::{Startup, StartupProblems};
use crate::definition::Definition;
use crate::environment::Environments;
use crate::error::EngineError;
use crate::keeper_link::{Ask, Link};
use crate::lease::LeaseChange;
use crate::ownership::Ownership;
use crate::registry::{AwaitedState, Registry};
use crate::service_store::{Execs, Store, StoredRun, StoredServices, StoredWish, Unwritable};
use proctor_core::lifecycle::Wish;
use proctor_core::name::ServiceName;
use proctor_core::spec::EnvId;
use proctor_core::wire::{PhaseView, Refusal, ServiceState, ToKeeper};
use proctor_sys::allocator;
use proctor_sys::failpoint::{self, Point};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

/// Maximum number of pending commands; further callers wait for room.
pub(crate) const INBOX: usize = 256;

/// The keeper sends a state with its response or right after it. No caller waits longer than this for the
/// state.
const SEEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Time between two attempts to write a file that could not be written.
const SAVE_INTERVAL: Duration = Duration::from_secs(2);

/// Time after which everything that follows from reading a configuration is done.
const QUIET: Duration = Duration::from_secs(1);

/// Time for the command that started Proctor to apply its configuration, before the listeners bind without it.
const UP_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) type Answer<R> = oneshot::Sender<Result<R, EngineError>>;

pub(crate) enum Command {
    Apply {
        request: ConfigRequest,
        answer: Answer<Applied>,
    },
    Add {
        service: NewService,
        answer: Answer<Vec<ServiceName>>,
    },
    Remove {
        names: Vec<ServiceName>,
        answer: Answer<()>,
    },
    Lease {
        names: Vec<ServiceName>,
        change: LeaseChange,
        answer: Answer<()>,
    },
    /// The response says why the wish could not be stored, if it was obeyed without that.
    SetWish {
        names: Vec<ServiceName>,
        wish: Wish,
        answer: Answer<Option<String>>,
    },
    Restart {
        names: Vec<ServiceName>,
        with: RestartWith,
        answer: Answer<()>,
    },
}

pub(crate) struct WishCommand {
    pub(crate) names: Vec<ServiceName>,
    pub(crate) wish: Wish,
    answer: Answer<Option<String>>,
}

/// Why services are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Asked,
    LeaseOver,
}

pub(crate) struct Owner {
    pub(crate) registry: Arc<Registry>,
    pub(crate) link: Link,
    pub(crate) store: Store,
    /// The content of `services.json`.
    pub(crate) stored: StoredServices,
    pub(crate) environments: Environments,
    /// Environments sent to the keeper on this connection.
    pub(crate) sent: BTreeSet<EnvId>,
    pub(crate) troubles: StartupProblems,
    /// Tenures of all added services, by the name they were added under.
    pub(crate) tenures: BTreeMap<ServiceName, Arc<Ownership>>,
    /// Earliest time to try again to end expired leases, after a failure.
    pub(crate) end_again: Option<Instant>,
    /// Time of the next attempt to write the file, while it does not match `stored`.
    pub(crate) save_again: Option<Instant>,
    pub(crate) audit: Audit,
}

impl Owner {
    pub(crate) async fn run(mut self, startup: Startup, mut inbox: mpsc::Receiver<Command>) {
        self.start(startup).await;
        failpoint::moment(Point::DaemonStarted);
        let registry = Arc::clone(&self.registry);
        let mut commands = Vec::new();
        let mut rest = Some(Instant::now() + QUIET);
        let mut release = Some(Instant::now() + UP_TIMEOUT);
        loop {
            let (lease, unsaved) = (self.next_end(), self.save_again);
            tokio::select! {
                count = inbox.recv_many(&mut commands, INBOX) => {
                    if count == 0 {
                        return;
                    }
                    let applies = commands.iter().any(|c| matches!(c, Command::Apply { .. }));
                    self.handle(std::mem::take(&mut commands)).await;
                    if !applies {
                        registry.release_listeners();
                    }
                    rest = if applies { Some(Instant::now() + QUIET) } else { rest };
                }
                names = registry.vanished() => self.define_again(names).await,
                () = registry.renewals() => self.keep_leases().await,
                () = sleep_until(lease.unwrap_or_else(Instant::now)), if lease.is_some() => {
                    self.end_leases().await;
                }
                () = sleep_until(release.unwrap_or_else(Instant::now)), if release.is_some() => {
                    release = None;
                    registry.release_listeners();
                }
                () = sleep_until(unsaved.unwrap_or_else(Instant::now)), if unsaved.is_some() => {
                    if self.write(self.stored.clone()).await.is_err() {
                        self.save_again = Some(Instant::now() + SAVE_INTERVAL);
                    }
                }
                () = sleep_until(rest.unwrap_or_else(Instant::now)), if rest.is_some() => {
                    rest = None;
                    self.anchor_audit().await;
                    // The data read for the plan is many times larger than the data that stays.
                    allocator::give_back();
                    allocator::let_go_of_code();
                }
            }
        }
    }

    async fn handle(&mut self, commands: Vec<Command>) {
        let mut wishes = Vec::new();
        for command in commands {
            match command {
                Command::SetWish { names, wish, answer } => {
                    wishes.push(WishCommand { names, wish, answer });
                }
                Command::Apply { request, answer } => {
                    self.set_wishes(std::mem::take(&mut wishes)).await;
                    answer.send(self.apply(request).await).ok();
                }
                Command::Add { service, answer } => {
                    self.set_wishes(std::mem::take(&mut wishes)).await;
                    answer.send(self.add(service).await).ok();
                }
                Command::Remove { names, answer } => {
                    self.set_wishes(std::mem::take(&mut wishes)).await;
                    answer.send(self.remove(names, Removal::Asked).await).ok();
                }
                Command::Lease { names, change, answer } => {
                    self.set_wishes(std::mem::take(&mut wishes)).await;
                    answer.send(self.change_lease(names, change).await).ok();
                }
                Command::Restart { names, with, answer } => {
                    self.set_wishes(std::mem::take(&mut wishes)).await;
                    answer.send(self.restart(names, with).await).ok();
                }
            }
        }
        self.set_wishes(wishes).await;
    }

    /// Handles several wishes with one write.
    async fn set_wishes(&mut self, commands: Vec<WishCommand>) {
        if commands.is_empty() {
            return;
        }
        let mut valid = Vec::new();
        for command in commands {
            match self.must_exist(&command.names) {
                Ok(()) => valid.push(command),
                Err(error) => drop(command.answer.send(Err(error))),
            }
        }
        let ending = self.ending_overrides(&valid);
        let mut changed = self.as_configured(&ending).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot restore configured arguments; services keep the arguments of a restart");
            Vec::new()
        });
        let mut unrecorded = None;
        if let Err(unwritable) = self.save(self.with_wishes(&valid, &changed)).await {
            // Stops are sent to the keeper even if the file cannot be written.
            let (stops, others): (Vec<_>, Vec<_>) =
                valid.into_iter().partition(|command| command.wish == Wish::Down);
            for command in others {
                command.answer.send(Err(unwritable.clone().into())).ok();
            }
            let is_stopped = |name: &ServiceName| stops.iter().any(|it| it.names.contains(name));
            changed.retain(|definition| is_stopped(definition.name()));
            let stored = self.with_wishes(&stops, &changed);
            unrecorded = Some(self.save_later(stored, &unwritable).await);
            valid = stops;
        }
        self.registry.define(&changed);
        if let Err(error) = self.tell(&changed, &[]).await {
            tracing::warn!(%error, "the keeper rejected the configured arguments");
        }
        let ask = |command: &WishCommand| {
            let wish = command.wish;
            command.names.iter().map(move |name| Ask::Wish(name.clone(), wish)).collect::<Vec<_>>()
        };
        let asks: Vec<Ask> = valid.iter().flat_map(ask).collect();
        let mut answers = self.ask_and_see(asks).await.into_iter();
        failpoint::moment(Point::OwnerTold);
        for command in valid {
            let own: Vec<_> = answers.by_ref().take(command.names.len()).collect();
            let own = own.into_iter().map(|answer| match answer {
                // A service that the keeper does not have is already stopped.
                Err(EngineError::Refused(Refusal::UnknownService(_)))
                    if command.wish == Wish::Down =>
                {
                    Ok(())
                }
                other => other,
            });
            let answer: Result<(), EngineError> = own.collect();
            command.answer.send(answer.map(|()| unrecorded.clone())).ok();
        }
    }

    /// The state to store with these wishes, and with definitions that have their configured arguments back.
    fn with_wishes(&self, commands: &[WishCommand], changed: &[Arc<Definition>]) -> StoredServices {
        let mut stored = self.stored.clone();
        for definition in changed {
            stored.args.remove(definition.name());
        }
        self.note_execs(&mut stored, changed);
        for command in commands {
            let wish = StoredWish::of(command.wish);
            stored.wishes.extend(command.names.iter().map(|name| (name.clone(), wish)));
        }
        stored
    }

    /// Uses a state that cannot be written now, and schedules another attempt. Returns a warning for the
    /// caller.
    async fn save_later(&mut self, stored: StoredServices, unwritable: &Unwritable) -> String {
        self.stored = stored;
        self.save_again = Some(Instant::now() + SAVE_INTERVAL);
        let until = match self.store.save_in_fallback(&self.stored).await {
            Ok(()) => "a restart of this machine",
            Err(_) => "a restart of Proctor",
        };
        tracing::error!(%unwritable, "cannot store that services are stopped; stopping them anyway");
        format!(
            "{unwritable}; Proctor retries the write; until it succeeds, {until} starts the services again"
        )
    }

    /// Stores the position of the audit log, if there is a file to store it in.
    async fn anchor_audit(&mut self) {
        let known = self.stored != StoredServices::default() && self.save_again.is_none();
        if known && self.audit.anchor() != self.stored.audit {
            // Best effort: the next change stores it, too.
            let _ = self.write(self.stored.clone()).await;
        }
    }

    async fn restart(
        &mut self,
        names: Vec<ServiceName>,
        RestartWith { args, env }: RestartWith,
    ) -> Result<(), EngineError> {
        self.must_exist(&names)?;
        let mut stored = self.stored.clone();
        let changed = match &args {
            Some(args) => self.with_arguments(&names, args).await?,
            None => self.as_configured(&names).await?,
        };
        for name in &names {
            stored.args.remove(name);
            stored.args.extend(args.clone().map(|args| (name.clone(), args)));
            // A restart of a service that is not wanted makes it wanted.
            let wish =
                self.registry.read(|view| Some(view.services.get(name)?.state.as_ref()?.wish));
            if matches!(wish, None | Some(Wish::Down)) {
                stored.wishes.insert(name.clone(), StoredWish::Up);
            }
        }
        self.note_execs(&mut stored, &changed);
        self.save(stored).await?;
        self.registry.define(&changed);
        self.tell(&changed, &[]).await?;
        let env: Arc<[(String, String)]> = env.into();
        let asks = names.into_iter().map(|name| Ask::Restart(name, Arc::clone(&env))).collect();
        self.ask_and_see(asks).await.into_iter().collect()
    }

    /// Sends requests and returns the responses after their effect is visible: a caller that starts a failed
    /// service must not read its old state as failed.
    async fn ask_and_see(&self, asks: Vec<Ask>) -> Vec<Result<(), EngineError>> {
        let effects: Vec<Option<(ServiceName, Option<Wish>)>> =
            asks.iter().map(|ask| self.affected(ask)).collect();
        let count = |(name, wish): &(ServiceName, Option<Wish>)| {
            (name.clone(), AwaitedState { states: self.registry.states_of(name), wish: *wish })
        };
        let mut counted: BTreeMap<_, _> = effects.iter().flatten().map(count).collect();
        let answers = self.link.ask_all(asks).await;
        for (effect, answer) in effects.iter().zip(&answers) {
            if let (Some((name, _)), Err(_)) = (effect, answer) {
                counted.remove(name);
            }
        }
        if timeout(SEEN_TIMEOUT, self.registry.newer_states(&counted)).await.is_err() {
            tracing::debug!("the keeper accepted a wish, but its state did not change in time");
        }
        answers
    }

    /// The service whose state a request changes, and the wish that becomes visible, if any.
    fn affected(&self, ask: &Ask) -> Option<(ServiceName, Option<Wish>)> {
        match ask {
            Ask::Wish(name, wish) => {
                let state = self.registry.read(|view| view.services.get(name)?.state.clone());
                // A service that runs once may have ended, and its wish with it, before it is seen.
                let lasting = Some(*wish).filter(|wish| *wish != Wish::Once);
                state.is_none_or(|state| changes(&state, *wish)).then(|| (name.clone(), lasting))
            }
            Ask::Restart(name, _) => Some((name.clone(), None)),
            Ask::Define(_) | Ask::Remove(_) | Ask::Signal(..) | Ask::Shutdown | Ask::Upgrade(_) => {
                None
            }
        }
    }

    /// Sends definitions to the keeper and lets it drop services. Everything is tried; the result is the first
    /// error.
    pub(crate) async fn tell(
        &mut self,
        defines: &[Arc<Definition>],
        removes: &[ServiceName],
    ) -> Result<(), EngineError> {
        self.send_environments(defines).await?;
        let define = defines.iter().map(|definition| Ask::Define(Arc::clone(definition)));
        let remove = removes.iter().cloned().map(Ask::Remove);
        let mut answers = self.link.ask_all(define.chain(remove).collect()).await;
        let mut result: Result<(), EngineError> = Ok(());
        for (name, answer) in removes.iter().zip(answers.split_off(defines.len())) {
            match answer {
                // A service that the keeper does not have is already removed.
                Err(EngineError::Refused(Refusal::UnknownService(_))) => self.registry.forget(name),
                Ok(()) if self.registry.states_of(name) == 0 => self.registry.forget(name),
                other => result = result.and(other),
            }
        }
        answers.into_iter().collect::<Result<(), EngineError>>().and(result)
    }

    /// Defines new services and starts each as soon as the keeper has it: the first of a thousand need not wait
    /// for the last.
    pub(crate) async fn tell_and_begin(
        &mut self,
        defines: &[Arc<Definition>],
        begun: &BTreeSet<ServiceName>,
    ) -> Result<(), EngineError> {
        self.send_environments(defines).await?;
        let asks = defines.iter().flat_map(|definition| {
            let name = definition.name();
            let wish = begun.contains(name).then(|| Ask::Wish(name.clone(), Wish::Up));
            std::iter::once(Ask::Define(Arc::clone(definition))).chain(wish)
        });
        self.link.ask_all(asks.collect()).await.into_iter().collect()
    }

    async fn send_environments(&mut self, defines: &[Arc<Definition>]) -> Result<(), EngineError> {
        for definition in defines {
            let environment = definition.environment();
            if self.sent.contains(&environment.id()) {
                continue;
            }
            let vars = environment.shared().to_vec();
            self.link.tell(&ToKeeper::Environment { id: environment.id(), vars }).await?;
            self.sent.insert(environment.id());
        }
        Ok(())
    }

    /// Defines services again that the keeper dropped: it finished an old removal after the service was defined
    /// again.
    async fn define_again(&mut self, names: BTreeSet<ServiceName>) {
        let definitions: Vec<_> =
            names.iter().filter_map(|name| self.registry.definition(name)).collect();
        if let Err(error) = self.tell(&definitions, &[]).await {
            tracing::error!(%error, "cannot define services again that the keeper dropped");
        }
        let wanted = |name: &&ServiceName| self.stored.wishes.get(*name) == Some(&StoredWish::Up);
        let up = names.iter().filter(wanted).map(|name| Ask::Wish(name.clone(), Wish::Up));
        for error in self.link.ask_all(up.collect()).await.into_iter().filter_map(Result::err) {
            tracing::error!(%error, "cannot restart a service that the keeper dropped");
        }
    }

    /// Writes the state if it differs from the written one.
    pub(crate) async fn save(&mut self, stored: StoredServices) -> Result<(), Unwritable> {
        if stored != self.stored {
            self.write(stored).await?;
            self.tenures.retain(|key, _| self.stored.added.contains_key(key));
            failpoint::moment(Point::OwnerSaved);
        }
        Ok(())
    }

    async fn write(&mut self, mut stored: StoredServices) -> Result<(), Unwritable> {
        stored.audit = self.audit.anchor().or(stored.audit);
        self.store.save(&stored).await?;
        (self.stored, self.save_again) = (stored, None);
        Ok(())
    }

    /// Records for the next daemon the settings of current and future processes.
    pub(crate) fn note_execs(&self, stored: &mut StoredServices, definitions: &[Arc<Definition>]) {
        let began: BTreeMap<_, _> = self.registry.began();
        for definition in definitions {
            let run =
                began.get(definition.name()).map(|(id, exec)| StoredRun { id: *id, exec: *exec });
            let execs = Execs { defined: definition.exec(), run };
            stored.execs.insert(definition.name().clone(), execs);
        }
    }

    fn must_exist(&self, names: &[ServiceName]) -> Result<(), EngineError> {
        match names.iter().find(|name| !self.registry.exists(name)) {
            Some(name) => Err(self
                .registry
                .read(|view| crate::service_selection::unknown(view, name.as_str()))),
            None => Ok(()),
        }
    }
}

/// Returns true if the wish changes anything. Starting a running service and stopping a stopped one do not.
fn changes(state: &ServiceState, wish: Wish) -> bool {
    let fulfilled = match wish {
        Wish::Up | Wish::Once => state.phase.run().is_some(),
        Wish::Down => matches!(state.phase, PhaseView::Down | PhaseView::Stopping { .. }),
    };
    state.wish != wish || !fulfilled
}

/// The error for a service whose settings only the keeper has.
pub(crate) fn lost(name: &ServiceName) -> EngineError {
    EngineError::Failed(format!("the definition of '{name}' was lost; remove it and add it again"))
}
