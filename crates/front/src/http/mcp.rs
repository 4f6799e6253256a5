//! `/mcp`: applies the callers, limits and timeouts of HTTP to MCP.

use super::connection::{PeerInfo, RequestSlot};
use super::operation::visitor;
use super::response::Refusal;
use super::{body, caller, legacy_dashboard};
use crate::listen::BusyGuard;
use crate::mcp::http::{Endpoint, MAX_MESSAGE_BYTES};
use crate::mcp::operation_caller::PresentedToken;
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
        parts.extensions.insert(PresentedToken(token));
    }
    // A caller that may not even read is refused here, not by each tool.
    visitor.may_ask(&caller, legacy_dashboard::entry("service.list")?, &json!({}))?;
    let room = match Endpoint::listens(&parts) {
        true => visitor.stream(&caller)?,
        false => visitor.request(&caller)?,
    };
    let busy = visitor.busy();
    let bytes = body::bytes(&visitor.shared, &caller.principal, body, MAX_MESSAGE_BYTES).await?;
    let gone = visitor.token_gone(&caller);
    let response = visitor.shared.mcp.serve(caller, parts, bytes).await?;
    Ok(response.map(|body| Body::new(HeldResponse::new(body, (visitor, gone), room, busy))))
}

/// A streaming response. It holds its slot until it ends, and ends when the connection has to close or the caller's token becomes
/// invalid.
struct HeldResponse {
    body: Body,
    leaving: Pin<Box<dyn Future<Output = ()> + Send>>,
    _room: RequestSlot,
    _busy: BusyGuard,
}

impl HeldResponse {
    fn new(
        body: Body,
        (visitor, gone): (Arc<PeerInfo>, impl Future<Output = ()> + Send + 'static),
        room: RequestSlot,
        busy: BusyGuard,
    ) -> HeldResponse {
        let leaving = Box::pin(async move {
            tokio::select! {
                () = visitor.leave() => {}
                () = gone => {}
            }
        });
        HeldResponse { body, leaving, _room: room, _busy: busy }
    }
}

impl HttpBody for HeldResponse {
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
