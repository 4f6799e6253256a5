//! A listener on the network: bound where the configuration says, moved when it says something else, tried again while
//! somebody else has the port. What is spoken on a connection is the business of `http` and `tcp`.
//!
//! Connections are bounded by `seats`: a newcomer takes the place of whoever has been idle longest, so that clients which
//! connect and say nothing keep nobody out.

mod seats;

pub use seats::{Busy, Leave, Seat};

use proctor_core::config::listen::{Listeners, Place};
use proctor_sys::port;
pub(crate) use seats::Seats;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// From one attempt to get a port that is taken to the next.
const TRY_AGAIN: Duration = Duration::from_secs(3);

/// Connections that wait to be accepted. Whoever finds no place there is kept waiting for a second by its kernel, and a crowd
/// that connects at once is not to do that to others.
const BACKLOG: u32 = 4096;

/// After a failed accept (no descriptors left): long enough for one to be freed, too short to be noticed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How a listener is, for `daemon status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Off,
    At(SocketAddr),
    /// It is wanted and does not work, and why. It is tried again.
    Trouble(String),
}

/// A connection that was just accepted.
pub struct Guest {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    /// The address at which it was accepted.
    pub local: SocketAddr,
    /// Given up by dropping it.
    pub seat: Seat,
}

/// Which of the listeners this one is, and where it is told how it goes.
pub struct Listener<Report> {
    pub wanted: watch::Receiver<Arc<Listeners>>,
    pub place: Box<dyn Fn(&Listeners) -> Place + Send + Sync>,
    pub report: Report,
}

/// Accept connections wherever the configuration says, until the future is dropped; their tasks end with it.
pub async fn serve<Served>(
    listener: Listener<impl Fn(State)>,
    connection: impl Fn(Guest) -> Served,
) -> Infallible
where
    Served: Future<Output = ()> + Send + 'static,
{
    let Listener { mut wanted, place, report } = listener;
    let last = Mutex::new(None);
    let report = |state: State| {
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.clone());
        report(state);
    };
    let mut tasks = JoinSet::new();
    loop {
        let here = place(&wanted.borrow_and_update());
        // Whoever is served at an old place is asked to leave when this is dropped.
        let seats = Seats::default();
        let moved = moved(
            &mut wanted,
            |wanted| place(wanted) != here,
            || {
                let last = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
                last.into_iter().for_each(&report);
            },
        );
        let accepting = async {
            let listener = bind(here, &report).await;
            accept(&listener, &seats, &connection, &mut tasks).await
        };
        tokio::select! {
            // First, so that nothing is reported about a place that is no longer wanted.
            biased;
            () = moved => {}
            never = accepting => match never {},
        }
    }
}

/// Until another place is wanted. A change that leaves the place as it is calls `stays`.
async fn moved(
    wanted: &mut watch::Receiver<Arc<Listeners>>,
    elsewhere: impl Fn(&Listeners) -> bool,
    stays: impl Fn(),
) {
    while wanted.changed().await.is_ok() {
        if elsewhere(&wanted.borrow_and_update()) {
            return;
        }
        stays();
    }
    // Nobody is left who could want one.
    std::future::pending::<()>().await;
}

/// A listener, once there can be one.
async fn bind(place: Place, report: &impl Fn(State)) -> TcpListener {
    let Place::At(address) = place else {
        report(State::Off);
        return std::future::pending().await;
    };
    let mut told = None;
    loop {
        let bound = match open(address) {
            Ok(listener) => listener.local_addr().map(|local| (listener, local)),
            Err(error) => Err(error),
        };
        match bound {
            Ok((listener, local)) => {
                tracing::info!(%local, "listening");
                report(State::At(local));
                return listener;
            }
            // Who has the port costs a look at every process: once is enough.
            Err(error) if told != Some(error.kind()) => {
                told = Some(error.kind());
                let why = why_not(address, &error).await;
                tracing::warn!(%address, why, "cannot listen");
                report(State::Trouble(why));
            }
            Err(_) => {}
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A connection that is fading out is no obstacle.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn why_not(address: SocketAddr, error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::AddrInUse {
        return format!("cannot listen on {address}: {error}");
    }
    let holder = tokio::task::spawn_blocking(move || port::holder(address.port())).await;
    match holder.ok().flatten() {
        Some(holder) => format!("{address} is taken by {holder}"),
        None => format!("{address} is taken"),
    }
}

async fn accept<Served>(
    listener: &TcpListener,
    seats: &Seats,
    connection: &impl Fn(Guest) -> Served,
    tasks: &mut JoinSet<()>,
) -> Infallible
where
    Served: Future<Output = ()> + Send + 'static,
{
    loop {
        tokio::select! {
            accepted = one(listener, seats) => match accepted {
                Ok(Some(guest)) => {
                    tasks.spawn(connection(guest));
                    // A crowd that comes at once is let in one by one, and whoever is inside is served in between.
                    tokio::task::yield_now().await;
                }
                // Everybody here is at work; the newcomer sees its connection closed.
                Ok(None) => tracing::debug!("no room for a connection"),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = tasks.join_next() => {}
        }
    }
}

/// The next connection, if there is room for it.
async fn one(listener: &TcpListener, seats: &Seats) -> io::Result<Option<Guest>> {
    seats.room().await;
    let (stream, peer) = listener.accept().await?;
    let Some(seat) = seats.take() else { return Ok(None) };
    let local = stream.local_addr()?;
    Ok(Some(Guest { stream, peer, local, seat }))
}

#[cfg(test)]
mod tests;
