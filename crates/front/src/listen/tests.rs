//! Tests of a listener with real sockets.

use super::*;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const LIMIT: Duration = Duration::from_secs(20);

/// Creates a listener whose connections send one word and wait until the listener closes them.
fn greeter(
    wanted: watch::Receiver<Arc<Listeners>>,
) -> (JoinSet<()>, mpsc::UnboundedReceiver<State>) {
    let (states, heard) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let report = move |state| states.send(state).unwrap();
        let greet = |mut guest: AcceptedConnection| async move {
            guest.stream.write_all(b"hello").await.unwrap();
            guest.seat.leave().await;
        };
        let place = Box::new(|wanted: &Listeners| wanted.tcp);
        match serve(Listener { wanted, place, report }, greet).await {}
    });
    (tasks, heard)
}

fn at(place: ListenAddress) -> Arc<Listeners> {
    Arc::new(Listeners { tcp: place, ..Listeners::OFF })
}

async fn next(heard: &mut mpsc::UnboundedReceiver<State>) -> State {
    timeout(LIMIT, heard.recv()).await.unwrap().unwrap()
}

async fn address(heard: &mut mpsc::UnboundedReceiver<State>) -> SocketAddr {
    match next(heard).await {
        State::At(address) => address,
        state @ (State::Off | State::Trouble(_)) => panic!("{state:?}"),
    }
}

async fn connect(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut word = [0; 5];
    stream.read_exact(&mut word).await.unwrap();
    stream
}

#[tokio::test]
async fn a_listener_moves_and_those_at_the_old_place_are_asked_to_leave() {
    let (want, place) = watch::channel(at(ListenAddress::At(ANY)));
    let (_tasks, mut heard) = greeter(place);
    let first = address(&mut heard).await;
    let mut old = connect(first).await;
    want.send_replace(at(ListenAddress::Off));
    assert_eq!(next(&mut heard).await, State::Off);
    assert_eq!(timeout(LIMIT, old.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
    TcpStream::connect(first).await.unwrap_err();
    want.send_replace(at(ListenAddress::At(ANY)));
    connect(address(&mut heard).await).await;
}

#[tokio::test]
async fn a_taken_port_is_a_problem_that_names_who_has_it_and_goes_away_by_itself() {
    let other = std::net::TcpListener::bind(ANY).unwrap();
    let taken = other.local_addr().unwrap();
    let (_want, place) = watch::channel(at(ListenAddress::At(taken)));
    let (_tasks, mut heard) = greeter(place);
    let State::Trouble(why) = next(&mut heard).await else { panic!("it listens on a taken port") };
    let own = format!("(pid {})", std::process::id());
    assert!(why.starts_with(&format!("{taken} is in use by ")) && why.ends_with(&own), "{why}");
    drop(other);
    assert_eq!(address(&mut heard).await, taken);
}

#[tokio::test]
async fn more_connections_than_seats_push_out_the_oldest_idle_one() {
    let seats = ConnectionSlots::of(2);
    let listener = TcpListener::bind(ANY).await.unwrap();
    let at = listener.local_addr().unwrap();
    let ended = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    let connection = |mut guest: AcceptedConnection| {
        let ended = Arc::clone(&ended);
        async move {
            guest.stream.write_all(b"hello").await.unwrap();
            guest.seat.leave().await;
            ended.lock().unwrap().push(guest.peer);
        }
    };
    let mut clients = Vec::new();
    let clients_come = async {
        for _ in 0..5 {
            clients.push(connect(at).await);
        }
        for gone in &mut clients[..3] {
            assert_eq!(timeout(LIMIT, gone.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
        }
    };
    tokio::select! {
        never = accept(&listener, &seats, &connection, &mut tasks) => match never {},
        () = clients_come => {}
    }
    let first: Vec<SocketAddr> = clients[..3].iter().map(|one| one.local_addr().unwrap()).collect();
    assert_eq!(*ended.lock().unwrap(), first);
}
