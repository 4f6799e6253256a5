//! The addresses that the fronts listen on: set by a configuration, and held back until the first one is
//! applied.

use super::Registry;
use proctor_core::config::listen::Listeners;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;

impl Registry {
    /// Sets the addresses to listen on.
    pub(crate) fn set_listeners(&self, listeners: Listeners) {
        self.hold(None);
        if **self.listeners.borrow() == listeners {
            return;
        }
        self.change(|board| board.view.binding.clone_from(&board.view.fronts));
        self.listeners.send_replace(Arc::new(listeners));
    }

    /// Sets the addresses to use if no configuration is applied before [`Registry::release_listeners`].
    pub(crate) fn hold_listeners(&self, listeners: Listeners) {
        self.hold(Some(listeners));
    }

    /// Uses the addresses of [`Registry::hold_listeners`], unless a configuration has replaced them.
    pub(crate) fn release_listeners(&self) {
        if let Some(listeners) = self.hold(None) {
            self.set_listeners(listeners);
        }
    }

    fn hold(&self, listeners: Option<Listeners>) -> Option<Listeners> {
        let mut held = self.held_listeners.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut held, listeners)
    }

    /// Waits until every front has bound its listener or reported why it cannot, at most `limit`.
    pub(crate) async fn listeners_settled(&self, limit: Duration) {
        let settled = async {
            loop {
                let (seen, done) = self.read(|view| (view.generation, view.binding.is_empty()));
                if done {
                    return;
                }
                self.changed(seen).await;
            }
        };
        // A front that takes longer reports in `daemon status`.
        timeout(limit, settled).await.ok();
    }

    pub(crate) fn listeners(&self) -> watch::Receiver<Arc<Listeners>> {
        self.listeners.subscribe()
    }
}
