//! The body of a request: JSON of a bounded size that arrives within a time.

use super::answer::Refusal;
use super::connection::Shared;
use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Limited};
use proctor_ops::error::{Code, OpError};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;

/// A body has to be there this long after its head.
const BODY_WITHIN: Duration = Duration::from_secs(30);

/// The object that a body is; nothing at all is an empty one.
pub(super) async fn object(
    shared: &Shared,
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<Map<String, Value>, Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let length: usize = announced.unwrap_or(most);
    if length > most {
        return Err(too_large(most));
    }
    let kib = u32::try_from(length.div_ceil(1024)).unwrap_or(u32::MAX);
    let _room = Arc::clone(&shared.bodies).try_acquire_many_owned(kib).map_err(|_| {
        OpError::new(Code::Busy, "too much is being sent at once").help("try again in a moment")
    })?;
    let collecting = Limited::new(body, most).collect();
    let bytes = match tokio::time::timeout(BODY_WITHIN, collecting).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            return Err(too_large(most));
        }
        Ok(Err(error)) => return Err(Refusal::bad_input(format!("the body ended early: {error}"))),
        Err(_) => {
            let error = OpError::bad_input("the body did not arrive in time");
            return Err(Refusal::with(StatusCode::REQUEST_TIMEOUT, error));
        }
    };
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
        Ok(_) => Err(Refusal::bad_input("the body is JSON, but no object")),
        Err(error) => Err(Refusal::bad_input(format!("the body is not JSON: {error}"))),
    }
}

fn too_large(most: usize) -> Refusal {
    OpError::new(Code::TooLarge, format!("the body is larger than {most} bytes")).into()
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
}
