//! A network listener: it binds where the configuration says, moves when that changes, and retries while the port is in use. The
//! protocols on a connection are in `http` and `tcp`.
//!
//! `seats` bounds the connections: a new one replaces the one that has been idle longest, so silent clients keep nobody out.

mod connection_slots;

pub use connection_slots::{BusyGuard, CloseWhen, ConnectionSlot};

pub(crate) use connection_slots::ConnectionSlots;
use proctor_core::config::listen::{ListenAddress, Listeners};
use proctor_sys::port;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Interval between attempts to bind a port in use.
const TRY_AGAIN: Duration = Duration::from_secs(3);

/// Maximum connections that wait to be accepted. Beyond it, the client's kernel waits a second before it retries; a burst of
/// connections must not cause that for others.
const BACKLOG: u32 = 4096;

/// Pause after a failed accept (no descriptors left), so one can be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// State of a listener, for `daemon status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Off,
    At(SocketAddr),
    /// The listener does not work, with the reason. It is retried.
    Trouble(String),
}

/// An accepted connection.
pub struct AcceptedConnection {
    pub stream: TcpStream,
    pub peer: SocketAddr,
    /// Local address of the connection.
    pub local: SocketAddr,
    /// Slot of the connection; dropping it frees the slot.
    pub seat: ConnectionSlot,
}

/// Identity of a listener, and its reports.
pub struct Listener<Report> {
    pub wanted: watch::Receiver<Arc<Listeners>>,
    pub place: Box<dyn Fn(&Listeners) -> ListenAddress + Send + Sync>,
    pub report: Report,
}

/// Accepts connections as configured, until the future is dropped; their tasks end with it.
pub async fn serve<Served>(
    listener: Listener<impl Fn(State)>,
    connection: impl Fn(AcceptedConnection) -> Served,
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
        // Dropping it asks clients at an old address to leave.
        let seats = ConnectionSlots::default();
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
            // First, so nothing is reported about an address that is no longer wanted.
            biased;
            () = moved => {}
            never = accepting => match never {},
        }
    }
}

/// Waits until another address is wanted. For a change without a new address, calls `stays`.
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
    // The sender is gone, so no change can follow.
    std::future::pending::<()>().await;
}

/// Returns a listener as soon as the address can be bound.
async fn bind(place: ListenAddress, report: &impl Fn(State)) -> TcpListener {
    let ListenAddress::At(address) = place else {
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
            // Finding the owner of a port reads every process, so it is done once.
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
    // A connection in TIME_WAIT must not block the port.
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
        Some(holder) => format!("{address} is in use by {holder}"),
        None => format!("{address} is in use"),
    }
}

async fn accept<Served>(
    listener: &TcpListener,
    seats: &ConnectionSlots,
    connection: &impl Fn(AcceptedConnection) -> Served,
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
                    // Connections of a burst are accepted one by one, so existing ones are served in between.
                    tokio::task::yield_now().await;
                }
                // Every connection is busy; the new one is closed.
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

/// Accepts the next connection, if there is a free slot.
async fn one(
    listener: &TcpListener,
    seats: &ConnectionSlots,
) -> io::Result<Option<AcceptedConnection>> {
    seats.room().await;
    let (stream, peer) = listener.accept().await?;
    let Some(seat) = seats.take() else { return Ok(None) };
    let local = stream.local_addr()?;
    Ok(Some(AcceptedConnection { stream, peer, local, seat }))
}

#[cfg(test)]
mod tests;
