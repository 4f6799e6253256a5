//! Notifies a client of changed resources: a loop over the usual long poll.

use super::assistant::{Conversation, SharedState, speaker};
use super::log_messages;
use super::operation_caller::{RequestCaller, entry};
use super::resources::ResourceAddress;
use proctor_ops::error::{Code, OpError};
#[expect(deprecated, reason = "clients of the handshake era still use it")]
use rmcp::model::{ErrorData, LoggingLevel, ResourceUpdatedNotificationParam};
use rmcp::service::{Peer, RoleServer, SubscriptionContext, SubscriptionSink};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinSet};

/// Maximum resources that one conversation follows.
const MAX_SUBSCRIPTIONS: usize = 64;

/// Minimum time between notifications about a resource: a process may write a thousand lines a second.
const PAUSE: Duration = Duration::from_secs(1);

/// Seconds of one long poll.
const POLL: f64 = 45.0;

/// Pause after a temporary error.
const LATER: Duration = Duration::from_secs(2);

/// Keys for the subscriptions that are not resources: the messages, and the list itself.
const MESSAGES: &str = "";
const LIST: &str = "list";

/// Subscriptions of a client of the handshake era; they end with the conversation.
#[derive(Default)]
pub(super) struct ResourceUpdates(Mutex<BTreeMap<String, AbortHandle>>);

impl ResourceUpdates {
    pub(super) fn begin(
        &self,
        house: Arc<SharedState>,
        peer: Peer<RoleServer>,
        speaker: RequestCaller,
        place: ResourceAddress,
    ) -> Result<(), ErrorData> {
        let uri = place.uri();
        let mut watched = self.watched();
        watched.retain(|_, task| !task.is_finished());
        if watched.contains_key(&uri) {
            return Ok(());
        }
        if watched.len() >= MAX_SUBSCRIPTIONS {
            let message = format!(
                "too many subscriptions: the maximum is {MAX_SUBSCRIPTIONS} in one conversation"
            );
            return Err(ErrorData::invalid_params(message, None));
        }
        let task = tokio::spawn(async move {
            let mut news = UpdateCursor::of(place);
            while news.next(&house, &speaker).await {
                let changed = ResourceUpdatedNotificationParam::new(news.place.uri());
                if peer.notify_resource_updated(changed).await.is_err() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        watched.insert(uri, task.abort_handle());
        Ok(())
    }

    /// Sends messages from this level on, replacing an earlier level.
    #[expect(deprecated, reason = "clients of the handshake era still use it")]
    pub(super) fn tell(
        &self,
        house: Arc<SharedState>,
        peer: Peer<RoleServer>,
        speaker: RequestCaller,
        least: LoggingLevel,
    ) {
        let task = tokio::spawn(log_messages::tell(house, speaker, peer, least));
        if let Some(before) = self.watched().insert(MESSAGES.into(), task.abort_handle()) {
            before.abort();
        }
    }

    /// Sends notifications when the list of resources changes, to a client that has read it.
    pub(super) fn follow_list(
        &self,
        house: Arc<SharedState>,
        peer: Peer<RoleServer>,
        speaker: RequestCaller,
    ) {
        let mut watched = self.watched();
        if watched.get(LIST).is_some_and(|task| !task.is_finished()) {
            return;
        }
        let task = tokio::spawn(async move {
            let mut news = UpdateCursor::of(ResourceAddress::All);
            while news.next_list(&house, &speaker).await {
                if peer.notify_resource_list_changed().await.is_err() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        watched.insert(LIST.into(), task.abort_handle());
    }

    pub(super) fn end(&self, uri: &str) {
        if let Some(task) = self.watched().remove(uri) {
            task.abort();
        }
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<String, AbortHandle>> {
        self.0.lock().expect("nothing panics in between")
    }
}

impl Drop for ResourceUpdates {
    fn drop(&mut self) {
        for task in self.watched().values() {
            task.abort();
        }
    }
}

/// Serves one subscription of the era without sessions until it is cancelled.
pub(super) async fn listen(assistant: &Conversation, context: SubscriptionContext) {
    let mut tasks = JoinSet::new();
    let speaker = speaker(context.request_context());
    let accepted = context.accepted().clone();
    let places = accepted.resource_subscriptions.iter().flatten();
    for place in places.filter_map(|uri| ResourceAddress::parse(uri)).take(MAX_SUBSCRIPTIONS) {
        let (house, speaker, sink) =
            (Arc::clone(&assistant.house), speaker.clone(), context.sink().clone());
        tasks.spawn(async move {
            let mut news = UpdateCursor::of(place);
            while news.next(&house, &speaker).await {
                if sink.notify_resource_updated(news.place.uri()).await.is_err() {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
    if accepted.resources_list_changed == Some(true) {
        let (house, sink) = (Arc::clone(&assistant.house), context.sink().clone());
        tasks.spawn(list_changes(house, speaker, sink));
    }
    context.cancelled().await;
}

/// Sends a notification when a service is added or removed.
async fn list_changes(house: Arc<SharedState>, speaker: RequestCaller, sink: SubscriptionSink) {
    let mut news = UpdateCursor::of(ResourceAddress::All);
    while news.next_list(&house, &speaker).await {
        if sink.notify_resource_list_changed().await.is_err() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Position of the reader of a resource's changes.
pub(super) struct UpdateCursor {
    place: ResourceAddress,
    cursor: Option<String>,
    pub(super) events: Vec<Value>,
}

impl UpdateCursor {
    pub(super) fn of(place: ResourceAddress) -> UpdateCursor {
        UpdateCursor { place, cursor: None, events: Vec::new() }
    }

    /// Waits until there is something new; returns false if there never will be.
    pub(super) async fn next(&mut self, house: &SharedState, speaker: &RequestCaller) -> bool {
        loop {
            match self.look(house, speaker).await {
                Ok(true) => return true,
                Ok(false) => {}
                Err(error) if passes(&error) => tokio::time::sleep(LATER).await,
                Err(_) => return false,
            }
        }
    }

    /// Waits until a service is added or removed.
    async fn next_list(&mut self, house: &SharedState, speaker: &RequestCaller) -> bool {
        let kinds = ["defined", "removed", "configured"];
        while self.next(house, speaker).await {
            let changes = |event: &Value| kinds.iter().any(|kind| event["kind"] == *kind);
            // Empty: events were missed, so a change is possible.
            if self.events.is_empty() || self.events.iter().any(changes) {
                return true;
            }
        }
        false
    }

    async fn look(
        &mut self,
        house: &SharedState,
        speaker: &RequestCaller,
    ) -> Result<bool, OpError> {
        let (operation, list) = match &self.place {
            ResourceAddress::All | ResourceAddress::Status(_) => ("event.read", "events"),
            ResourceAddress::Logs(_) => ("log.read", "items"),
        };
        let mut input = match &self.cursor {
            Some(cursor) => json!({ "cursor": cursor, "wait": POLL }),
            // From here on.
            None => json!({ "tail": 0 }),
        };
        if let Some(service) = self.place.service() {
            input["services"] = json!([service]);
        }
        let first = self.cursor.is_none();
        let mut answer = house.door.call(speaker, entry(operation)?, input).await?;
        // The wait may have taken a while, and the token may have been revoked.
        house.door.still_knows(speaker)?;
        let cursor = answer["cursor"].as_str().map(ToOwned::to_owned);
        // A new daemon does not know the old cursor: start again, and report a possible change.
        let missed = answer["missed"] == true;
        self.cursor = cursor;
        self.events = answer[list].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(missed || (!first && !self.events.is_empty()))
    }
}

fn passes(error: &OpError) -> bool {
    matches!(
        error.code,
        Code::Busy | Code::RateLimited | Code::ConnectionLost | Code::Unavailable | Code::Timeout
    )
}
