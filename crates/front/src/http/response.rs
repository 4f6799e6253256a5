//! Responses: JSON, errors with their status, and the headers of every response.

use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, RETRY_AFTER,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use proctor_ops::error::{Code, OpError};

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Seconds until a retry after a temporary refusal.
const COME_AGAIN: HeaderValue = HeaderValue::from_static("1");

/// Headers that keep browsers from framing, executing, sniffing or caching a response.
const HARMLESS: [(HeaderName, HeaderValue); 6] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
];

/// An error response, with its own status if HTTP has a better one than the table.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) error: OpError,
    status: Option<StatusCode>,
}

impl Refusal {
    pub(super) fn with(status: StatusCode, error: OpError) -> Refusal {
        Refusal { error, status: Some(status) }
    }

    pub(super) fn bad_input(message: impl Into<String>) -> Refusal {
        OpError::bad_input(message).into()
    }

    pub(super) fn status(&self) -> StatusCode {
        self.status.unwrap_or_else(|| status(self.error.code))
    }

    pub(super) fn answer(&self) -> Response<Body> {
        let text = serde_json::to_string(&self.error).unwrap_or_default();
        let mut response = answer(self.status(), JSON, text);
        let headers = response.headers_mut();
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"proctor\""));
        }
        if matches!(self.error.code, Code::Busy | Code::RateLimited) {
            headers.insert(RETRY_AFTER, COME_AGAIN);
        }
        response
    }
}

impl From<OpError> for Refusal {
    fn from(error: OpError) -> Refusal {
        Refusal { error, status: None }
    }
}

/// Returns the status of an error from its row in the table.
pub(super) fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

pub(super) fn answer(
    status: StatusCode,
    kind: HeaderValue,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Adds the headers for browsers, unless the response has set them.
pub(super) fn make_harmless(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    for (name, value) in HARMLESS {
        headers.entry(name).or_insert(value);
    }
}
