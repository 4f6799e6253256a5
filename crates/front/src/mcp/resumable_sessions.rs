//! The SDK's sessions, with answers kept for a client that returns.
//!
//! The SDK drops a stream as soon as its answer is sent, read or not. Here a task forwards each stream to the `AnswerCache`, and
//! connections read from that.

use super::answer_cache::{Answer, AnswerCache, EventPosition};
use futures_core::Stream;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    EventStream, RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::task::JoinSet;

pub(super) struct ResumableSessions {
    pub(super) local: Arc<LocalSessionManager>,
    answers: Arc<AnswerCache>,
    /// One task for each pending answer.
    forwarding: Mutex<JoinSet<()>>,
}

impl ResumableSessions {
    pub(super) fn new(local: LocalSessionManager) -> ResumableSessions {
        ResumableSessions {
            local: Arc::new(local),
            answers: Arc::default(),
            forwarding: Mutex::default(),
        }
    }

    /// Returns true if the rest of an answer after this event is still available.
    pub(super) fn keeps(&self, session: &str, last: &str) -> bool {
        let position = EventPosition::parse(last);
        position.is_some_and(|last| self.answers.find(session, last.stream).is_some())
    }

    fn forward(&self, mut events: EventStream, answer: Arc<Answer>) {
        let answers = Arc::clone(&self.answers);
        let mut forwarding = self.forwarding.lock().expect("nothing panics in between");
        while forwarding.try_join_next().is_some() {}
        forwarding.spawn(async move {
            while let Some(event) = next(&mut events).await {
                answer.push(event);
            }
            answer.cut();
            answers.make_room(Instant::now());
        });
    }
}

async fn next(events: &mut EventStream) -> Option<ServerSseMessage> {
    poll_fn(|cx| Pin::new(&mut *events).poll_next(cx)).await
}

impl SessionManager for ResumableSessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.local.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.answers.forget(id);
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let mut events: EventStream = Box::pin(self.local.create_stream(id, message).await?);
        // The first event comes at once and has the number of the stream.
        let first = next(&mut events).await;
        let position = first.as_ref().and_then(|first| first.event_id.as_deref());
        let Some(position) = position.and_then(EventPosition::parse) else {
            return Err(LocalSessionManagerError::SessionNotFound(id.clone()));
        };
        let answer = self.answers.begin(id, position.stream);
        if let Some(first) = first {
            answer.push(first);
        }
        let told = answer.events_after(None);
        self.forward(events, answer);
        Ok(told)
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let Some(last) = EventPosition::parse(&last_event_id) else {
            let events: EventStream = Box::pin(self.local.resume(id, last_event_id).await?);
            return Ok(events);
        };
        let Some(answer) = self.answers.find(id, last.stream) else {
            return Err(LocalSessionManagerError::SessionNotFound(id.clone()));
        };
        if answer.take_up() {
            let from = format!("{}/{}", answer.last_event(), last.stream);
            match self.local.resume(id, from).await {
                Ok(events) => self.forward(Box::pin(events), Arc::clone(&answer)),
                // The stream ended without an answer.
                Err(_) => answer.cut(),
            }
        }
        let events: EventStream = Box::pin(answer.events_after(Some(last.event)));
        Ok(events)
    }

    async fn restore_session(
        &self,
        id: SessionId,
    ) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        let restored = self.local.restore_session(id.clone()).await?;
        if matches!(restored, RestoreOutcome::Restored(_)) {
            // The new session numbers its streams from the start.
            self.answers.forget(&id);
        }
        Ok(restored)
    }
}
