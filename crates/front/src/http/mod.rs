//! The HTTP front: `/api/v1` from the table of operations, the paths of earlier dashboards, and a few pages.
//!
//! Routes of an operation:
//! - `POST /api/v1/{noun}/{verb}` with the input as a JSON object, for every operation.
//! - `GET` at that path with the input as query parameters, if it only reads. A list is a repeated parameter.
//! - If the operation names a resource (`Meta::at`), also that path and method: the parameter in the path fills one field of
//!   the input, the rest comes as a query (GET, DELETE) or as a body (POST).
//!
//! The response is the output, exactly as `--json` prints it. An error is `{code,message,help,details}` with the
//! status of its row
//! in `ops::error::TABLE`. The header `Proctor-Verdict` reports that the requested state was not reached (a command line exits
//! with a code then). A caller's `environment` and `base_dir` are ordinary input fields: without them the daemon's own
//! environment is used, and relative paths are rejected.
//!
//! Every request passes `guard` (Host, Origin, no token in the address), route, `caller` (identity), then `ops`.

mod body;
mod caller;
mod connection;
mod legacy_dashboard;
mod mcp;
mod openapi;
mod operation;
mod origin_check;
mod pages;
pub(crate) mod query;
mod response;
mod route;
mod stream;
mod tls;
mod write_timeout;

pub use openapi::document as openapi;
pub use route::{Route, routes};

use crate::listen::{self, Listener, State};
use crate::unix_socket::Dispatch;
use connection::{Connection, Shared};
use proctor_core::config::listen::{Http, ListenAddress, Listeners};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tls::Acceptor;
use tokio::sync::watch;

/// Interval between attempts to read a certificate.
const TRY_AGAIN: Duration = Duration::from_secs(3);

/// Settings from the configuration, ready for use.
struct Settings {
    http: Http,
    tls: Option<Acceptor>,
}

/// Serves HTTP as configured, until the future is dropped. MCP sessions are stored in the folder `sessions`.
pub async fn serve(
    listener: Listener<impl Fn(State)>,
    dispatch: Arc<dyn Dispatch>,
    sessions: Option<PathBuf>,
) -> Infallible {
    let Listener { wanted, place: of, report } = listener;
    let http = Http { place: ListenAddress::Off, ..wanted.borrow().http.clone() };
    let (current, settings) = watch::channel(Arc::new(Settings { http, tls: None }));
    let (place, places) = watch::channel(Arc::new(Listeners::OFF));
    let trouble = Mutex::new(None);
    let shared = Arc::new(Shared::new(dispatch, settings, sessions));
    let tell = |state| {
        let trouble: Option<String> = trouble.lock().expect("nothing panics in between").clone();
        report(match (state, trouble) {
            (State::Off, Some(why)) => State::Trouble(why),
            (state @ (State::Off | State::At(_) | State::Trouble(_)), _) => state,
        });
    };
    let listener = Listener { wanted: places, place: of, report: tell };
    let serving =
        listen::serve(listener, |guest| Connection::of(guest, Arc::clone(&shared)).serve());
    tokio::select! {
        never = serving => never,
        never = follow(wanted, &current, &place, &trouble) => never,
    }
}

/// Applies every change of the configuration. A certificate that cannot be read turns the listener off.
async fn follow(
    mut wanted: watch::Receiver<Arc<Listeners>>,
    current: &watch::Sender<Arc<Settings>>,
    place: &watch::Sender<Arc<Listeners>>,
    trouble: &Mutex<Option<String>>,
) -> Infallible {
    loop {
        let mut listeners = Listeners::clone(&wanted.borrow_and_update());
        let tls = listeners.http.tls.as_ref().map(tls::load).transpose();
        let why = tls.as_ref().err().cloned();
        if let Some(why) = &why {
            tracing::warn!(why, "cannot serve HTTPS");
            listeners.http.place = ListenAddress::Off;
        }
        trouble.lock().expect("nothing panics in between").clone_from(&why);
        let settings = Settings { http: listeners.http.clone(), tls: tls.unwrap_or(None) };
        current.send_replace(Arc::new(settings));
        place.send_replace(Arc::new(listeners));
        let again = async {
            match why {
                Some(_) => tokio::time::sleep(TRY_AGAIN).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() {
                // The sender is gone, so no change can follow.
                std::future::pending::<()>().await;
            },
            () = again => {}
        }
    }
}
