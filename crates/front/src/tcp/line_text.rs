//! Converts the bytes of a line to text, and detects lines that cannot be commands.

use proctor_ops::error::OpError;

/// A received line.
#[derive(Debug, PartialEq, Eq)]
pub enum LineText {
    Text(String),
    /// A browser, or another program that expects a web server. Its text is never a command.
    Http,
}

/// First byte of a TLS handshake record.
const HANDSHAKE: u8 = 0x16;

/// Returns true if these first bytes start TLS.
pub fn is_tls(bytes: &[u8]) -> bool {
    bytes.first() == Some(&HANDSHAKE)
}

/// Returns the text of a line, without its end.
pub fn hear(line: &[u8]) -> Result<LineText, OpError> {
    let bytes = without_telnet(line);
    let text = String::from_utf8(bytes).map_err(|_| {
        OpError::bad_input("the line is not UTF-8 text").help("send one command per line")
    })?;
    let text = text.trim();
    if is_http(text) {
        return Ok(LineText::Http);
    }
    if text.contains(|c: char| c.is_control() && c != '\t') {
        return Err(OpError::bad_input("the line contains control characters"));
    }
    Ok(LineText::Text(text.to_owned()))
}

/// Detects the first line of an HTTP request: `GET / HTTP/1.1`, `GET /`. No command looks like it.
fn is_http(text: &str) -> bool {
    const METHODS: [&str; 10] =
        ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PRI"];
    let mut words = text.split_ascii_whitespace();
    let (method, target, version) = (words.next(), words.next(), words.next());
    let named = METHODS.iter().any(|known| method == Some(known));
    let versioned = version
        .is_some_and(|word| word.get(..5).is_some_and(|begin| begin.eq_ignore_ascii_case("HTTP/")));
    (named && target.is_some()) || versioned
}

/// Removes telnet commands, which start with the byte 255 that no text has.
fn without_telnet(line: &[u8]) -> Vec<u8> {
    const COMMAND: u8 = 255;
    const BEGIN: u8 = 250;
    const END: u8 = 240;
    let mut text = Vec::with_capacity(line.len());
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != COMMAND {
            text.push(byte);
            continue;
        }
        match bytes.next() {
            // Will, won't, do, don't: about an option.
            Some(251..=254) => drop(bytes.next()),
            Some(BEGIN) => while bytes.next().is_some_and(|byte| byte != END) {},
            // The byte itself: not text, and rejected as such.
            Some(COMMAND) => text.push(COMMAND),
            Some(_) | None => {}
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &[u8]) -> Option<String> {
        match hear(line) {
            Ok(LineText::Text(text)) => Some(text),
            Ok(LineText::Http) | Err(_) => None,
        }
    }

    #[test]
    fn lines_of_every_client_are_the_same_text() {
        for line in [
            "status web".as_bytes(),
            b"status web\r",
            b"  status web  ",
            b"\xff\xfd\x03\xff\xfb\x18status\xff\xf1 web\r",
            b"\xff\xfa\x18\x00xterm\xff\xf0status web",
            b"status web\xff\xf4\xff\xfd\x06",
        ] {
            assert_eq!(text(line).as_deref(), Some("status web"), "{}", line.escape_ascii());
        }
        assert_eq!(text(b"").as_deref(), Some(""));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        for line in [&b"\xff\xff"[..], b"st\0atus", b"status\x1b[2J", b"\xc3", b"\x80status"] {
            assert_eq!(
                hear(line).unwrap_err().code.as_str(),
                "bad_input",
                "{}",
                line.escape_ascii()
            );
        }
    }

    #[test]
    fn a_request_for_a_web_server_is_none_for_us() {
        for line in [
            "GET / HTTP/1.1",
            "POST /dashboard/api/system/restart HTTP/1.1\r",
            "OPTIONS * HTTP/1.0",
            "GET /",
            "PRI * HTTP/2.0",
            "BREW /pot HTTP/1.1",
            "restart web HTTP/1.1",
            "get / http/1.1",
            "CONNECT localhost:8081 HTTP/1.1",
        ] {
            assert_eq!(hear(line.as_bytes()).unwrap(), LineText::Http, "{line}");
        }
        for line in ["status", "logs web --grep 'GET / HTTP/1.1'", "get", "help GET", "\"Status\""]
        {
            assert_eq!(text(line.as_bytes()).as_deref(), Some(line));
        }
    }

    #[test]
    fn an_encrypted_hello_is_known_by_its_first_byte() {
        assert!(is_tls(b"\x16\x03\x01\x02\x00\x01") && !is_tls(b"") && !is_tls(b"status"));
    }
}
