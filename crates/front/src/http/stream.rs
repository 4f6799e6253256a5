//! Server-sent events: pages of an operation, each one event whose id is its end.
//!
//! A browser that lost its connection sends that id back as `Last-Event-ID` and misses nothing. The next page is read when the
//! last one is sent, so a slow reader costs one page of memory. A reader that takes nothing for half a minute is dropped.

use super::caller;
use super::connection::{PeerInfo, RequestSlot};
use super::response::{Refusal, answer};
use super::route::Route;
use crate::listen::BusyGuard;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use hyper::body::Frame;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::Front;
use proctor_ops::reply::Reply;
use serde_json::{Map, Value, json};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Seconds of silence before a keep-alive: proxies close connections that are silent for a minute.
const KEEP_ALIVE: f64 = 15.0;

/// Pause after a page was refused for lack of room.
const LATER: Duration = Duration::from_secs(1);

type Next = Pin<Box<dyn Future<Output = StreamEvent> + Send>>;

/// Outgoing data.
enum StreamEvent {
    Page(Bytes),
    /// An error, which ends the stream.
    LastWords(Bytes),
}

/// Body of an endless response.
struct Pages {
    next: Option<Next>,
    source: Arc<Source>,
    leaving: Pin<Box<dyn Future<Output = ()> + Send>>,
    _room: RequestSlot,
    _busy: BusyGuard,
}

/// Source of pages.
struct Source {
    route: &'static Route,
    visitor: Arc<PeerInfo>,
    /// The caller is checked for each page, because a token may have been revoked.
    headers: HeaderMap,
    input: Mutex<Map<String, Value>>,
}

/// Reads the first page before responding, so a refusal has its own status.
pub(super) async fn begin(
    route: &'static Route,
    visitor: Arc<PeerInfo>,
    headers: &HeaderMap,
    mut input: Map<String, Value>,
) -> Result<Response<Body>, Refusal> {
    let room = visitor.stream(&caller::caller(&visitor, headers, Front::Rest)?)?;
    let busy = visitor.busy();
    if let Some(id) = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok()) {
        input.insert("cursor".into(), json!(id));
    }
    input.insert("wait".into(), json!(0));
    let leaver = Arc::clone(&visitor);
    let leaving = Box::pin(async move { leaver.leave().await });
    let input = Mutex::new(input);
    let source = Arc::new(Source { route, visitor, headers: headers.clone(), input });
    let first = source.event(&source.page().await?);
    source.lock().insert("wait".into(), json!(KEEP_ALIVE));
    let next: Option<Next> = Some(Box::pin(std::future::ready(StreamEvent::Page(first))));
    let pages = Pages { next, source, leaving, _room: room, _busy: busy };
    let kind = HeaderValue::from_static("text/event-stream");
    Ok(answer(StatusCode::OK, kind, Body::new(pages)))
}

impl HttpBody for Pages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.leaving.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let Some(waiting) = self.next.as_mut() else { return Poll::Ready(None) };
        let Poll::Ready(said) = waiting.as_mut().poll(context) else { return Poll::Pending };
        let (text, after) = match said {
            StreamEvent::Page(text) => (text, Some(next(&self.source))),
            StreamEvent::LastWords(text) => (text, None),
        };
        self.next = after;
        Poll::Ready(Some(Ok(Frame::data(text))))
    }
}

fn next(source: &Arc<Source>) -> Next {
    let source = Arc::clone(source);
    Box::pin(async move {
        loop {
            match source.page().await {
                Ok(reply) => return StreamEvent::Page(source.event(&reply)),
                Err(error) if matches!(error.code, Code::Busy | Code::RateLimited) => {
                    tokio::time::sleep(LATER).await;
                }
                Err(error) => return last_words(&error),
            }
        }
    })
}

impl Source {
    fn lock(&self) -> MutexGuard<'_, Map<String, Value>> {
        self.input.lock().expect("nothing panics in between")
    }

    async fn page(&self) -> Result<Reply, OpError> {
        let caller = caller::caller(&self.visitor, &self.headers, Front::Rest)
            .map_err(|refusal| refusal.error)?;
        let input = self.lock().clone();
        self.visitor.read(caller, self.route.entry, Value::Object(input)).await
    }

    /// Returns a page as an event, and remembers its cursor.
    fn event(&self, reply: &Reply) -> Bytes {
        let page: Value = serde_json::from_str(&reply.text).unwrap_or_default();
        let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
        // Missed events are reported even without new ones.
        let nothing = page["missed"] != json!(true)
            && page.as_object().is_some_and(|page| page.values().any(empty));
        let Some(cursor) = page["cursor"].as_str() else { return Bytes::from_static(b"\n") };
        self.lock().insert("cursor".into(), json!(cursor));
        if nothing {
            return Bytes::from_static(b": nothing new\n\n");
        }
        let noun = self.route.entry.meta.name.split('.').next().unwrap_or_default();
        format!("event: {noun}\nid: {cursor}\ndata: {}\n\n", reply.text).into()
    }
}

fn last_words(error: &OpError) -> StreamEvent {
    let text = serde_json::to_string(error).unwrap_or_default();
    StreamEvent::LastWords(format!("event: error\ndata: {text}\n\n").into())
}
