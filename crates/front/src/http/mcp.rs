//! `/mcp`: applies the callers, limits and timeouts of HTTP to MCP.

use super::answer::Refusal;
use super::connection::{Room, Visitor};
use super::operation::visitor;
use super::{body, caller, dashboard};
use crate::listen::Busy;
use crate::mcp::door::Presented;
use crate::mcp::http::{Endpoint, LARGEST};
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use axum::routing::any;
use hyper::body::Frame;
use proctor_ops::operation::Front;
use serde_json::json;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

pub(super) fn add(router: Router) -> Router {
    router.route("/mcp", any(serve))
}

async fn serve(request: Request<Body>) -> Response<Body> {
    match respond(request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into(),
    }
}

async fn respond(request: Request<Body>) -> Result<Response<Body>, Refusal> {
    let (mut parts, body) = request.into_parts();
    let visitor = visitor(&parts)?;
    let caller = caller::caller(&visitor, &parts.headers, Front::Mcp)?;
    if let Some(token) = caller::presented(&parts.headers)?.map(ToOwned::to_owned) {
        parts.extensions.insert(Presented(token));
    }
    // A caller that may not even read is refused here, not by each tool.
    visitor.may_ask(&caller, dashboard::entry("service.list")?, &json!({}))?;
    let room = match Endpoint::listens(&parts) {
        true => visitor.stream(&caller)?,
        false => visitor.request(&caller)?,
    };
    let busy = visitor.busy();
    let bytes = body::bytes(&visitor.shared, &caller.principal, body, LARGEST).await?;
    let gone = visitor.token_gone(&caller);
    let response = visitor.shared.mcp.serve(caller, parts, bytes).await?;
    Ok(response.map(|body| Body::new(Held::new(body, (visitor, gone), room, busy))))
}

/// A streaming response. It holds its slot until it ends, and ends when the connection has to close or the caller's token becomes
/// invalid.
struct Held {
    body: Body,
    leaving: Pin<Box<dyn Future<Output = ()> + Send>>,
    _room: Room,
    _busy: Busy,
}

impl Held {
    fn new(
        body: Body,
        (visitor, gone): (Arc<Visitor>, impl Future<Output = ()> + Send + 'static),
        room: Room,
        busy: Busy,
    ) -> Held {
        let leaving = Box::pin(async move {
            tokio::select! {
                () = visitor.leave() => {}
                () = gone => {}
            }
        });
        Held { body, leaving, _room: room, _busy: busy }
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.leaving.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.body.size_hint()
    }
}
