//! Who listens to a session over HTTP. The SDK tells what happens to one of several listeners, and to none of the others when
//! that one is gone: somebody who comes back before it is known that they had left would wait for ever.

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

/// By session, those who listen at the same time.
#[derive(Default)]
pub(super) struct Listeners(Mutex<BTreeMap<String, Round>>);

/// It is closed when one of them leaves. Which of them was told the news is the SDK's secret, so then all the others are
/// sent away as well: they come again, and one of them is told.
type Round = Arc<Semaphore>;

impl Listeners {
    /// Answer one more.
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
        response.map(|body| Body::new(Listener { body: Some(body), over, leave: Leave(round) }))
    }

    /// Returns true if somebody listens to this session.
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

/// What one of them is told, until the round is over.
struct Listener {
    /// Let go before anybody hears of it, so that who comes next finds the place free.
    body: Option<BoxBody<Bytes, Infallible>>,
    over: Over,
    #[expect(dead_code, reason = "it is there to be dropped, after the body")]
    leave: Leave,
}

type Over = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>;

struct Leave(Round);

impl Drop for Leave {
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
