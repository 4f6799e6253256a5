//! Paths without an operation: the welcome page, health, metrics and the API description.

use super::operation::visitor;
use super::response::{JSON, Refusal, TEXT, answer};
use super::{caller, legacy_dashboard, openapi};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, VARY};
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use axum::routing::get;
use proctor_ops::error::{Code, OpError};
use proctor_ops::openmetrics::Format;
use proctor_ops::operation::Front;
use serde_json::json;
use std::sync::LazyLock;

const WELCOME: &str = "\
This is Proctor, a process supervisor.

  /api/v1/services   the services, as JSON
  /openapi.json      description of the whole interface
  /metrics           metrics for a monitoring system
  /health            whether Proctor itself works

Reading needs no token on this machine. For anything else send a token:
  curl -H \"Authorization: Bearer $(cat \"$(proctor token path)\")\" -X POST URL
";

pub(super) fn add(router: Router) -> Router {
    router
        .route("/", get(welcome))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(description))
}

async fn welcome() -> Response<Body> {
    answer(StatusCode::OK, TEXT, WELCOME)
}

/// Responds if Proctor works. The response contains nothing confidential.
async fn health() -> Response<Body> {
    answer(StatusCode::OK, JSON, json!({ "status": "ok" }).to_string())
}

/// Returns the metrics of `daemon.metrics` in the requested format.
async fn metrics(request: Request<Body>) -> Response<Body> {
    let format = Format::of(&accepted(request.headers()));
    match numbers(request, format).await {
        Ok(text) => {
            let kind = HeaderValue::from_static(format.content_type());
            let mut response = answer(StatusCode::OK, kind, text);
            response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
            response
        }
        Err(refusal) => refusal.into(),
    }
}

fn accepted(headers: &HeaderMap) -> String {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

async fn numbers(request: Request<Body>, format: Format) -> Result<String, Refusal> {
    let (parts, _) = request.into_parts();
    let visitor = visitor(&parts)?;
    let caller = caller::caller(&visitor, &parts.headers, Front::Rest)?;
    let reply =
        visitor.dispatch(caller, legacy_dashboard::entry("daemon.metrics")?, json!({})).await?;
    let output = serde_json::from_str(&reply.text).map_err(|error| {
        OpError::new(Code::Internal, format!("cannot decode the metrics: {error}"))
    })?;
    Ok(format.write(&output))
}

async fn description() -> Response<Body> {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| openapi::document().to_string().into());
    answer(StatusCode::OK, JSON, TEXT.clone())
}
