//! Body of a request: JSON of a bounded size, within a time limit.

use super::connection::Shared;
use super::response::Refusal;
use crate::receive_budget::{self, ReceiveBudget};
use axum::body::{Body, HttpBody};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use proctor_ops::error::{Code, OpError};
use proctor_ops::operation::{Principal, Role};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// Timeout of a body after its head.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum body of a caller without a token; such a caller may only read.
const MAX_ANONYMOUS_BODY_BYTES: usize = 64 << 10;

/// Maximum body of a caller without the admin role; such requests contain no environment.
const MAX_BODY_BYTES: usize = 512 << 10;

/// Returns the body as an object; an empty body is an empty object.
pub(super) async fn object(
    shared: &Shared,
    principal: &Principal,
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<Map<String, Value>, Refusal> {
    let bytes = bytes(shared, principal, body, most).await?;
    if bytes.is_empty() {
        return Ok(Map::new());
    }
    if !is_json(headers) {
        let error = OpError::bad_input("the body is not 'application/json'")
            .help("send 'Content-Type: application/json'");
        return Err(Refusal::with(StatusCode::UNSUPPORTED_MEDIA_TYPE, error));
    }
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Refusal::bad_input("the body is not a JSON object")),
        Err(error) => Err(Refusal::bad_input(format!("the body is not JSON: {error}"))),
    }
}

/// Reads the whole body, up to the caller's maximum.
pub(super) async fn bytes(
    shared: &Shared,
    principal: &Principal,
    body: Body,
    most: usize,
) -> Result<Vec<u8>, Refusal> {
    let (most, all) = match principal {
        Principal::Anonymous | Principal::Stranger => {
            (most.min(MAX_ANONYMOUS_BODY_BYTES), &shared.nameless_bodies)
        }
        Principal::Token { role: Role::Viewer | Role::Operator, .. } => {
            (most.min(MAX_BODY_BYTES), &shared.bodies)
        }
        Principal::Local { .. } | Principal::Token { role: Role::Admin, .. } => {
            (most, &shared.bodies)
        }
    };
    let mut room = ReceiveBudget::new(Arc::clone(all), 0);
    let collected = tokio::time::timeout(BODY_TIMEOUT, collect(body, most, &mut room)).await;
    collected.unwrap_or_else(|_| {
        let error = OpError::bad_input("the body did not arrive in time");
        Err(Refusal::with(StatusCode::REQUEST_TIMEOUT, error))
    })
}

/// Reads the whole body and holds room for the received bytes.
async fn collect(
    mut body: Body,
    most: usize,
    room: &mut ReceiveBudget,
) -> Result<Vec<u8>, Refusal> {
    if body.size_hint().lower() > most as u64 {
        return Err(too_large(most));
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Refusal::bad_input(format!("the body ended early: {error}")))?;
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > most {
            return Err(too_large(most));
        }
        if !room.hold(length) {
            return Err(receive_budget::none().into());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

fn too_large(most: usize) -> Refusal {
    OpError::new(Code::TooLarge, format!("the body is larger than {most} bytes")).into()
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use tokio::sync::Semaphore;

    /// A body that sends this and then nothing more.
    struct StalledBody(Option<&'static str>);

    impl HttpBody for StalledBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.take() {
                Some(text) => {
                    Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
                }
                None => Poll::Pending,
            }
        }
    }

    #[test]
    fn who_sends_nothing_takes_no_room() {
        let all = Arc::new(Semaphore::new(4));
        let mut context = Context::from_waker(Waker::noop());
        for (sent, left) in [(None, 4), (Some("{"), 3)] {
            let mut room = ReceiveBudget::new(Arc::clone(&all), 0);
            let mut idle = pin!(collect(Body::new(StalledBody(sent)), 4 << 10, &mut room));
            assert!(idle.as_mut().poll(&mut context).is_pending());
            assert_eq!(all.available_permits(), left, "{sent:?}");
        }
        assert_eq!(all.available_permits(), 4, "given back with the request");
    }

    #[tokio::test]
    async fn a_body_has_its_limit_whether_or_not_it_says_how_long_it_is() {
        let check = async |size: usize, most: usize, expected: Result<usize, Code>| {
            let mut room = ReceiveBudget::new(Arc::new(Semaphore::new(4)), 0);
            let pieces = http_body_util::Full::new(Bytes::from(vec![b' '; size]));
            let found = collect(Body::new(pieces), most, &mut room).await;
            let found = found.map(|bytes| bytes.len()).map_err(|refusal| refusal.error.code);
            assert_eq!(found, expected, "{size} of {most}");
        };
        check(4096, 4096, Ok(4096)).await;
        check(4096, 4095, Err(Code::TooLarge)).await;
        check(4097, 9000, Err(Code::Busy)).await;
        let mut room = ReceiveBudget::new(Arc::new(Semaphore::new(4)), 0);
        let endless = collect(Body::new(StalledBody(Some("0123"))), 3, &mut room).await;
        assert_eq!(endless.unwrap_err().error.code, Code::TooLarge);
    }
}
