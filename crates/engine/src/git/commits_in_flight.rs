//! Commits in flight when the daemon ends: a commit that is made by then is finished first.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};
use tokio::time::timeout;

/// Time to finish a commit: without hooks it takes milliseconds.
const MOMENT: Duration = Duration::from_millis(500);

/// Time after that, in which git is ended and its result examined: a few calls. The keeper waits a bit longer
/// than both.
const CONCLUDED: Duration = Duration::from_secs(4);

#[derive(Default)]
pub(super) struct CommitsInFlight {
    /// Each commit in flight holds a read lock.
    going: Arc<RwLock<()>>,
    ending: watch::Sender<bool>,
}

impl CommitsInFlight {
    /// Registers a commit in flight, until the guard is dropped.
    pub(super) async fn begin(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.going).read_owned().await
    }

    /// Waits until commits have to end.
    pub(super) async fn ending(&self) {
        // The sender is a field of `self`.
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    pub(super) async fn settle(&self) {
        let done = timeout(MOMENT, self.going.write()).await.is_ok();
        self.ending.send_replace(true);
        if !done && timeout(CONCLUDED, self.going.write()).await.is_err() {
            tracing::warn!("a commit did not finish in time; the next daemon finishes it");
        }
    }
}
