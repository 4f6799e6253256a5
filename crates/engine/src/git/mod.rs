//! Calls the installed git so that a repository cannot influence what is run.
//!
//! ```text
//! folder ─► place (which repository, is it safe) ─► closed (disable programs) ─► call ─► parsers
//! ```
//!
//! A caller's input is never an option: revisions become hashes first (`given`), names become full references,
//! paths are literal and come last. A repository that the owner trusts in the configuration runs its hooks,
//! filters and signing as usual.

mod arguments;
mod blame;
mod branches;
mod call;
mod commit;
mod commit_paths;
mod commits_in_flight;
mod configuration;
mod configuration_cache;
mod conflicts;
mod diff;
mod error;
mod filters;
mod hardening;
mod in_progress;
mod index;
mod installed_git;
mod log;
mod named_files;
mod output_fields;
mod path_check;
mod repository_location;
mod request_folder;
mod sequencer_check;
mod special_file_wait;
mod stage;
mod stash;
mod status;
mod tags;
mod tree;
mod worktree_files;

pub use blame::{Blame, BlameQuery, BlamedLines};
pub use branches::{Branch, Worktree};
pub use commit::{CommitRequest, CommitResult, NewCommit};
pub use conflicts::{ConflictSide, ConflictedFile, Resolution};
pub use diff::{Diff, DiffQuery, DiffTarget, FileDiff};
pub use error::GitError;
pub use in_progress::{SequencerKind, SequencerState};
pub(crate) use index::{held_before, release_all};
pub use log::{Commit, Log, LogFilter};
pub use output_fields::Name;
pub use path_check::CheckedPaths;
pub use stage::{Add, StagedFiles};
pub use stash::{PopResult, Stash, StashRequest};
pub use status::{Change, ConflictKind, Entry, EntryState, Status, StatusQuery};
pub use tags::{Tag, TagRequest};
pub use tree::{AtRevision, Restore};

/// The parsers of git's output, for tests with arbitrary bytes.
#[doc(hidden)]
pub mod answers {
    pub use super::blame::parse as blame;
    pub use super::branches::{branches, worktrees};
    pub use super::conflicts::sides;
    pub use super::diff::split as diff;
    pub use super::log::commits;
    pub use super::stash::stashes;
    pub use super::status::parse as status;
    pub use super::tags::tags;
    pub use super::tree::object;
}

use crate::command::Commands;
use crate::error::EngineError;
use crate::files::Files;
use commits_in_flight::CommitsInFlight;
use configuration_cache::ConfigurationCache;
use hardening::HardenedSettings;
use installed_git::{GitCache, InstalledGit};
use proctor_core::config::git::Git as Terms;
use proctor_sys::landlock::{AllowedAccess, Readable, Ruleset};
use repository_location::{Bounds, RepositoryLocation};
use request_folder::RequestFolder;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedMutexGuard, Semaphore};
use worktree_files::Checkout;

/// Maximum number of concurrent calls: each is a process that may use a core.
const MAX_PARALLEL_CALLS: usize = 8;

/// Maximum number of work trees listed in an error.
const MAX_NAMED_PATHS: usize = 5;

/// The owner's variables that git needs to find the settings of the owner and of the system.
const OWN: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", SYSTEM];

/// ConfigurationCache another file for the settings of the system.
const SYSTEM: &str = "GIT_CONFIG_SYSTEM";

/// Calls git for all requests.
pub(crate) struct Git {
    commands: Arc<Commands>,
    found: GitCache,
    room: Semaphore,
    names: ConfigurationCache,
    writers: Mutex<HashMap<PathBuf, Arc<tokio::sync::Mutex<()>>>>,
    makings: CommitsInFlight,
    unfenced: AtomicBool,
}

/// The parameters for opening a repository.
pub(crate) struct RepositoryContext {
    pub(crate) files: Files,
    pub(crate) terms: Terms,
    /// The owner's environment.
    pub(crate) env: Vec<(String, String)>,
}

/// A repository that was found and checked. Valid for one request: it may change later.
pub struct Repository {
    git: Arc<Git>,
    tool: Arc<InstalledGit>,
    place: RepositoryLocation,
    /// The root that contains it; without links.
    root: PathBuf,
    /// Proctor's own folders.
    own: Vec<PathBuf>,
    /// The base of the request's paths, relative to the top.
    below: PathBuf,
    /// Files of the owner that git reads; `None` until they are known.
    owners: Option<Vec<PathBuf>>,
    settings: HardenedSettings,
    /// Network protocols that it may use.
    protocols: Vec<String>,
    env: Vec<(String, String)>,
    limit: Duration,
    /// Held while something is changed.
    writing: Option<OwnedMutexGuard<()>>,
    /// Callback for a new commit, called even if no caller waits for the response any more.
    told: Option<CallResult>,
}

type CallResult = Box<dyn FnOnce(&NewCommit) + Send + Sync>;

impl Git {
    pub(crate) fn new(commands: Arc<Commands>) -> Git {
        Git {
            commands,
            found: GitCache::default(),
            room: Semaphore::new(MAX_PARALLEL_CALLS),
            names: ConfigurationCache::default(),
            writers: Mutex::default(),
            makings: CommitsInFlight::default(),
            unfenced: AtomicBool::new(false),
        }
    }

    /// Finishes commits in flight before the daemon ends.
    pub(crate) async fn settle(&self) {
        self.makings.settle().await;
    }

    /// Disables the Landlock restriction, for tests of the other checks.
    pub(crate) fn without_fence(&self) {
        self.unfenced.store(true, Ordering::Relaxed);
    }

    /// The repository that contains a folder.
    pub(crate) async fn open(
        self: Arc<Git>,
        around: RepositoryContext,
        folder: Option<PathBuf>,
    ) -> Result<Repository, EngineError> {
        let RepositoryContext { files, terms, env } = around;
        let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| &**value);
        let tool = self.found.get(&self.commands, path).await?;
        let trusted = terms.trusted;
        let found = crate::blocking(move || -> Result<_, EngineError> {
            let folder = RequestFolder::named(&files, folder.as_deref())?;
            let roots = files.roots();
            let open = roots.all().iter().filter(|root| root.write);
            let open = open.filter_map(|root| root.path.canonicalize().ok()).collect();
            let bounds = Bounds { own: files.own(), closed: files.read_only(), open };
            Ok((repository_location::find(&folder, &trusted, &bounds)?, folder.root, bounds.own))
        });
        let (place, root, own) = found.await??;
        let protocols = open_for(&place, terms.protocols);
        let mut repository = Repository {
            settings: HardenedSettings::new(place.trusted, &protocols),
            git: self,
            tool,
            place,
            root,
            own,
            below: PathBuf::new(),
            owners: None,
            protocols,
            env,
            limit: Duration::from_millis(terms.timeout.0),
            writing: None,
            told: None,
        };
        repository.close().await?;
        Ok(repository)
    }

    /// Serialises our own changes of a repository; git itself would reject the second.
    async fn write_in(&self, top: &Path) -> OwnedMutexGuard<()> {
        let lock = {
            let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            writers.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(writers.entry(top.to_owned()).or_default())
        };
        lock.lock_owned().await
    }
}

impl Repository {
    /// The top of its work tree.
    pub fn top(&self) -> &Path {
        &self.place.top
    }

    /// Makes this folder the base of paths, if it is in the repository.
    pub fn stand_in(&mut self, folder: &Path) {
        if let Ok(below) = folder.strip_prefix(&self.place.top) {
            self.below = below.to_owned();
        }
    }

    /// Sets the callback for a new commit. It is dropped if there is none.
    pub fn tell(&mut self, told: impl FnOnce(&NewCommit) + Send + Sync + 'static) {
        self.told = Some(Box::new(told));
    }

    /// Returns true if it may run its own programs.
    pub fn is_trusted(&self) -> bool {
        self.place.trusted
    }

    /// Fails without a work tree. Git itself rejects file commands in a bare repository; but with a given work
    /// tree it would treat every file as deleted.
    async fn need_worktree(&self) -> Result<(), GitError> {
        if !self.settings.is_bare || self.place.git_dir != self.place.common_dir {
            return Ok(());
        }
        let (trees, _) = self.worktrees().await?;
        // Git lists the work tree that we set for it.
        let own = [&self.place.top, &self.place.git_dir];
        let trees = trees.iter().filter(|tree| !tree.prunable && !own.contains(&&tree.path));
        let named: Vec<String> =
            trees.take(MAX_NAMED_PATHS).map(|tree| tree.path.display().to_string()).collect();
        let why = match named.is_empty() {
            true => "it is bare, and has no work tree".to_owned(),
            false => format!("it is bare; name one of its work trees ({})", named.join(", ")),
        };
        Err(GitError::bad("repo", format!("{}: {why}", self.place.top.display())))
    }

    /// Prepares for changes of files or of the index.
    async fn write_files(&mut self) -> Result<(), GitError> {
        self.need_worktree().await?;
        self.write().await
    }

    /// Prepares for changes.
    async fn write(&mut self) -> Result<(), GitError> {
        if self.writing.is_none() {
            self.writing = Some(self.git.write_in(&self.place.top).await);
            let place = self.place.clone();
            let looked = crate::blocking(move || {
                place.check_writable()?;
                index::release(&place.inside());
                Ok::<_, GitError>(())
            });
            looked.await.map_err(|error| GitError::Conflict(error.to_string()))??;
        }
        Ok(())
    }

    /// Runs work on files of the work tree without git.
    async fn in_worktree<R: Send + 'static>(
        &self,
        work: impl FnOnce(Checkout) -> Result<R, GitError> + Send + 'static,
    ) -> Result<R, GitError> {
        let tree = Checkout { top: self.place.top.clone(), own: self.own.clone() };
        let done = crate::blocking(move || work(tree)).await;
        done.map_err(|error| GitError::Conflict(error.to_string()))?
    }

    /// The environment of every call.
    fn environment(&self, reads: bool) -> Vec<(OsString, OsString)> {
        let owner = self.env.iter().filter(|(name, _)| match self.place.trusted {
            true => name == SYSTEM || !name.starts_with("GIT_"),
            false => OWN.contains(&name.as_str()),
        });
        let mut env: Vec<(OsString, OsString)> =
            owner.map(|(name, value)| (name.into(), value.into())).collect();
        if !self.place.trusted {
            env.push(("PATH".into(), self.tool.search_path()));
            // It takes precedence over the setting of the same meaning.
            env.push(("GIT_SSH_COMMAND".into(), "ssh -o BatchMode=yes".into()));
            env.push(("GIT_PROXY_COMMAND".into(), "".into()));
        }
        match self.place.top.parent() {
            // If this is not a repository after all, git must not use one around it.
            Some(above) if self.place.found_by_git && !self.settings.has_worktree => {
                env.push(("GIT_CEILING_DIRECTORIES".into(), above.into()));
            }
            _ => {
                env.push(("GIT_DIR".into(), self.place.git_dir.clone().into()));
                env.push(("GIT_WORK_TREE".into(), self.place.top.clone().into()));
            }
        }
        env.push(("GIT_ALLOW_PROTOCOL".into(), self.protocols.join(":").into()));
        for (name, value) in [
            ("LC_ALL", "C"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_ASKPASS", ""),
            ("GIT_PAGER", "cat"),
            ("GIT_EDITOR", ":"),
            ("GIT_SEQUENCE_EDITOR", ":"),
            ("GIT_MERGE_AUTOEDIT", "no"),
            ("GIT_ADVICE", "0"),
        ] {
            env.push((name.into(), value.into()));
        }
        if self.protocols.is_empty() {
            env.push(("GIT_NO_LAZY_FETCH".into(), "1".into()));
        }
        if reads {
            env.push(("GIT_OPTIONAL_LOCKS".into(), "0".into()));
        }
        env.extend(self.settings.environment());
        env
    }

    /// The Landlock restriction for an untrusted repository. Git writes nothing elsewhere, reads only its root
    /// and files of the system and the owner, executes only git, and does not connect. An allowed protocol may
    /// connect, and read and execute what that needs.
    fn fence(&self, reads: bool) -> Result<Option<Ruleset>, GitError> {
        let Some(held) = &self.place.held else { return Ok(None) };
        if self.git.unfenced.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let closed = self.protocols.is_empty();
        let programs = self.tool.executable(&self.protocols);
        let programs: Option<Vec<&Path>> =
            programs.as_ref().map(|programs| programs.iter().map(PathBuf::as_path).collect());
        let own = held.own();
        // A partial clone fetches missing objects while it is read.
        let writable = if reads && closed { &[][..] } else { &own[..] };
        let (named, folders) = (self.readable(), [held.root()]);
        let readable = named.as_ref().map(|named| Readable { folders: &folders, named });
        let gates =
            AllowedAccess { writable, readable, executable: programs.as_deref(), network: !closed };
        Ruleset::new(&gates)
            .map_err(|error| self.unsafe_(&format!("cannot restrict git with Landlock: {error}")))
    }

    /// Files outside the root that git reads; `None`: all files, for a call that connects, and while the
    /// owner's files are not known.
    fn readable(&self) -> Option<Vec<PathBuf>> {
        let (owners, system) = self.owners.as_ref().zip(self.tool.readable.as_ref())?;
        let closed = self.protocols.is_empty();
        closed.then(|| owners.iter().chain(system).cloned().collect())
    }
}

/// A partial clone fetches missing objects while it is read: where nothing may be changed, nothing is fetched.
fn open_for(place: &RepositoryLocation, protocols: Vec<String>) -> Vec<String> {
    if place.read_only.is_some() { Vec::new() } else { protocols }
}
