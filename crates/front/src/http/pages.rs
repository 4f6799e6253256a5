//! The paths that belong to no operation: where to begin, whether somebody is there, what can be asked.

use super::answer::{JSON, TEXT, answer};
use super::openapi;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode};
use axum::routing::get;
use serde_json::json;
use std::sync::LazyLock;

const WELCOME: &str = "\
This is Proctor, a process supervisor.

  /api/v1/services   the services, as JSON
  /openapi.json      everything that can be asked, described
  /metrics           numbers for a monitoring system
  /health            whether Proctor itself works

Looking is free on this machine. For anything else send a token:
  curl -H \"Authorization: Bearer $(cat \"$(proctor token path)\")\" -X POST URL
";

pub(super) fn add(router: Router) -> Router {
    router
        .route("/", get(welcome))
        .route("/health", get(health))
        .route("/openapi.json", get(description))
}

async fn welcome() -> Response<Body> {
    answer(StatusCode::OK, TEXT, WELCOME)
}

/// It is answered, so it works. Nothing that anybody could want to hide is in it.
async fn health() -> Response<Body> {
    answer(StatusCode::OK, JSON, json!({ "status": "ok" }).to_string())
}

async fn description() -> Response<Body> {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| openapi::document().to_string().into());
    answer(StatusCode::OK, JSON, TEXT.clone())
}
