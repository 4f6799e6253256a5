//! A small HTTP client that sends exactly what it is given, valid or not.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Timeout of any response.
const LIMIT: Duration = Duration::from_secs(90);

/// The server address and the headers of a client.
#[derive(Debug, Clone)]
pub struct Http {
    port: u16,
    headers: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Http {
    /// A client without a token.
    pub fn at(port: u16) -> Http {
        Http { port, headers: Vec::new() }
    }

    #[must_use]
    pub fn token(self, token: &str) -> Http {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// Returns this client with another port.
    #[must_use]
    pub fn moved_to(&self, port: u16) -> Http {
        Http { port, headers: self.headers.clone() }
    }

    /// Returns this client without this header.
    #[must_use]
    pub fn without(&self, name: &str) -> Http {
        let mut headers = self.headers.clone();
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        Http { port: self.port, headers }
    }

    /// Returns this client with an additional header.
    #[must_use]
    pub fn header(&self, name: &str, value: &str) -> Http {
        let mut client = self.without(name);
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    #[track_caller]
    pub fn get(&self, path: &str) -> Response {
        self.send("GET", path, b"")
    }

    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Response {
        let client = self.header("Content-Type", "application/json");
        client.send("POST", path, body.to_string().as_bytes())
    }

    #[track_caller]
    pub fn send(&self, method: &str, path: &str, body: &[u8]) -> Response {
        let request = self.request(method, path, body);
        Response::parse(&exchange(self.port, &request))
            .unwrap_or_else(|why| panic!("{method} {path}: {why}"))
    }

    /// Requests a streamed response, read line by line.
    #[track_caller]
    pub fn stream(&self, path: &str) -> Stream {
        self.streamed("GET", path, b"")
    }

    /// Posts a document whose response is read event by event. Dropping it ends the connection.
    #[track_caller]
    pub fn stream_of_post(&self, path: &str, body: &Value) -> Stream {
        let client = self.header("Content-Type", "application/json");
        client.streamed("POST", path, body.to_string().as_bytes())
    }

    #[track_caller]
    fn streamed(&self, method: &str, path: &str, body: &[u8]) -> Stream {
        let mut stream = connect(self.port);
        stream.write_all(&self.request(method, path, body)).expect("the request is taken");
        let mut lines = BufReader::new(stream);
        let status = one_line(&mut lines);
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        while !one_line(&mut lines).is_empty() {}
        Stream { status: code.unwrap_or_else(|| panic!("no status: {status:?}")), lines }
    }

    fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: 127.0.0.1:{}\r\n", self.port));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() || method == "POST" {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        [head.as_bytes(), b"\r\n", body].concat()
    }
}

/// Sends these bytes and returns all bytes until the other end closes.
#[track_caller]
pub fn exchange(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(port);
    // The server may close early; its response is still read.
    drop(stream.write_all(bytes));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    answer
}

#[track_caller]
fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a time that is not zero");
    stream
}

impl Response {
    /// Parses the first response in these bytes.
    pub fn parse(bytes: &[u8]) -> Result<Response, String> {
        let text = String::from_utf8_lossy(bytes);
        let (head, _) =
            text.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {text:?}"))?;
        let mut lines = head.lines();
        let status =
            lines.next().and_then(|line| line.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok());
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let start = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
        let mut response = Response {
            status: status.ok_or_else(|| format!("no status: {head:?}"))?,
            headers,
            body: bytes[start..].to_vec(),
        };
        if response.header("transfer-encoding") == Some("chunked") {
            response.body = joined(&response.body)?;
        } else if let Some(length) =
            response.header("content-length").and_then(|it| it.parse().ok())
        {
            response.body.truncate(length);
        }
        Ok(response)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|why| panic!("not JSON ({why}), {}: {}", self.status, self.text()))
    }
}

fn joined(mut chunks: &[u8]) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    loop {
        let end =
            chunks.windows(2).position(|two| two == b"\r\n").ok_or("a chunk without a length")?;
        let length = std::str::from_utf8(&chunks[..end])
            .ok()
            .and_then(|it| usize::from_str_radix(it, 16).ok());
        let length = length.ok_or("a chunk without a length")?;
        if length == 0 {
            return Ok(body);
        }
        let rest = &chunks[end + 2..];
        body.extend_from_slice(rest.get(..length).ok_or("a chunk that ends early")?);
        chunks = rest.get(length + 2..).ok_or("a chunk that ends early")?;
    }
}

/// A streamed response.
pub struct Stream {
    pub status: u16,
    lines: BufReader<TcpStream>,
}

/// One event of a stream: its fields by name.
pub type Event = Vec<(String, String)>;

impl Stream {
    /// The next event, without comments; `None` when the other end closes or is silent for long.
    pub fn event(&mut self) -> Option<Event> {
        let mut event = Event::new();
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            // Chunk lengths are lines without a colon, or between two empty ones.
            let line = read_line(&mut self.lines)?;
            match line.split_once(": ") {
                Some((name @ ("event" | "id" | "data"), value)) => {
                    event.push((name.to_owned(), value.to_owned()));
                }
                _ if line.is_empty() && !event.is_empty() => return Some(event),
                _ => {}
            }
        }
        None
    }
}

fn one_line(lines: &mut BufReader<TcpStream>) -> String {
    read_line(lines).unwrap_or_default()
}

fn read_line(lines: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let length = lines.read_line(&mut line).ok()?;
    (length > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}
