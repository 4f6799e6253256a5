//! One HTTP health check: GET, and a status from 200 to 399 is healthy.
//!
//! Redirects are not followed: a redirect shows that the service works, and its target is not ours to visit. A
//! successful connection alone proves nothing; only a response does.

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, Uri, header};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Maximum number of body bytes read: the status is known, and the connection is dropped.
const BODY: usize = 64 << 10;

/// Maximum number of addresses tried for a host name.
const ADDRESSES: usize = 8;

/// Timeout for the rest of a response after its status.
const BODY_TIMEOUT: Duration = Duration::from_millis(500);

/// A response with its status, and the task that drives its connection; both end when it is dropped.
struct ProbeAnswer {
    response: Response<Incoming>,
    _connection: JoinSet<hyper::Result<()>>,
}

/// Runs one check. `Err` says why the service is not healthy.
pub(crate) async fn check(url: &str, patience: Duration) -> Result<(), String> {
    let answer = match timeout(patience, get(url)).await {
        Ok(answer) => answer?,
        Err(_) => return Err(format!("no response within {}", length(patience))),
    };
    let status = answer.response.status();
    // The status decides, whether the body arrives or not.
    timeout(BODY_TIMEOUT.min(patience), drain(answer)).await.ok();
    if matches!(status.as_u16(), 200..=399) { Ok(()) } else { Err(status.to_string()) }
}

async fn get(url: &str) -> Result<ProbeAnswer, String> {
    let uri: Uri = url.parse().map_err(|error| format!("'{url}' is not a URL: {error}"))?;
    let host = uri.host().ok_or_else(|| format!("'{url}' has no host"))?;
    let stream = connect(host, uri.port_u16().unwrap_or(80)).await.map_err(|e| plain(&e))?;
    let broken = |error: hyper::Error| format!("invalid HTTP response: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let mut tasks = JoinSet::new();
    tasks.spawn(connection);
    let response = sender.send_request(request(&uri)?).await.map_err(broken)?;
    Ok(ProbeAnswer { response, _connection: tasks })
}

fn request(uri: &Uri) -> Result<Request<Empty<Bytes>>, String> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let host = authority.rsplit('@').next().unwrap_or(authority);
    Request::get(path)
        .header(header::HOST, host)
        .header(header::USER_AGENT, "proctor")
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close")
        .body(Empty::new())
        .map_err(|error| error.to_string())
}

/// Connects to the first address that accepts; returns the first error if none does.
async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut refused = None;
    for address in addresses(host, port).await? {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    Err(refused.unwrap_or_else(|| io::Error::other(format!("'{host}' has no address"))))
}

/// `localhost` means both loopback addresses, whatever the machine's files say: servers bind one or the other.
async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.eq_ignore_ascii_case("localhost") {
        let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        return Ok(both.map(|address| SocketAddr::new(address, port)).to_vec());
    }
    if let Ok(address) = host.parse() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let name = host.to_owned();
    let found = crate::blocking(move || proctor_sys::host::addresses(&name)).await;
    let found = found.map_err(io::Error::other)?.into_iter().take(ADDRESSES);
    Ok(found.map(|address| SocketAddr::new(address, port)).collect())
}

/// Reads a short response to its end: some servers log an error when the client hangs up early.
async fn drain(mut answer: ProbeAnswer) {
    let body = answer.response.body_mut();
    let mut read = 0;
    while read < BODY {
        match body.frame().await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}

fn plain(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        "connection refused".into()
    } else {
        error.to_string()
    }
}

/// `10s`, or `250ms` for a fraction of a second.
fn length(time: Duration) -> String {
    let millis = time.as_millis();
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Serves one connection: reads the request, writes `answer`, then holds or closes the connection.
    async fn server(address: &str, answer: Vec<u8>, hold: bool) -> Option<(u16, JoinSet<String>)> {
        let listener = TcpListener::bind(address).await.ok()?;
        let port = listener.local_addr().unwrap().port();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if stream.read(&mut byte).await.unwrap() == 0 {
                    break;
                }
                request.push(byte[0]);
            }
            stream.write_all(&answer).await.ok();
            if hold {
                std::future::pending::<()>().await;
            }
            String::from_utf8(request).unwrap()
        });
        Some((port, tasks))
    }

    /// Timeout that a busy machine does not reach.
    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(300);

    async fn answered(answer: &str, hold: bool, patience: Duration) -> Result<(), String> {
        let (port, _server) = server("127.0.0.1:0", answer.into(), hold).await.unwrap();
        check(&format!("http://127.0.0.1:{port}/"), patience).await
    }

    #[tokio::test]
    async fn the_status_decides_and_nothing_else() {
        let empty = "content-length: 0\r\n\r\n";
        let rows = [
            ("200 OK", Ok(())),
            ("204 No Content", Ok(())),
            ("302 Found\r\nlocation: http://127.0.0.1:1/", Ok(())),
            ("399 Odd", Ok(())),
            ("404 Not Found", Err("404 Not Found")),
            ("500 Internal Server Error", Err("500 Internal Server Error")),
            ("503 Service Unavailable", Err("503 Service Unavailable")),
        ];
        for (status, expected) in rows {
            let result = answered(&format!("HTTP/1.1 {status}\r\n{empty}"), false, LONG).await;
            assert_eq!(result, expected.map_err(str::to_owned), "{status}");
        }
    }

    #[tokio::test]
    async fn silence_refusal_and_noise_are_failures_with_a_reason() {
        assert_eq!(answered("", true, SHORT).await, Err("no response within 300ms".into()));
        assert_eq!(
            answered("HTTP/1.1 200", true, SHORT).await,
            Err("no response within 300ms".into())
        );
        let noise = answered("SSH-2.0-OpenSSH_9\r\n\r\n", false, LONG).await.unwrap_err();
        assert!(noise.starts_with("invalid HTTP response: "), "{noise}");
        let closed = answered("", false, LONG).await.unwrap_err();
        assert!(closed.starts_with("invalid HTTP response: "), "{closed}");
        // Bound, so that no other process gets the port, but not listening.
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        for host in ["127.0.0.1", "localhost"] {
            let url = format!("http://{host}:{port}/");
            let result = check(&url, LONG).await;
            assert_eq!(result, Err("connection refused".into()), "{host}");
        }
    }

    #[tokio::test]
    async fn localhost_is_either_loopback_and_the_request_is_what_servers_expect() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            let Some((port, mut served)) = server(address, answer.into(), false).await else {
                assert_eq!(address, "[::1]:0", "IPv4 is on every machine");
                continue;
            };
            let url = format!("http://localhost:{port}/health?deep=1");
            assert_eq!(check(&url, LONG).await, Ok(()), "{address}");
            let request = served.join_next().await.unwrap().unwrap().to_lowercase();
            assert!(request.starts_with("get /health?deep=1 http/1.1\r\n"), "{request}");
            assert!(request.contains(&format!("\r\nhost: localhost:{port}\r\n")), "{request}");
        }
    }

    #[tokio::test]
    async fn a_name_that_nobody_knows_is_said() {
        let result = check("http://no-such-host.invalid/", LONG).await;
        assert_eq!(result, Err("'no-such-host.invalid' has no address".into()));
    }

    #[tokio::test]
    async fn a_body_that_never_comes_takes_nothing_from_the_status() {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
        assert_eq!(answered(head, true, LONG).await, Ok(()));
    }

    #[tokio::test]
    async fn an_endless_body_is_not_read_to_its_end() {
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n".to_vec();
        answer.resize(answer.len() + 2 * BODY, b'x');
        let (port, _server) = server("127.0.0.1:0", answer, true).await.unwrap();
        let url = format!("http://127.0.0.1:{port}/");
        assert_eq!(check(&url, LONG).await, Ok(()));
    }
}
