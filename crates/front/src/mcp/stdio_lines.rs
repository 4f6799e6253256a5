//! Messages on stdin and stdout, one per line.
//!
//! An unreadable line gets an error response. Otherwise a client that sent a line that is too long, or a batch, would wait
//! forever.

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

/// Maximum message: far more than any input of an operation.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;

const READ_CHUNK: usize = 16 << 10;

/// Buffer capacity kept between lines.
const KEPT: usize = 64 << 10;

type Message = RxJsonRpcMessage<RoleServer>;

pub(super) struct Lines<R, W> {
    read: R,
    /// Received bytes of incomplete lines.
    buffer: Vec<u8>,
    /// No line end before this position.
    searched: usize,
    /// True while the rest of a line that is too long is discarded.
    skipping: bool,
    write: Arc<Mutex<W>>,
}

/// Kind of a line.
enum LineKind {
    Message(Box<Message>),
    /// Needs no response.
    Nothing,
    Wrong(ErrorCode, String, Option<RequestId>),
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    pub(super) fn new(read: R, write: W) -> Lines<R, W> {
        let write = Arc::new(Mutex::new(write));
        Lines { read, buffer: Vec::new(), searched: 0, skipping: false, write }
    }

    /// Returns the next line. It may be dropped at any time without losing received bytes.
    async fn line(&mut self) -> Option<Result<Vec<u8>, ()>> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end.map(|end| self.searched + end) {
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                line.truncate(end);
                if !std::mem::take(&mut self.skipping) {
                    return Some(if end > MAX_LINE_BYTES { Err(()) } else { Ok(line) });
                }
                continue;
            }
            if self.skipping || self.buffer.len() > MAX_LINE_BYTES {
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
                // A last line without an end is not a message.
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
                Err(()) => LineKind::Wrong(
                    ErrorCode::INVALID_REQUEST,
                    format!("the message exceeds {} MiB; send less at once", MAX_LINE_BYTES >> 20),
                    None,
                ),
            };
            match read {
                LineKind::Message(message) => return Some(*message),
                LineKind::Nothing => {}
                LineKind::Wrong(code, message, id) => {
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

/// Returns the response to a body that is not a message.
pub(super) fn refusal(body: &[u8]) -> TxJsonRpcMessage<RoleServer> {
    let (code, message, id) = match read(body) {
        LineKind::Wrong(code, message, id) => (code, message, id),
        LineKind::Message(_) | LineKind::Nothing => {
            (ErrorCode::INVALID_REQUEST, "not a message".into(), None)
        }
    };
    TxJsonRpcMessage::<RoleServer>::error(ErrorData::new(code, message, None), id)
}

fn read(line: &[u8]) -> LineKind {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return LineKind::Nothing;
    }
    let why = match serde_json::from_slice(line) {
        Ok(message) => return LineKind::Message(Box::new(message)),
        Err(why) => why,
    };
    match serde_json::from_slice(line) {
        Err(error) => LineKind::Wrong(ErrorCode::PARSE_ERROR, format!("not JSON: {error}"), None),
        Ok(Value::Array(_)) => {
            let message = "batches are not supported; send each message by itself";
            LineKind::Wrong(ErrorCode::INVALID_REQUEST, message.into(), None)
        }
        // Notifications get no response; an object without a method is a response to a request that we did not send.
        Ok(Value::Object(fields))
            if !fields.contains_key("method") || !fields.contains_key("id") =>
        {
            LineKind::Nothing
        }
        Ok(Value::Object(mut fields)) => {
            let id = fields.remove("id").and_then(|id| serde_json::from_value(id).ok());
            LineKind::Wrong(ErrorCode::INVALID_REQUEST, format!("not a request: {why}"), id)
        }
        Ok(_) => LineKind::Wrong(ErrorCode::INVALID_REQUEST, "not a message".into(), None),
    }
}
