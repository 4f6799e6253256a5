//! The life of a daemon, from its first message to the keeper to its end.
//!
//! Clients are served after the snapshot has arrived and the stored state has been read. The remaining messages
//! to the keeper are sent in the background, before any request of a client.

use crate::api::Engine;
use crate::audit::Audit;
use crate::command;
use crate::daemon_startup::Startup;
use crate::files;
use crate::git;
use crate::health_checks;
use crate::keeper_link::{self, Incoming, KeeperEvent, Link, LinkClosed};
use crate::own_folder;
use crate::owner::{Command, INBOX, Owner};
use crate::pipe_holder::PipeHolder;
use crate::registry::Registry;
use crate::service_store::{LoadedStore, Store};
use crate::tokens::Tokens;
use crate::trusted_folders;
use crate::unhealthy_file;
use proctor_core::home::Home;
use proctor_core::wire::{PROTOCOL, ToKeeper};
use proctor_sys::failpoint::{self, Point};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

/// A keeper that sends no snapshot within this time hangs; it will start another daemon.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum wait at the end for the cleanup after an earlier daemon; shorter than the keeper waits for a daemon to leave.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(4);

/// Time for clients to get their last responses after the keeper has announced its end.
const FAREWELL: Duration = Duration::from_millis(250);

/// Time for the last messages of a keeper that has announced its end; they are already in flight.
const LAST_WORDS: Duration = Duration::from_millis(20);

/// Why the daemon's work ended, which decides what its process does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonExit {
    /// The keeper is gone without notice: take over its role.
    KeeperGone,
    /// Proctor shuts down: exit.
    ForGood,
    /// The keeper continues and will start another daemon: exit.
    Replaced,
}

/// When the daemon begins to listen on the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listen {
    AtOnce,
    /// A command has started Proctor to apply a configuration, and that configuration sets the addresses. A
    /// daemon that finds services in the keeper is a later one, and listens at once.
    AfterUp,
}

/// Runs the daemon on this socket until the connection or Proctor ends. `serve` gets the engine and serves
/// clients. It is dropped at the end: shortly after an orderly shutdown, at once when the keeper is gone.
pub async fn run(
    home: Home,
    keeper: UnixStream,
    listen: Listen,
    serve: impl AsyncFnOnce(Engine),
) -> DaemonExit {
    match begin(home, keeper, listen).await {
        Ok(daemon) => daemon.serve(serve).await,
        Err(ending) => ending,
    }
}

struct Daemon {
    engine: Engine,
    pump: JoinHandle<DaemonExit>,
    /// Ends the processes that commands of an earlier daemon left.
    cleanup: Option<JoinHandle<()>>,
    /// Aborted when the daemon is dropped.
    _tasks: JoinSet<()>,
}

async fn begin(home: Home, keeper: UnixStream, listen: Listen) -> Result<Daemon, DaemonExit> {
    let mut tasks = JoinSet::new();
    let (link, mut incoming, writer) = keeper_link::open(keeper).map_err(|error| {
        tracing::error!(%error, "cannot use the keeper's socket");
        DaemonExit::KeeperGone
    })?;
    tasks.spawn(writer);
    let registry = Arc::new(Registry::new());
    // A failure shows when the snapshot does not arrive.
    link.tell(&ToKeeper::Hello { protocol: PROTOCOL, pid: std::process::id() }).await.ok();
    failpoint::moment(Point::DaemonHello);
    let mut witnesses = PipeHolder::new(home.clone());
    match timeout(SNAPSHOT_TIMEOUT, snapshot(&mut incoming, &registry, &mut witnesses)).await {
        Ok(result) => result?,
        Err(_) => {
            tracing::error!("the keeper sent no snapshot");
            return Err(DaemonExit::Replaced);
        }
    }
    failpoint::moment(Point::DaemonSnapshot);
    let (store, startup, tokens) = plan(&home, &registry, listen).await?;
    startup.show(&registry);
    own_folder::mend(&home);
    recall_unhealthy(&home, &registry).await;
    let (left, held) = (command::left_behind(&home), git::held_before(&home));
    let cleanup = (!left.is_empty() || !held.is_empty()).then(|| {
        tokio::task::spawn_blocking(move || {
            command::sweep(left);
            git::release_all(held);
        })
    });
    let unsaved = Arc::clone(&tokens);
    tasks.spawn(async move { drop(crate::blocking(move || unsaved.save_first()).await) });

    let (audit, writer) = Audit::new(&home, Arc::clone(&registry));
    tasks.spawn(writer);
    let pump = tokio::spawn(pump(incoming, Arc::clone(&registry), witnesses));
    tasks.spawn(health_checks::run(home.clone(), Arc::clone(&registry), link.clone()));
    let (sender, inbox) = mpsc::channel::<Command>(INBOX);
    tasks.spawn(own(store, startup, Arc::clone(&registry), link.clone(), inbox, audit.clone()));
    Ok(Daemon {
        engine: Engine::new(home, registry, link, sender, tokens, audit),
        pump,
        cleanup,
        _tasks: tasks,
    })
}

/// Read why earlier daemons ended runs.
async fn recall_unhealthy(home: &Home, registry: &Registry) {
    let (home, names) = (home.clone(), registry.checked_services());
    let read = move || {
        let reasons = |name| (unhealthy_file::read(&home, &name), name);
        names.into_iter().map(reasons).filter(|(runs, _)| !runs.is_empty()).collect::<Vec<_>>()
    };
    for (reasons, name) in crate::blocking(read).await.unwrap_or_default() {
        registry.recall_unhealthy(&name, reasons);
    }
}

impl Daemon {
    async fn serve(mut self, serve: impl AsyncFnOnce(Engine)) -> DaemonExit {
        let mut serving = pin!(serve(self.engine.clone()));
        let ending = tokio::select! {
            ended = &mut self.pump => ended,
            () = &mut serving => {
                let ending = ended((&mut self.pump).await);
                self.finish_cleanup().await;
                return ending;
            }
        };
        let ending = ended(ending);
        match ending {
            DaemonExit::KeeperGone => {}
            DaemonExit::ForGood | DaemonExit::Replaced => {
                let _ = tokio::join!(timeout(FAREWELL, serving), self.engine.settle());
                self.finish_cleanup().await;
            }
        }
        ending
    }

    /// If no daemon follows this one, nobody else ends what an earlier one left.
    async fn finish_cleanup(&mut self) {
        if let Some(cleanup) = self.cleanup.take() {
            let _ = timeout(CLEANUP_TIMEOUT, cleanup).await;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.pump.abort();
    }
}

/// If the pump panicked, the keeper is still well: exit, so that it starts another daemon.
fn ended(pump: Result<DaemonExit, tokio::task::JoinError>) -> DaemonExit {
    pump.unwrap_or_else(|error| {
        tracing::error!(%error, "the link to the keeper failed");
        DaemonExit::Replaced
    })
}

/// Reads the store and plans the start, on a thread that may block.
async fn plan(
    home: &Home,
    registry: &Registry,
    listen: Listen,
) -> Result<(Store, Startup, Arc<Tokens>), DaemonExit> {
    let states = registry.read(|view| {
        let state = |service: &crate::api::ServiceView| service.state.clone();
        let known = view.services.iter().filter_map(|(name, s)| Some((name.clone(), state(s)?)));
        known.collect::<BTreeMap<_, _>>()
    });
    let home = home.clone();
    let planned = crate::blocking(move || {
        files::recover(&home);
        trusted_folders::begin(&home);
        let (store, found): (Store, LoadedStore) =
            Store::open(home.services_json(), home.unsaved_services());
        let startup = Startup::plan(found, &states, listen == Listen::AfterUp);
        (store, startup, Arc::new(Tokens::open(&home)))
    });
    planned.await.map_err(|error| {
        tracing::error!(%error, "cannot plan the start");
        DaemonExit::Replaced
    })
}

async fn own(
    store: Store,
    mut startup: Startup,
    registry: Arc<Registry>,
    link: Link,
    inbox: mpsc::Receiver<Command>,
    audit: Audit,
) {
    let save_again = store.has_fallback().then(Instant::now);
    let owner = Owner {
        registry,
        link,
        store,
        stored: std::mem::take(&mut startup.before),
        environments: std::mem::take(&mut startup.environments),
        sent: BTreeSet::new(),
        troubles: std::mem::take(&mut startup.troubles),
        tenures: std::mem::take(&mut startup.tenures),
        end_again: None,
        save_again,
        audit,
    };
    owner.run(startup, inbox).await;
}

/// Receives messages until the snapshot is complete.
async fn snapshot(
    incoming: &mut Incoming,
    registry: &Registry,
    witnesses: &mut PipeHolder,
) -> Result<(), DaemonExit> {
    loop {
        let batch = incoming.next().await.map_err(|closed| ending_of(&closed))?;
        let mut complete = false;
        for news in &batch.news {
            match news {
                KeeperEvent::Hello { protocol, .. } if *protocol != PROTOCOL => {
                    tracing::error!(
                        protocol,
                        ours = PROTOCOL,
                        "the keeper speaks another protocol version"
                    );
                    return Err(DaemonExit::Replaced);
                }
                KeeperEvent::Ending { for_good } => return Err(ending_said(*for_good)),
                KeeperEvent::SnapshotEnd => complete = true,
                KeeperEvent::Hello { .. }
                | KeeperEvent::State(_)
                | KeeperEvent::Removed(_)
                | KeeperEvent::Defined { .. } => {}
            }
        }
        witnesses.see(&batch.news);
        registry.observe(batch.news);
        if complete {
            return Ok(());
        }
    }
}

/// Passes the keeper's messages to the registry, then its responses to the callers, until the connection ends.
async fn pump(
    mut incoming: Incoming,
    registry: Arc<Registry>,
    mut witnesses: PipeHolder,
) -> DaemonExit {
    loop {
        let mut batch = match incoming.next().await {
            Ok(batch) => batch,
            Err(closed) => {
                witnesses.pass_on();
                return ending_of(&closed);
            }
        };
        witnesses.see(&batch.news);
        let ending = batch.news.iter().find_map(|news| match news {
            KeeperEvent::Ending { for_good } => Some(ending_said(*for_good)),
            KeeperEvent::Hello { .. }
            | KeeperEvent::State(_)
            | KeeperEvent::SnapshotEnd
            | KeeperEvent::Removed(_)
            | KeeperEvent::Defined { .. } => None,
        });
        let news = std::mem::take(&mut batch.news);
        if !news.is_empty() {
            registry.observe(news);
        }
        batch.answer();
        if let Some(ending) = ending {
            last_words(&mut incoming, &registry).await;
            return ending;
        }
    }
}

/// The response to the request that ended Proctor may arrive after the notice of the end.
async fn last_words(incoming: &mut Incoming, registry: &Registry) {
    let rest = async {
        while let Ok(mut batch) = incoming.next().await {
            registry.observe(std::mem::take(&mut batch.news));
            batch.answer();
        }
    };
    timeout(LAST_WORDS, rest).await.ok();
}

fn ending_said(for_good: bool) -> DaemonExit {
    if for_good { DaemonExit::ForGood } else { DaemonExit::Replaced }
}

fn ending_of(closed: &LinkClosed) -> DaemonExit {
    tracing::warn!(%closed, "the connection to the keeper ended");
    match closed {
        LinkClosed::Gone => DaemonExit::KeeperGone,
        // The keeper lives and has another version; it will replace this daemon.
        LinkClosed::Garbled(_) => DaemonExit::Replaced,
    }
}
