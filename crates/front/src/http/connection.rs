//! One connection: its time limits, its requests in order, and their shared state.

use super::response::{Refusal, make_harmless};
use super::write_timeout::WriteTimeoutStream;
use super::{Settings, origin_check, route};
use crate::listen::{AcceptedConnection, BusyGuard, CloseWhen, ConnectionSlot};
use crate::local_peer;
use crate::mcp::http::Endpoint;
use crate::unix_socket::Dispatch;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Caller, Front, Principal};
use proctor_ops::reply::{Form, Reply};
use proctor_ops::table::Entry;
use serde_json::Value;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Timeout of a request's head, after the connection or the previous response. An idle connection is also closed after this
/// time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum size of a request's head with its address. Cookies of other programs on the host fit many times.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// Maximum concurrent requests: less than half of the limit in `ops`, so the command line always gets in.
const MAX_CONCURRENT_REQUESTS: usize = 192;

/// Maximum concurrent streams; each is an endless long poll.
const MAX_STREAMS: usize = 256;

/// Maximum concurrent streams and requests of one caller (a token, or all without one), so others have room.
const MAX_STREAMS_OF_ONE: usize = 64;
const MAX_REQUESTS_OF_ONE: usize = 128;

/// Maximum counted callers; idle ones are forgotten.
const MAX_CALLERS: usize = 512;

/// Maximum KiB of all request bodies in memory, for callers with a token.
const MAX_BODIES_KIB: usize = 8 << 10;

/// Maximum KiB for callers without a token, who have a separate budget.
const MAX_ANONYMOUS_BODIES_KIB: usize = 2 << 10;

/// State shared by all connections.
pub(super) struct Shared {
    dispatch: Arc<dyn Dispatch>,
    settings: watch::Receiver<Arc<Settings>>,
    router: Router,
    requests: FairShare,
    streams: FairShare,
    pub(super) bodies: Arc<Semaphore>,
    pub(super) nameless_bodies: Arc<Semaphore>,
    /// Identifies this daemon; a generation of another daemon has no meaning here.
    pub(super) era: u64,
    pub(super) mcp: Endpoint,
}

pub(super) struct Connection {
    stream: TcpStream,
    visitor: PeerInfo,
}

/// The caller, as far as the connection tells.
pub(super) struct PeerInfo {
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) secure: bool,
    pub(super) shared: Arc<Shared>,
    seat: ConnectionSlot,
    /// Principal of a caller without a token; the kernel is asked at most once.
    nameless: OnceLock<Principal>,
}

impl Shared {
    pub(super) fn new(
        dispatch: Arc<dyn Dispatch>,
        settings: watch::Receiver<Arc<Settings>>,
        sessions: Option<PathBuf>,
    ) -> Shared {
        let mcp = Endpoint::new(Arc::clone(&dispatch), sessions);
        let room = |most| Arc::new(Semaphore::new(most));
        Shared {
            dispatch,
            settings,
            router: route::router(),
            requests: FairShare::new(MAX_CONCURRENT_REQUESTS, MAX_REQUESTS_OF_ONE),
            streams: FairShare::new(MAX_STREAMS, MAX_STREAMS_OF_ONE),
            bodies: room(MAX_BODIES_KIB),
            nameless_bodies: room(MAX_ANONYMOUS_BODIES_KIB),
            era: proctor_sys::clock::now().wall.0.unsigned_abs(),
            mcp,
        }
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.borrow())
    }
}

impl Connection {
    pub(super) fn of(guest: AcceptedConnection, shared: Arc<Shared>) -> Connection {
        let AcceptedConnection { stream, peer, local, seat } = guest;
        let visitor =
            PeerInfo { peer, local, secure: false, shared, seat, nameless: OnceLock::new() };
        Connection { stream, visitor }
    }

    /// Serves until either side closes the connection.
    pub(super) async fn serve(self) {
        let Connection { stream, mut visitor } = self;
        // Responses are written completely; Nagle's algorithm would only delay them.
        stream.set_nodelay(true).ok();
        let tls = visitor.shared.settings().tls.clone();
        let Some(tls) = tls else { return requests(stream, Arc::new(visitor)).await };
        let accepted = tokio::select! {
            accepted = tls.accept(stream) => accepted,
            _ = visitor.seat.leave() => return,
        };
        match accepted {
            Ok(stream) => {
                visitor.secure = true;
                requests(stream, Arc::new(visitor)).await;
            }
            Err(error) => tracing::debug!(peer = %visitor.peer, %error, "TLS handshake failed"),
        }
    }
}

async fn requests(stream: impl AsyncRead + AsyncWrite + Unpin, visitor: Arc<PeerInfo>) {
    let service = service_fn(|request| respond(Arc::clone(&visitor), request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD_BYTES);
    let mut connection =
        pin!(builder.serve_connection(TokioIo::new(WriteTimeoutStream::new(stream)), service));
    let leave = tokio::select! {
        ended = connection.as_mut() => return log(&visitor, ended),
        leave = visitor.seat.leave() => leave,
    };
    match leave {
        CloseWhen::Now => {}
        CloseWhen::AfterThis => {
            connection.as_mut().graceful_shutdown();
            log(&visitor, connection.await);
        }
    }
}

fn log(visitor: &PeerInfo, ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(peer = %visitor.peer, %error, "a connection ended");
    }
}

async fn respond(
    visitor: Arc<PeerInfo>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let settings = visitor.shared.settings();
    let mut response = match origin_check::check(&request, &visitor, &settings.http) {
        Err(refusal) => {
            visitor.turned_away("http.request", Front::Rest, &refusal.error);
            refusal.answer()
        }
        Ok(origin_check::AllowedRequest::Asks(response)) => response,
        Ok(origin_check::AllowedRequest::Yes(foreign)) => {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Arc::clone(&visitor));
            let mut response = call(visitor.shared.router.clone(), request).await;
            origin_check::allow(foreign, &mut response);
            response
        }
    };
    make_harmless(&mut response);
    Ok(response)
}

async fn call(router: Router, request: Request<Body>) -> Response<Body> {
    use hyper::service::Service;
    let service = hyper_util::service::TowerToHyperService::new(router);
    match service.call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

impl PeerInfo {
    /// Marks the connection as busy until the result is dropped.
    pub(super) fn busy(&self) -> BusyGuard {
        self.seat.busy()
    }

    /// Waits until the connection has to end.
    pub(super) async fn leave(&self) {
        self.seat.leave().await;
    }

    /// Waits until the token of this caller becomes invalid.
    pub(super) fn token_gone(&self, caller: &Caller) -> impl Future<Output = ()> + Send + use<> {
        self.shared.dispatch.token_gone(caller)
    }

    /// Returns the principal of a caller without a token.
    pub(super) fn nameless(&self) -> Principal {
        self.nameless.get_or_init(|| local_peer::without_token(self.local, self.peer)).clone()
    }

    /// Returns the principal of a token.
    pub(super) fn authenticate(&self, presented: &str, front: Front) -> Result<Principal, OpError> {
        self.shared.dispatch.authenticate(self.unknown(front), presented)
    }

    /// Records a refusal before the caller is known.
    pub(super) fn turned_away(&self, what: &'static str, front: Front, error: &OpError) {
        self.shared.dispatch.turned_away(self.unknown(front), what, error);
    }

    fn unknown(&self, front: Front) -> Caller {
        Caller::remote(Principal::Anonymous, front, self.peer)
    }

    /// Checks whether this caller may perform the operation, before a body is read.
    pub(super) fn may_ask(
        &self,
        caller: &Caller,
        entry: &Entry,
        known: &Value,
    ) -> Result<(), OpError> {
        self.shared.dispatch.may_ask(caller, entry, known)
    }

    /// Performs an operation. The connection is busy only from here on, so a slow sender may be closed.
    pub(super) async fn dispatch(
        &self,
        caller: Caller,
        entry: &'static Entry,
        input: Value,
    ) -> Result<Reply, OpError> {
        let (_busy, _room) = (self.busy(), self.request(&caller)?);
        self.read(caller, entry, input).await
    }

    /// Reads one page of a stream, which has its own room.
    pub(super) fn read(
        &self,
        caller: Caller,
        entry: &'static Entry,
        input: Value,
    ) -> impl Future<Output = Result<Reply, OpError>> + Send + use<> {
        self.shared.dispatch.dispatch(caller, entry.meta.name.to_owned(), input, Form::Json)
    }

    /// Takes room for a request.
    pub(super) fn request(&self, caller: &Caller) -> Result<RequestSlot, OpError> {
        self.shared.requests.take(caller)
    }

    /// Takes room for a stream.
    pub(super) fn stream(&self, caller: &Caller) -> Result<RequestSlot, OpError> {
        self.shared.streams.take(caller)
    }
}

/// Room shared by all callers, with a maximum for each.
struct FairShare {
    all: Arc<Semaphore>,
    of_one: usize,
    callers: Mutex<BTreeMap<String, Arc<Semaphore>>>,
}

/// A permit of the total, and one of the caller.
pub(super) type RequestSlot = [OwnedSemaphorePermit; 2];

impl FairShare {
    fn new(all: usize, of_one: usize) -> FairShare {
        FairShare { all: Arc::new(Semaphore::new(all)), of_one, callers: Mutex::default() }
    }

    fn take(&self, caller: &Caller) -> Result<RequestSlot, OpError> {
        let key = match &caller.principal {
            Principal::Token { id, .. } => format!("token {id}"),
            Principal::Local { .. } | Principal::Anonymous | Principal::Stranger => String::new(),
        };
        let mut callers = self.callers.lock().expect("nothing panics in between");
        if callers.len() >= MAX_CALLERS {
            callers.retain(|_, free| free.available_permits() < self.of_one);
        }
        let own = callers.entry(key).or_insert_with(|| Arc::new(Semaphore::new(self.of_one)));
        Ok([room(own)?, room(&self.all)?])
    }
}

fn room(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, OpError> {
    Arc::clone(semaphore).try_acquire_owned().map_err(|_| {
        OpError::new(Code::Busy, "too many requests at once").help("retry in a moment")
    })
}

impl From<Refusal> for Response<Body> {
    fn from(refusal: Refusal) -> Response<Body> {
        refusal.answer()
    }
}
