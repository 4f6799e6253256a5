//! Messages on stdin and stdout, one a line.
//!
//! What cannot be read is answered, not passed over in silence: whoever waits for an answer to a line that is too long, or to
//! a list of messages, would wait for ever.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

/// Longest message: far more than any input that an operation takes.
pub(super) const LONGEST: usize = 16 << 20;

const READ_CHUNK: usize = 16 << 10;

/// Room for lines that is kept from one to the next.
const KEPT: usize = 64 << 10;

type Message = RxJsonRpcMessage<RoleServer>;

pub(super) struct Lines<R, W> {
    read: R,
    /// What has arrived of lines that are not taken yet.
    buffer: Vec<u8>,
    /// Up to here there is no line end.
    searched: usize,
    /// The line that arrives was too long and has been answered: the rest of it is nothing.
    skipping: bool,
    write: Arc<Mutex<W>>,
}

/// What a line is.
enum Read {
    Message(Box<Message>),
    /// Nothing that wants an answer.
    Nothing,
    Wrong(ErrorCode, String, Option<RequestId>),
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(super) fn new(read: R, write: W) -> Lines<R, W> {
        let write = Arc::new(Mutex::new(write));
        Lines { read, buffer: Vec::new(), searched: 0, skipping: false, write }
    }

    /// The next line. May be dropped at any time: what has arrived stays.
    async fn line(&mut self) -> Option<Result<Vec<u8>, ()>> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|end| self.searched + end) {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                line.truncate(end);
                if !std::mem::take(&mut self.skipping) {
                    return Some(if end > LONGEST { Err(()) } else { Ok(line) });
                }
                continue;
            }
            if self.skipping || self.buffer.len() > LONGEST {
                self.buffer.clear();
                self.buffer.shrink_to(KEPT);
                self.searched = 0;
                if !std::mem::replace(&mut self.skipping, true) {
                    return Some(Err(()));
                }
            }
            self.searched = self.buffer.len();
            self.buffer.reserve(READ_CHUNK);
            match self.read.read_buf(&mut self.buffer).await {
                // A last line without its end is no message.
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }
}

impl<R, W> Transport<RoleServer> for Lines<R, W>
where
    R: AsyncRead + Send + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move { put(&write, &message).await }
    }

    async fn receive(&mut self) -> Option<Message> {
        loop {
            let read = match self.line().await? {
                Ok(line) => read(&line),
                Err(()) => Read::Wrong(
                    ErrorCode::INVALID_REQUEST,
                    format!("a message of more than {} MiB; send less at once", LONGEST >> 20),
                    None,
                ),
            };
            match read {
                Read::Message(message) => return Some(*message),
                Read::Nothing => {}
                Read::Wrong(code, message, id) => {
                    let error = ErrorData::new(code, message, None);
                    let answer = TxJsonRpcMessage::<RoleServer>::error(error, id);
                    put(&self.write, &answer).await.ok()?;
                }
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.write.lock().await.flush().await
    }
}

async fn put<W: AsyncWrite + Unpin>(
    write: &Mutex<W>,
    message: &TxJsonRpcMessage<RoleServer>,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut write = write.lock().await;
    write.write_all(&line).await?;
    write.flush().await
}

/// The answer to a whole body that is no message.
pub(super) fn refusal(body: &[u8]) -> TxJsonRpcMessage<RoleServer> {
    let (code, message, id) = match read(body) {
        Read::Wrong(code, message, id) => (code, message, id),
        Read::Message(_) | Read::Nothing => {
            (ErrorCode::INVALID_REQUEST, "not a message".into(), None)
        }
    };
    TxJsonRpcMessage::<RoleServer>::error(ErrorData::new(code, message, None), id)
}

fn read(line: &[u8]) -> Read {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Read::Nothing;
    }
    let why = match serde_json::from_slice(line) {
        Ok(message) => return Read::Message(Box::new(message)),
        Err(why) => why,
    };
    match serde_json::from_slice(line) {
        Err(error) => Read::Wrong(ErrorCode::PARSE_ERROR, format!("not JSON: {error}"), None),
        Ok(Value::Array(_)) => {
            let message = "several messages in one are not taken; send each by itself";
            Read::Wrong(ErrorCode::INVALID_REQUEST, message.into(), None)
        }
        // Notifications are never answered; something without a method is an answer to something we did not ask.
        Ok(Value::Object(fields))
            if !fields.contains_key("method") || !fields.contains_key("id") =>
        {
            Read::Nothing
        }
        Ok(Value::Object(mut fields)) => {
            let id = fields.remove("id").and_then(|id| serde_json::from_value(id).ok());
            Read::Wrong(ErrorCode::INVALID_REQUEST, format!("not a request: {why}"), id)
        }
        Ok(_) => Read::Wrong(ErrorCode::INVALID_REQUEST, "not a message".into(), None),
    }
}
