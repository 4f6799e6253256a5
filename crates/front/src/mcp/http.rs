//! MCP over HTTP at `/mcp`: the SDK's transport with the guard, tokens and limits of HTTP.

use super::assistant::{Conversation, SharedState};
use super::call::CALL_TIMEOUT;
use super::operation_caller::InProcessCaller;
use super::resumable_sessions::ResumableSessions;
use super::session_listeners::Listeners;
use super::sessions::{MAX_SESSIONS, Sessions, Store};
use super::stdio_lines;
use super::tasks::Tasks;
use crate::unix_socket::Dispatch;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use http_body_util::combinators::BoxBody;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Principal};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST: HeaderName = HeaderName::from_static("last-event-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");

const JSON: &str = "application/json";

/// Maximum message: the largest input of an operation, escaped.
pub(crate) const MAX_MESSAGE_BYTES: usize = 8 << 20;

/// Time after which an unused session leaves memory; its file brings it back on the next use.
const IDLE: Duration = Duration::from_secs(10 * 60);

/// The MCP endpoint.
pub(crate) struct Endpoint {
    transport: Transport,
    manager: Arc<ResumableSessions>,
    sessions: Arc<Sessions>,
    listeners: Listeners,
}

impl Endpoint {
    /// Creates the endpoint. Sessions are kept in `folder` from one daemon to the next.
    pub(crate) fn new(dispatch: Arc<dyn Dispatch>, folder: Option<PathBuf>) -> Endpoint {
        let sessions = Arc::new(Sessions::new(folder));
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(IDLE);
        let manager = Arc::new(ResumableSessions::new(local));
        let house = Arc::new(SharedState {
            door: Box::new(InProcessCaller(dispatch)),
            sets: None,
            configured: Mutex::default(),
            here: false,
            patience: CALL_TIMEOUT,
            tasks: Tasks::default(),
            sessions: Some(Arc::clone(&sessions)),
        });
        // Host and Origin were checked before.
        let mut config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(MAX_MESSAGE_BYTES);
        config.session_store = Some(Arc::new(Store(Arc::clone(&sessions))));
        #[cfg(feature = "fixtures")]
        let own = Arc::clone(&house);
        let assistant = move || Conversation::new(Arc::clone(&house));
        #[cfg(feature = "fixtures")]
        if super::fixture::are_wanted() {
            let around = super::fixture::around(assistant, Arc::clone(&manager.local), own);
            let transport = transport(around, Arc::clone(&manager), config);
            return Endpoint { transport, manager, sessions, listeners: Listeners::default() };
        }
        let transport = transport(assistant, Arc::clone(&manager), config);
        Endpoint { transport, manager, sessions, listeners: Listeners::default() }
    }

    /// Returns true for a request with an endless response.
    pub(crate) fn listens(parts: &Parts) -> bool {
        let method = parts.headers.get(METHOD);
        parts.method == Method::GET || method.is_some_and(|method| method == "subscriptions/listen")
    }

    /// Responds to a request of an authorised caller.
    pub(crate) async fn serve(
        &self,
        caller: Caller,
        mut parts: Parts,
        body: Vec<u8>,
    ) -> Result<Response<Body>, OpError> {
        let session = session(&parts.headers);
        match &session {
            Some(id) if !self.sessions.is_of(id, &caller.principal) => {
                return Err(OpError::new(Code::NotFound, "the session does not exist")
                    .help("start again with 'initialize'"));
            }
            Some(id) => self.resumable(id, &parts.headers)?,
            None => self.room(&caller.principal).await?,
        }
        let principal: Principal = caller.principal.clone();
        parts.extensions.insert(caller);
        let (body, is_json) = (Bytes::from(body), is_json(&parts.headers));
        let request = Request::from_parts(parts, Full::new(body.clone()));
        let ends = *request.method() == Method::DELETE;
        let hears = *request.method() == Method::GET && answer_of(request.headers()).is_none();
        let mut response = (self.transport)(request).await;
        if is_json && response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            return Ok(unreadable(&body));
        }
        if ends && response.status() == StatusCode::ACCEPTED {
            // It has ended; some clients treat 202 as an error.
            *response.status_mut() = StatusCode::NO_CONTENT;
        }
        if session.is_none()
            && let Some(id) = self::session(response.headers())
        {
            self.sessions.begun(&id, &principal);
        }
        Ok(match session {
            Some(id) if hears => self.listeners.joined(&id, response),
            _ => response.map(Body::new),
        })
    }

    /// Refuses a request for the rest of an answer that is gone, with its daemon or because of its age. The SDK would
    /// report an empty
    /// rest, and some clients then ask again forever. In a session from another daemon, the number now belongs to
    /// another request.
    fn resumable(&self, session: &str, headers: &HeaderMap) -> Result<(), OpError> {
        let Some(last) = answer_of(headers) else { return Ok(()) };
        if self.sessions.began_here(session) && self.manager.keeps(session, last) {
            return Ok(());
        }
        let error = OpError::new(Code::ConnectionLost, "the rest of this response is lost");
        Err(error.help("send the request again; the session is still valid"))
    }

    /// Makes room for a session in memory; each costs some 20 KiB. An evicted session stays in its file.
    async fn room(&self, principal: &Principal) -> Result<(), OpError> {
        let known: Vec<String> =
            self.manager.local.sessions.read().await.keys().map(|id| id.to_string()).collect();
        let count = known.len();
        let in_memory = known.into_iter().map(|id| {
            let listens = self.listeners.hears(&id);
            (id, listens)
        });
        let idle = self.sessions.makes_room(principal, &in_memory.collect());
        if let Some(id) = idle {
            // A session that ended meanwhile makes room as well.
            let _ended = self.manager.close_session(&id.as_str().into()).await;
            return Ok(());
        }
        if count < MAX_SESSIONS {
            return Ok(());
        }
        let error = OpError::new(Code::Busy, "too many sessions at once");
        Err(error.help("end one of them with DELETE, or retry in a few minutes"))
    }
}

/// The SDK's transport.
type Transport = Box<dyn Fn(Request<Full<Bytes>>) -> Answered + Send + Sync>;
type Answered = Pin<Box<dyn Future<Output = Response<BoxBody<Bytes, Infallible>>> + Send>>;

fn transport<Server: ServerHandler>(
    server: impl Fn() -> Server + Send + Sync + 'static,
    manager: Arc<ResumableSessions>,
    config: StreamableHttpServerConfig,
) -> Transport {
    let service = Arc::new(StreamableHttpService::new(move || Ok(server()), manager, config));
    Box::new(move |request| {
        let service = Arc::clone(&service);
        Box::pin(async move { service.handle(request).await })
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(JSON))
}

/// Response to a body that the SDK would report as the wrong content type: invalid JSON, or no message.
fn unreadable(body: &[u8]) -> Response<Body> {
    let answer = serde_json::to_string(&stdio_lines::refusal(body)).unwrap_or_default();
    let mut response = Response::new(Body::from(answer));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    response
}

/// Returns the last event that a client has seen of an answer: the number of the event with that of its request, or the number
/// alone if it belongs to no request.
fn answer_of(headers: &HeaderMap) -> Option<&str> {
    let last = headers.get(LAST).and_then(|value| value.to_str().ok());
    last.filter(|last| last.contains('/'))
}

fn session(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
}
