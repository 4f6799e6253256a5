//! Commits that are being made when the daemon ends: what belongs to one that is there by then is done first.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};
use tokio::time::timeout;

/// To be made: without hooks it takes milliseconds.
const MOMENT: Duration = Duration::from_millis(500);

/// Then git is ended, and asked what it has done: a few calls. The keeper waits a bit longer than for both.
const CONCLUDED: Duration = Duration::from_secs(4);

#[derive(Default)]
pub(super) struct Makings {
    /// Read by each that is being made.
    going: Arc<RwLock<()>>,
    ending: watch::Sender<bool>,
}

impl Makings {
    /// One that is being made until this is dropped.
    pub(super) async fn begin(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.going).read_owned().await
    }

    /// Until none may go on.
    pub(super) async fn ending(&self) {
        // The sender lives in here.
        let _ = self.ending.subscribe().wait_for(|ending| *ending).await;
    }

    pub(super) async fn settle(&self) {
        let done = timeout(MOMENT, self.going.write()).await.is_ok();
        self.ending.send_replace(true);
        if !done && timeout(CONCLUDED, self.going.write()).await.is_err() {
            tracing::warn!("a commit has not come to its end; the next daemon looks after it");
        }
    }
}
