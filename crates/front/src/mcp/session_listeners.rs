//! Listeners of a session over HTTP. The SDK sends news to one of several listeners, and to none of the others when that one is
//! gone: a client that returns before its disconnect is known would wait forever.

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use hyper::body::Frame;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Concurrent listeners, by session.
#[derive(Default)]
pub(super) struct Listeners(Mutex<BTreeMap<String, Round>>);

/// Closed when a listener leaves. Only the SDK knows which one gets the news, so all others are closed as well: they
/// reconnect, and
/// one of them gets it.
type Round = Arc<Semaphore>;

impl Listeners {
    /// Adds a listener and returns its response.
    pub(super) fn joined(
        &self,
        session: &str,
        response: Response<BoxBody<Bytes, Infallible>>,
    ) -> Response<Body> {
        if response.status() != StatusCode::OK {
            return response.map(Body::new);
        }
        let round = self.round(session);
        let over = Box::pin(Arc::clone(&round).acquire_owned());
        response
            .map(|body| Body::new(Listener { body: Some(body), over, leave: LeaveGuard(round) }))
    }

    /// Returns true if the session has a listener.
    pub(super) fn hears(&self, session: &str) -> bool {
        let rounds = self.0.lock().expect("nothing panics in between");
        rounds.get(session).is_some_and(|round| !round.is_closed())
    }

    fn round(&self, session: &str) -> Round {
        let mut rounds = self.0.lock().expect("nothing panics in between");
        rounds.retain(|_, round| !round.is_closed());
        let round = rounds.entry(session.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0)));
        Arc::clone(round)
    }
}

/// Body of a listener, until the round ends.
struct Listener {
    /// Dropped before the round is closed, so the next listener finds its slot free.
    body: Option<BoxBody<Bytes, Infallible>>,
    over: Over,
    #[expect(dead_code, reason = "it is there to be dropped, after the body")]
    leave: LeaveGuard,
}

type Over = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

struct LeaveGuard(Round);

impl Drop for LeaveGuard {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl HttpBody for Listener {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.over.as_mut().poll(context).is_ready() {
            self.body = None;
        }
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(context))
    }
}
