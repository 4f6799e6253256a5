//! A server at an address: each message is the body of a request, its response the body of the HTTP
//! response, all on one connection.

use super::{SILENCE, Wire};
use anyhow::{Context as _, Result, bail};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

pub(crate) struct Http {
    address: String,
    token: String,
    connection: BufReader<TcpStream>,
    session: Option<String>,
    heard: VecDeque<String>,
}

/// The relevant headers of a response.
#[derive(Default)]
struct Head {
    status: String,
    length: usize,
    chunked: bool,
    session: Option<String>,
}

impl Http {
    pub(crate) fn connect(address: &str, token: &str) -> Result<Http> {
        let connection = TcpStream::connect(address).context("cannot connect")?;
        connection.set_nodelay(true).context("cannot turn Nagle off")?;
        connection.set_read_timeout(Some(SILENCE)).context("cannot set a timeout")?;
        Ok(Http {
            address: address.to_owned(),
            token: token.to_owned(),
            connection: BufReader::new(connection),
            session: None,
            heard: VecDeque::new(),
        })
    }

    fn head(&mut self) -> Result<Head> {
        let mut head = Head { status: self.line()?, ..Head::default() };
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(head);
            }
            let Some((name, value)) = line.split_once(':') else { bail!("no header: {line}") };
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.parse().context("a length is a number")?,
                "transfer-encoding" => head.chunked = value == "chunked",
                "mcp-session-id" => head.session = Some(value.to_owned()),
                _ => {}
            }
        }
    }

    fn body(&mut self, head: &Head) -> Result<String> {
        let mut body = Vec::new();
        if head.chunked {
            while self.chunk(&mut body)? > 0 {}
        } else {
            self.bytes(head.length, &mut body)?;
        }
        String::from_utf8(body).context("a body is text")
    }

    /// Reads a chunk and returns its length; the last one is empty.
    fn chunk(&mut self, into: &mut Vec<u8>) -> Result<usize> {
        let size = usize::from_str_radix(&self.line()?, 16).context("a chunk has a size")?;
        self.bytes(size, into)?;
        self.line()?;
        Ok(size)
    }

    fn bytes(&mut self, count: usize, into: &mut Vec<u8>) -> Result<()> {
        let begin = into.len();
        into.resize(begin + count, 0);
        self.connection.read_exact(&mut into[begin..]).context("the connection was lost")
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.connection.read_line(&mut line).context("no answer")? == 0 {
            bail!("the connection was closed");
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Wire for Http {
    fn say(&mut self, message: &str) -> Result<()> {
        let session = self.session.as_ref().map_or_else(String::new, |session| {
            format!("Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {}\r\n", super::REVISION)
        });
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{session}\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n\r\n{message}",
            self.address,
            self.token,
            message.len()
        );
        self.connection.get_mut().write_all(request.as_bytes()).context("cannot send a request")
    }

    /// A response without a message belongs to a notification.
    fn hear(&mut self) -> Result<String> {
        loop {
            if let Some(message) = self.heard.pop_front() {
                return Ok(message);
            }
            let head = self.head()?;
            let body = self.body(&head)?;
            if !head.status.contains(" 200") && !head.status.contains(" 202") {
                bail!("{}: {body}", head.status);
            }
            self.session = head.session.or(self.session.take());
            self.heard.extend(messages(&body));
        }
    }
}

/// The messages of a body: a single one, or a stream of events.
fn messages(body: &str) -> Vec<String> {
    if body.starts_with('{') {
        return vec![body.to_owned()];
    }
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| data.starts_with('{')).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_alone_or_as_events() {
        for (body, expected) in [
            ("", vec![]),
            (r#"{"id":1}"#, vec![r#"{"id":1}"#]),
            ("data: \nid: 0\n\ndata: {\"id\":1}\nid: 1\n\n", vec![r#"{"id":1}"#]),
        ] {
            assert_eq!(messages(body), expected, "{body}");
        }
    }
}
