//! The threads that work on files, restricted by Landlock.
//!
//! Where the kernel has Landlock, such a thread cannot open anything outside the folders it was made for,
//! whatever the path. The restriction cannot be changed, so a thread serves the same folders only. It ends
//! after some idle time.

use super::roots::Roots;
use crate::error::EngineError;
use crate::own_folder;
use proctor_core::home::{Home, OwnFolder};
use proctor_sys::atomic;
use proctor_sys::beneath::{Folder, Id, Root};
use proctor_sys::landlock::Ruleset;
use std::os::fd::AsFd;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tokio::sync::oneshot;

/// Idle time after which a thread ends.
const IDLE: Duration = Duration::from_secs(5);

/// The kind of access that a piece of work needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Look,
    Change,
}

/// Gets whether the thread fits the work. Returns a closure that sends the result: by then the thread is free
/// again.
type Job = Box<dyn FnOnce(bool) -> ReportResult + Send>;
type ReportResult = Box<dyn FnOnce()>;

/// The result of a piece of work.
enum JobResult<W, R> {
    Done(R),
    /// It was not started: the roots are other folders by now.
    Unfit(W),
}

#[derive(Clone)]
pub(super) struct Workers(Arc<Shared>);

struct Shared {
    home: Home,
    /// The idle threads.
    idle: Mutex<Vec<Worker>>,
}

#[derive(Clone)]
struct Worker {
    roots: Arc<Roots>,
    purpose: Purpose,
    thread: ThreadId,
    jobs: Sender<Job>,
}

impl Workers {
    pub(super) fn new(home: Home) -> Workers {
        Workers(Arc::new(Shared { home, idle: Mutex::default() }))
    }

    /// Runs work on a thread where waiting does no harm.
    pub(super) async fn work<W, R>(
        &self,
        roots: Arc<Roots>,
        purpose: Purpose,
        mut work: W,
    ) -> Result<R, EngineError>
    where
        W: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let mut idle = self.take(&roots, purpose);
        loop {
            let (tell, told) = oneshot::channel();
            let job: Job = Box::new(move |fits| {
                let told = if fits { JobResult::Done(work()) } else { JobResult::Unfit(work) };
                // The caller may be gone.
                Box::new(|| drop(tell.send(told)))
            });
            match idle.take() {
                Some(worker) => drop(worker.jobs.send(job)),
                None => self.begin(Arc::clone(&roots), purpose, job)?,
            }
            match told.await {
                Ok(JobResult::Done(done)) => return Ok(done),
                Ok(JobResult::Unfit(again)) => work = again,
                Err(_) => {
                    return Err(EngineError::Failed(
                        "a file thread ended before its work was done".into(),
                    ));
                }
            }
        }
    }

    fn take(&self, roots: &Arc<Roots>, purpose: Purpose) -> Option<Worker> {
        let mut idle = self.idle();
        let fits = |it: &Worker| it.purpose == purpose && Arc::ptr_eq(&it.roots, roots);
        let at = idle.iter().rposition(fits)?;
        Some(idle.swap_remove(at))
    }

    fn begin(&self, roots: Arc<Roots>, purpose: Purpose, job: Job) -> Result<(), EngineError> {
        let workers = self.clone();
        let run = move || {
            let ground = WorkFolders::of(&roots, purpose, &workers.0.home);
            // It reads a file outside the restriction, once.
            atomic::mark();
            ground.enter();
            let ids = ground.ids();
            drop(ground);
            let tell = job(true);
            let (jobs, given) = mpsc::channel();
            let thread = thread::current().id();
            workers.serve(&Worker { roots, purpose, thread, jobs }, &ids, &given, tell);
        };
        let begun = thread::Builder::new().name("files".into()).spawn(run);
        let failed = |error| EngineError::Failed(format!("cannot start a file thread: {error}"));
        begun.map(drop).map_err(failed)
    }

    /// Serves jobs until none arrives for a while.
    fn serve(
        &self,
        worker: &Worker,
        ids: &[(Id, bool)],
        given: &Receiver<Job>,
        mut tell: ReportResult,
    ) {
        loop {
            self.idle().push(worker.clone());
            tell();
            let job = match given.recv_timeout(IDLE) {
                Err(_) if self.leave(worker.thread) => return,
                // A caller has just taken this thread, and is about to send its job.
                Err(_) => given.recv(),
                Ok(job) => Ok(job),
            };
            let Ok(job) = job else { return };
            tell = job(WorkFolders::of(&worker.roots, worker.purpose, &self.0.home).ids() == ids);
        }
    }

    /// Removes this thread from the idle list; false if a caller has taken it.
    fn leave(&self, thread: ThreadId) -> bool {
        let mut idle = self.idle();
        let at = idle.iter().position(|worker| worker.thread == thread);
        at.map(|at| idle.swap_remove(at)).is_some()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Worker>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folders of a piece of work, and whether it may write into them.
struct WorkFolders {
    roots: Vec<(Arc<Root>, bool)>,
    own: Vec<Folder>,
}

impl WorkFolders {
    /// The existing roots; for changes also the folders of records and backups.
    fn of(roots: &Roots, purpose: Purpose, home: &Home) -> WorkFolders {
        let changing = purpose == Purpose::Change;
        let roots = roots.all().iter();
        let roots = roots.filter_map(|root| Some((root.held().ok()?, changing && root.write)));
        let noted = [OwnFolder::Changes, OwnFolder::Backups].into_iter().filter(|_| changing);
        let own = noted.filter_map(|folder| {
            own_folder::make(home, folder).ok()?;
            Folder::open(&home.folder(folder)).ok()
        });
        WorkFolders { roots: roots.collect(), own: own.collect() }
    }

    fn folders(&self) -> impl Iterator<Item = (&Folder, bool)> {
        let roots = self.roots.iter().map(|(root, write)| (root.folder(), *write));
        roots.chain(self.own.iter().map(|folder| (folder, true)))
    }

    fn ids(&self) -> Vec<(Id, bool)> {
        self.folders().map(|(folder, write)| (folder.id(), write)).collect()
    }

    /// Restricts the calling thread from now on. If the kernel has no Landlock or denies it, the thread works
    /// without: every path is still resolved beneath its root.
    fn enter(&self) {
        let of = |writable: bool| {
            let folders = self.folders().filter(|(_, write)| *write == writable);
            folders.map(|(folder, _)| folder.as_fd()).collect::<Vec<_>>()
        };
        let entered = Ruleset::of_folders(&of(false), &of(true))
            .and_then(|fence| fence.map_or(Ok(()), |fence| fence.enter()));
        if let Err(error) = entered {
            tracing::debug!(%error, "working without Landlock");
        }
    }
}
