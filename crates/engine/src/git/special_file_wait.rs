//! Ends a git that waits for a FIFO or a device in the place of a file.
//!
//! Git opens files of the work tree, of `.git`, and those that its configuration names, and the kernel lets it wait until
//! somebody opens the other end. Only git knows which files it opens, so nothing is checked beforehand. A call that takes long
//! is looked at instead (`sys::special_file_wait`). The look does not touch the FIFO: its other end, opened for a moment, would
//! be an empty file to git, which would go on with its change.

use super::Repository;
use super::error::GitError;
use crate::command::{Program, ProgramOutput};
use proctor_sys::special_file_wait::{SpecialFileWait, SpecialKind, in_tree};
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;

/// Few calls take as long, so most are never looked at. A wait that is seen in two looks is one that lasts.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

impl Repository {
    /// Runs a program to its end, until `wanted` is dropped, or until it is found to wait for a special file.
    pub(super) async fn produce(
        &self,
        program: Program,
        wanted: Option<oneshot::Receiver<()>>,
    ) -> Result<ProgramOutput, GitError> {
        let what = program.args.iter().find(|word| !word.as_encoded_bytes().starts_with(b"-"));
        let what = what.map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
        let failed = |error: crate::error::EngineError| GitError::Failed {
            what: what.clone(),
            said: error.to_string(),
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let (started, pid) = oneshot::channel();
        let program = Program { wanted: Some(stopped), started: Some(started), ..program };
        let running = self.git.commands.produce(program);
        let unwanted = async {
            match wanted {
                Some(wanted) => drop(wanted.await),
                None => std::future::pending().await,
            }
        };
        tokio::pin!(running);
        tokio::select! {
            // The answer of a git that has ended is good: nothing here lets it pass a FIFO.
            biased;
            produced = &mut running => produced.map_err(failed),
            () = unwanted => {
                drop(stop);
                running.await.map_err(failed)
            }
            wait = lasting_wait(pid) => {
                let _ = stop.send(());
                running.await.map_err(failed)?;
                Err(GitError::Conflict(explain(&wait, &self.place.top)))
            }
        }
    }
}

/// Returns as soon as git, or a git that it has started, is seen twice in one wait for a special file.
async fn lasting_wait(pid: oneshot::Receiver<u32>) -> SpecialFileWait {
    let Ok(pid) = pid.await else { return std::future::pending().await };
    let mut before: Vec<SpecialFileWait> = Vec::new();
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        // A hook may wait for what it likes.
        let is_git = |name: &str| name == "git" || name.starts_with("git-");
        let seen = crate::blocking(move || in_tree(pid, is_git)).await.unwrap_or_default();
        if let Some(wait) = seen.iter().find(|wait| before.contains(wait)) {
            return wait.clone();
        }
        before = seen;
    }
}

fn explain(wait: &SpecialFileWait, top: &Path) -> String {
    let remedy = "remove it, or the setting that names it";
    let Some(path) = &wait.path else {
        let top = top.display();
        return format!(
            "git waits for the other end of a FIFO in the place of a file; \
             find it ('find {top} -type p'), then {remedy}"
        );
    };
    let shown = match path.canonicalize() {
        Ok(target) if target != *path => {
            format!("{} leads to {}, which", path.display(), target.display())
        }
        Ok(_) | Err(_) => path.display().to_string(),
    };
    match wait.kind {
        SpecialKind::Fifo => {
            format!("{shown} is a FIFO, and git waits for somebody at its other end; {remedy}")
        }
        SpecialKind::Device => format!("{shown} is a device, and git waits for it; {remedy}"),
    }
}
