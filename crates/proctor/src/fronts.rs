//! Fronts of a daemon: the unix socket, and the configured network listeners.

use proctor_core::config::listen::{ListenAddress, Listeners, Port};
use proctor_engine::api::Engine;
use proctor_front::listen::{Listener, State};
use proctor_front::{http, tcp, unix_socket};
use proctor_ops::operation::Context;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

/// Serves until the future is dropped, or the unix socket fails. TCP control is at `port` if that is given, overriding the
/// configuration.
pub(crate) async fn serve(clients: UnixListener, context: Context, port: Option<Port>) {
    let control = listener(&context.engine, "tcp", move |wanted| {
        port.map_or(wanted.tcp, |port| wanted.tcp.with_port(port))
    });
    let web = listener(&context.engine, "http", |wanted| wanted.http.place);
    let sessions = context.home.mcp_sessions();
    tokio::select! {
        Err(error) = unix_socket::serve(clients, context.clone()) => {
            tracing::error!(%error, "cannot serve clients");
        }
        never = tcp::serve(control, Arc::new(context.clone())) => match never {},
        never = http::serve(web, Arc::new(context), Some(sessions)) => match never {},
    }
}

/// Returns a listener whose state is shown in `daemon status`.
fn listener<Wanted>(
    engine: &Engine,
    front: &'static str,
    place: Wanted,
) -> Listener<impl Fn(State) + use<Wanted>>
where
    Wanted: Fn(&Listeners) -> ListenAddress + Send + Sync + 'static,
{
    let (wanted, engine) = (engine.listeners(), engine.clone());
    let report = move |state| {
        let state = match state {
            State::Off => None,
            State::At(address) => Some(Ok(address)),
            State::Trouble(why) => Some(Err(why)),
        };
        engine.set_listening(front, state);
    };
    Listener { wanted, place: Box::new(place), report }
}
